"""Cursor's hooks: payloads that scripts logged, of every generation of the hooks.

    {"conversation_id": …, "generation_id": …, "hook_event_name": "beforeSubmitPrompt",
     "prompt": "fix it", "workspace_roots": ["/w/tea"], "cursor_version": "3.8"}

A conversation's turns are told by `generation_id`; the order of the log does the rest. A shell command,
an MCP call and a file edit come twice, as a tool use and as an event of their own: the second is an
echo of the first.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.facts import NO_ZONE, ZONE, AnyFact, Attachment, Rank
from unspool.io.origins import Head, Origin, Tally
from unspool.io.values import dicts_of, list_of, str_of
from unspool.sources.cursor.entries import AUTO, Entries, Steps, note_all, number_of, request_id
from unspool.sources.cursor.paths import clean_path, folder_of
from unspool.sources.cursor.tools import called, edits_of, output_of, touch
from unspool.sources.hooklogs import head_payloads, iter_payloads
from unspool.sources.scribe import Scribe, all_input

RANK = Rank.INDEX
"""Below the stores and the transcript, which hold the conversation itself."""
AGAIN = RANK + 1
"""A call that the tool hooks tell better."""
_IMPLIED = (
    ("prompt", "beforeSubmitPrompt"),
    ("edits", "afterFileEdit"),
    ("result_json", "afterMCPExecution"),
    ("tool_name", "beforeMCPExecution"),  # its command is the server's
    ("output", "afterShellExecution"),
    ("command", "beforeShellExecution"),
    ("status", "stop"),
    ("content", "beforeReadFile"),
    ("text", "afterAgentResponse"),
)
"""The field that an event has and those below it do not: the 2025 beta wrote no names."""
Payload = dict[str, Any]


def claims(head: Head) -> bool:
    """Payloads with a conversation and a generation, or with Cursor's version."""
    if b"conversation_id" not in head.data and b"cursor_version" not in head.data:
        return False  # without a look at any payload: every file of every agent is asked
    return any(_is_payload(value) for value in head_payloads(head))


def _is_payload(value: Payload) -> bool:
    if "cursor_version" in value:
        return True
    if "conversation_id" not in value or "properties" in value:
        return False
    name = value.get("hook_event_name")
    return "generation_id" in value or (isinstance(name, str) and name.lower() in _CANONICAL)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    talks: dict[str, Talk] = {}
    entries = Entries("hook")
    for payload, logged in iter_payloads(origin, tally, recover):
        name = str_of(payload.get("hook_event_name", payload.get("hook_type")))
        implied = (event for field, event in _IMPLIED if field in payload)
        event = _CANONICAL.get(name.lower(), name) if name else next(implied, "")
        ident = str_of(payload.get("conversation_id")) or str_of(payload.get("session_id"))
        if event in _NOISE:
            tally.noise += 1
        elif event not in _READERS:
            tally.unrecognise(event or "no event name", origin.path, logged.offset)
        elif not ident:
            tally.lose("missing-conversation-id", origin.path, logged.offset, event)
        else:
            # The command line puts the conversation's id there: that tells no turn.
            turn = request_id(payload.get("generation_id"))
            turn = turn if turn != ident else ""
            # The payload's own id: what it says, and which time it is said in this log.
            if event == "stop" and turn:  # An aborted turn is told twice (seen in October 2025).
                entry = f"stop:{ident}:{turn}"
            else:
                own = {k: v for k, v in payload.items() if k[:1] != "_" and k != "transcript_path"}
                entry = entries.of(msgspec.json.encode(own, order="sorted"))
            time = logged.time
            scribe = Scribe(
                ("cursor", ident), origin.path, logged.offset, time=time, rank=RANK, entry=entry
            )
            said = Said(payload, event, turn, talks.setdefault(ident, Talk()), scribe)
            said.tell_context(is_zoned=logged.moment is None or logged.moment.zoned)
            _READERS[event](said)
            said.talk.behind = logged.offset + 1
            yield from scribe.facts
    # The project that keeps the log, and the hooks that wrote it, in its `.cursor`.
    parents = Path(origin.path).absolute().parents
    above = next((parent for parent in parents if parent.name == ".cursor"), None)
    holder = str(above.parent) if above and (above / "hooks.json").is_file() else ""
    for ident, talk in talks.items():
        # Counts where no payload names the folder: the 2025 beta.
        if place := holder or folder_of(sorted(talk.paths)):
            scribe = Scribe(("cursor", ident), origin.path, talk.behind)
            scribe.note("workspace.path", place, Rank.LAST_RESORT)
            yield from scribe.facts


