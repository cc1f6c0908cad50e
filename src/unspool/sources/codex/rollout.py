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
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.sources.codex.records import (
    BARE,
    LINE,
    Counts,
    Line,
    Part,
    Payload,
    TokenInfo,
    content_of,
    is_injected,
    texts_of,
    typed_of,
)
from unspool.sources.codex.threads import (
    instructions_of,
    lines_before,
    path_of_agent,
    state_header,
)
from unspool.sources.codex.tools import CALLS, OUTPUTS, Tools
from unspool.sources.scribe import Notebook, Scribe, chosen, title_of

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
_REVIEWS = {
    "entered_review_mode": "review_start",
    "exited_review_mode": "review_end",
    "EnteredReviewMode": "review_start",
    "ExitedReviewMode": "review_end",
}
_NOISE_ITEMS = frozenset(("ghost_snapshot", "configuration_update"))


class Rollout:
    """One file. `thread` is its id where no line says it."""

    def __init__(self, origin: Origin, tally: Tally, recover: bool, thread: str) -> None:
        self.origin = origin
        self.tally = tally
        self.recover = recover
        self.key = (NAME, thread)
        self.header: Payload | None = None
        self.noted = Notebook()
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
        """Tokens that were told before the answer that they are of, as 0.47 to 0.55 do."""
        self.pays_after = False
        """Whether they are told behind their answer."""
        self.has_records = False
        """Whether there is a record per response, with an event of the same counts beside it."""
        self.tools = Tools()
        self.reviewing = False
        self.summary = ""
        self.repeats: dict[str, int] = {}
        self.prompts = 0
        self.spoken: list[AnyFact] = []
        """Prompts and answers as events tell them: used where no item does."""

    def read(self) -> Iterator[AnyFact]:
        for line in iter_json_lines(
            self.origin, LINE, self.tally, self.recover, noise=_UNREAD, whole=True
        ):
            yield from self._read_line(*line)
        if self.ahead is not None:
            counts, scribe = self.ahead
            self.tally.noise -= 1
            counts.report(scribe, self.model, "call", self._moment())
            yield from scribe.facts[-1:]
        if not self.prompts:  # without items of the model, what its events tell is all there is
            yield from self.spoken

    def _read_line(self, offset: int, data: bytes, line: Line) -> Iterable[AnyFact]:
        """What a line states. Those of another file, which stood before, have offsets below zero."""
        kind, payload, ordinal = line.type, line.payload, line.ordinal
        if payload is None and not line.record_type:  # before 0.32
            payload = BARE.convert(msgspec.json.decode(data))
            kind = "response_item" if payload.type else "session_meta"
        starts_at = self.header.subagent_history_start_ordinal if self.header is not None else None
        copied = ordinal is not None and ordinal < (starts_at or 0) and offset >= 0
        if payload is None or kind in _NOISE or copied:
            self.tally.noise += 1
            return ()
        if kind == "session_meta":
            return self._read_header(offset, payload, line)
        # The same line is one record, also where another file of the thread goes on from it.
        entry = f"{ordinal}@{line.timestamp}" if ordinal is not None else ""
        time = parse_time(line.timestamp or payload.timestamp)
        scribe = Scribe(self.key, self.origin.path, offset, time=time, entry=entry)
        unknown = ""
        if kind == "response_item":
            unknown = self._read_item(payload, line, scribe)
        elif kind == "event_msg":
            unknown = self._read_event(payload, scribe)
        elif kind == "turn_context":
            self.model = payload.model or self.model
            self.noted.note(scribe, {"workspace.path": payload.cwd})
        elif kind == "compacted":
            self._read_compacted(payload, scribe)
        elif kind == "token_usage_record":
            self.has_records = True
            self._pay(payload.usage, scribe, payload.response_id or "")
        else:
            unknown = kind or "no type"
        if unknown:
            self.tally.unrecognise(unknown, self.origin.path, offset)
        else:
            self.tally.noise += not scribe.facts
        return scribe.facts

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

    def _read_header(self, offset: int, payload: Payload, line: Line) -> Iterator[AnyFact]:
        if self.header is not None:  # a fork repeats those of its parents
            self.tally.noise += 1
            return
        self.header = payload
        self.key = (NAME, payload.id or self.key[1])
        time = parse_time(payload.timestamp or line.timestamp)
        scribe = Scribe(self.key, self.origin.path, offset, time=time)
        state_header(payload, scribe)
        self.noted.note(scribe, {"workspace.path": payload.cwd})
        before = lines_before(self.origin.path, payload)
        if before is None:
            scribe.note("partial", "beginning-missing")
        yield from scribe.facts
        # Lines that stand only in the file that the thread goes on from are told as if they stood
        # before this one's; they are counted there.
        counted, self.tally = self.tally, Tally()
        for number, (data, record) in enumerate(before or (), -len(before or ())):
            yield from self._read_line(number, data, record)
        self._close()
        self.tally = counted

    # what the model was sent, and what it said

    def _read_item(self, payload: Payload, line: Line, scribe: Scribe) -> str:
        """What an item of the model states; its kind, where nobody knows it."""
        kind = payload.type
        self.reviewing = False  # what the model of this thread gets or says is no part of a review
        if kind == "message" and payload.role == "assistant":
            text, _ = content_of(payload.content)
            if line.metadata is not None and line.metadata.compaction_output:
                # Looks like an answer, and is the summary of the compaction that comes next.
                self._close()
                self.summary = text
            elif text:
                self._say(payload, scribe, text=text)
        elif kind == "message":
            self._read_message(payload, scribe)
        elif kind == "reasoning":
            parts = [*texts_of(payload.summary), *texts_of(payload.content)]
            hidden = {"encrypted_reasoning": 1} if payload.encrypted_content and not parts else None
            self._say(payload, scribe, thinking="\n\n".join(parts), extra=hidden)
        elif kind in CALLS:
            ident = self._chain(payload, scribe, "call")
            if not self.answer:
                self._open(ident, scribe)
                scribe.message(id=ident, role="assistant", model=self.model)
            self.tools.state_call(payload, payload.call_id or ident, self.answer, scribe)
        elif kind in OUTPUTS:
            self._close()
            self._chain(payload, scribe, "output")
            self.tools.state_output(payload, scribe)
        elif kind == "agent_message":
            self._read_agent_message(payload, scribe)
        elif kind == "additional_tools":
            scribe.note("tool_definitions", payload.tools)
        elif kind in ("compaction", "context_compaction"):
            scribe.mark("compaction", {"encrypted": True})
        elif kind not in _NOISE_ITEMS:
            return kind or "item without a type"
        return ""

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
            self.ahead[0].report(scribe, self.model, "message", ident)
            self.ahead, self.unpaid = None, ""

    def _close(self) -> None:
        self.answer = ""

    def _read_message(self, payload: Payload, scribe: Scribe) -> None:
        self._close()
        text, attachments = content_of(payload.content)
        role = "user" if payload.role == "user" else "system"
        if role == "system" and text and text == instructions_of(self.header or Payload()):
            # Since models call tools from JavaScript, the instructions are a message, too
            # (cases/codex/instructions_twice): {"role":"developer",…["model.base_instructions"]}
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
        own_path = path_of_agent(self.header or Payload())
        task = header is not None and header[1] == "NEW_TASK" and payload.author != own_path
        words = (text[header.end() :] if header else text) + readable
        ident = self._chain(payload, scribe, "message")
        between = {"author": payload.author, "recipient": payload.recipient}
        extra = chosen(between, between) or None
        kind = "" if task else "notification"
        scribe.message(id=ident, role="user", text=words or text, kind=kind, extra=extra)
        if task:
            self.prompts += 1
            scribe.notes({"title": title_of(words)}, Rank.GUESS)

    # everything else

    def _read_event(self, payload: Payload, scribe: Scribe) -> str:
        """What an event states; its kind, where nobody knows it."""
        kind, item = payload.type, payload.item
        shown = item.type if item is not None and kind == "item_completed" else kind
        if shown in _REVIEWS:
            self.reviewing = _REVIEWS[shown] == "review_start"
            if self.reviewing:
                self._close()
            hint = item.user_facing_hint if item is not None else payload.user_facing_hint
            scribe.mark(_REVIEWS[shown], {"hint": hint} if hint else None)
        elif kind in ("user_message", "agent_message"):
            if not self.reviewing:
                role = "user" if kind == "user_message" else "assistant"
                spoken = Scribe(self.key, self.origin.path, scribe.offset, time=scribe.time)
                spoken.message(role=role, text=payload.message or "", rank=Rank.ECHO)
                self.spoken += spoken.facts
        elif kind == "token_count":
            if payload.info is not None and not self.reviewing:
                self._read_count(payload.info, scribe)
        elif kind == "item_completed":
            if self.reviewing:
                self._name_reviewer(payload.thread_id, scribe)
            elif item is not None:
                self.tools.take_ran(item, scribe)
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
            returns_to = self.previous
            self._chain(payload, scribe, "rewind")
            scribe.mark("rewind", {"turns": payload.num_turns}, subject=returns_to)
        elif kind == "patch_apply_end":
            if payload.call_id and payload.success is not None and not self.reviewing:
                failed = not payload.success
                scribe.returned(call=payload.call_id, text=None, failed=failed, rank=Rank.ECHO)
        elif kind and kind not in _NOISE_EVENTS:
            return f"event_msg.{kind}"
        return ""

    def _name_reviewer(self, thread: str | None, scribe: Scribe) -> None:
        """Until a review ends, the reviewer's words and tokens are shown here, too. They are told in
        the file of its own thread, which only newer events name.

            {"type":"entered_review_mode",…}
            {"type":"token_count","info":{"total_token_usage":{"total_tokens":3175},…}}
            {"type":"exited_review_mode",…}
        """
        is_other = thread != self.key[1] and scribe.offset >= 0
        if is_other and self.noted.is_new(self.key, f"reviewer:{thread}", thread):
            scribe.note("children", {"conversation_id": thread, "kind": "subagent"})

    def _fail(self, payload: Payload, scribe: Scribe) -> None:
        """An error in place of an answer."""
        error = payload.error or payload.message or ""
        text = error.get("message") if isinstance(error, dict) else error
        if not isinstance(text, str):
            text = msgspec.json.encode(error).decode()
        ident = self._chain(payload, scribe, "error")
        scribe.message(id=ident, role="assistant", text=text, kind="error")

    def _read_compacted(self, payload: Payload, scribe: Scribe) -> None:
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

    def _read_count(self, info: TokenInfo, scribe: Scribe) -> None:
        """Half of the counts repeat the total before; where a record per response stands beside them,
        they all do. A fork may begin with the last count of its parent."""
        counts = info.last_token_usage
        total = info.total_token_usage.total_tokens if info.total_token_usage else None
        if total is None or total == self.total:
            return
        is_fork = self.header is not None and self.header.forked_from_id is not None
        first = self.total is None and not self.unpaid and scribe.offset >= 0
        self.total = total
        if counts is None or self.has_records or (is_fork and first):
            return
        if self.unpaid or self.pays_after:
            self.pays_after = True
            self._pay(counts, scribe, "")
            return
        if self.ahead is not None:
            self.ahead[0].report(scribe, self.model, "call", self._moment())
        # They are told with the answer.
        self.ahead = (counts, scribe)

    def _pay(self, counts: Counts | None, scribe: Scribe, response: str) -> None:
        """The tokens of the answer whose items were read last; else of a call beside them, such as
        the one that made a summary."""
        self._close()
        answer, self.unpaid = self.unpaid, ""
        counts = counts or Counts()
        if answer and not self.summary:
            counts.report(scribe, self.model, "message", answer)
        else:
            counts.report(scribe, self.model, "call", response or self._moment())

    def _moment(self) -> str:
        return f"{self.previous}:{self.total}"
