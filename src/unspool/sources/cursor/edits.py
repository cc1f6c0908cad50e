"""What became of the files that a composer changed: lines by a diff, and the person's verdict."""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import Tool, decoded, kind_of, path_of, touches
from unspool.sources.diffs import count_lines

_EMPTY = "e3b0c442"
"""The beginning of the hash of nothing: a file that was not there."""
_VERDICTS = {"accepted": "accepted", "rejected": "rejected", 1: "accepted", 2: "rejected"}
"""A decision or status; or `userResponseType`, as it stands beside the statuses of a real database of
2024."""
_CONTENT = "composer.content."

Fetch = Callable[[str], bytes | None]


class Changes:
    """The code blocks of one composer, and where their diffs and file bodies can be fetched."""

    def __init__(self, ident: str, composer: dict[str, Any], fetch: Fetch) -> None:
        self._fetch = fetch
        self._ident = ident
        self._blocks: list[tuple[str, dict[str, Any]]] = []
        self._used: set[int] = set()
        self._answers = [
            (str_of(answer.get("filePath")).replace("/", separator), verdict)
            for answer in dicts_of(composer.get("userResponsesToSuggestedCodeBlocks"))
            if (verdict := _verdict(answer.get("userResponseType")))
            for separator in "/\\"
        ]
        for uri, versions in dict_of(composer.get("codeBlockData")).items():
            entries = list(versions.values()) if isinstance(versions, dict) else versions
            self._blocks += [(clean_path(uri), entry) for entry in dicts_of(entries)]

    def of_tool(self, tool: Tool, name: str, bubble: str) -> Iterator[dict[str, Any]]:
        """What a tool bubble did to files."""
        if kind_of(name) not in ("edit", "delete"):
            return
        block = self._block(str_of(field_of(tool.additionalData, "codeblockId")), bubble)
        outcome = _verdict(tool.userDecision) or _verdict(block.get("status"))
        if not outcome and tool.status == "error":
            outcome = "failed"
        changed = touches(name, tool.params, outcome) or touches(name, tool.rawArgs, outcome)
        result = dict_of(decoded(tool.result))
        counts = self._contents(result) or _chunks(result.get("diff")) or self._diff(block)
        for touch in changed:
            yield {**touch, **counts} if len(changed) == 1 else touch

    def of_bubble(self, listed: Any) -> Iterator[dict[str, Any]]:
        """What the code blocks of a text changed (composers of 2024 had no tools). Their contents
        are sketches of an edit, not files: they tell no lines."""
        for block in dicts_of(listed):
            path = path_of(block)
            for at, (file, entry) in enumerate(self._blocks):
                is_it = file == path and entry.get("version") == block.get("version")
                if not is_it or at in self._used:
                    continue
                self._used.add(at)
                # What the person made of it: its status, else the answer for its file's last one.
                verdict = _verdict(entry.get("status"))
                if not verdict and all(other != path for other, _ in self._blocks[at + 1 :]):
                    verdict = next((v for name, v in self._answers if path.endswith(name)), "")
                yield {"path": path, "outcome": verdict} if verdict else {"path": path}

    def _block(self, ident: str, bubble: str) -> dict[str, Any]:
        for at, (_, entry) in enumerate(self._blocks):
            if (ident and entry.get("codeblockId") == ident) or entry.get("bubbleId") == bubble:
                self._used.add(at)
                return entry
        return {}

    def _contents(self, result: dict[str, Any]) -> dict[str, Any]:
        """`edit_file_v2` names the file before and after: a diff of the two."""
        names = (result.get("beforeContentId"), result.get("afterContentId"))
        hashes = [str_of(name).removeprefix(_CONTENT) for name in names]
        is_empty = [name.startswith(_EMPTY) for name in hashes]
        old, new = (
            b"" if empty else self._fetch(_CONTENT + name)
            for name, empty in zip(hashes, is_empty, strict=True)
        )
        if not all(hashes) or old is None or new is None:
            return {}
        added, removed = count_lines(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"))
        change: dict[str, Any] = {"lines_added": added, "lines_removed": removed}
        if any(is_empty):
            change["operation"] = "create" if is_empty[0] else "delete"
        return change

    def _diff(self, block: dict[str, Any]) -> dict[str, Any]:
        """A `codeBlockDiff` row: stretches of the original, and the lines that replace them."""
        data = self._fetch(f"codeBlockDiff:{self._ident}:{block.get('diffId')}")
        value = decoded(data.decode("utf-8", "replace")) if data else None
        stretches = dicts_of(field_of(value, "newModelDiffWrtV0"))
        spans = [dict_of(stretch.get("original")) for stretch in stretches]
        return _summed(
            [len(list_of(stretch.get("modified"))) for stretch in stretches],
            [_number(s, "endLineNumberExclusive") - _number(s, "startLineNumber") for s in spans],
        )


def _chunks(diff: Any) -> dict[str, Any]:
    """The chunks of an `edit_file` result, which count their own lines."""
    chunks = dicts_of(field_of(diff, "chunks"))
    return _summed(
        [_number(chunk, "linesAdded") for chunk in chunks],
        [_number(chunk, "linesRemoved") for chunk in chunks],
    )


def _summed(added: list[int], removed: list[int]) -> dict[str, Any]:
    return {"lines_added": sum(added), "lines_removed": sum(removed)} if added else {}


def _verdict(told: Any) -> str:
    return _VERDICTS.get(told, "") if isinstance(told, str | int) else ""


def _number(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name)
    return value if isinstance(value, int) else 0
