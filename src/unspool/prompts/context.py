"""The context scan: what the bodies of user messages say about the state around the request.

`message_context` reads one message; `summarise` gives the booleans over all of them. Which tag means
what is the catalogue's business; `docs/prompt-tags.md` explains every field.
"""

import re
from collections.abc import Iterable
from typing import Any

from unspool.prompts.catalogue import Catalogue
from unspool.prompts.snippets import code_snippets, distinct, file_mentions, participants, shorten
from unspool.prompts.tags import LONGEST, Block, iter_blocks, without
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
        known = self.others.get(place)
        if known is not None:
            known["count"] += 1
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
    text: str, found: list[Block], typed: str | None, catalogue: Catalogue
) -> Context:
    """What one user message tells; empty where it tells nothing."""
    if len(text) > LONGEST:
        return {}
    scan = Scan(catalogue)
    for block, parent in iter_blocks(found, catalogue.containers):
        scan.take(block, parent)
    _take_legacy(text, found, scan)
    made: Context = {}
    for route in FULL:
        if route in scan.texts:
            made[route] = _one_or_many(scan.texts[route])
    request = find_request(text, found, catalogue)
    if request is not None:
        made["user_request"] = request.inner.strip()
    code = code_snippets(text)
    edited = scan.texts.pop("code_to_edit", [])
    for field, values in (
        ("attachments", scan.attachments),
        ("file_references", _files(scan, typed, code)),
        ("code_snippets", code),
        ("code_to_edit", [shorten(code, CLIP_CHARS) for code in edited]),
        ("agent_mentions", participants(typed or "")),
    ):
        if values:
            made[field] = distinct(values)
    for route, texts in scan.texts.items():
        if route not in FULL:
            made[route] = _one_or_many([shorten(text, CLIP_CHARS) for text in texts])
    if scan.others:
        made["other_tags"] = list(scan.others.values())
    return made


def _files(scan: Scan, typed: str | None, code: list[Context]) -> list[str]:
    files = list(scan.files)
    for text in scan.texts.get("editor_context", ()):
        files += _CURRENT_FILE.findall(text)
    files += [snippet["path"] for snippet in code if "path" in snippet]
    return files + file_mentions(typed or "")


def _take_legacy(text: str, found: list[Block], scan: Scan) -> None:
    """What prompts said in words before they had tags; a program that writes tags says it in them."""
    if scan.catalogue.legacy is None or any(b.name in scan.catalogue.telling for b in found):
        return
    said: dict[str, list[str]] = {}
    for match in scan.catalogue.legacy.finditer(without(text, found) if found else text):
        said.setdefault(scan.catalogue.legacy_route(match), []).append(match[0].strip())
    for route, texts in said.items():
        scan.texts.setdefault(route, texts)


def _one_or_many(texts: list[str]) -> str | list[str]:
    """A text where there is one; siblings that say different things stay apart."""
    apart = distinct(texts)
    return apart[0] if len(apart) == 1 else apart


def summarise(contexts: Iterable[Iterable[str]]) -> dict[str, bool]:
    """For every field: whether any message tells something of it."""
    told = set().union(*contexts)
    return {flag: field in told for field, flag in _FLAGS}
