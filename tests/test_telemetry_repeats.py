"""A list that goes on from the one before it is read as if its line stood alone."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.telemetry import PART, Event, call
from unspool.facts import AnyFact, Problem, SnapshotSeen
from unspool.io.door import UNREADABLE
from unspool.io.origins import Origin, Tally
from unspool.sources.copilot_telemetry import read, repeats
from unspool.sources.copilot_telemetry.envelope import bag_of

WORDS = ["the", "größe", "漢字", "“so”", "a\\b", "\n", '"', "[]", "}]", "{", "😀", "\u2028"]


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def growing_lists(rng: random.Random) -> list[list[dict[str, Any]]]:
    """Lists of one conversation: most go on from one before, some go back, some begin otherwise."""
    whole = [{"role": "system", "content": words(rng, 1500)}]
    lists = [list(whole)]
    for _ in range(12):
        step = rng.random()
        if step < 0.15 and len(whole) > 2:
            whole = whole[: rng.randint(1, len(whole))]
        elif step < 0.25:
            whole = [{"role": "system", "content": words(rng, 900)}, *whole[1:]]
        for _ in range(rng.randint(0, 3)):
            whole = [*whole, {"role": "user", "content": words(rng, rng.randint(0, 900))}]
        lists.append(list(whole))
    return lists


def spoil(event: Event, rng: random.Random) -> Event:
    """Some of the odd things that happen to a list on its way."""
    properties = event["data"]["baseData"]["properties"]
    names = [name for name in properties if name.startswith("messagesJson")]
    what = rng.random()
    if what < 0.08 and len(names) > 2:
        del properties[rng.choice(names[1:])]
    elif what < 0.16:
        properties[names[-1]] = properties[names[-1]][: rng.randint(0, 200)]
    elif what < 0.24:
        properties[names[0]] = properties.pop(names[0])  # no longer beside its other parts
    elif what < 0.32:
        mark = '"copilot_cache_control":{"type":"ephemeral"},'
        properties[names[0]] = properties[names[0]].replace('"role"', f'{mark}"role"', 1)
    elif what < 0.36:
        properties["messagesJson"] = json.loads('[[{"role":"user","content":"nested"}]]')
    elif what < 0.40:
        return {"name": event["name"], "time": event.get("time"), **properties}
    return event


def line_of(event: Event, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return json.dumps(event).encode()
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    data = text.encode()
    if rng.random() < 0.05:
        at = rng.randrange(200, len(data))
        data = data[:at] + b"\xff" + data[at:]
    return data


def facts_of(folder: Path, lines: list[bytes]) -> list[AnyFact]:
    path = folder / "log.jsonl"
    path.write_bytes(b"\n".join(lines))
    return [
        msgspec.structs.replace(
            fact,
            offset=0,
            **{"views": tuple(msgspec.structs.replace(v, offset=0) for v in fact.views)}
            if hasattr(fact, "views")
            else {},
        )
        for fact in read(Origin(path=str(path), name="log.jsonl"), Tally())
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_list_that_goes_on_is_read_as_one_that_stands_alone(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    lines: list[bytes] = []
    conversations = {name: iter(growing_lists(rng)) for name in ("c1", "c2")}
    for second in range(26):
        name = f"c{1 + second % 2}"
        made = call(next(conversations[name]), second, name, size=rng.choice((PART, 3000)))
        lines.append(line_of(spoil(made, rng) if rng.random() < 0.5 else made, rng))
    together = facts_of(tmp_path, lines)
    monkeypatch.setattr(repeats, "_SHORT_LINE", 1 << 30)
    assert together == [fact for line in lines for fact in facts_of(tmp_path, [line])]
    assert len(together) >= len(lines)


@pytest.mark.parametrize("seed", range(5))
def test_a_byte_that_is_no_utf8_is_seen_wherever_it_stands(seed: int) -> None:
    rng = random.Random(seed)
    shape = repeats.Repeats()
    messages: list[dict[str, Any]] = []
    for _ in range(8):
        messages.append({"role": "user", "content": "".join(rng.choices("añ漢 b", k=5000))})
        made = call(messages, conversation="ü", mode="é")
        line = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
        assert type(bag_of(shape.decode(line)).properties.messagesJson) is bytes
        for _ in range(20):
            at = rng.choice([i for i in rng.sample(range(len(line)), 400) if line[i] >= 0x80])
            with pytest.raises(UNREADABLE):
                shape.decode(line[:at] + b"\xff" + line[at + 1 :])


def _list(*texts: str) -> str:
    return json.dumps([{"role": "user", "content": text} for text in texts], separators=(",", ":"))


def _line(**properties: Any) -> str:
    """A line that is long enough to be compared with the one before."""
    given = {"conversationId": "c" * 36, "pad": "x" * 5000, **properties}
    event = {"time": "2026-03-01T01:01:00.000Z", "name": "x/engine.messages", "properties": given}
    return json.dumps(event, separators=(",", ":"))


A, B = _list("a"), _list("b", "c")
ODD_LINES = {
    # The first of two is not the one that counts, and repeats the list before.
    "a key twice": (_line(messagesJson=A)[:-2] + f',"messagesJson":{json.dumps(B)}}}}}', B, ()),
    "a part that is no text": (_line(messagesJson=B, messagesJson_02={"a": "b"}), B, ()),
    "a space before it": (_line(messagesJson=" " + B), B, ()),
    "a later part before it": (
        _line(messagesJson_03="zz}]", messagesJson=B),
        B,
        ("messages-part-missing",),
    ),
    "a bracket as an escape": (_line(messagesJson=B).replace('}]"', '}\\u005d"'), B, ()),
    "an empty bag": (_line(messagesJson=B)[:-1] + ',"data":{"properties":{}}}', B, ()),
}


@pytest.mark.parametrize(("line", "expected", "codes"), ODD_LINES.values(), ids=ODD_LINES)
def test_odd_lists_after_a_known_one(
    line: str, expected: str, codes: tuple[str, ...], tmp_path: Path
) -> None:
    """They are read as if they stood alone, and so is the line behind them."""
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([_line(messagesJson=A), line, _line(messagesJson=A)]))
    facts = list(read(Origin(str(path), path.name), Tally()))
    texts = [fact.text.decode() for fact in facts if isinstance(fact, SnapshotSeen)]
    assert texts[0] == texts[2] == A[:-1]
    assert texts[1].removesuffix("]") == expected.removesuffix("]")
    assert tuple(fact.code for fact in facts if isinstance(fact, Problem)) == codes
