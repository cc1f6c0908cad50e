"""Results: what a tool returned beside what the model got, and what it did to files."""

import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec
from msgspec import UNSET

from unspool.io.values import dicts_of, list_of, str_of
from unspool.sources.claude_code.lines import NOTHING, Returned, decode_raws
from unspool.sources.diffs import count_lines

FILE_TOOLS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Update": "edit",
    "NotebookEdit": "edit",
    "Write": "create",
}
_AGENT_FIELDS = frozenset(("totalDurationMs", "totalToolUseCount", "isAsync", "outputFile"))
OUTPUT_LIMIT = 1024 * 1024
"""Longest persisted output that is read back, in bytes."""

_SIZE_ONLY = frozenset(("originalFile", "originalFileContents", "original_file", "base64"))
_TEXTS = frozenset(("stdout", "result", "content", "plan"))
"""Fields that may hold the text of the result once more."""
_NULL = msgspec.Raw(b"null")
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


class Outcome(msgspec.Struct):
    """What came of a call, as far as its result line tells."""

    details: Any = None
    status: str = ""
    by_user: bool = False
    """Denied by the person, not by a rule."""
    agent: str = ""
    """The id of the sub-agent that the call started."""
    run: str = ""
    """The id of the workflow, a run of several sub-agents, that the call started."""
    touch: dict[str, Any] | None = None
    """What was done to a file."""
    persisted: str = ""
    """Where the whole output was put."""


def read_outcome(
    returned: Returned, text: str, failed: bool, content: msgspec.Raw = NOTHING
) -> Outcome:
    """`content`: the text, undecoded, as it stands in the result."""
    outcome = Outcome()
    if isinstance(returned, dict):
        _read_fields(outcome, returned, text, content)
    elif returned is not None and returned is not UNSET and not _repeats(returned, text):
        outcome.details = returned
    if failed:
        reason = text.removeprefix("Error: ").removeprefix("<tool_use_error>")
        if reason.startswith(_REJECTED):
            outcome.status, outcome.by_user = "denied", True
        elif reason.startswith(_DENIED):
            outcome.status = "denied"
        elif reason.startswith("[Request interrupted by user"):
            outcome.status = "interrupted"
    if not outcome.agent and (returned is UNSET or _is_agents(outcome.details)):
        outcome.agent = agent_in(text)
    if not outcome.persisted and text.startswith("<persisted-output>"):
        saved = _SAVED.search(text[:4000])
        outcome.persisted = saved[1] if saved else ""
    return outcome


def _is_agents(details: Any) -> bool:
    """Whether a sub-agent returned this. Other tools may print the words of one, say of a log."""
    return isinstance(details, dict) and not _AGENT_FIELDS.isdisjoint(details)


def agent_in(text: str) -> str:
    """The sub-agent that a result names at its end."""
    named = _AGENT.search(text[-2000:]) if "agentId: " in text[-2000:] else None
    return named[1] if named else ""


def _repeats(value: Any, text: str) -> bool:
    """Error results and MCP results hold the same text again: "Error: No such file."."""
    if isinstance(value, str):
        return value.removeprefix("Error: ").strip() == text.removeprefix("Error: ").strip()
    if isinstance(value, list):
        parts = [item.get("text") for item in value if isinstance(item, dict)]
        return len(parts) == len(value) and "\n\n".join(p for p in parts if p) == text
    return False


def _read_fields(
    outcome: Outcome, fields: dict[str, msgspec.Raw], text: str, content: msgspec.Raw
) -> None:
    details: dict[str, Any] = {}
    is_file = "filePath" in fields
    for name, raw in fields.items():
        if name in _SIZE_ONLY:
            if raw != _NULL:
                details[f"{name}_size"] = len(memoryview(raw))
        elif name in _TOLD and (is_file or name in ("prompt", "newTodos") or "agentId" in fields):
            continue
        elif name == "file":
            details[name] = _lean_file(raw)
        elif name in _TEXTS:
            if raw == content:
                continue
            value = msgspec.json.decode(raw)
            if not (isinstance(value, str) and (value.strip() in text)):
                details[name] = value
        else:
            details[name] = msgspec.json.decode(raw)
    if details.get("interrupted") is True:
        outcome.status = "interrupted"
    outcome.agent = str_of(details.get("agentId"))
    outcome.run = str_of(details.get("runId"))
    outcome.persisted = str_of(details.get("persistedOutputPath"))
    outcome.details = details
    if is_file and ("structuredPatch" in fields or "userModified" in fields):
        outcome.touch = _touch(fields, details)


def _lean_file(file: msgspec.Raw) -> Any:
    """A file that was read: its content is in the text already."""
    if memoryview(file)[0] != ord("{"):
        return msgspec.json.decode(file)
    lean: dict[str, Any] = {}
    for name, raw in decode_raws(file).items():
        if name in ("content", "base64"):
            lean[f"{name}_size"] = len(memoryview(raw))
        else:
            lean[name] = msgspec.json.decode(raw)
    return lean


def _touch(fields: dict[str, msgspec.Raw], details: dict[str, Any]) -> dict[str, Any] | None:
    path = details.get("filePath")
    if not isinstance(path, str):
        return None
    touch: dict[str, Any] = {"path": path, "operation": "edit"}
    if details.get("type") == "create":
        touch["operation"] = "create"
        content = msgspec.json.decode(fields["content"]) if "content" in fields else None
        if isinstance(content, str):
            touch |= {"lines_added": count_lines("", content)[0], "lines_removed": 0}
    elif isinstance(patch := details.get("structuredPatch"), list):
        lines = [str(line) for hunk in dicts_of(patch) for line in list_of(hunk.get("lines"))]
        touch["lines_added"] = sum(line.startswith("+") for line in lines)
        touch["lines_removed"] = sum(line.startswith("-") for line in lines)
    touch["outcome"] = "modified" if details.get("userModified") is True else "accepted"
    return touch


def read_persisted(origin: str, recorded: str) -> str | None:
    """The whole output, from `<session>/tool-results/` beside the transcript and nowhere else."""
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
