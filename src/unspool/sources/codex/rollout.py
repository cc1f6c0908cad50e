"""A rollout: one file of a thread, read from its first line to its last.

    {"timestamp":…,"type":"response_item","payload":{"type":"reasoning","summary":[…]}}
    {"timestamp":…,"type":"response_item","payload":{"type":"function_call","call_id":"c1",…}}
    {"timestamp":…,"type":"event_msg","payload":{"type":"token_count","info":{…}}}
    {"timestamp":…,"type":"response_item","payload":{"type":"function_call_output","call_id":"c1",…}}

One answer of the model is several items (reasoning, words, calls) that nothing but their place ties
together: it ends with its tokens, with a result, or with somebody else's words. So the reader goes
through the file in order and keeps what the lines before have said.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from unspool.facts import ROOT, AnyFact, Attachment, Problem, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.prompts.shapes import image_of
from unspool.sources.codex.patches import files_of_changes, files_of_patch
from unspool.sources.codex.records import BARE, LINE, Counts, Item, Line, Part, Payload, TokenInfo
from unspool.sources.codex.threads import find_asker, find_rollout
from unspool.sources.scribe import Scribe, title_of

NAME = "codex"

_INJECTED = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions for", "<turn_aborted>",
    "<permissions instructions>", "<hook_prompt ", "<skill>", "<recommended_plugins>",
    "<codex_internal_context ", "<subagent_notification>", "<user_shell_command>", "<model_switch>",
    "<collaboration_mode>", "<INSTRUCTIONS>", "<user_action>",
)  # fmt: skip
"""How messages begin that nobody typed, in files that do not say so themselves."""
_EXIT = re.compile(
    r'(?:Exit code: |Process exited with code |"exit_code": ?)(-?\d+)'
    r"|\A(Script failed|unsupported call)"
)
_FAILED = ("Script failed", "unsupported call")
_TASK = re.compile(r"\AMessage Type: (\w+)\n(?:.*\n)*?Payload:\n", re.MULTILINE)
_NOISE = frozenset((
    "world_state", "inter_agent_communication", "inter_agent_communication_metadata",
    "security_risk_score", "retained_context", "dynamic_tools_updated", "realtime_item",
))  # fmt: skip
_NOISE_EVENTS = frozenset((
    "task_started", "turn_started", "agent_reasoning", "agent_reasoning_raw_content",
    "agent_reasoning_section_break", "thread_settings_applied", "thread_goal_updated",
    "context_compacted", "mcp_tool_call_end", "web_search_end", "exec_command_end",
    "exec_command_begin", "patch_apply_begin", "view_image_tool_call", "sub_agent_activity",
    "item_started", "turn_diff", "plan_update", "thread_name_updated", "background_event",
))  # fmt: skip
_UNREAD = re.compile(
    rb'\{"timestamp":"[^"]{9,40}",(?:"ordinal":\d+,)?"type":"(?:%s|event_msg","payload":\{"type":"(?:%s))"'
    % ("|".join(sorted(_NOISE)).encode(), "|".join(sorted(_NOISE_EVENTS)).encode())
)
"""How lines begin that say nothing: they are not even decoded."""
_SHOWN_TWICE = frozenset(("UserMessage", "AgentMessage", "Reasoning"))
"""Items of the screen that stand among those of the model too."""
_NOISE_ITEMS = frozenset(("ghost_snapshot", "configuration_update"))
_CALLS = frozenset((
    "function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call",
    "image_generation_call",
))  # fmt: skip
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))
_ENDED = frozenset(("web_search_call", "image_generation_call"))
"""Tools that run at the model's side: the call is its own end."""


class Pending:
    """A call that waits for its output, and what ran meanwhile."""

    __slots__ = ("commands", "files", "written")

    def __init__(self, written: str) -> None:
        self.written = written
        self.commands: list[dict[str, Any]] = []
        self.files: list[dict[str, Any]] = []


_NOTHING_RAN = Pending("")


def read_rollout(origin: Origin, tally: Tally, recover: bool, thread: str) -> Iterator[AnyFact]:
    """The facts of one file. `thread` is its id where no line says it."""
    return _Rollout(origin, tally, recover, thread).read()