class Talk:
    """One conversation of a log: what was said before decides which step a part belongs to."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.calls: dict[str, tuple[str, str]] = {}
        """The last call of each likeness in this turn, which an event without an id tells of again: its
        id and its step. (An edit that failed has no such event: counting alone would give it that of
        the next edit of the file.)"""
        self.models: dict[str, str] = {}
        """Turn → its model: not every event of a turn names it."""
        self.noted: set[tuple[str, str]] = set()
        self.paths: set[str] = set()
        """The files that it is about."""
        self.behind = 0

    def close(self) -> None:
        """A turn began or ended."""
        self.steps.close()
        self.calls.clear()


class Said(NamedTuple):
    """One payload, and the scribe that writes down what it states."""

    payload: Payload
    event: str
    turn: str
    talk: Talk
    scribe: Scribe

    def tell_context(self, is_zoned: bool) -> None:
        """What every payload tells about the conversation; told once, and when it changes."""
        if model := self.text("model", "model_id"):
            self.talk.models[self.turn] = model if model != AUTO else ""
        roots = list_of(self.payload.get("workspace_roots"))
        notes = {
            "session_id": self.text("session_id") or self.scribe.key[1],
            "workspace.path": clean_path(str_of(roots[0] if roots else self.payload.get("cwd"))),
            "agent_version": self.text("cursor_version"),
            "transcript_path": self.text("transcript_path"),
            "composer_mode": self.text("composer_mode"),
            ZONE: "" if is_zoned else NO_ZONE,
        }
        told = {n: v for n, v in notes.items() if v and (n, v) not in self.talk.noted}
        self.talk.noted.update(told.items())
        note_all(self.scribe, told, RANK)
        self.talk.paths.add(clean_path(self.text("file_path")))

    def text(self, *names: str) -> str:
        values = (self.payload.get(name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), "")

    def number(self, *names: str) -> float | None:
        return number_of(self.payload, *names)

    def pick(self, *names: str) -> dict[str, Any]:
        """The fields of these names that say something."""
        return {n: v for n in names if (v := self.payload.get(n)) not in (None, "", [], {})}

    def read_prompt(self) -> None:
        self.talk.close()
        attachments = tuple(
            Attachment(
                kind=str(item.get("type") or "file"),
                path=clean_path(str_of(item.get("file_path", item.get("filePath")))),
            )
            for item in dicts_of(self.payload.get("attachments"))
        )
        self.talk.paths.update(item.path for item in attachments)
        self.scribe.message(
            id=self.scribe.entry, role="user", text=self.text("prompt"), request=self.turn,
            mode=self.text("composer_mode"), attachments=attachments,
        )  # fmt: skip

    def answer(self, step: str, **fields: Any) -> None:
        model = self.talk.models.get(self.turn, "")
        self.scribe.message(id=step, role="assistant", model=model, request=self.turn, **fields)

    def read_response(self) -> None:
        step = self.talk.steps.part("text", self.scribe.entry)
        self.answer(step, text=self.text("text", "response"))
        duration = self.number("duration_ms", "duration")
        if duration is not None:
            self.scribe.note("duration_ms", duration, RANK, on="message", subject=step)
        used = self.number("tokens_used")
        if used and not (self.number("input_tokens") or self.number("output_tokens")):
            # Of the response; nothing tells what else it may count.
            self.scribe.usage(subject=step, rank=1, completion=int(used))
        self.tell_tokens(rank=1)

    def read_thought(self) -> None:
        step = self.talk.steps.part("thinking", self.scribe.entry)
        spent = self.number("duration_ms")
        self.answer(
            step, thinking=self.text("text"), extra={"thinking_ms": spent} if spent else None
        )

    def tell_tokens(self, rank: int) -> None:
        """Tokens of the generation; input is told without what the cache gave and took. `stop` and
        `afterAgentResponse` tell the same figures: the former counts."""
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        counts = (self.number(name) for name in names)
        given, taken, read, written = (None if n is None else int(n) for n in counts)
        if given or taken:
            self.scribe.usage(
                on="request", subject=self.turn or self.scribe.entry, rank=rank,
                prompt=all_input(given, read, written), completion=taken, cached=read,
                cache_write=written,
            )  # fmt: skip

    def call(self, asked: dict[str, Any], rank: int) -> str:
        """The call, and the step that it belongs to: it has a turn though it may say nothing."""
        ident, step = self.talk.calls.get(asked["like"], ("", "")) if rank == AGAIN else ("", "")
        ident = ident or self.text("tool_use_id")
        step = step or self.talk.steps.part("call", self.scribe.entry)
        if rank == RANK and ident:
            self.talk.calls[asked["like"]] = (ident, step)
        extra = self.pick("agent_message", "sandbox", "url") or None
        self.scribe.call(**asked, id=ident, message=step, rank=rank, extra=extra)
        self.answer(step)
        return ident

    def read_tool_use(self) -> None:
        asked = called(self.text("tool_name"), self.payload.get("tool_input"))
        self.call(asked, RANK)
        self.talk.steps.began(asked["like"])

    def read_tool_result(self) -> None:
        name, given = self.text("tool_name"), self.payload.get("tool_input")
        ident, asked = self.text("tool_use_id"), called(name, given)
        failed, status = self.event == "postToolUseFailure", ""
        if failed:
            denied = self.text("failure_type") == "permission_denied"
            stopped = self.payload.get("is_interrupt") is True
            status = "denied" if denied else "interrupted" if stopped else "failed"
            self.talk.calls.pop(asked["like"], None)
        output = self.payload.get("tool_output", self.payload.get("tool_response"))
        text, details = output_of(self.payload.get("error_message") if failed else output)
        self.talk.steps.ended(asked["like"])
        self.scribe.returned(
            call=ident, name=name, arguments=asked["arguments"],
            like=asked["like"] if given is not None else "", text=text, details=details,
            failed=failed, status=status, duration_ms=self.number("duration", "duration_ms"),
        )  # fmt: skip
        if ident and given is not None:
            # Logs without the event before: the result names its call as well as that would.
            self.scribe.call(**asked, id=ident)

    def _echo(self, name: str, given: Any, output: Any) -> None:
        """An event of its own for a call that the tool hooks may have told already."""
        asked = called(name, given)
        if self.event.startswith("before"):
            self.call(asked, AGAIN)
            return
        text, details = output_of(output)
        self.scribe.returned(
            name=name, arguments=asked["arguments"], like=asked["like"], text=text,
            call=self.talk.calls.get(asked["like"], ("", ""))[0], details=details, rank=AGAIN,
            duration_ms=self.number("duration", "duration_ms"),
        )  # fmt: skip

    def read_shell(self) -> None:
        given = {"command": self.text("command"), **self.pick("cwd")}
        self._echo("Shell", given, self.payload.get("output"))

    def read_mcp(self) -> None:
        name = self.text("tool_name").removeprefix("MCP:")
        output = self.payload.get("result_json", self.payload.get("tool_output"))
        self._echo(f"MCP:{name}", self.payload.get("tool_input"), output)

    def read_edit(self) -> None:
        path = clean_path(self.text("file_path"))
        given = {"file_path": path, **self.pick("edits")}
        asked = called("edit_file", given) | {"files": ()}
        self.scribe.returned(
            name="edit_file", call=self.call(asked, AGAIN), like=asked["like"], rank=AGAIN,
            failed=False, files=(touch(path, edits_of(given) or [], tool="edit_file"),),
        )  # fmt: skip

    def mark(self, kind: str, data: dict[str, Any], subject: str = "", **fields: Any) -> None:
        self.scribe.mark(kind, data, subject, RANK, **fields)

    def read_tab_edit(self) -> None:
        edits = edits_of({"edits": self.payload.get("edits")})
        self.mark("tab_edit", touch(clean_path(self.text("file_path")), edits))

    def read_file(self) -> None:
        self.mark("file", {"path": clean_path(self.text("file_path")), "operation": "read"})

    def read_start(self) -> None:
        names = ("source", "is_background_agent", "composer_mode", "transcript_path")
        self.mark("start", self.pick(*names))

    def read_end(self) -> None:
        names = ("reason", "duration_ms", "final_status", "error_message", "is_background_agent")
        self.mark("end", self.pick(*names))

    def read_stop(self) -> None:
        self.talk.close()
        self.mark("turn_end", self.pick("status", "loop_count"), self.turn)
        self.tell_tokens(rank=0)

    def read_compaction(self) -> None:
        self.talk.steps.close()
        names = (
            "trigger", "context_usage_percent", "context_tokens", "context_window_size",
            "message_count", "messages_to_compact", "is_first_compaction",
        )  # fmt: skip
        data = self.pick(*names)
        before, gone = self.number("message_count"), self.number("messages_to_compact")
        if before is not None:
            data["messages_before"] = int(before)
            if gone is not None:
                data["messages_after"] = int(before - gone)
        self.mark("compaction", data)
        if self.number("context_usage_percent") is not None:
            self.scribe.note("context_usage", self.payload["context_usage_percent"], RANK)

    def read_subagent(self) -> None:
        """A sub-agent began or ended: told to its parent and to itself, where both have a name."""
        child, call = self.text("subagent_id"), self.text("tool_call_id")
        parent = self.text("parent_conversation_id") or self.scribe.key[1]
        above, below = ("cursor", parent), ("cursor", child)
        tie = {"name": self.text("subagent_type"), "tool_call_id": call}
        tie = {name: value for name, value in tie.items() if value}
        if self.event == "subagentStart" and child and child != parent:
            self.scribe.note("children", {"conversation_id": child, **tie}, key=above)
            self.scribe.note("parent", {"conversation_id": parent, **tie}, key=below)
            self.scribe.note("session_id", parent, RANK, key=below)
        names = (
            "subagent_id", "subagent_type", "subagent_model", "task", "description", "summary",
            "status", "duration_ms", "message_count", "tool_call_count", "loop_count",
            "modified_files", "agent_transcript_path", "is_parallel_worker", "git_branch",
        )  # fmt: skip
        kind = "subagent_start" if self.event == "subagentStart" else "subagent_end"
        self.mark(kind, self.pick(*names), call, key=above)


_READERS: dict[str, Callable[[Said], None]] = {
    "beforeSubmitPrompt": Said.read_prompt,
    "afterAgentResponse": Said.read_response,
    "afterAgentThought": Said.read_thought,
    "preToolUse": Said.read_tool_use,
    "postToolUse": Said.read_tool_result,
    "postToolUseFailure": Said.read_tool_result,
    "beforeShellExecution": Said.read_shell,
    "afterShellExecution": Said.read_shell,
    "beforeMCPExecution": Said.read_mcp,
    "afterMCPExecution": Said.read_mcp,
    "beforeReadFile": Said.read_file,
    "afterFileEdit": Said.read_edit,
    "afterTabFileEdit": Said.read_tab_edit,
    "sessionStart": Said.read_start,
    "sessionEnd": Said.read_end,
    "stop": Said.read_stop,
    "preCompact": Said.read_compaction,
    "subagentStart": Said.read_subagent,
    "subagentStop": Said.read_subagent,
}
_NOISE = frozenset(("workspaceOpen", "beforeTabFileRead", "Notification"))
"""Events that say nothing about a conversation."""
_CANONICAL = {name.lower(): name for name in (*_READERS, *_NOISE)} | {
    "userpromptsubmit": "beforeSubmitPrompt",
    "posttooluseerror": "postToolUseFailure",
}
"""Names in any case, and those of Claude Code's hooks, which Cursor runs too."""
