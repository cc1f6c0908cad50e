"""Results: what a tool returned beside what the model got, and what it did to files."""

import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from unspool.io.values import dict_of, dicts_of, list_of, str_of
from unspool.sources.claude_code.lines import (
    Block,
    Line,
    Returned,
    attachment_of,
    blocks_of,
    child_id,
    decode_raws,
    parse_raw,
    text_of,
)
from unspool.sources.diffs import count_changed, count_lines
from unspool.sources.scribe import Scribe

_AGENT_FIELDS = frozenset(("totalDurationMs", "totalToolUseCount", "isAsync", "outputFile"))
OUTPUT_LIMIT = 1024 * 1024
"""Longest persisted output that is read back, in bytes."""

_SIZE_ONLY = frozenset(("originalFile", "originalFileContents", "original_file", "base64"))
_TEXTS = frozenset(("stdout", "result", "content", "plan"))
"""Fields that may hold the text of the result once more."""
CHANGED = frozenset(("structuredPatch", "userModified"))
_NULL = Raw(b"null")
_TOLD = frozenset(
    ("oldString", "newString", "content", "edits", "prompt", "newTodos", "new_source")
)
"""Fields that repeat the call's arguments or the text of the result."""
_REJECTED = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "User rejected",
)
_DENIED = (
    "Permission to use ",
    "This command requires approval",
    "Claude requested permissions to ",
    "Permission denied",
)
_AGENT = re.compile(
    r"^agentId: ([\w.-]+) \((?:internal ID|for resuming|use SendMessage)", re.MULTILINE
)
_SAVED = re.compile(r"Full output saved to: (.+?)\s*(?:\n|$)")


_DENIALS = {"interrupted": "interrupted", "cancelled": "cancelled"}
"""Why a call did not run (since 2.1.205); every other word is a denial."""


def read_result(line: Line, block: Block, scribe: Scribe) -> None:
    """A result, the sub-agent or workflow that the call started, and who denied it."""
    call, content = block.tool_use_id or "", parse_raw(block.content)
    text, failed = text_of(content), bool(block.is_error)
    returned = line.tool_use_result if line.toolUseResult is UNSET else line.toolUseResult
    details = _details(returned, text, block.content)
    fields = dict_of(details)
    status = "interrupted" if fields.get("interrupted") is True else ""
    by_user = False
    if failed:
        refused, by_user = refusal(text)
        status = refused or status
    if line.toolDenialKind and status in ("", "interrupted"):
        # {"toolDenialKind":"user-rejected","toolUseResult":{"interrupted":true},…}
        status = _DENIALS.get(line.toolDenialKind, "denied")
        by_user = line.toolDenialKind == "user-rejected"
    touch = None
    if isinstance(returned, dict) and not CHANGED.isdisjoint(returned):
        touch = touch_of({**fields, "content": parse_raw(returned.get("content", b""))})
    whole = _read_persisted(scribe.origin, fields, text)
    if whole is not None:
        details = {**(fields or {"result": details}), "persistedOutput": whole}
    parts = blocks_of(content) if isinstance(content, list) else ()
    scribe.returned(
        call=call,
        text=text,
        failed=failed,
        status=status,
        details=details,
        files=(touch,) if touch is not None else (),
        attachments=tuple(attachment_of(b) for b in parts if b.type in ("image", "document")),
    )
    agent = str_of(fields.get("agentId"))
    # Other tools may print the words of a sub-agent, say of a log.
    if not agent and (returned is UNSET or not _AGENT_FIELDS.isdisjoint(fields)):
        agent = agent_in(text)
    if agent:
        session = scribe.key[1].partition("/")[0]
        scribe.note("child_id", child_id(session, agent), 0, "call", call)
    if run := str_of(fields.get("runId")):
        scribe.note("run_id", run, 0, "call", call)
    if by_user:
        scribe.note("denied_by", "user", 0, "call", call)


