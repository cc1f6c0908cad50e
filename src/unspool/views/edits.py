"""Edits: what a tool call did to files, as lines of a diff, read from its arguments or its result.

The shapes are told by the names of the fields, not of the tools: old and new text, a list of such
pairs, a whole new file, a patch.
"""

import difflib
import re
from itertools import islice
from typing import Any, Literal, NamedTuple

from unspool.io.values import dicts_of, list_of, parse_object
from unspool.trajectory import Message, ToolCall, Trajectory

Sign = Literal["+", "-", " ", "@"]
LINES = 1500
"""Longer texts are not compared (that is quadratic): all of the old, then all of the new."""

_OLD = ("old_string", "oldString", "old_str", "oldText", "old_text", "search")
_NEW = ("new_string", "newString", "new_str", "newText", "new_text", "replace")
_PATHS = (
    "file_path",
    "filePath",
    "path",
    "target_file",
    "relative_workspace_path",
    "notebook_path",
)
_WHOLE = ("content", "file_text", "fileText", "contents", "code_edit", "new_source", "code")
_PATCHES = ("patch", "input", "diff")


class Line(NamedTuple):
    sign: Sign
    text: str


class Edit(NamedTuple):
    path: str
    lines: list[Line]
    whole: bool = False
    """What was there before is not told: the lines are all of the new file, or a sketch of it."""

    @property
    def added(self) -> int:
        return sum(line.sign == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.sign == "-" for line in self.lines)


def edits_of(call: ToolCall, result: Message | None = None) -> list[Edit]:
    """The edits of a call, best first: the patch that its result holds, else its arguments."""
    details = result.details if result is not None else None
    if isinstance(details, dict) and (reported := _structured(details)):
        return [reported]
    arguments = parse_object(call.arguments)
    if arguments is None:
        return read_patch(call.arguments)
    if replaced := replacements(arguments):
        return [Edit(path, diff(old, new)) for path, old, new in replaced]
    for name in _PATCHES:
        if isinstance(arguments.get(name), str) and (patched := read_patch(arguments[name])):
            return patched
    path, whole = _first(arguments, _PATHS), _first(arguments, _WHOLE)
    if path and whole:
        return [Edit(path, [Line("+", text) for text in _rows(whole)], whole=True)]
    return []


def replacements(arguments: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(path, old text, new text): what a call's arguments spell out, in any spelling."""
    listed = [*list_of(arguments.get("edits")), *list_of(arguments.get("replacements"))]
    return [
        (_first(edit, _PATHS) or _first(arguments, _PATHS), edit[old], edit[new])
        for edit in dicts_of([arguments, *listed])
        for old, new in zip(_OLD, _NEW, strict=True)
        if isinstance(edit.get(old), str) and isinstance(edit.get(new), str)
    ]


def count_touches(trajectory: Trajectory) -> None:
    """Give the list of files the lines of edits that only the arguments of a call tell."""
    unknown = [
        touch
        for touch in trajectory.files or ()
        if touch.tool_call_id
        and touch.lines_added is None
        and touch.lines_removed is None
        and touch.operation in ("create", "edit")
        and touch.outcome in (None, "accepted")
    ]
    if not unknown:
        return
    calls = {call.id: call for m in trajectory.messages for call in m.tool_calls or ()}
    results = {m.tool_call_id: m for m in trajectory.messages if m.role == "tool"}
    for touch in unknown:
        call = calls.get(touch.tool_call_id or "")
        edits = edits_of(call, results.get(call.id)) if call is not None else []
        # A call about several files names them as the list does; one about one file may not.
        edits = [edit for edit in edits if edit.path == touch.path] or edits
        if not edits or len({edit.path for edit in edits}) > 1:
            continue
        if not any(edit.whole for edit in edits):
            touch.lines_added = sum(edit.added for edit in edits)
            touch.lines_removed = sum(edit.removed for edit in edits)
        elif touch.operation == "create":
            touch.lines_added = edits[0].added


def _first(values: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def diff(old: str, new: str) -> list[Line]:
    before, after = _rows(old), _rows(new)
    if len(before) > LINES or len(after) > LINES:
        return [*(Line("-", text) for text in before), *(Line("+", text) for text in after)]
    rows = difflib.unified_diff(before, after, lineterm="", n=3)
    return [_signed(row) for row in islice(rows, 2, None)]  # the first two name the files


def _rows(text: str) -> list[str]:
    # Not splitlines(): U+2028 and form feeds are no line ends in a file.
    return text.removesuffix("\n").split("\n") if text else []


def _signed(row: str) -> Line:
    if row.startswith("@@"):
        return Line("@", row)
    sign: Sign = "+" if row[:1] == "+" else "-" if row[:1] == "-" else " "
    return Line(sign, row[1:])


def _structured(details: dict[str, Any]) -> Edit | None:
    """A patch as hunks of lines, with the numbers that the file really had."""
    hunks = details.get("structuredPatch")
    path = details.get("filePath")
    if not isinstance(hunks, list) or not isinstance(path, str):
        return None
    lines: list[Line] = []
    for hunk in hunks:
        if not isinstance(hunk, dict) or not isinstance(hunk.get("lines"), list):
            return None
        place = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        if all(isinstance(number, int) for number in place):
            lines.append(Line("@", "@@ -{},{} +{},{} @@".format(*place)))
        for text in hunk["lines"]:
            if isinstance(text, str):
                lines.append(_signed(text))
    return Edit(path, lines) if lines else None


def read_patch(text: str) -> list[Edit]:
    """A patch as text: unified, or in the envelope `*** Begin Patch`."""
    if "*** Begin Patch" not in text and "\n@@ " not in f"\n{text}":
        return []
    edits: list[Edit] = []
    rows = _rows(text)
    left = 0
    for number, row in enumerate(rows):
        if left > 0:
            # Within a counted hunk nothing is a header: `--- x` is the removed line `-- x`.
            edits[-1].lines.append(_signed(row))
            left -= 1 if row[:1] in ("+", "-") else 2
            continue
        path = _patched_path(row, rows[number - 1] if number else "")
        if path is not None:
            edits.append(Edit(path, []))
        elif row.startswith(_HEADERS):
            continue
        elif row[:2] == "@@" or edits:
            edits = edits or [Edit("", [])]
            edits[-1].lines.append(_signed(row))
            # How many old and new lines the hunk holds together; 0 where it does not say.
            counts = _COUNTS.match(row)
            left = int(counts[1] or 1) + int(counts[2] or 1) if counts else 0
    return edits


_HEADERS = ("*** ", "--- ", "diff --git ", "index ", "new file mode ", "deleted file mode ")
_COUNTS = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def _patched_path(row: str, before: str) -> str | None:
    for mark in ("*** Update File: ", "*** Add File: ", "*** Delete File: "):
        if row.startswith(mark):
            return row[len(mark) :].strip()
    if row.startswith("+++ ") and before.startswith("--- "):
        return row[4:].partition("\t")[0].removeprefix("b/").strip()
    return None
