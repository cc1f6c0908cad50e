"""Long JSON, in pieces: the same as at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jiter
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.harness import case_id, cases, facts_of, origins_of, run_case
from unspool import trajectory
from unspool.facts import AnyFact, Problem
from unspool.io import longjson, longtext
from unspool.io.dirty_json import clean, salvage
from unspool.io.origins import Tally
from unspool.trajectory import Message, ToolCall, ToolFunction, Trajectory

TEXTS = st.text(st.sampled_from('ab\\"\n\u0001é行😀u d8')) | st.text()


def escaped(text: str, ascii_only: bool) -> bytes:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


@given(TEXTS, st.booleans(), st.integers(1, 20))
@example("😀" * 30, True, 1)
@example("\\" * 40, True, 3)
@example("x" * 60 + "行" * 20, False, 5)
def test_in_pieces_as_at_once(text: str, ascii_only: bool, step: int) -> None:
    inner = escaped(text, ascii_only)
    with patch.object(longtext, "STEP", step), patch.object(longtext, "LONG", 0):
        assert longjson.unescape(inner, b"[", b"]") == b"[" + text.encode() + b"]"


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_lone_surrogate_is_replaced(step: int) -> None:
    inner = rb"aaaaaaaaaaaaaaaaaaaa\ud83d bbbbbbbbbbbbbbbbb\ude00\ud83d\ude00"
    with patch.object(longtext, "STEP", step), patch.object(longtext, "LONG", 0):
        assert bytes(longjson.unescape(inner)).decode() == f"{'a' * 20}\ufffd {'b' * 17}\ufffd😀"


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    "bad", [rb"aaaaaaaaaaaaaaaaaaaaaaa\x", rb'aaaaaaaaaaaaaaaaaaa"b', rb"a\\\u12"]
)
def test_what_is_no_string_is_refused(step: int, bad: bytes) -> None:
    with (
        patch.object(longtext, "STEP", step),
        patch.object(longtext, "LONG", 0),
        pytest.raises(json.JSONDecodeError),
    ):
        longjson.unescape(bad)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=20,
)


@pytest.fixture
def everything_is_long() -> Iterator[None]:
    with patch.object(longtext, "LONG", 8), patch.object(longtext, "STEP", 7):
        yield


@pytest.mark.usefixtures("everything_is_long")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES), st.sampled_from([None, 1]), st.booleans())
def test_a_long_array_is_what_it_is(
    values: list[Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    assert clean(list(longjson.LongArray(text).take())) == values
    made = b"".join(longjson.encode_long(values))
    assert clean(longjson.decode_long(bytearray(made))) == values
    assert made == msgspec.json.encode(values)


@pytest.mark.usefixtures("everything_is_long")
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b'[1,"cut off', ValueError),
        (b'["\\q is no escape"]', ValueError),
        (b'["half \\ud83d of a pair"]', ValueError),
        (b'["not \xff\xfe UTF-8"]', ValueError),
        (b"[" * 300 + b"]" * 300, RecursionError),
        (b"{}", ValueError),
    ],
)
def test_an_unclean_array_is_refused_before_anything_is_taken(
    bad: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        longjson.LongArray(bad)


@pytest.mark.usefixtures("everything_is_long")
def test_a_long_message_travels_in_parts() -> None:
    message = Message(
        "assistant", "Hän sanoi 😀 " * 9, thinking="hm\n" * 9, extra={"n": [1.5, None]}
    )
    call = ToolCall(id="c", function=ToolFunction("edit", '{"text": "' + "x" * 99 + '"}'))
    message.tool_calls = [call]
    short = Message("user", "hi")
    made = Trajectory(conversation_id="c", messages=[short, message, short, message], source="s")
    with patch.object(trajectory, "_BATCH_CHARS", 10):
        assert trajectory.unpack_parts(trajectory.pack_parts(made)) == made
        assert b"".join(trajectory.encode_line(made)) == msgspec.json.encode(made) + b"\n"


@pytest.mark.usefixtures("everything_is_long")
@pytest.mark.parametrize("case", cases("copilot_telemetry"), ids=case_id)
def test_long_lists_give_the_same_conversations(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert clean(run_case(case)) == expected


@given(VALUES, st.data(), st.sampled_from([None, 1]))
def test_what_is_cut_off_is_closed(value: Any, data: st.DataObject, indent: int | None) -> None:
    """What the library makes of it stands in what is made of it here, but for a last number."""
    text = json.dumps([value], ensure_ascii=False, indent=indent)
    text = text[: data.draw(st.integers(1, len(text) - 1))]
    closed = longtext.close(text.encode())
    assert closed is not None
    expected = jiter.from_json(text.encode(), partial_mode="trailing-strings")
    assert without_numbers(json.loads(closed)) == without_numbers(expected)


def without_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [without_numbers(v) for v in value if isinstance(v, str | list | dict)]
    if isinstance(value, dict):
        return {k: without_numbers(v) for k, v in value.items() if isinstance(v, str | list | dict)}
    return value


@pytest.mark.parametrize("case", cases("copilot_telemetry"), ids=case_id)
def test_long_lines_give_the_same_facts_and_problems(case: Path) -> None:
    """Their texts are compared above: one that was mended may be spelled otherwise."""
    expected = outline(facts_of(origins_of(case / "input")))
    with patch.object(longtext, "LONG", 8), patch.object(longtext, "STEP", 64):
        assert outline(facts_of(origins_of(case / "input"))) == expected


def outline(facts: list[tuple[str, AnyFact]]) -> list[tuple[Any, ...]]:
    return [(type(f), f.key, f.place, f.code if isinstance(f, Problem) else "") for _, f in facts]


FAULTS = st.sampled_from(
    [
        b"",
        b'",1e999,"',
        b"\\q",
        b"\\ud83d",
        b"\\ud83d\\ude00",
        b"\t",
        b"\x01",
        b"\xff",
        b"\xf0\x9f",
        b"\\u12",
    ]
)


@given(
    st.lists(st.sampled_from([b'{"type":"a","b":"c"}', b'{"c":[1,"d"]}'])),
    FAULTS,
    st.sampled_from([b"", b" ", b", "]),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_long_line_is_salvaged_as_a_short_one(
    before: list[bytes], fault: bytes, between: bytes, cut: int, recover: bool
) -> None:
    """Objects one after the other, the last of which has a fault or is cut off."""
    fault = b"" if cut else fault
    line = between.join([*before, b'{"type":"a","b":["say ' + fault + b'x"]}'])
    line = line[: len(line) - cut].strip()
    expected = salvage(line, recover)
    with patch.object(longtext, "LONG", 4), patch.object(longtext, "STEP", 3):
        found = salvage(line, recover)
    assert found == expected


@pytest.mark.parametrize(
    "line", [b'{"a":"cut off', b'{"a":"x\\ud83d', b'{"a":"x\\ud83d\\u', b'{"a":"\\q, ']
)
def test_a_long_line_that_is_cut_off_is_told_so(line: bytes) -> None:
    with patch.object(longtext, "LONG", 4), patch.object(longtext, "STEP", 3):
        assert salvage(line).code == "truncated-json"


@pytest.mark.parametrize("value", [b"1e999", b"-12", b"0.5", b"null", b"true", b'"x"', b"[1e999]"])
def test_a_value_that_is_no_event_is_told_by_its_kind(value: bytes, tmp_path: Path) -> None:
    """On a line of its own, and in an array; however long."""
    line = next((cases("copilot_telemetry")[0] / "input").glob("*.jsonl")).read_bytes()
    for number, text in enumerate(
        (line + value + b"\n", b"[%s,%s]" % (line.splitlines()[0], value))
    ):
        (tmp_path / f"{number}.jsonl").write_bytes(text)
    expected, found = Tally(), Tally()
    facts_of(origins_of(tmp_path), expected)
    with patch.object(longtext, "LONG", 1):
        facts_of(origins_of(tmp_path), found)
    assert expected.unrecognised
    assert found == expected
