"""Cursor's hooks: payloads that scripts logged, of every generation of the hooks.

A conversation's turns are told by `generation_id`. A shell command, an MCP call and a file edit come
twice, as a tool use and as an event of their own: the second is an echo of the first.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.facts import (
    NOBODY,
    AnyFact,
    Attachment,
    Key,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.hooklogs import Logged, head_payloads, read_log
from unspool.origins import Head, Origin, Tally
from unspool.records import clean, sample
from unspool.shapes import arguments_text
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.steps import Steps
from unspool.sources.cursor.tools import edits_of, likeness, output_of, touch, touches

PRODUCT = "cursor"
RANK = 4
"""Below the stores and the transcript, which hold the conversation itself."""
AGAIN = 5
"""A call that the tool hooks tell better."""
EVENTS = (
    "sessionStart", "sessionEnd", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought",
    "preToolUse", "postToolUse", "postToolUseFailure", "beforeShellExecution",
    "afterShellExecution", "beforeMCPExecution", "afterMCPExecution", "beforeReadFile",
    "afterFileEdit", "beforeTabFileRead", "afterTabFileEdit", "subagentStart", "subagentStop",
    "preCompact", "stop", "workspaceOpen",
)  # fmt: skip
_CANONICAL = {name.lower(): name for name in EVENTS} | {
    "userpromptsubmit": "beforeSubmitPrompt",
    "posttooluseerror": "postToolUseFailure",
}
"""Names in any case, and those of Claude Code's hooks, which Cursor runs too."""
_UUID = re.compile(r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_IMPLIED = (
    ("prompt", "beforeSubmitPrompt"),
    ("edits", "afterFileEdit"),
    ("result_json", "afterMCPExecution"),
    ("output", "afterShellExecution"),
    ("command", "beforeShellExecution"),
    ("status", "stop"),
    ("tool_name", "beforeMCPExecution"),
    ("content", "beforeReadFile"),
    ("text", "afterAgentResponse"),
)
"""The field that an event has and those below it do not: the 2025 beta wrote no names."""

Payload = dict[str, Any]


def claims(head: Head) -> bool:
    """Payloads with a conversation and a generation, or with Cursor's version."""
    return any(is_payload(value) for value in head_payloads(head))


def is_payload(value: Payload) -> bool:
    if "cursor_version" in value:
        return True
    if "conversation_id" not in value or "properties" in value:
        return False
    name = value.get("hook_event_name")
    return "generation_id" in value or (isinstance(name, str) and name.lower() in _CANONICAL)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    log = Log(origin.path)
    for logged in read_log(origin, recover):
        tally.records += 1
        if logged.value is None:
            tally.problems += 1
            yield Problem(
                key=NOBODY, origin=origin.path, offset=logged.offset, code=logged.code,
                sample=sample(logged.text),
            )  # fmt: skip
            continue
        yield from log.read(logged, tally)


def event_name(payload: Payload) -> str:
    """The event in the newest spelling; what the fields imply where it has no name."""
    given = payload.get("hook_event_name", payload.get("hook_type"))
    if isinstance(given, str) and given:
        return _CANONICAL.get(given.lower(), given)
    return next((event for field, event in _IMPLIED if field in payload), "")


def turn_id(payload: Payload) -> str:
    """The generation; newer builds hang a counter on its uuid."""
    given = payload.get("generation_id")
    ident = given if isinstance(given, str) else ""
    match = _UUID.match(ident)
    return match[0] if match else ident


class Log:
    """One log: what was said before decides which step a part belongs to."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._steps: dict[Key, Steps] = {}
        self._told: set[tuple[Key, str, str]] = set()
        self._times: dict[str, int] = {}
        self._models: dict[str, str] = {}

    def read(self, logged: Logged, tally: Tally) -> Iterator[AnyFact]:
        payload = clean(logged.value)
        event = event_name(payload)
        ident = payload.get("conversation_id") or payload.get("session_id")
        reader = READERS.get(event)
        if event in NOISE:
            tally.noise += 1
        elif reader is None:
            tally.unrecognise(event or "no event name", self.origin, logged.offset)
        elif not isinstance(ident, str) or not ident:
            tally.problems += 1
            yield Problem(
                key=NOBODY, origin=self.origin, offset=logged.offset,
                code="missing-conversation-id", sample=event,
            )  # fmt: skip
        else:
            said = Said(self, payload, event, (PRODUCT, ident), logged)
            yield from self._base(said)
            yield from reader(said)

    def steps(self, key: Key) -> Steps:
        return self._steps.setdefault(key, Steps())

    def model(self, payload: Payload) -> str:
        """The model of the turn: not every event of a turn names it."""
        turn, given = turn_id(payload), payload.get("model")
        if isinstance(given, str) and given:
            self._models[turn] = given
        return self._models.get(turn, "")

    def entry(self, payload: Payload, event: str) -> str:
        """The payload's own id: what it says, and which time it is said in this log."""
        if event == "stop":  # An aborted turn is told twice (seen in October 2025's logs).
            return f"stop:{payload.get('conversation_id')}:{turn_id(payload)}"
        own = {k: v for k, v in payload.items() if k[:1] != "_" and k != "transcript_path"}
        digest = hashlib.sha256(msgspec.json.encode(own, order="sorted")).hexdigest()[:20]
        number = self._times[digest] = self._times.get(digest, -1) + 1
        return f"hook:{digest}:{number}" if number else f"hook:{digest}"

    def _base(self, said: "Said") -> Iterator[AnyFact]:
        """What every payload tells about the conversation; told once, and when it changes."""
        payload = said.payload
        roots = payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots else payload.get("cwd")
        notes = {
            "session_id": payload.get("session_id") or said.key[1],
            "workspace.path": clean_path(root) if isinstance(root, str) and root else None,
            "agent_version": payload.get("cursor_version"),
            "transcript_path": payload.get("transcript_path"),
            "composer_mode": payload.get("composer_mode"),
        }
        for number, (name, value) in enumerate(notes.items()):
            if isinstance(value, str) and (said.key, name, value) not in self._told:
                self._told.add((said.key, name, value))
                yield said.make(Noted, number, name=name, value=value, rank=RANK)


class Said:
    """One payload: its fields, and the facts that are made from it."""

    def __init__(self, log: Log, payload: Payload, event: str, key: Key, logged: Logged) -> None:
        self.payload = payload
        self.event = event
        self.key = key
        self.steps = log.steps(key)
        self.turn = turn_id(payload)
        self.model = log.model(payload)
        self.entry = log.entry(payload, event)
        self._place = {"origin": log.origin, "offset": logged.offset, "time": logged.time}

    def make(self, what: type[Any], number: int = 10, key: Key | None = None, **fields: Any) -> Any:
        return what(key=key or self.key, number=number, entry=self.entry, **self._place, **fields)

    def mark(self, number: int = 10, key: Key | None = None, **fields: Any) -> Marked:
        made: Marked = self.make(Marked, number, key, rank=RANK, **fields)
        return made

    def text(self, *names: str) -> str:
        for name in names:
            value = self.payload.get(name)
            if isinstance(value, str) and value:
                return value
        return ""

    def number(self, *names: str) -> float | None:
        for name in names:
            value = self.payload.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None

    def pick(self, *names: str) -> dict[str, Any]:
        """The fields of these names that say something."""
        return {n: v for n in names if (v := self.payload.get(n)) not in (None, "", [], {})}

    def usage(self, rank: int) -> Iterator[AnyFact]:
        """Tokens of the generation; input is told without what the cache gave and took."""
        given = (self.number("input_tokens"), self.number("output_tokens"))
        total = self.number("tokens_used")
        if not any(given) and not total:
            return
        read, written = self.number("cache_read_tokens"), self.number("cache_write_tokens")
        prompt = given[0] + (read or 0) + (written or 0) if given[0] is not None else None
        yield self.make(
            UsageReported, on="request", subject=self.turn, rank=rank, prompt=_whole(prompt),
            completion=_whole(given[1]), cached=_whole(read), cache_write=_whole(written),
            extra={"total_tokens": int(total)} if total and not any(given) else None,
        )  # fmt: skip


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None else None


def read_prompt(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    yield said.make(
        MessageSeen, id=said.entry, role="user", text=said.text("prompt"), rank=RANK,
        request=said.turn, mode=said.text("composer_mode"), attachments=_attachments(said.payload),
    )  # fmt: skip


def _attachments(payload: Payload) -> tuple[Attachment, ...]:
    given = payload.get("attachments")
    made = []
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict):
            path = item.get("file_path", item.get("filePath"))
            path = clean_path(path) if isinstance(path, str) else ""
            made.append(Attachment(kind=str(item.get("type") or "file"), path=path))
    return tuple(made)


def read_response(said: Said) -> Iterator[AnyFact]:
    step = said.steps.part("text", said.entry)
    yield said.make(
        MessageSeen, id=step, role="assistant", text=said.text("text", "response"), rank=RANK,
        model=said.model, request=said.turn,
    )  # fmt: skip
    yield from _duration(said, step)
    yield from said.usage(rank=1)


def _duration(said: Said, step: str) -> Iterator[AnyFact]:
    duration = said.number("duration_ms", "duration")
    if duration is not None:
        yield said.make(
            Noted, on="message", subject=step, name="duration_ms", value=duration, rank=RANK
        )


def read_thought(said: Said) -> Iterator[AnyFact]:
    step = said.steps.part("thinking", said.entry)
    yield said.make(
        MessageSeen, id=step, role="assistant", thinking=said.text("text"), rank=RANK,
        model=said.model, request=said.turn,
        extra={"thinking_ms": said.number("duration_ms")} if said.number("duration_ms") else None,
    )  # fmt: skip


def _call(said: Said, name: str, arguments: Any, rank: int, like: str) -> Iterator[AnyFact]:
    """The call, and the step that it belongs to: it has a turn though it may say nothing."""
    step = said.steps.part("call", said.entry)
    yield said.make(
        ToolCalled, id=said.text("tool_use_id"), message=step, name=name, like=like, rank=rank,
        arguments=arguments_text(arguments), extra=said.pick("agent_message") or None,
        files=touches(name, arguments) if rank == RANK else (),
    )  # fmt: skip
    yield said.make(
        MessageSeen, 11, id=step, role="assistant", rank=RANK, model=said.model,
        request=said.turn,
    )  # fmt: skip


def read_tool_use(said: Said) -> Iterator[AnyFact]:
    name, given = said.text("tool_name"), said.payload.get("tool_input")
    like = likeness(name, given)
    yield from _call(said, name, given, RANK, like)
    said.steps.began(like)


def read_tool_result(said: Said) -> Iterator[AnyFact]:
    name, given = said.text("tool_name"), said.payload.get("tool_input")
    failed = said.event == "postToolUseFailure"
    output = said.payload.get("tool_output", said.payload.get("tool_response"))
    text, details = output_of(said.payload.get("error_message") if failed else output)
    said.steps.ended(likeness(name, given))
    yield said.make(
        ToolReturned, call=said.text("tool_use_id"), name=name, arguments=arguments_text(given),
        like=likeness(name, given) if given is not None else "", text=text, details=details,
        failed=failed, status=_failure(said) if failed else "", rank=RANK,
        duration_ms=said.number("duration", "duration_ms"),
    )  # fmt: skip
    if said.text("tool_use_id") and given is not None:
        # Logs without the event before: the result names its call as well as that would.
        yield said.make(
            ToolCalled, 11, id=said.text("tool_use_id"), name=name, like=likeness(name, given),
            arguments=arguments_text(given), rank=RANK, files=touches(name, given),
        )  # fmt: skip


def _failure(said: Said) -> str:
    if said.text("failure_type") == "permission_denied":
        return "denied"
    return "interrupted" if said.payload.get("is_interrupt") is True else "failed"


def _echo(said: Said, name: str, given: Any, kind: str, output: Any) -> Iterator[AnyFact]:
    """An event of its own for a call that the tool hooks may have told already."""
    like = likeness(name, given, kind)
    if said.event.startswith("before"):
        yield from _call(said, name, given, AGAIN, like)
        return
    text, details = output_of(output)
    yield said.make(
        ToolReturned, name=name, arguments=arguments_text(given), like=like, text=text,
        details=details, rank=AGAIN, duration_ms=said.number("duration", "duration_ms"),
    )  # fmt: skip


def read_shell(said: Said) -> Iterator[AnyFact]:
    given = {"command": said.text("command"), **said.pick("cwd")}
    yield from _echo(said, "Shell", given, "shell", said.payload.get("output"))


def read_mcp(said: Said) -> Iterator[AnyFact]:
    name = said.text("tool_name").removeprefix("MCP:")
    output = said.payload.get("result_json", said.payload.get("tool_output"))
    yield from _echo(said, f"MCP:{name}", said.payload.get("tool_input"), "mcp", output)


def read_edit(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    given = {"file_path": path, **said.pick("edits")}
    like = likeness("edit_file", given)
    yield from _call(said, "edit_file", given, AGAIN, like)
    yield said.make(
        ToolReturned, name="edit_file", like=like, rank=AGAIN, failed=False,
        files=(touch(path, edits_of(given) or [], tool="edit_file"),),
    )  # fmt: skip


def read_tab_edit(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    counts = touch(path, edits_of({"edits": said.payload.get("edits")}))
    yield said.mark(kind="tab_edit", data=counts)


def read_file(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    yield said.mark(kind="file", data={"path": path, "operation": "read"})


def read_start(said: Said) -> Iterator[AnyFact]:
    data = said.pick("source", "is_background_agent", "composer_mode", "transcript_path")
    yield said.mark(kind="start", data=data or None)


def read_end(said: Said) -> Iterator[AnyFact]:
    data = said.pick("reason", "duration_ms", "final_status", "error_message")
    yield said.mark(kind="end", data=data or None)


def read_stop(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    data = said.pick("status", "loop_count")
    yield said.mark(kind="turn_end", subject=said.turn, data=data or None)
    yield from said.usage(rank=0)


def read_compaction(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    names = (
        "trigger", "context_usage_percent", "context_tokens", "context_window_size",
        "message_count", "messages_to_compact", "is_first_compaction",
    )  # fmt: skip
    data = said.pick(*names)
    before, gone = said.number("message_count"), said.number("messages_to_compact")
    if before is not None:
        data["messages_before"] = int(before)
        if gone is not None:
            data["messages_after"] = int(before - gone)
    yield said.mark(kind="compaction", data=data or None)
    usage = said.number("context_usage_percent")
    if usage is not None:
        yield said.make(
            Noted, name="context_usage", value=said.payload["context_usage_percent"], rank=RANK
        )


def read_subagent(said: Said) -> Iterator[AnyFact]:
    """A sub-agent began or ended: told to its parent and to itself, where both have a name."""
    child = said.text("subagent_id")
    parent = said.text("parent_conversation_id") or said.key[1]
    call = said.text("tool_call_id")
    tie = {"name": said.text("subagent_type"), "tool_call_id": call}
    tie = {name: value for name, value in tie.items() if value}
    if said.event == "subagentStart" and child and child != parent:
        yield said.make(
            Noted, 10, (PRODUCT, parent), name="children", value={"conversation_id": child, **tie}
        )
        yield said.make(
            Noted, 11, (PRODUCT, child), name="parent", value={"conversation_id": parent, **tie}
        )
    names = (
        "subagent_id", "subagent_type", "subagent_model", "task", "description", "summary",
        "status", "duration_ms", "message_count", "tool_call_count", "loop_count",
        "modified_files", "agent_transcript_path", "is_parallel_worker", "git_branch",
    )  # fmt: skip
    kind = "subagent_start" if said.event == "subagentStart" else "subagent_end"
    yield said.mark(12, (PRODUCT, parent), kind=kind, subject=call, data=said.pick(*names))


NOISE = frozenset(("workspaceOpen", "beforeTabFileRead", "Notification", "notification"))
"""Events that say nothing about a conversation."""

READERS: dict[str, Callable[[Said], Iterator[AnyFact]]] = {
    "beforeSubmitPrompt": read_prompt,
    "afterAgentResponse": read_response,
    "afterAgentThought": read_thought,
    "preToolUse": read_tool_use,
    "postToolUse": read_tool_result,
    "postToolUseFailure": read_tool_result,
    "beforeShellExecution": read_shell,
    "afterShellExecution": read_shell,
    "beforeMCPExecution": read_mcp,
    "afterMCPExecution": read_mcp,
    "beforeReadFile": read_file,
    "afterFileEdit": read_edit,
    "afterTabFileEdit": read_tab_edit,
    "sessionStart": read_start,
    "sessionEnd": read_end,
    "stop": read_stop,
    "preCompact": read_compaction,
    "subagentStart": read_subagent,
    "subagentStop": read_subagent,
}
