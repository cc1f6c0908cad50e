"""The program against the plain second implementation, on made-up telemetry of many kinds."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import facts_of, origins_of, reduce_all
from tests.telemetry import Event, event, said, stamp
from tests.telemetry_oracle import Place, expect
from unspool import Trajectory
from unspool.pipeline.collect import Collection
from unspool.reduce import reduce_facts

TEXTS = st.text(st.sampled_from('ab \n"\\,[]{}é😀\u2028'), min_size=1, max_size=12).map(
    lambda text: "x" + text.rstrip() + "."
)
MARK = {"copilot_cache_control": {"type": "ephemeral"}}


def units(text: str, size: int) -> list[str]:
    """Pieces of so many UTF-16 units, as the sender cuts: also through a surrogate pair."""
    data = text.encode("utf-16-le")
    step = size * 2
    return [
        data[at : at + step].decode("utf-16-le", "surrogatepass")
        for at in range(0, max(len(data), 1), step)
    ]


class World:
    """One person at work: the calls of a conversation, as two channels would send them."""

    def __init__(self, draw: st.DrawFn, ident: str, start: int, back: bool) -> None:
        self.draw = draw
        self.ident = ident
        self.back = back
        self.second = start
        self.events: list[Event] = []
        self.calls = 0
        self.ids = draw(st.booleans())
        self.dots = draw(st.booleans())
        self.apart = draw(st.booleans())
        self.list: list[dict[str, Any]] = [] if self.apart else [said("system", "be good.")]

    def live(self) -> None:
        for turn in range(self.draw(st.integers(1, 3))):
            if turn and self.draw(st.integers(0, 4)) == 0:
                self.compact()
            kept = list(self.list)
            self.turn(turn)
            if self.back and self.draw(st.integers(0, 5)) == 0:  # goes back and asks otherwise
                self.list = kept
                self.turn(turn)

    def compact(self) -> None:
        text = f"<conversation-summary>\nWe came to {self.second}.\n</conversation-summary>"
        self.list = [*self.list[: 0 if self.apart else 1], said("user", text)]

    def turn(self, number: int) -> None:
        request = f"{self.ident}-r{self.second}"
        self.list.append(said("user", f"{number}: {self.draw(TEXTS)}"))
        for _ in range(self.draw(st.integers(0, 2))):
            tool = f"t{self.calls}"
            function = {"name": "look", "arguments": "{}"}
            text = f"{tool} {self.draw(TEXTS)}" if self.draw(st.booleans()) else ""
            self.call(request, text)
            made = [{"id": tool, "type": "function", "function": function}]
            self.list.append(said("assistant", text, tool_calls=made))
            self.list.append(said("tool", self.draw(TEXTS), tool_call_id=tool))
        text = f"answer {self.calls} {self.draw(TEXTS)}"
        self.call(request, text)
        self.list.append(said("assistant", text))

    def call(self, request: str, text: str) -> None:
        self.calls += 1
        ids: dict[str, str] = {"headerRequestId": request}
        if self.ids:
            ids["modelCallId"] = f"{self.ident}-m{self.calls}"
        options = {"request.option.model": json.dumps(f"asked-{self.calls}")}
        if self.apart:
            options |= self.cut("request.option.system", json.dumps("be good."))
        if not self.dots:
            options = {key.replace(".", "_"): value for key, value in options.items()}
        self.send({**ids, **options, **self.cut("messagesJson", json.dumps(self.marked()))})
        made = self.cut("messagesJson", json.dumps([said("assistant", text)], ensure_ascii=False))
        self.send({**ids, **made, "baseModel": f"model-{self.calls}"})

    def marked(self) -> list[dict[str, Any]]:
        """Cache marks move with every call."""
        at = self.draw(st.integers(0, len(self.list)))
        if at == len(self.list):
            return self.list
        message = self.list[at]
        odd = {**MARK, **message} if self.draw(st.booleans()) else {**message, **MARK}
        return [*self.list[:at], odd, *self.list[at + 1 :]]

    def cut(self, name: str, text: str) -> dict[str, str]:
        pieces = units(text, self.draw(st.sampled_from((17, 60, 8192))))
        if len(pieces) > 99:
            pieces = [text]
        return {name if n == 1 else f"{name}_{n:02d}": piece for n, piece in enumerate(pieces, 1)}

    def send(self, properties: dict[str, str]) -> None:
        self.second += 1
        made = event("engine.messages", None, conversationId=self.ident)
        made["time"] = stamp(self.second)
        made["data"]["baseData"]["properties"].update(properties)
        self.events.append(made)


@st.composite
def telemetry(draw: st.DrawFn, lossy: bool = True) -> list[Event]:
    """Conversations after one another, with some records lost and some sent twice."""
    made: list[Event] = []
    for number in range(draw(st.integers(1, 2))):
        world = World(draw, f"c{number}", number * 1000, back=lossy)
        world.live()
        made += world.events
    if lossy:
        lost = draw(st.sets(st.integers(0, len(made) - 1), max_size=len(made) // 3))
        made = [e for number, e in enumerate(made) if number not in lost]
        twice = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
        made += twice
    return made


@contextmanager
def spread(files: list[list[Event]], ascii_only: bool) -> Iterator[tuple[Path, list[Any]]]:
    """The events on disk, and their places."""
    folder = Path(tempfile.mkdtemp())
    placed: list[tuple[Place, Event]] = []
    try:
        for number, events in enumerate(files):
            path = folder / f"{number}.jsonl"
            lines: list[bytes] = []
            for made in events:
                placed.append(((str(path), sum(map(len, lines))), made))
                # Half a surrogate pair can only be written as an escape.
                text = json.dumps(made, ensure_ascii=ascii_only)
                try:
                    lines.append(text.encode() + b"\n")
                except UnicodeEncodeError:
                    lines.append(json.dumps(made).encode() + b"\n")
            path.write_bytes(b"".join(lines))
        yield folder, placed
    finally:
        shutil.rmtree(folder)


def unmerged(folder: Path) -> list[Trajectory]:
    """Without the tool calls of lists that lost: the plain rules have none of that."""
    collection = Collection()
    for source, fact in facts_of(origins_of(folder)):
        collection.add(source, fact)
    made: list[Trajectory] = []
    for key, gathered in collection.conversations.items():
        made += reduce_facts(key, gathered.all_facts(), merge_tools=False).trajectories
    return [trajectory for trajectory in made if trajectory.messages]


def words(trajectory: Trajectory) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (m.role, m.content, tuple(call.id for call in m.tool_calls or ()))
        for m in trajectory.messages
    ]


@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_same_as_the_plain_rules(data: st.DataObject) -> None:
    events = data.draw(telemetry())
    files: list[list[Event]] = [[], [], []]
    for made in events:
        files[data.draw(st.integers(0, 2))].append(made)
    with spread(files, data.draw(st.booleans())) as (folder, placed):
        found = {t.conversation_id: t for t in unmerged(folder)}
        expected = {ident: e for ident, e in expect(placed).items() if e.words}
    assert found.keys() == expected.keys()
    for ident, right in expected.items():
        made = found[ident]
        assert words(made) == right.words
        assert len(made.marks or ()) == max(0, right.segments - 1)
        models = [(m.model, m.model_source) for m in made.messages if m.role == "assistant"]
        for model, known in zip(models, right.models, strict=True):
            assert known in (model, (None, None))  # what no call tells, a list that lost may


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_head_in_one_file_and_tail_in_the_other(data: st.DataObject) -> None:
    events = data.draw(telemetry())
    at = data.draw(st.integers(0, len(events)))
    made = []
    for files in ([events], [events[:at], events[at:]]):
        with spread(files, True) as (folder, _):
            found = reduce_all(facts_of(origins_of(folder)))
        made.append([_anywhere(trajectory) for trajectory in found])
    assert made[0] == made[1]


@settings(max_examples=60, deadline=None)
@given(events=telemetry(lossy=False))
def test_nothing_that_was_said_last_is_lost(events: list[Event]) -> None:
    """Where all was logged and nobody went back, everything said stands there, in order."""
    with spread([events], True) as (folder, _):
        found = {t.conversation_id: t for t in unmerged(folder)}
    for ident, trajectory in found.items():
        said_there = [message.content for message in trajectory.messages if not message.copied]
        answers = [text for text in _answers(events, ident) if text]
        assert [text for text in said_there if text in answers] == answers
        assert said_there[-1] == answers[-1]


def _answers(events: list[Event], ident: str) -> Iterator[str]:
    for made in events:
        properties = made["data"]["baseData"]["properties"]
        if properties["conversationId"] == ident and "baseModel" in properties:
            pieces = [properties.get(f"messagesJson_{n:02d}", "") for n in range(2, 200)]
            text = properties["messagesJson"] + "".join(pieces)
            yield json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16"))[0]["content"]


def _anywhere(trajectory: Trajectory) -> dict[str, Any]:
    made = msgspec.to_builtins(trajectory)
    return {key: value for key, value in made.items() if key not in ("file_path", "origins")}