class _Rollout:
    def __init__(self, origin: Origin, tally: Tally, recover: bool, thread: str) -> None:
        self.origin = origin
        self.tally = tally
        self.recover = recover
        self.key = (NAME, thread)
        self.shift = 0
        """Added to offsets: what is read from another file stands before this one's lines."""
        self.met_header = False
        self.starts_at = 0
        """Lines below this ordinal are the parent's."""
        self.agent_path = "/root"
        self.folder = ""
        self.model = ""
        self.previous = ROOT
        """The last record of the chain."""
        self.turns: list[str] = []
        """What stood before each prompt: where a rollback leads to."""
        self.answer = ""
        """The id of the answer whose items are being read."""
        self.unpaid = ""
        """The last answer whose tokens are not told yet."""
        self.total: int | None = None
        self.ahead: tuple[Counts, Scribe] | None = None
        """Tokens that were told before the answer that they are of (0.47 to 0.55)."""
        self.pays_after = False
        """Whether tokens are told behind their answer, as all other versions do."""
        self.reviewing = False
        self.reviewers: set[str] = set()
        self.is_fork = False
        self.has_records = False
        self.pending: dict[str, Pending] = {}
        self.summary = ""
        self.repeats: dict[str, int] = {}
        self.prompts = 0
        self.spoken: list[tuple[Payload, int, str | None]] = []
        """Prompts and answers as events tell them, where and when: used where no item does."""
        self.stamp: str | None = None
        self.time: int | None = None
        """The moment of the last line, as written and in microseconds: many lines have the same."""

    def read(self) -> Iterator[AnyFact]:
        for line in iter_json_lines(
            self.origin, LINE, self.tally, self.recover, noise=_UNREAD, whole=True
        ):
            if isinstance(line, Problem):
                yield line
                continue
            offset, data, record = line
            yield from self._read_line(offset, data, record)
        if self.ahead is not None:
            counts, scribe = self.ahead
            self.tally.noise -= 1
            before = len(scribe.facts)
            self._report(counts, scribe, "call", self._moment())
            yield from scribe.facts[before:]
        if not self.prompts:
            # A rollout without items of the model: what its events tell is all there is.
            for payload, offset, stamp in self.spoken:
                scribe = self._scribe(offset, stamp)
                role = "user" if payload.type == "user_message" else "assistant"
                scribe.message(role=role, text=payload.message or "", rank=Rank.ECHO)
                yield from scribe.facts

    def _read_line(self, offset: int, data: bytes, line: Line) -> Iterable[AnyFact]:
        kind, payload = line.type, line.payload
        if payload is None:  # before 0.32
            if line.record_type:
                self.tally.noise += 1
                return ()
            payload = BARE.convert(msgspec.json.decode(data))
            kind = "response_item" if payload.type else "session_meta"
        if kind == "session_meta":
            return self._read_header(offset, payload, line)
        reader = _LINES.get(kind)
        if (
            kind in _NOISE
            or (line.ordinal is not None and line.ordinal < self.starts_at)
            or (kind == "event_msg" and self._says_nothing(payload, offset, line.timestamp))
            or (kind == "turn_context" and not self._goes_elsewhere(payload))
        ):
            self.tally.noise += 1
        elif reader is None:
            self.tally.unrecognise(kind or "no type", self.origin.path, offset)
        else:
            # The same line is one record, also where another file of the thread goes on from it.
            entry = f"{line.ordinal}@{line.timestamp}" if line.ordinal is not None else ""
            scribe = self._scribe(offset, line.timestamp or payload.timestamp, entry)
            reader(self, payload, line, scribe, offset)
            return scribe.facts
        return ()

    def _goes_elsewhere(self, payload: Payload) -> bool:
        """Whether a turn is run in another folder than the one before; the model may change, too."""
        self.model = payload.model or self.model
        moved = bool(payload.cwd) and payload.cwd != self.folder
        self.folder = payload.cwd or self.folder
        return moved

    def _says_nothing(self, payload: Payload, offset: int, stamp: str | None) -> bool:
        """Whether an event repeats what other lines tell, as most do."""
        if payload.type in ("user_message", "agent_message"):
            if not self.reviewing:
                self.spoken.append((payload, offset, stamp))
            return True
        if payload.type == "token_count":
            return self.reviewing or not self._is_counted(payload.info)
        if payload.type == "item_completed" and payload.item is not None:
            return not self.reviewing and payload.item.type in _SHOWN_TWICE
        return payload.type in _NOISE_EVENTS or not payload.type

    def _is_counted(self, info: TokenInfo | None) -> bool:
        """Whether a count is one of a response that nobody counted yet. Half of them repeat the total
        before; where a record per response stands beside them, they all do. A fork may begin with the
        last count of its parent."""
        total = info.total_token_usage.total_tokens if info and info.total_token_usage else None
        if info is None or total is None or total == self.total:
            return False
        inherited = self.is_fork and self.total is None and not self.unpaid
        self.total = total
        return info.last_token_usage is not None and not inherited and not self.has_records

    def _scribe(self, offset: int, time: str | None, entry: str = "") -> Scribe:
        if time != self.stamp:
            self.stamp, self.time = time, parse_time(time)
        return Scribe(self.key, self.origin.path, offset + self.shift, time=self.time, entry=entry)

    def _chain(self, payload: Payload, scribe: Scribe, prefix: str) -> str:
        """The id of a record of the chain, which the scribe is for from now on; the next follows it.

        Older items have no id: they are what they say, and which time they say so.
        """
        ident = payload.id or (f"{prefix}:{payload.call_id}" if payload.call_id else "")
        if not ident:
            digest = hashlib.sha256(msgspec.json.encode(payload)).hexdigest()[:16]
            number = self.repeats[digest] = self.repeats.get(digest, -1) + 1
            ident = f"{digest}:{number}" if number else digest
        scribe.entry, scribe.after = ident, self.previous
        self.previous = ident
        return ident

    # the header

    def _read_header(self, offset: int, payload: Payload, line: Line) -> Iterator[AnyFact]:
        if self.met_header:  # a fork repeats those of its parents
            self.tally.noise += 1
            return
        self.met_header = True
        self.key = (NAME, payload.id or self.key[1])
        self.starts_at = payload.subagent_history_start_ordinal or 0
        self.is_fork = payload.forked_from_id is not None
        self.folder = payload.cwd or ""
        scribe = self._scribe(offset, payload.timestamp or line.timestamp)
        scribe.note("agent", "Codex")
        for name, value in (
            ("agent_version", payload.cli_version),
            ("workspace.path", payload.cwd),
            ("originator", payload.originator),
            ("agent_name", payload.agent_nickname),
        ):
            if value:
                scribe.note(name, value)
        git = payload.git if isinstance(payload.git, dict) else {}
        for name, value in (
            ("workspace.branch", git.get("branch")),
            ("workspace.commit", git.get("commit_hash")),
            ("workspace.repository", git.get("repository_url")),
        ):
            if isinstance(value, str):
                scribe.note(name, value)
        # "source":{"subagent":{"thread_spawn":{"parent_thread_id":"…","agent_path":"/root/scout"}}}
        source = payload.source.get("subagent") if isinstance(payload.source, dict) else None
        spawn = source.get("thread_spawn") if isinstance(source, dict) else None
        spawn = spawn if isinstance(spawn, dict) else {}
        self.agent_path = payload.agent_path or str(spawn.get("agent_path") or "") or "/root"
        parent = payload.parent_thread_id or spawn.get("parent_thread_id")
        if source == "review" and not parent and scribe.time is not None:
            parent = find_asker(self.origin.path, self.key[1], payload.cwd or "", scribe.time)
        if isinstance(parent, str) and parent:
            scribe.note("parent", {"conversation_id": parent, "kind": "subagent"})
        elif payload.forked_from_id:
            scribe.note("parent", {"conversation_id": payload.forked_from_id, "kind": "fork"})
        if source:
            kind = source if isinstance(source, str) else "subagent"
            scribe.note("agent_type", str(spawn.get("agent_role") or kind))
        told = payload.base_instructions or payload.instructions
        instructions = told.get("text") if isinstance(told, dict) else told
        if isinstance(instructions, str) and instructions:
            scribe.message(id=f"{self.key[1]}:instructions", role="system", text=instructions)
        base = payload.history_base
        path = find_rollout(self.origin.path, base.thread_id) if base is not None else None
        if base is not None and path is None:
            scribe.note("partial", "beginning-missing")
        yield from scribe.facts
        if base is not None and path is not None:
            yield from self._read_base(path, base.end_ordinal_exclusive)

    def _read_base(self, path: str, end: int | None) -> Iterator[AnyFact]:
        """The lines that this thread goes on from: they stand only in the other file, and are told
        as if they stood before this one's."""
        other = _Rollout(self.origin, Tally(), self.recover, self.key[1])
        other.met_header = True
        lines: list[tuple[int, bytes, Line]] = []
        for line in iter_json_lines(Origin(path=path, name=path, source=NAME), LINE, Tally()):
            if isinstance(line, Problem):
                continue
            ordinal = line[2].ordinal
            if end is not None and ordinal is not None and ordinal >= end:
                break
            lines.append(line)
        other.shift = self.shift - 1 - (lines[-1][0] if lines else 0)
        header = lines[0][2].payload if lines else None
        base = header.history_base if header is not None else None
        before = find_rollout(path, base.thread_id) if base is not None else None
        if base is not None and before is not None:
            yield from other._read_base(before, base.end_ordinal_exclusive)
        for offset, data, record in lines:
            if record.type != "session_meta":
                yield from other._read_line(offset, data, record)
        for name in ("model", "previous", "turns", "total", "repeats", "prompts"):
            setattr(self, name, getattr(other, name))

    # what the model was sent, and what it said

    def _read_item(self, payload: Payload, line: Line, scribe: Scribe, offset: int) -> None:
        kind = payload.type
        self.reviewing = False  # what the model of this thread gets or says is no part of a review
        if kind in _NOISE_ITEMS:
            self.tally.noise += 1
        elif kind == "message" and payload.role == "assistant":
            text, _ = _content(payload.content)
            if line.metadata is not None and line.metadata.compaction_output:
                # Looks like an answer, and is the summary of the compaction that comes next.
                self._close()
                self.summary = text
                self.tally.noise += 1
            elif text:
                self._say(payload, scribe, text=text)
        elif kind == "message":
            self._read_message(payload, scribe)
        elif kind == "reasoning":
            parts = [*_texts(payload.summary), *_texts(payload.content)]
            hidden = {"encrypted_reasoning": 1} if payload.encrypted_content and not parts else None
            self._say(payload, scribe, thinking="\n\n".join(parts), extra=hidden)
        elif kind in _CALLS:
            self._read_call(payload, scribe)
        elif kind in _OUTPUTS:
            self._read_output(payload, scribe)
        elif kind == "agent_message":
            self._read_agent_message(payload, scribe)
        elif kind == "additional_tools":
            scribe.note("tool_definitions", payload.tools)
        elif kind in ("compaction", "context_compaction"):
            scribe.mark("compaction", {"encrypted": True})
        else:
            self.tally.unrecognise(kind or "item without a type", self.origin.path, offset)

    def _say(self, payload: Payload, scribe: Scribe, **fields: Any) -> None:
        """A part of the model's answer."""
        self._open(self._chain(payload, scribe, "call"), scribe)
        scribe.message(id=self.answer, role="assistant", model=self.model, **fields)

    def _open(self, ident: str, scribe: Scribe) -> None:
        """The answer that an item belongs to; its first item names it."""
        if self.answer:
            return
        self.answer = self.unpaid = ident
        if self.ahead is not None:
            counts, _ = self.ahead
            self.ahead, self.unpaid = None, ""
            self._report(counts, scribe, "message", ident)

    def _close(self) -> None:
        self.answer = ""

    def _read_message(self, payload: Payload, scribe: Scribe) -> None:
        self._close()
        text, attachments = _content(payload.content)
        role = "user" if payload.role == "user" else "system"
        kind = "injected" if role == "system" or _is_injected(payload, text) else ""
        before = self.previous
        ident = self._chain(payload, scribe, "message")
        if not kind:
            self.turns.append(before)
            self.prompts += 1
            typed = _typed(payload.content)
            if typed or text:
                scribe.note("title", title_of(typed or text), Rank.GUESS)
            scribe.message(id=ident, role=role, text=text, typed=typed, attachments=attachments)
            return
        scribe.message(id=ident, role=role, text=text, kind=kind, attachments=attachments)

    def _read_agent_message(self, payload: Payload, scribe: Scribe) -> None:
        """One agent to another: the task of a sub-agent, which has no other prompt, or its answer.

        {"author":"/root","recipient":"/root/scout","content":[{"type":"input_text","text":
        "Message Type: NEW_TASK\\n…Payload:\\n"},{"type":"encrypted_content",…}]}
        """
        self._close()
        text, _ = _content(payload.content)
        hidden = "".join(
            part.encrypted_content for part in payload.content or () if isinstance(part, Part)
        )
        readable = hidden if " " in hidden else ""
        header = _TASK.match(text)
        task = header is not None and header[1] == "NEW_TASK" and payload.author != self.agent_path
        words = (text[header.end() :] if header else text) + readable
        ident = self._chain(payload, scribe, "message")
        extra = {"author": payload.author, "recipient": payload.recipient}
        scribe.message(
            id=ident,
            role="user",
            text=words or text,
            kind="" if task else "notification",
            extra={name: value for name, value in extra.items() if value} or None,
        )
        if task:
            self.prompts += 1
        if task and words:
            scribe.note("title", title_of(words), Rank.GUESS)

    # tools

    def _read_call(self, payload: Payload, scribe: Scribe) -> None:
        ident = self._chain(payload, scribe, "call")
        if not self.answer:
            self._open(ident, scribe)
            scribe.message(id=ident, role="assistant", model=self.model)
        call = payload.call_id or ident
        given = payload.arguments if payload.arguments is not None else payload.input
        if given is None and payload.action:
            given = bytes(payload.action).decode("utf-8", "replace")
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        name = payload.name or payload.type.removesuffix("_call")
        self.pending[call] = Pending(text)
        files = files_of_patch(text) if name == "apply_patch" else []
        scribe.call(id=call, message=self.answer, name=name, arguments=text, files=tuple(files))
        if payload.type in _ENDED:
            scribe.returned(call=call, text=None, failed=False)

    def _read_output(self, payload: Payload, scribe: Scribe) -> None:
        self._close()
        call = payload.call_id or ""
        pending = self.pending.pop(call, _NOTHING_RAN)
        output = payload.output
        if isinstance(output, dict):  # an older shape: {"content": "…", "success": true}
            content = output.get("content")
            output = content if isinstance(content, str) else msgspec.json.encode(output).decode()
        text, attachments = _content(output, "")
        codes = [c["exit_code"] for c in pending.commands if c.get("exit_code") is not None]
        start = text[:400]
        told = _EXIT.search(start) if "xit" in start or start.startswith(_FAILED) else None
        if told and not codes:
            codes = [int(told[1]) if told[1] else 1]
        denied = "blocked by PreToolUse hook" in text[:400] or "rejected by user" in text[:200]
        details: dict[str, Any] = {}
        if pending.commands:
            if len(pending.commands) == 1 and pending.commands[0].get("output", "") in text:
                pending.commands[0].pop("output", None)  # the model got all of it
            details["commands"] = pending.commands
        elif codes:
            details["exit_code"] = codes[0]
        self._chain(payload, scribe, "output")
        scribe.returned(
            call=call,
            text=text,
            failed=any(codes) if codes else None,
            status="denied" if denied else "",
            details=details or None,
            files=tuple(pending.files),
            attachments=attachments,
        )
        agent = _spawned(text)
        if agent:
            scribe.note("child_id", agent, on="call", subject=call)

    def _read_shown(self, item: Item, scribe: Scribe) -> None:
        """What a turn did as the screen shows it; messages stand in the items of the model too."""
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
        elif item.type == "EnteredReviewMode":
            self._enter_review(item.user_facing_hint, scribe)
        elif item.type == "ExitedReviewMode":
            self.reviewing = False
            scribe.mark("review_end")
        if not scribe.facts:
            self.tally.noise += 1

    def _running(self, item: str, word: str) -> Pending | None:
        """The call that did it: by its id; where JavaScript called the tool, the first that waits
        and names what was done, else the first that waits."""
        if item in self.pending or not self.pending:
            return self.pending.get(item)
        escaped = msgspec.json.encode(word).decode()[1:-1]
        for pending in self.pending.values():
            if escaped in pending.written or Path(word).name in pending.written:
                return pending
        return next(iter(self.pending.values()))

    # everything else

    def _read_event(self, payload: Payload, line: Line, scribe: Scribe, offset: int) -> None:
        kind = payload.type
        if self.reviewing and self._is_reviewers(payload, scribe):
            self.tally.noise += not scribe.facts
        elif kind == "token_count" and payload.info and payload.info.last_token_usage:
            if self.unpaid or self.pays_after:
                self.pays_after = True
                self._pay(payload.info.last_token_usage, scribe, "")
            else:
                if self.ahead is not None:
                    self._report(self.ahead[0], scribe, "call", self._moment())
                self.ahead = (payload.info.last_token_usage, scribe)
                self.tally.noise += 1  # its tokens are told with the answer
        elif kind == "item_completed":
            self._read_shown(payload.item or Item(), scribe)
        elif kind in ("task_complete", "turn_complete"):
            self._close()
            if payload.error:
                self._fail(payload, scribe)
            else:
                scribe.mark("turn_end")
        elif kind in ("error", "stream_error"):
            self._fail(payload, scribe)
        elif kind == "turn_aborted":
            if self.answer:
                scribe.note("status", "interrupted", on="message", subject=self.answer)
            self._close()
            scribe.mark("turn_end", {"reason": payload.reason})
        elif kind == "thread_rolled_back":
            self._close()
            back = min(payload.num_turns or 0, len(self.turns))
            if back:
                self.previous = self.turns[-back]
                del self.turns[-back:]
            scribe.mark("rewind", {"turns": payload.num_turns})
        elif kind == "entered_review_mode":
            self._enter_review(payload.user_facing_hint, scribe)
        elif kind == "exited_review_mode":
            self.reviewing = False
            scribe.mark("review_end")
        elif kind == "patch_apply_end" and payload.call_id and payload.success is not None:
            scribe.returned(
                call=payload.call_id, text=None, failed=not payload.success, rank=Rank.ECHO
            )
        elif kind == "patch_apply_end":
            self.tally.noise += 1
        else:
            self.tally.unrecognise(f"event_msg.{kind}", self.origin.path, offset)

    def _enter_review(self, hint: str | None, scribe: Scribe) -> None:
        self._close()
        self.reviewing = True
        scribe.mark("review_start", {"hint": hint} if hint else None)

    def _is_reviewers(self, payload: Payload, scribe: Scribe) -> bool:
        """Whether an event is the reviewer's: until the review ends, its words and tokens are shown
        here, too. They are told in the file of its own thread, which only newer events name.

            {"type":"entered_review_mode",…}
            {"type":"token_count","info":{"total_token_usage":{"total_tokens":3175},…}}
            {"type":"exited_review_mode",…}
        """
        item, thread = payload.item, payload.thread_id
        if item is None:
            return payload.type == "patch_apply_end"
        if item.type in ("EnteredReviewMode", "ExitedReviewMode"):
            return False
        if thread and not self.shift and thread not in (self.key[1], *self.reviewers):
            self.reviewers.add(thread)
            scribe.note("children", {"conversation_id": thread, "kind": "subagent"})
        return True

    def _fail(self, payload: Payload, scribe: Scribe) -> None:
        """An error in place of an answer."""
        error = payload.error or payload.message or ""
        text = error.get("message") if isinstance(error, dict) else error
        if not isinstance(text, str):
            text = msgspec.json.encode(error).decode()
        ident = self._chain(payload, scribe, "error")
        scribe.message(id=ident, role="assistant", text=text, kind="error")

    def _read_turn_context(self, payload: Payload, line: Line, scribe: Scribe, _: int) -> None:
        scribe.note("workspace.path", payload.cwd)

    def _read_compacted(self, payload: Payload, line: Line, scribe: Scribe, _: int) -> None:
        self._close()
        history = payload.replacement_history or []
        if not self.prompts:  # the file begins with it: what was kept is all that is left
            for item in history:
                if item.type == "message" and item.role == "user":
                    self._read_message(item, scribe)
        summary = self.summary or payload.message or ""
        ident = self._chain(Payload(message=summary), scribe, "compaction")
        scribe.mark("compaction")
        scribe.message(id=ident, role="user", text=summary, kind="summary")
        self.summary = ""

    # tokens

    def _read_usage_record(self, payload: Payload, line: Line, scribe: Scribe, _: int) -> None:
        self.has_records = True
        self._pay(payload.usage, scribe, payload.response_id or "")

    def _pay(self, counts: Counts | None, scribe: Scribe, response: str) -> None:
        """The tokens of the answer whose items were read last; else of a call beside them, such as
        the one that made a summary."""
        self._close()
        subject, self.unpaid = self.unpaid, ""
        if subject and not self.summary:
            self._report(counts or Counts(), scribe, "message", subject)
        else:
            self._report(counts or Counts(), scribe, "call", response or self._moment())

    def _moment(self) -> str:
        return f"{self.previous}:{self.total}"

    def _report(
        self, counts: Counts, scribe: Scribe, on: Literal["message", "call"], subject: str
    ) -> None:
        scribe.usage(
            on=on,
            subject=subject,
            model=self.model,
            prompt=counts.input_tokens,
            completion=counts.output_tokens,
            cached=counts.cached_input_tokens,
            cache_write=counts.cache_write_input_tokens,
            reasoning=counts.reasoning_output_tokens,
        )


