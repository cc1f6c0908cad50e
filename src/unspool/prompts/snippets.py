"""Small things found in the text of a prompt: code in fences, files and agents that are named."""

import re
from collections.abc import Iterable
from typing import Any

from unspool.io.longjson import encode
from unspool.prompts.linestarts import LineStart

SNIPPET_CHARS = 160
_FENCE = LineStart(r"(`{3,}+)([^\n`]*)(?=\n|$)")
_FILE_COMMENT = re.compile(
    r"\s*(?://|#|--|;|/\*|<!--)\s*filepath:\s*([^\n]+?)\s*(?:\*/|-->)?(?:\n|$)"
)
_FILE_MENTION = re.compile(
    r"#(?:file|folder):(?:'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|([^\s,;)\]'\"`]+))"
)
_PARTICIPANT = re.compile(r"@(workspace|terminal|vscode|github|azure|cli|copilot)(?![\w.@/-])")
_FIRST_WORD = re.compile(r"\s*@([A-Za-z][\w-]*)(?=\s|$)")


def shorten(text: str, limit: int) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first occurrence."""
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(value if isinstance(value, str) else encode(value), value)
    return list(seen.values())


def code_snippets(text: str) -> list[dict[str, Any]]:
    """The fenced code of a text: language, file where it is named, number of lines, beginning."""
    if "```" not in text:
        return []
    found: list[dict[str, Any]] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif len(fence[1]) >= len(opening[1]) and not fence[2].strip():
            found.append(_snippet(opening[2].strip(), text[opening.end() + 1 : fence.start()]))
            opening = None
    return found


def _snippet(info: str, code: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    language = info.split()[0] if info else ""
    if language:
        made["language"] = language
    comment = _FILE_COMMENT.match(code)
    if comment is not None:
        made["path"] = comment[1]
    made["lines"] = code.count("\n") + 1 if code else 0
    made["snippet"] = shorten(code[comment.end() :] if comment else code, SNIPPET_CHARS)
    return made


def file_mentions(text: str) -> list[str]:
    """Files and folders named with `#file:` or `#folder:`."""
    found = _FILE_MENTION.findall(text) if "#f" in text else []
    return distinct(next(filter(None, groups)).rstrip(".") for groups in found)


def participants(text: str) -> list[str]:
    """Agents that are spoken to: `@workspace` anywhere, any other one as the first word."""
    if "@" not in text:
        return []
    found: list[str] = []
    first = _FIRST_WORD.match(text)
    if first is not None:
        found.append(f"@{first[1]}")
    for match in _PARTICIPANT.finditer(text):
        before = text[match.start() - 1] if match.start() else " "
        if not (before.isalnum() or before in "_.@/-`"):
            found.append(match[0])
    return distinct(found)
