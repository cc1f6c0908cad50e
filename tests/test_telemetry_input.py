"""Telemetry in files of every make: what is merely odd is read, what is bad is counted in its place."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import cases, corpus, facts_of, reduce_all
from tests.telemetry import Event, answer, call, said
from unspool.facts import Problem
from unspool.io import door
from unspool.io.origins import Tally
from unspool.pipeline.discover import cut, discover
from unspool.trajectory import Trajectory, encode_trajectory


def conversation(ident: str, system: str = "be good") -> list[Event]:
    asked = [said("system", system), said("user", f"hi {ident}")]
    ids = {"conversation": ident, "modelCallId": f"{ident}-m", "headerRequestId": f"{ident}-r"}
    return [call(asked, 1, **ids), answer(f"bye {ident}", 2, **ids)]


EVENTS = [*conversation("a"), *conversation("b")]
LINES = "".join(json.dumps(made) + "\n" for made in EVENTS)


class Outcome:
    """What a file gives, read in ranges of so many bytes."""

    def __init__(
        self, path: Path, data: str | bytes, size: int = 1 << 26, recover: bool = False
    ) -> None:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        found = discover([str(path)])
        self.skipped = found.problems
        self.tally = Tally()
        facts = facts_of(cut(found.origins, size), self.tally, recover)
        self.trajectories: list[Trajectory] = reduce_all(facts)
        problems = [fact for _, fact in facts if isinstance(fact, Problem)]
        self.problems = [(problem.code, problem.offset) for problem in problems]

    @property
    def said(self) -> dict[str, str]:
        made = self.trajectories
        return {t.conversation_id: "".join(m.role[0] for m in t.messages) for t in made}


def flat(made: Event) -> Event:
    return {"name": made["name"], "time": made["time"], **made["data"]["baseData"]["properties"]}


def bag(made: Event) -> Event:
    return {**made, "data": None, "properties": made["data"]["baseData"]["properties"]}


def name_last(made: Event) -> Event:
    return {"data": made["data"], "time": made["time"], "name": made["name"]}


MAKES: dict[str, Callable[[list[Event]], str]] = {
    "array": json.dumps,
    "pretty array": lambda events: json.dumps(events, indent=2),
    "pretty objects": lambda events: "\n".join(json.dumps(made, indent=2) for made in events),
    "array of lines": lambda events: "[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n",
    "array of lines, brackets beside": lambda events: (
        "[" + ",\n".join(map(json.dumps, events)) + "]"
    ),
    "one line": lambda events: "".join(map(json.dumps, events)),
    "flat": lambda events: "\n".join(json.dumps(flat(made)) for made in events),
    "bag": lambda events: "\n".join(json.dumps(bag(made)) for made in events),
    "name last": lambda events: "\n".join(json.dumps(name_last(made)) for made in events),
    "mark": lambda events: "\ufeff" + json.dumps(events, indent=2),
    "crlf": lambda events: "\r\n".join(map(json.dumps, events)) + "\r\n",
    "zeros": lambda events: "\n\n".join(map(json.dumps, events)) + "\0" * 5000,
}


@pytest.mark.parametrize("system", ["be good", "be good. " * 20_000], ids=["short", "long"])
@pytest.mark.parametrize("make", MAKES)
def test_any_make_is_read_without_complaint(tmp_path: Path, make: str, system: str) -> None:
    """Also where the first record is longer than what is looked at to tell the format."""
    events = [*conversation("a", system), *conversation("b")]
    for size in (1 << 26, 5000):
        outcome = Outcome(tmp_path / "log.json", MAKES[make](events), size)
        assert outcome.said == {"a": "sua", "b": "sua"}
        assert outcome.problems == []
        assert outcome.skipped == []
        assert outcome.tally.records == 4


def test_pretty_printed_over_very_many_lines(tmp_path: Path) -> None:
    events = [*EVENTS, {**EVENTS[0], "padding": list(range(120_000))}]
    outcome = Outcome(tmp_path / "log.json", json.dumps(events, indent=1), 1 << 18)
    assert (outcome.said, outcome.problems) == ({"a": "sua", "b": "sua"}, [])


def test_telemetry_that_begins_with_noise(tmp_path: Path) -> None:
    noise = {"name": "GitHub.copilot-chat/request.sent", "properties": {"pad": "x" * 2000}}
    text = (json.dumps(noise) + "\n") * 60 + "\n".join(json.dumps(bag(made)) for made in EVENTS)
    assert Outcome(tmp_path / "log.jsonl", text).said == {"a": "sua", "b": "sua"}


def test_noise_that_is_not_decoded_hides_no_record(tmp_path: Path) -> None:
    """Lines of noise are told by their beginning; what is glued to one is read all the same."""
    base = {"name": "GitHub.copilot-chat/request.sent", "properties": {"pad": "x"}}
    noise = json.dumps({"time": "2026-01-05T09:00:00.000Z", "data": {"baseData": base}})
    first, *others = [
        {"time": f"2026-01-05T09:00:0{number}.000Z", "data": {"baseData": bag(made)}}
        for number, made in enumerate(EVENTS)
    ]
    lines = [noise + json.dumps(first), *(json.dumps(made) for made in others), noise]
    outcome = Outcome(tmp_path / "log.jsonl", "\n".join(lines))
    assert (outcome.tally.records, outcome.tally.noise) == (len(EVENTS) + 2, 2)
    assert [len(made.messages) for made in outcome.trajectories] == [3, 3]


def spoil(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


PRETTY = json.dumps(EVENTS, indent=1)
LAST = PRETTY.rindex('{\n  "name"')
DEEP = '{"name": ' + "[" * 10_000 + "]" * 10_000 + "}"

BAD: dict[str, tuple[str, list[tuple[str, int]], dict[str, str], tuple[int, int]]] = {
    "line cut off": (
        LINES + '{"name": "x", "da',
        [("truncated-json", len(LINES))],
        {"a": "sua", "b": "sua"},
        (5, 1),
    ),
    "array cut off": (PRETTY[:-200], [("truncated-json", LAST)], {"a": "sua", "b": "su"}, (4, 1)),
    "object cut off": (json.dumps(EVENTS[0], indent=1)[:-20], [("truncated-json", 0)], {}, (1, 1)),
    "deep line": (DEEP + "\n" + LINES, [("too-deep", 0)], {"a": "sua", "b": "sua"}, (5, 1)),
    "deep element": (f"[{DEEP},\n{PRETTY[1:]}", [("too-deep", 1)], {"a": "sua", "b": "sua"}, (5, 1)),
    "brackets": (LINES + "[" * 10_000 + "]" * 10_000, [("too-deep", len(LINES))],
                 {"a": "sua", "b": "sua"}, (5, 1)),
    "no telemetry in it": ('{"name": "engine.messages", "conversationId": \n what\n is\n this',
                           [("invalid-json", 0)], {}, (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_counted_where_it_stands(tmp_path: Path, what: str) -> None:
    """What can be used is used, and a record that was mended counts as one."""
    text, problems, told, counted = BAD[what]
    outcome = Outcome(tmp_path / "log.json", text)
    assert outcome.problems == problems
    assert outcome.said == told
    assert (outcome.tally.records, outcome.tally.problems) == counted


def test_recovered_is_one_record(tmp_path: Path) -> None:
    text = json.dumps(EVENTS[1], indent=1)[:-4]
    for data, place in ((text, 0), (LINES + json.dumps(EVENTS[0])[:-3], len(LINES))):
        outcome = Outcome(tmp_path / "log.json", data, recover=True)
        assert outcome.problems == [("recovered", place)]
        assert outcome.tally.problems == 0
        assert outcome.tally.records == data.count('"name"')


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_list_beyond_the_limit_is_used_up_to_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ascii_only: bool
) -> None:
    monkeypatch.setattr(door, "LONGEST_BYTES", 4000)
    events: list[Any] = [*conversation("a"), *conversation("b")]
    asked = [said("system", "be good 😀 " * 1000), said("user", "hi")]
    events[0]["data"]["baseData"]["properties"]["messagesJson"] = json.dumps(asked)
    text = "\n".join(json.dumps(event, ensure_ascii=ascii_only) for event in events)
    outcome = Outcome(tmp_path / "log.jsonl", text)
    assert outcome.problems == [("long-value", 0), ("messages-cut-off", 0)]
    assert outcome.said == {"a": "sa", "b": "sua"}
    assert outcome.trajectories[0].messages[0].content.startswith("be good 😀 be good 😀")
    assert outcome.tally.records == 4


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (json.dumps("be good"), "be good"),
        (
            json.dumps([{"type": "text", "text": "be"}, {"type": "text", "text": "good"}]),
            "be\ngood",
        ),
        ("undefined", None),
        ('"be \\ud83d good"', "be \ufffd good"),
        ('[{"type": "text", "te', None),
        ("be ~ good", "be \ufffd good"),
    ],
)
def test_the_system_prompt_beside_the_list(tmp_path: Path, option: str, told: str | None) -> None:
    """Whatever stands there, the run goes on."""
    asked = call(
        [said("user", "hi")], 1, request__option__system=option, request__option__tools=option
    )
    data = json.dumps(asked, ensure_ascii=False).encode().replace(b"~", b"\xff")
    (made,) = Outcome(tmp_path / "log.jsonl", data).trajectories
    assert [m.content for m in made.messages if m.role == "system"] == ([told] if told else [])
    encode_trajectory(made)


def test_damage_anywhere_ends_no_run(tmp_path: Path) -> None:
    """Bytes changed, cut out, put in: what is left is read, and all records are accounted for."""
    inputs = [
        path for case in cases("copilot_telemetry") for path in sorted(case.glob("input/*.json*"))
    ]
    whole = [path.read_bytes() for path in inputs if path.suffix != ".gz"]
    chance = random.Random(7)
    for _ in range(300):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(data) + 1)
            end = at + chance.choice((0, 1, 1, 40, 400, len(data)))
            data[at:end] = chance.choice(
                (
                    b"",
                    b"\xff",
                    b"\\",
                    b'"',
                    b"{",
                    b"]",
                    b"\0",
                    b"\\ud83d",
                    b"\n",
                    chance.choice(whole)[:300],
                )
            )
        outcome = Outcome(tmp_path / "log.jsonl", bytes(data), recover=chance.random() < 0.3)
        tally = outcome.tally
        assert tally.records >= tally.noise + tally.unrecognised + tally.problems
        for trajectory in outcome.trajectories:
            encode_trajectory(trajectory)


@pytest.mark.parametrize(
    "channels", [("GH-enhanced",), ("MSFT-internal",), ("MSFT-internal", "GH-enhanced")]
)
def test_real_telemetry_by_channel(tmp_path: Path, channels: tuple[str, ...]) -> None:
    """Either channel holds the whole conversation, and both together hold it once."""
    log = corpus("vscode", "telemetry", "two_round_turn.jsonl")
    if log is None:
        pytest.skip("no corpus")
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    chosen = [record for channel in channels for record in records if record["channel"] == channel]
    outcome = Outcome(tmp_path / "log.jsonl", "\n".join(map(json.dumps, chosen)))
    (made,) = outcome.trajectories
    assert [m.role[0] for m in made.messages] == list("suata")
    assert len(made.messages[2].tool_calls or ()) == 1
    assert outcome.problems == []
    named = "engine" if "GH-enhanced" in channels else "engine-request"
    assert {m.model_source for m in made.messages if m.role == "assistant"} == {named}
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (2100, 29)


def test_bytes_that_are_no_utf8_are_told_wherever_they_stand(tmp_path: Path) -> None:
    """In the words of a person, in an id, in a context; a replaced character that was sent is fine."""
    data = b"".join(
        b'{"name":"conversation.messageText","properties":{"conversationId":"a%d","source":"user",'
        b'"messageText":"hi %s","messageId":"m%s","fileExcerpt":"f%s"}}\n' % (number, *texts)
        for number, texts in enumerate(
            [
                (b"\xff", b"", b""),
                (b"", b"\xff", b""),
                (b"", b"", b"\xff"),
                (b"\xef\xbf\xbd", b"", b""),
            ]
        )
    )
    outcome = Outcome(tmp_path / "log.jsonl", data)
    assert [code for code, _ in outcome.problems] == ["invalid-utf8"] * 3
    assert len(outcome.trajectories) == 4
    assert outcome.trajectories[0].messages[0].content == "hi \ufffd"


def test_such_bytes_in_what_is_decoded_later(tmp_path: Path) -> None:
    """In a system prompt beside the list, and in the body of a message that lists name."""
    asked = call([said("user", "hi")], 1, request__option__system="be ~ good")
    data = json.dumps(asked).encode() + b"\n"
    for name, more in (
        ("message.added", {"messageUuid": "u", "messageJson": json.dumps(said("user", "ho ~"))}),
        ("modelCall.input", {"modelCallId": "c", "messageUuids": '["u"]'}),
    ):
        properties = {"conversationId": "other", "headerRequestId": "r", **more}
        event = {"name": f"model.{name}", "properties": properties}
        data += json.dumps(event).encode() + b"\n"
    outcome = Outcome(tmp_path / "log.jsonl", data.replace(b"~", b"\xff"))
    assert [code for code, _ in outcome.problems] == ["invalid-utf8"] * 2
    texts = [message.content for made in outcome.trajectories for message in made.messages]
    assert "be \ufffd good" in texts
    assert "ho \ufffd" in texts
