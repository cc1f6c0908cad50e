"""What became of the files that a composer changed: lines by a diff, and the person's verdict."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from unspool.io.values import dict_of, dicts_of, field_of
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import decoded, kind_of, path_of, touches
from unspool.sources.diffs import count_lines

if TYPE_CHECKING:
    from unspool.sources.cursor.bubbles import Tool

_EMPTY = "e3b0c442"
"""The beginning of the hash of nothing: a file that was not there."""
_VERDICTS = {"accepted": "accepted", "rejected": "rejected"}
_ANSWERS = {"1": "accepted", "2": "rejected"}
"""`userResponseType`: so they stand beside the statuses of a real database of 2024."""

Fetch = Callable[[str], bytes | None]


class Changes:
    """The code blocks of one composer, and where their diffs and file bodies can be fetched."""

    def __init__(self, composer: dict[str, Any], fetch: Fetch) -> None:
        self._fetch = fetch
        self._ident = composer.get("composerId")
        self._blocks: list[tuple[str, dict[str, Any]]] = []
        self._used: set[int] = set()
        self._answers = [
            (str(answer.get("filePath")).replace("/", separator), verdict)
            for answer in dicts_of(composer.get("userResponsesToSuggestedCodeBlocks"))
            if (verdict := _ANSWERS.get(str(answer.get("userResponseType")), ""))
            for separator in "/\\"
        ]
        for uri, versions in dict_of(composer.get("codeBlockData")).items():
            entries = list(versions.values()) if isinstance(versions, dict) else versions
            self._blocks += [(clean_path(str(uri)), entry) for entry in dicts_of(entries)]

    def of_tool(self, tool: "Tool", name: str, bubble: str) -> Iterator[dict[str, Any]]:
        """What a tool bubble did to files."""
        if kind_of(name) not in ("edit", "delete"):
            return
        params, raw = decoded(tool.params), decoded(tool.rawArgs)
        block = self._block(_ident(tool.additionalData) or _ident(params), bubble)
        outcome = _VERDICTS.get(tool.userDecision or "", "")
        if not outcome and block is not None:
            outcome = _VERDICTS.get(str(block.get("status") or ""), "")
        if not outcome and tool.status == "error":
            outcome = "failed"
        changed = touches(name, params, outcome) or touches(name, raw, outcome)
        counts = self._counts(tool, block)
        for touch in changed:
            yield {**touch, **counts} if len(changed) == 1 else touch

    def of_bubble(self, listed: Any) -> Iterator[dict[str, Any]]:
        """What the code blocks of a text changed (composers of 2024 had no tools for it)."""
        for block in dicts_of(listed):
            path = path_of(block)
            for at, (file, entry) in enumerate(self._blocks):
                if file != path or entry.get("version") != block.get("version"):
                    continue
                if at in self._used:
                    continue
                self._used.add(at)
                # What the person made of it: its status, else the answer for its file's last one.
                verdict = _VERDICTS.get(str(entry.get("status") or ""), "")
                if not verdict and all(other != path for other, _ in self._blocks[at + 1 :]):
                    verdict = next((v for name, v in self._answers if path.endswith(name)), "")
                # Their contents are sketches of an edit, not files: they tell no lines.
                yield {"path": path, "outcome": verdict} if verdict else {"path": path}

    def _block(self, ident: str, bubble: str) -> dict[str, Any] | None:
        for at, (_, entry) in enumerate(self._blocks):
            names = (entry.get("codeblockId"), entry.get("codeBlockId"), entry.get("diffId"))
            if (ident and ident in names) or entry.get("bubbleId") == bubble:
                self._used.add(at)
                return entry
        return None

    def _counts(self, tool: "Tool", block: dict[str, Any] | None) -> dict[str, Any]:
        result = decoded(tool.result)
        if isinstance(result, dict):
            counts = self._contents(result) or _chunks(result.get("diff"))
            if counts:
                return counts
        for name in filter(None, ((block or {}).get("diffId"), _ident(tool.additionalData))):
            if counts := _diff(self._fetch(f"codeBlockDiff:{self._ident}:{name}")):
                return counts
        return {}

    def _contents(self, result: dict[str, Any]) -> dict[str, Any]:
        """`edit_file_v2` names the file before and after: a diff of the two."""
        before, after = result.get("beforeContentId"), result.get("afterContentId")
        if not isinstance(before, str) or not isinstance(after, str):
            return {}
        old, new = self._content(before), self._content(after)
        if old is None or new is None:
            return {}
        added, removed = count_lines(old, new)
        change: dict[str, Any] = {"lines_added": added, "lines_removed": removed}
        if _hash(before).startswith(_EMPTY):
            change["operation"] = "create"
        elif _hash(after).startswith(_EMPTY):
            change["operation"] = "delete"
        return change

    def _content(self, ident: str) -> str | None:
        if _hash(ident).startswith(_EMPTY):
            return ""
        data = self._fetch(f"composer.content.{_hash(ident)}")
        return data.decode("utf-8", "replace") if data is not None else None


def _hash(ident: str) -> str:
    return ident.removeprefix("composer.content.")


def _ident(holder: Any) -> str:
    if isinstance(holder, dict):
        for name in ("codeblockId", "codeBlockId", "diffId"):
            if isinstance(holder.get(name), str):
                return str(holder[name])
    return ""


def _chunks(diff: Any) -> dict[str, Any]:
    """The chunks of an `edit_file` result, which count their own lines."""
    chunks = field_of(diff, "chunks")
    if not isinstance(chunks, list) or not chunks:
        return {}
    added = removed = 0
    for chunk in chunks:
        if not isinstance(chunk, dict):
            return {}
        text = chunk.get("diffString")
        lines = text.split("\n") if isinstance(text, str) else []
        more, less = chunk.get("linesAdded"), chunk.get("linesRemoved")
        added += more if isinstance(more, int) else sum(line[:1] == "+" for line in lines)
        removed += less if isinstance(less, int) else sum(line[:1] == "-" for line in lines)
    return {"lines_added": added, "lines_removed": removed}


def _diff(data: bytes | None) -> dict[str, Any]:
    """A `codeBlockDiff` row: stretches of the original, and the lines that replace them."""
    value = decoded(data.decode("utf-8", "replace")) if data else None
    stretches = field_of(value, "newModelDiffWrtV0")
    if not isinstance(stretches, list):
        return {}
    added = removed = 0
    for stretch in stretches:
        if not isinstance(stretch, dict):
            return {}
        lines, span = stretch.get("modified"), stretch.get("original")
        added += len(lines) if isinstance(lines, list) else 0
        if isinstance(span, dict):
            first, last = span.get("startLineNumber"), span.get("endLineNumberExclusive")
            if isinstance(first, int) and isinstance(last, int):
                removed += max(last - first, 0)
    return {"lines_added": added, "lines_removed": removed}
