"""Tool calls, what ran for them, and their output.

    {"type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"exec_command",…}}
    {"type":"event_msg","payload":{"type":"item_completed","item":{"type":"CommandExecution","id":"c1",…}}}
    {"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"…"}}

What the screen shows between the two says which command ran, and with which exit code. Newer models
call tools from JavaScript: what ran then has an id of its own, and only its place ties it to the call.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from unspool.io.values import parse_object, str_of
from unspool.sources.codex.records import Item, Payload, content_of
from unspool.sources.diffs import count_changed, files_of_patch
from unspool.sources.scribe import Scribe

CALLS = frozenset((
    "function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call",
    "image_generation_call",
))  # fmt: skip
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))
_ENDED = frozenset(("web_search_call", "image_generation_call"))
"""Tools that run at the model's side: the call is its own end."""
_EXIT = re.compile(
    r'(?:Exit code: |Process exited with code |"exit_code": ?)(-?\d+)'
    r"|\A(Script failed|unsupported call)"
)
_FAILED = ("Script failed", "unsupported call")
CHANGES = {"add": "create", "update": "edit", "delete": "delete"}


class Pending(msgspec.Struct):
    """A call that waits for its output, and what ran meanwhile."""

    written: str = ""
    commands: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []


class Tools:
    """The calls that wait for their output."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}

    def state_call(self, payload: Payload, call: str, answer: str, scribe: Scribe) -> None:
        given = payload.arguments if payload.arguments is not None else payload.input
        if given is None and payload.action:
            given = bytes(payload.action).decode("utf-8", "replace")
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        name = payload.name or payload.type.removesuffix("_call")
        self._pending[call] = Pending(text)
        files = files_of_patch(text) if name == "apply_patch" else []
        scribe.call(id=call, message=answer, name=name, arguments=text, files=tuple(files))
        if payload.type in _ENDED:
            scribe.returned(call=call, text=None, failed=False)

    def state_output(self, payload: Payload, scribe: Scribe) -> None:
        call = payload.call_id or ""
        pending = self._pending.pop(call, None) or Pending()
        output = payload.output
        if isinstance(output, dict):  # an older shape: {"content": "…", "success": true}
            content = output.get("content")
            output = content if isinstance(content, str) else msgspec.json.encode(output).decode()
        text, attachments = content_of(output, "")
        codes = [c["exit_code"] for c in pending.commands if c.get("exit_code") is not None]
        start = text[:400]
        told = _EXIT.search(start) if "xit" in start or start.startswith(_FAILED) else None
        if told and not codes:
            codes = [int(told[1]) if told[1] else 1]
        denied = "blocked by PreToolUse hook" in start or "rejected by user" in start[:200]
        details: dict[str, Any] = {}
        if pending.commands:
            if len(pending.commands) == 1 and pending.commands[0].get("output", "") in text:
                pending.commands[0].pop("output", None)  # the model got all of it
            details["commands"] = pending.commands
        elif codes:
            details["exit_code"] = codes[0]
        scribe.returned(
            call=call,
            text=text,
            failed=any(codes) if codes else None,
            status="denied" if denied else "",
            details=details or None,
            files=tuple(pending.files),
            attachments=attachments,
        )
        if text.startswith(
            '{"agent_id":'
        ):  # `spawn_agent`: {"agent_id":"01a1…","nickname":"Dalton"}
            agent = str_of((parse_object(text) or {}).get("agent_id"))
            scribe.note("child_id", agent or None, on="call", subject=call)

    def take_ran(self, item: Item, scribe: Scribe) -> None:
        """What ran, or whom it started, as the screen shows it."""
        if item.type == "CommandExecution":
            command = item.command
            shown = command[-1] if isinstance(command, list) and command else command
            ran = {"command": shown, "exit_code": item.exit_code, "output": item.aggregated_output}
            pending = self._running(item.id, str(shown))
            if pending is not None:
                pending.commands.append({k: v for k, v in ran.items() if v is not None})
        elif item.type == "FileChange":
            pending = self._running(item.id, next(iter(item.changes or {}), ""))
            if pending is not None:
                pending.files += files_of_changes(item.changes or {})
        elif item.type == "SubAgentActivity" and item.kind == "started" and item.agent_thread_id:
            scribe.note("child_id", item.agent_thread_id, on="call", subject=item.id)
        elif item.type == "CollabAgentToolCall" and item.tool == "spawn_agent":
            for thread in (item.receiver_thread_ids or [])[:1]:
                scribe.note("child_id", thread, on="call", subject=item.id)

    def _running(self, item: str, word: str) -> Pending | None:
        """The call that did it: by its id; where JavaScript called the tool, the first that waits
        and names what was done, else the first that waits."""
        if item in self._pending or not self._pending:
            return self._pending.get(item)
        escaped = msgspec.json.encode(word).decode()[1:-1]
        for pending in self._pending.values():
            if escaped in pending.written or Path(word).name in pending.written:
                return pending
        return next(iter(self._pending.values()))


def files_of_changes(changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Of what was really done: `{"/w/a.py": {"type": "update", "unified_diff": "…"}}`."""
    files: list[dict[str, Any]] = []
    for path, change in changes.items():
        if not isinstance(change, dict):
            continue
        operation = CHANGES.get(str(change.get("type")), "edit")
        touched: dict[str, Any] = {"path": path, "operation": operation, "tool": "apply_patch"}
        text = change.get("unified_diff")
        if isinstance(text, str):
            lines = (line for line in text.splitlines() if not line.startswith(("+++", "---")))
            touched |= count_changed(lines)
        elif isinstance(change.get("content"), str):
            counted = "lines_removed" if operation == "delete" else "lines_added"
            touched[counted] = len(change["content"].splitlines())
        if change.get("move_path"):
            touched["extra"] = {"moved_to": str(change["move_path"])}
        files.append(touched)
    return files
