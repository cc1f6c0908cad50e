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
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Problem, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.sources.codex.contents import content_of, is_injected, texts_of, typed_of
from unspool.sources.codex.headers import instructions_of, path_of_agent, state_header
from unspool.sources.codex.records import BARE, LINE, Counts, Item, Line, Part, Payload
from unspool.sources.codex.threads import find_rollout
from unspool.sources.codex.tokens import Tokens, report
from unspool.sources.codex.tools import CALLS, OUTPUTS, Tools
from unspool.sources.scribe import Scribe, title_of

NAME = "codex"

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
_REVIEWS = {
    "entered_review_mode": "review_start",
    "exited_review_mode": "review_end",
    "EnteredReviewMode": "review_start",
    "ExitedReviewMode": "review_end",
}
_NOISE_ITEMS = frozenset(("ghost_snapshot", "configuration_update"))


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
        self.instructions = ""
        """What the header says that the model was told."""
        self.folder = ""
        self.model = ""
        self.previous = ROOT
        """The last record of the chain."""
        self.turns: list[str] = []
        """What stood before each prompt: where a rollback leads to."""
        self.answer = ""
        """The id of the answer whose items are being read."""
        self.tokens = Tokens()
        self.tools = Tools()
        self.reviewing = False
        self.reviewers: set[str] = set()
        self.is_fork = False
        self.summary = ""
        self.repeats: dict[str, int] = {}
        self.prompts = 0
        self.spoken: list[tuple[Payload, int, str | None]] = []
        """Prompts and answers as events tell them, where and when: used where no item does."""
        self.stamp: str | None = None
        self.time: int | None = None
        """The moment of the last line, as written and in microseconds: many lines have the same."""

    def read(self) -> Iterator[AnyFact]:
        for line in iter_json_lines(self.origin, LINE, self.tally, self.recover, noise=_UNREAD):
            if isinstance(line, Problem):
                yield line
                continue
            offset, data, record = line
            yield from self._read_line(offset, data, record)
        if self.tokens.ahead is not None:
            counts, scribe = self.tokens.ahead
            self.tally.noise -= 1
            before = len(scribe.facts)
            report(counts, scribe, self.model, "call", self._moment())
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
            return self.reviewing or not self.tokens.is_counted(payload.info, self.is_fork)
        if payload.type == "item_completed" and payload.item is not None:
            return not self.reviewing and payload.item.type in _SHOWN_TWICE
        return payload.type in _NOISE_EVENTS or not payload.type

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
        self.agent_path = path_of_agent(payload)
        self.instructions = instructions_of(payload)
        scribe = self._scribe(offset, payload.timestamp or line.timestamp)
        state_header(payload, self.origin.path, scribe)
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
        other.instructions = self.instructions
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
        for name in ("model", "previous", "turns", "repeats", "prompts"):
            setattr(self, name, getattr(other, name))
        self.tokens.total = other.tokens.total

    # what the model was sent, and what it said

    def _read_item(self, payload: Payload, line: Line, scribe: Scribe, offset: int) -> None:
        kind = payload.type
        self.reviewing = False  # what the model of this thread gets or says is no part of a review
        if kind in _NOISE_ITEMS:
            self.tally.noise += 1
        elif kind == "message" and payload.role == "assistant":
            text, _ = content_of(payload.content)
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
            parts = [*texts_of(payload.summary), *texts_of(payload.content)]
            hidden = {"encrypted_reasoning": 1} if payload.encrypted_content and not parts else None
            self._say(payload, scribe, thinking="\n\n".join(parts), extra=hidden)
        elif kind in CALLS:
            self._read_call(payload, scribe)
        elif kind in OUTPUTS:
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
        self.answer = ident
        self.tokens.open(ident, self.model, scribe)

    def _close(self) -> None:
        self.answer = ""

    def _read_message(self, payload: Payload, scribe: Scribe) -> None:
        self._close()
        text, attachments = content_of(payload.content)
        role = "user" if payload.role == "user" else "system"
        if role == "system" and text and text == self.instructions:
            # Since models call tools from JavaScript, the instructions are a message, too
            # (cases/codex/instructions_twice): {"role":"developer",…["model.base_instructions"]}
            self.tally.noise += 1
            return
        kind = "injected" if role == "system" or is_injected(payload, text) else ""
        before = self.previous
        ident = self._chain(payload, scribe, "message")
        typed = None if kind else typed_of(payload.content)
        if not kind:
            self.turns.append(before)
            self.prompts += 1
            if typed or text:
                scribe.note("title", title_of(typed or text), Rank.GUESS)
        scribe.message(
            id=ident, role=role, text=text, kind=kind, typed=typed, attachments=attachments
        )

    def _read_agent_message(self, payload: Payload, scribe: Scribe) -> None:
        """One agent to another: the task of a sub-agent, which has no other prompt, or its answer.

        {"author":"/root","recipient":"/root/scout","content":[{"type":"input_text","text":
        "Message Type: NEW_TASK\\n…Payload:\\n"},{"type":"encrypted_content",…}]}
        """
        self._close()
        text, _ = content_of(payload.content)
        hidden = "".join(
            part.encrypted_content for part in payload.content or () if isinstance(part, Part)
        )
        readable = hidden if " " in hidden else ""
        header = _TASK.match(text)
        task = header is not None and header[1] == "NEW_TASK" and payload.author != self.agent_path
        words = (text[header.end() :] if header else text) + readable
        ident = self._chain(payload, scribe, "message")
        between = {"author": payload.author, "recipient": payload.recipient}
        extra = {name: agent for name, agent in between.items() if agent} or None
        kind = "" if task else "notification"
        scribe.message(id=ident, role="user", text=words or text, kind=kind, extra=extra)
        if task:
            self.prompts += 1
            scribe.notes({"title": title_of(words)}, Rank.GUESS)

    def _read_call(self, payload: Payload, scribe: Scribe) -> None:
        ident = self._chain(payload, scribe, "call")
        if not self.answer:
            self._open(ident, scribe)
            scribe.message(id=ident, role="assistant", model=self.model)
        self.tools.state_call(payload, payload.call_id or ident, self.answer, scribe)

    def _read_output(self, payload: Payload, scribe: Scribe) -> None:
        self._close()
        self._chain(payload, scribe, "output")
        self.tools.state_output(payload, scribe)

    # everything else

    def _read_shown(self, item: Item, scribe: Scribe) -> None:
        """What a turn did as the screen shows it; messages stand in the items of the model too."""
        if item.type in _REVIEWS:
            self._review(_REVIEWS[item.type], item.user_facing_hint, scribe)
        else:
            self.tools.take_ran(item, scribe)
        if not scribe.facts:
            self.tally.noise += 1

    def _read_event(self, payload: Payload, line: Line, scribe: Scribe, offset: int) -> None:
        kind = payload.type
        if self.reviewing and self._is_reviewers(payload, scribe):
            self.tally.noise += not scribe.facts
        elif kind == "token_count" and payload.info and payload.info.last_token_usage:
            self._read_count(payload.info.last_token_usage, scribe)
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
        elif kind in _REVIEWS:
            self._review(_REVIEWS[kind], payload.user_facing_hint, scribe)
        elif kind == "patch_apply_end":
            if payload.call_id and payload.success is not None:
                failed = not payload.success
                scribe.returned(call=payload.call_id, text=None, failed=failed, rank=Rank.ECHO)
            self.tally.noise += not scribe.facts
        else:
            self.tally.unrecognise(f"event_msg.{kind}", self.origin.path, offset)

    def _review(self, mark: str, hint: str | None, scribe: Scribe) -> None:
        self.reviewing = mark == "review_start"
        if self.reviewing:
            self._close()
        scribe.mark(mark, {"hint": hint} if hint else None)

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
        if item.type in _REVIEWS:
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

    def _read_count(self, counts: Counts, scribe: Scribe) -> None:
        tokens = self.tokens
        if tokens.unpaid or tokens.pays_after:
            tokens.pays_after = True
            self._pay(counts, scribe, "")
            return
        if tokens.ahead is not None:
            report(tokens.ahead[0], scribe, self.model, "call", self._moment())
        tokens.ahead = (counts, scribe)
        self.tally.noise += 1  # its tokens are told with the answer

    def _read_usage_record(self, payload: Payload, line: Line, scribe: Scribe, _: int) -> None:
        self.tokens.has_records = True
        self._pay(payload.usage, scribe, payload.response_id or "")

    def _pay(self, counts: Counts | None, scribe: Scribe, response: str) -> None:
        """The tokens of the answer whose items were read last; else of a call beside them, such as
        the one that made a summary."""
        self._close()
        answer = self.tokens.take_unpaid()
        if answer and not self.summary:
            report(counts or Counts(), scribe, self.model, "message", answer)
        else:
            report(counts or Counts(), scribe, self.model, "call", response or self._moment())

    def _moment(self) -> str:
        return f"{self.previous}:{self.tokens.total}"


_LINES: dict[str, Callable[[_Rollout, Payload, Line, Scribe, int], None]] = {
    "response_item": _Rollout._read_item,
    "event_msg": _Rollout._read_event,
    "turn_context": lambda self, payload, line, scribe, _: scribe.note(
        "workspace.path", payload.cwd
    ),
    "compacted": _Rollout._read_compacted,
    "token_usage_record": _Rollout._read_usage_record,
}