_LINES: dict[str, Callable[[_Rollout, Payload, Line, Scribe, int], None]] = {
    "response_item": _Rollout._read_item,
    "event_msg": _Rollout._read_event,
    "turn_context": _Rollout._read_turn_context,
    "compacted": _Rollout._read_compacted,
    "token_usage_record": _Rollout._read_usage_record,
}


def _texts(parts: list[Part] | str | None) -> list[str]:
    if isinstance(parts, str):
        return [parts] if parts else []
    return [part.text for part in parts or () if part.text]


def _content(
    content: str | list[Part] | None, between: str = "\n"
) -> tuple[str, tuple[Attachment, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    images = [part for part in content if part.image_url]
    attachments = tuple(image_of({"image_url": part.image_url}) for part in images)
    return between.join(part.text for part in content if part.text), attachments


def _typed(content: str | list[Part] | None) -> str | None:
    """What was typed, where the program wrapped pictures that came with it:

    [{"text":"<image name=[Image #1]>"},{"image_url":…},{"text":"</image>"},{"text":"What is it?"}]
    """
    parts = content if isinstance(content, list) else []
    if not any(part.text.startswith("<image ") for part in parts):
        return None
    words: list[str] = []
    inside = False
    for part in parts:
        inside = inside or part.text.startswith("<image ")
        if not inside and part.text:
            words.append(part.text)
        inside = inside and part.text != "</image>"
    return "\n".join(words)


def _is_injected(payload: Payload, text: str) -> bool:
    passthrough = payload.internal_chat_message_metadata_passthrough
    kinds = passthrough.content_item_kinds if passthrough else None
    if kinds:
        return not any(kind.startswith("user.") for kind in kinds)
    return text.lstrip().startswith(_INJECTED)


def _spawned(text: str) -> str | None:
    """The thread that `spawn_agent` started: {"agent_id":"01a1…","nickname":"Dalton"}."""
    if not text.startswith('{"agent_id":'):
        return None
    try:
        told = msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return None
    agent = told.get("agent_id") if isinstance(told, dict) else None
    return agent if isinstance(agent, str) else None
