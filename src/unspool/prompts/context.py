"""The context scan: what the bodies of user messages say about the state around the request.

`message_context` reads one message; `summarise` gives the booleans over all of them. Which tag means
what is the catalogue's business; `docs/prompt-tags.md` explains every field.
"""

import re
from collections.abc import Iterable
from typing import Any

from unspool.io.packing import encode_json
from unspool.prompts.catalogue import Catalogue
from unspool.prompts.tags import Block, LineStart, iter_blocks, without
from unspool.prompts.typed import find_request

FULL = (
    "environment_info",
    "workspace_info",
    "context_info",
    "editor_context",
    "repo_context",
    "reminder_instructions",
)
"""Routes whose text is kept whole."""

FIELDS = (
    *FULL,
    "user_request",
    "attachments",
    "file_references",
    "code_snippets",
    "code_to_edit",
    "agent_mentions",
)
"""What a message context tells besides the routes that a catalogue may add; each has a boolean."""

CLIP_CHARS = 2000
SNIPPET_CHARS = 160
_PATHS = ("filePath", "folderPath", "notebookPath", "path", "file", "name")
_CURRENT_FILE = re.compile(
    r"(?:current file is|opened the file|lines \d+ to \d+ from) "
    r"([^\n]+?)(?=\. |\.?$|:?\n|:$| in the IDE)",
    re.MULTILINE,
)

_FENCE = LineStart(r"(`{3,}+)([^\n`]*)(?=\n|$)")
_FILE_COMMENT = re.compile(
    r"\s*(?://|#|--|;|/\*|<!--)\s*filepath:\s*([^\n]+?)\s*(?:\*/|-->)?(?:\n|$)"
)
_FILE_MENTION = re.compile(
    r"#(?:file|folder):(?:'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|([^\s,;)\]'\"`]+))"
)
_PARTICIPANT = re.compile(r"@(workspace|terminal|vscode|github|azure|cli|copilot)(?![\w.@/-])")
_FIRST_WORD = re.compile(r"\s*@([A-Za-z][\w-]*)(?=\s|$)")

_FLAGS = [(field, f"has_{field}") for field in (*FIELDS, "other_tags")]

Context = dict[str, Any]