def refusal(text: str) -> tuple[str, bool]:
    """Whether a failed call was denied or interrupted, and whether the person denied it, not a rule."""
    reason = text.removeprefix("Error: ").removeprefix("<tool_use_error>")
    if reason.startswith((*_REJECTED, *_DENIED)):
        return "denied", reason.startswith(_REJECTED)
    return "interrupted" if reason.startswith("[Request interrupted by user") else "", False


def agent_in(text: str) -> str:
    """The sub-agent that a result names at its end."""
    named = _AGENT.search(text[-2000:]) if "agentId: " in text[-2000:] else None
    return named[1] if named else ""


def _details(returned: Returned, text: str, content: Raw) -> Any:
    """What was returned beside the text, without what repeats it or the call's arguments; `content` is
    the text as it stands in the result."""
    if isinstance(returned, str):  # errors: "Error: No such file."
        repeats = returned.removeprefix("Error: ").strip() == text.removeprefix("Error: ").strip()
        return None if repeats else returned
    if isinstance(returned, list):  # of MCP servers
        parts = [str_of(item.get("text")) for item in dicts_of(returned)]
        repeats = len(parts) == len(returned) and "\n\n".join(filter(None, parts)) == text
        return None if repeats else returned
    if not isinstance(returned, dict):
        return None if returned is UNSET else returned
    details: dict[str, Any] = {}
    is_file = "filePath" in returned
    for name, raw in returned.items():
        if name in _SIZE_ONLY:
            if raw != _NULL:
                details[f"{name}_size"] = len(memoryview(raw))
        elif name in _TOLD and (is_file or name in ("prompt", "newTodos") or "agentId" in returned):
            continue
        elif name == "file":
            details[name] = _lean_file(raw)
        elif name not in _TEXTS:
            details[name] = msgspec.json.decode(raw)
        elif raw != content:
            value = msgspec.json.decode(raw)
            if not isinstance(value, str) or value.strip() not in text:
                details[name] = value
    return details


def _lean_file(file: Raw) -> dict[str, Any]:
    """A file that was read: its content is in the text already."""
    lean: dict[str, Any] = {}
    for name, raw in decode_raws(file).items():
        if name in ("content", "base64"):
            lean[f"{name}_size"] = len(memoryview(raw))
        else:
            lean[name] = msgspec.json.decode(raw)
    return lean


def touch_of(fields: dict[str, Any]) -> dict[str, Any] | None:
    """What a call did to a file, by what it returned."""
    path = fields.get("filePath")
    if not isinstance(path, str):
        return None
    touch: dict[str, Any] = {"path": path, "operation": "edit"}
    if fields.get("type") == "create":
        touch["operation"] = "create"
        added = count_lines("", str_of(fields.get("content")))[0]
        touch |= {"lines_added": added, "lines_removed": 0}
    elif isinstance(patch := fields.get("structuredPatch"), list):
        hunks = dicts_of(patch)
        touch |= count_changed(str(line) for hunk in hunks for line in list_of(hunk.get("lines")))
    touch["outcome"] = "modified" if fields.get("userModified") is True else "accepted"
    return touch


def _read_persisted(origin: str, fields: dict[str, Any], text: str) -> str | None:
    """The whole output, from `<session>/tool-results/` beside the transcript and nowhere else."""
    recorded = str_of(fields.get("persistedOutputPath"))
    if not recorded and text.startswith("<persisted-output>"):
        saved = _SAVED.search(text[:4000])
        recorded = saved[1] if saved else ""
    if not recorded:
        return None
    pure = PureWindowsPath(recorded) if "\\" in recorded else PurePosixPath(recorded)
    if pure.parent.name != "tool-results" or pure.name in ("", "..", "."):
        return None
    transcript = Path(origin)
    for folder in (transcript.with_suffix(""), *transcript.parents[:4]):
        output = folder / "tool-results" / pure.name
        try:
            if output.is_file() and not output.is_symlink():
                with output.open("rb") as file:
                    return file.read(OUTPUT_LIMIT).decode("utf-8", "replace")
        except OSError:
            continue
    return None
