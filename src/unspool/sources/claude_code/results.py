"""Results: what a tool returned beside what the model got, and what it did to files."""

import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from unspool.sources.claude_code.lines import Block, decode_raws, parse_content

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


def read_outcome(raw: bytes, text: str, failed: bool) -> Outcome:
    made = Outcome()
    if raw[:1] == b"{":
        _read_fields(made, decode_raws(raw), text)
    elif raw and raw != b"null":
        value = msgspec.json.decode(raw)
        if not _repeats(value, text):
            made.details = value
    if failed:
        said = text.removeprefix("Error: ").removeprefix("<tool_use_error>")
        if said.startswith(_REJECTED):
            made.status, made.by_user = "denied", True
        elif said.startswith(_DENIED):
            made.status = "denied"
        elif said.startswith("[Request interrupted by user"):
            made.status = "interrupted"
    if not made.agent and (not raw or _is_agents(made.details)):
        made.agent = agent_in(text)
    if not made.persisted and text.startswith("<persisted-output>"):
        saved = _SAVED.search(text[:4000])
        made.persisted = saved[1] if saved else ""
    return made


def _is_agents(details: Any) -> bool:
    """Whether a sub-agent returned this. Other tools may print the words of one, say of a log."""
    return isinstance(details, dict) and not _AGENT_FIELDS.isdisjoint(details)


def agent_in(text: str) -> str:
    """The sub-agent that a result names at its end."""
    found = _AGENT.search(text[-2000:]) if "agentId: " in text[-2000:] else None
    return found[1] if found else ""


def _repeats(value: Any, text: str) -> bool:
    """Old error results and MCP results hold the same text again."""
    if isinstance(value, str):
        return value.removeprefix("Error: ").strip() == text.removeprefix("Error: ").strip()
    if isinstance(value, list):
        parts = [item.get("text") for item in value if isinstance(item, dict)]
        return len(parts) == len(value) and "\n\n".join(p for p in parts if p) == text
    return False


def _read_fields(made: Outcome, fields: dict[str, msgspec.Raw], text: str) -> None:
    details: dict[str, Any] = {}
    is_file = "filePath" in fields
    for name, raw in fields.items():
        data = bytes(raw)
        if name in _SIZE_ONLY:
            if data != b"null":
                details[f"{name}_size"] = len(data)
        elif name in _TOLD and (is_file or name in ("prompt", "newTodos") or "agentId" in fields):
            continue
        elif name == "file":
            details[name] = _lean_file(data)
        elif name in ("stdout", "result", "content", "plan"):
            value = msgspec.json.decode(data)
            if not (isinstance(value, str) and (value.strip() in text)):
                details[name] = value
        else:
            details[name] = msgspec.json.decode(data)
    if details.get("interrupted") is True:
        made.status = "interrupted"
    agent = details.get("agentId")
    made.agent = agent if isinstance(agent, str) else ""
    run = details.get("runId")
    made.run = run if isinstance(run, str) else ""
    persisted = details.get("persistedOutputPath")
    made.persisted = persisted if isinstance(persisted, str) else ""
    made.details = details
    if is_file and ("structuredPatch" in fields or "userModified" in fields):
        made.touch = _touch(fields, details)


def _lean_file(data: bytes) -> Any:
    """A file that was read: its content is in the text already."""
    if data[:1] != b"{":
        return msgspec.json.decode(data)
    made: dict[str, Any] = {}
    for name, raw in decode_raws(data).items():
        if name in ("content", "base64"):
            made[f"{name}_size"] = len(bytes(raw))
        else:
            made[name] = msgspec.json.decode(raw)
    return made


def _touch(fields: dict[str, msgspec.Raw], details: dict[str, Any]) -> dict[str, Any] | None:
    path = details.get("filePath")
    if not isinstance(path, str):
        return None
    made: dict[str, Any] = {"path": path}
    if details.get("type") == "create":
        made["operation"] = "create"
        content = msgspec.json.decode(fields["content"]) if "content" in fields else None
        if isinstance(content, str):
            made["lines_added"] = count_lines(content)
            made["lines_removed"] = 0
    else:
        made["operation"] = "edit"
        added, removed = _patch_lines(details.get("structuredPatch"))
        if added is not None:
            made["lines_added"], made["lines_removed"] = added, removed
    made["outcome"] = "modified" if details.get("userModified") is True else "accepted"
    return made


def _patch_lines(patch: Any) -> tuple[int | None, int | None]:
    if not isinstance(patch, list):
        return None, None
    added = removed = 0
    for hunk in patch:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        for line in lines if isinstance(lines, list) else ():
            added += str(line).startswith("+")
            removed += str(line).startswith("-")
    return added, removed


def count_lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def flat_text(content: str | list[Block] | None) -> str:
    """The text of a result: its text blocks; what is no text is told by its type."""
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for block in content:
        if block.text:
            texts.append(block.text)
        elif block.type == "tool_reference" and block.name:
            texts.append(block.name)
        elif block.content:
            texts.append(flat_text(parse_content(bytes(block.content))))
        elif block.resource:
            texts.append(_resource_text(bytes(block.resource)))
    return "\n\n".join(texts)


def _resource_text(raw: bytes) -> str:
    """A resource that an MCP server embedded: its text, else where it is."""
    value = msgspec.json.decode(raw)
    found = value.get("text") or value.get("uri") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


def read_persisted(origin: str, recorded: str) -> str | None:
    """The whole output, from `<session>/tool-results/` beside the transcript and nowhere else."""
    pure = PureWindowsPath(recorded) if "\\" in recorded else PurePosixPath(recorded)
    if pure.parent.name != "tool-results" or pure.name in ("", "..", "."):
        return None
    beside = Path(origin)
    session = beside.with_suffix("")
    for folder in (session, *beside.parents[:4]):
        found = folder / "tool-results" / pure.name
        try:
            if found.is_file() and not found.is_symlink():
                with found.open("rb") as file:
                    return file.read(OUTPUT_LIMIT).decode("utf-8", "replace")
        except OSError:
            continue
    return None