class Scan:
    """What the blocks of one message say, route by route."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.texts: dict[str, list[str]] = {}
        self.attachments: list[Context] = []
        self.files: list[str] = []
        self.others: dict[tuple[str, str], Context] = {}

    def take(self, block: Block, parent: Block | None) -> None:
        entry = self.catalogue.by_name.get(block.name)
        if entry is None or "user" not in entry.placement:
            self._take_other(block, parent)
            return
        if entry.route == "attachments":
            if block.name not in self.catalogue.containers:
                self._take_attachment(block)
        elif entry.route != "user_request" and (
            parent is None or self.catalogue.route(parent.name) != entry.route
        ):
            text = block.inner.strip()
            if text:
                self.texts.setdefault(entry.route, []).append(text)

    def _take_other(self, block: Block, parent: Block | None) -> None:
        place = (block.name, parent.name if parent is not None else "")
        entry = self.others.get(place)
        if entry is not None:
            entry["count"] += 1
            return
        inside = {"inside": place[1]} if place[1] else {}
        snippet = shorten(block.inner, SNIPPET_CHARS)
        self.others[place] = {"name": block.name, **inside, "count": 1, "snippet": snippet}

    def _take_attachment(self, block: Block) -> None:
        attributes = block.attributes
        size = len(block.inner)
        self.attachments.append({"tag": block.name, **attributes, "size_chars": size})
        for name in _PATHS:
            value = attributes.get(name)
            if isinstance(value, str) and value and (name != "name" or block.name == "file"):
                self.files.append(value)
                break


def message_context(
    text: str, blocks: list[Block], typed: str | None, catalogue: Catalogue
) -> Context:
    """What one user message tells; empty where it tells nothing."""
    said = typed or ""
    if not (blocks or "```" in text or "#f" in said or "@" in said) and not catalogue.is_legacy(
        text
    ):
        return {}  # as most
    scan = Scan(catalogue)
    for block, parent in iter_blocks(blocks, catalogue.containers):
        scan.take(block, parent)
    # What prompts said in words before they had tags; a program that writes tags says it in them.
    if scan.catalogue.legacy is not None and not any(
        b.name in scan.catalogue.telling for b in blocks
    ):
        legacy: dict[str, list[str]] = {}
        for match in scan.catalogue.legacy.finditer(without(text, blocks) if blocks else text):
            legacy.setdefault(scan.catalogue.legacy_route(match), []).append(match[0].strip())
        for route, texts in legacy.items():
            scan.texts.setdefault(route, texts)
    context: Context = {}
    for route in FULL:
        if route in scan.texts:
            context[route] = _one_or_many(scan.texts[route])
    request = find_request(text, blocks, catalogue)
    if request is not None:
        context["user_request"] = request.inner.strip()
    code = code_snippets(text)
    edited = scan.texts.pop("code_to_edit", [])
    files = list(scan.files)
    for text in scan.texts.get("editor_context", ()):
        files += _CURRENT_FILE.findall(text)
    files += [snippet["path"] for snippet in code if "path" in snippet]
    for field, values in (
        ("attachments", scan.attachments),
        ("file_references", (files + file_mentions(said))),
        ("code_snippets", code),
        ("code_to_edit", [shorten(code, CLIP_CHARS) for code in edited]),
        ("agent_mentions", participants(said)),
    ):
        if values:
            context[field] = distinct(values)
    for route, texts in scan.texts.items():
        if route not in FULL:
            context[route] = _one_or_many([shorten(text, CLIP_CHARS) for text in texts])
    if scan.others:
        context["other_tags"] = list(scan.others.values())
    return context


def _one_or_many(texts: list[str]) -> str | list[str]:
    """A text where there is one; siblings that say different things stay apart."""
    apart = distinct(texts) if len(texts) > 1 else texts
    return apart[0] if len(apart) == 1 else apart


def summarise(contexts: Iterable[Iterable[str]]) -> dict[str, bool]:
    """For every field: whether any message tells something of it."""
    fields = set().union(*contexts)
    return {flag: field in fields for field, flag in _FLAGS}


def shorten(text: str, limit: int) -> str:
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of first occurrence."""
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(value if isinstance(value, str) else encode_json(value), value)
    return list(seen.values())


def code_snippets(text: str) -> list[dict[str, Any]]:
    """The fenced code of a text: language, file where it is named, number of lines, beginning."""
    if "```" not in text:
        return []
    snippets: list[dict[str, Any]] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif len(fence[1]) >= len(opening[1]) and not fence[2].strip():
            info = opening[2].strip()
            code = text[opening.end() + 1 : fence.start()]
            snippet: dict[str, Any] = {}
            language = info.split()[0] if info else ""
            if language:
                snippet["language"] = language
            comment = _FILE_COMMENT.match(code)
            if comment is not None:
                snippet["path"] = comment[1]
            snippet["lines"] = code.count("\n") + 1 if code else 0
            snippet["snippet"] = shorten(code[comment.end() :] if comment else code, SNIPPET_CHARS)
            snippets.append(snippet)
            opening = None
    return snippets


def file_mentions(text: str) -> list[str]:
    """Files and folders named with `#file:` or `#folder:`."""
    if "#f" not in text:
        return []
    matches = _FILE_MENTION.findall(text)
    return distinct(next(filter(None, groups)).rstrip(".") for groups in matches)


def participants(text: str) -> list[str]:
    """Agents that are spoken to: `@workspace` anywhere, any other one as the first word."""
    if "@" not in text:
        return []
    names: list[str] = []
    first = _FIRST_WORD.match(text)
    if first is not None:
        names.append(f"@{first[1]}")
    for match in _PARTICIPANT.finditer(text):
        before = text[match.start() - 1] if match.start() else " "
        if not (before.isalnum() or before in "_.@/-`"):
            names.append(match[0])
    return distinct(names)
