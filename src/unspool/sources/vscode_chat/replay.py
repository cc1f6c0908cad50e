"""Chat replays and request logs (`.chatreplay.json`): every model call with its whole message list.

The lists overlap like those of telemetry and go the same way: as snapshots, in OpenAI's shape. The
format names no session. Requests whose lists begin alike are one conversation, and one whose list
begins from a summary is that of the request, of the calls or of the summary that it goes on from.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, Marked, Noted, SnapshotSeen
from unspool.io.origins import Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.prompts.shapes import arguments_text
from unspool.sources.vscode_chat.chats import NAME
from unspool.sources.vscode_chat.documents import lost, parse, read_whole
from unspool.sources.vscode_chat.edits import count_lines
from unspool.sources.vscode_chat.fields import bare_call_id
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.spoken import Spoken, text_of, thought_of
from unspool.sources.vscode_chat.uris import path_of

_TALK = frozenset((1, 2, 3, 4, 5, 7))
"""Locations of a conversation; the others are the program's own calls."""
_UTILITY = ("title", "progressMessages", "copilotLanguageModelWrapper", "summarize", "intent")


def read_replay(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    data, _ = read_whole(origin.path)
    value, code = parse(data.removeprefix(b"\xef\xbb\xbf"))
    if code or not isinstance(value, dict):
        yield lost(origin, tally, 0, code or "not-a-replay", data)
    if isinstance(value, dict):
        spoken = _spoken(value, origin, tally)
        # Where history was compacted, nothing after it shows what stood before.
        last = {(call.conversation, call.summary): call for call in spoken}
        begun: set[str] = set()
        for call in spoken:
            closes = last[call.conversation, call.summary] is call
            yield from _facts(call, closes, origin)
            if call.request and call.request not in begun:
                begun.add(call.request)
                yield _sent(call, origin)


class Names:
    """Which conversation a model call belongs to, as the calls go by."""

    def __init__(self) -> None:
        self._requests: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._summaries: dict[str, str] = {}

    def place(self, spoken: Spoken) -> None:
        """One that begins from a summary goes on from another: in the middle of a request, with
        calls that were made before, or with a summary that was written of it."""
        summary = spoken.summary
        if summary:
            calls = (self._calls[call] for call in spoken.calls if call in self._calls)
            written = (ident for text, ident in self._summaries.items() if text in summary)
            spoken.conversation = (
                self._requests.get(spoken.request)
                or next(calls, None)
                or next(written, None)
                or spoken.conversation
            )
        if spoken.request:
            self._requests[spoken.request] = spoken.conversation
        for call in spoken.calls:
            self._calls[call] = spoken.conversation

    def called(self, call: str, spoken: Spoken) -> None:
        self._calls[call] = spoken.conversation

    def summarised(self, spoken: Spoken) -> None:
        """A call that wrote a summary: it was given the history as the conversation has it."""
        self.place(spoken)
        text = ((spoken.answer or {}).get("content") or "").strip()
        if text:
            self._summaries[text] = spoken.conversation


def _spoken(value: dict[str, Any], origin: Origin, tally: Tally) -> list[Spoken]:
    """The model calls of conversations, in order; each with the tools that were run next."""
    prompts = value.get("prompts")
    made: list[Spoken] = []
    names = Names()
    number = 0
    for prompt in prompts if isinstance(prompts, list) else [value]:
        logs = prompt.get("logs") if isinstance(prompt, dict) else None
        for log in logs if isinstance(logs, list) else ():
            tally.records += 1
            number += 1
            kind = log.get("kind") if isinstance(log, dict) else None
            if kind == "request" and _is_talk(log):
                held = Spoken(log, number, text_of(prompt.get("prompt")))
                names.place(held)
                if held.messages:
                    made.append(held)
                else:
                    tally.noise += 1
            elif kind == "toolCall" and made:
                made[-1].tools.append(log)
                names.called(bare_call_id(text_of(log.get("id"))), made[-1])
            elif kind == "request" and "summar" in text_of(log.get("name")).lower():
                names.summarised(Spoken(log, number, ""))
                tally.noise += 1
            elif kind in ("element", "request", "toolCall", "error"):
                tally.noise += 1
            else:
                tally.unrecognise(f"replay {kind}", origin.path, number)
    return made


def _is_talk(log: dict[str, Any]) -> bool:
    name = text_of(log.get("name"))
    if any(word in name for word in _UTILITY):
        return False
    metadata = log.get("metadata")
    location = metadata.get("location") if isinstance(metadata, dict) else None
    return location in _TALK if isinstance(location, int) else "/" in name


def _facts(call: Spoken, closes: bool, origin: Origin) -> Iterator[AnyFact]:
    key: Key = (NAME, f"replay-{call.conversation}")
    yield _snapshot(key, call, call.messages, origin.path, False)
    answer = call.answer
    if answer is not None:
        yield _snapshot(key, call, [answer], origin.path, True)
    if closes and answer is not None and call.tools:
        # Nothing after it shows what the last tools gave: the list as the next call would see it.
        results = [_result(tool) for tool in call.tools]
        whole = [*call.messages, answer, *results]
        yield _snapshot(key, call, whole, origin.path, False, 2)
    yield from _tool_facts(key, call, origin.path)
    if call.prompt:
        view = call.view(origin.path, 0, False)
        yield Noted(
            key=key, origin=origin.path, offset=view.offset, number=9, time=view.time,
            on="request", subject=view.request, name="typed", value=call.prompt, rank=1,
        )  # fmt: skip


def _sent(call: Spoken, origin: Origin) -> Noted:
    """When the words that opened a request went out: with its first model call."""
    view = call.view(origin.path, 0, False)
    return Noted(
        key=(NAME, f"replay-{call.conversation}"), origin=origin.path, offset=view.offset,
        number=8, time=view.time, on="request", subject=call.request, name="timestamp",
        value=format_time(view.time), rank=1,
    )  # fmt: skip


def _tool_facts(key: Key, call: Spoken, origin: str) -> Iterator[AnyFact]:
    """What led to the tools that ran next, when they came back, and what they edited."""
    for number, tool in enumerate(call.tools):
        scribe = Scribe(key, origin, (call.number << 20) + number + 1)
        ident = bare_call_id(text_of(tool.get("id")))
        time = parse_time(tool.get("time"))
        if ident and time is not None:
            value = format_time(time)
            yield scribe.write(
                Noted, on="call", subject=ident, name="ended_at", value=value, time=time
            )
        # The model call's own entry holds no reasoning, and later lists need not repeat it.
        told = {"thinking": thought_of(tool.get("thinking")), "metadata": tool.get("toolMetadata")}
        for name, found in told.items():
            if ident and found:
                yield scribe.write(Noted, on="call", subject=ident, name=name, value=found)
        edits = tool.get("edits")
        for edit in edits if isinstance(edits, list) else ():
            path = path_of(edit.get("path")) if isinstance(edit, dict) else ""
            if path:
                added, removed = count_lines(edit.get("edits"))
                data = {"path": path, "lines_added": added, "lines_removed": removed}
                yield scribe.write(Marked, kind="file", subject=ident, data=data, time=time)


def _snapshot(
    key: Key, call: Spoken, messages: list[Any], origin: str, answered: bool, number: int = 0
) -> SnapshotSeen:
    text = msgspec.json.encode(messages)[:-1]
    view = call.view(origin, len(text), answered)
    if number:
        view = msgspec.structs.replace(view, call="", offset=view.offset + 1)
    return SnapshotSeen(
        key=key, origin=origin, offset=view.offset, number=number, time=view.time, text=text,
        escaped=False, views=(view,),
    )  # fmt: skip


def _result(tool: dict[str, Any]) -> dict[str, Any]:
    held = tool.get("response")
    pieces = held if isinstance(held, list) else [held]
    text = "\n".join(
        p if isinstance(p, str) else arguments_text(p) for p in pieces if p is not None
    )
    ident = bare_call_id(text_of(tool.get("id")))
    return {"role": "tool", "content": text, "tool_call_id": ident}
