"""Long JSON, in pieces: the same as at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.harness import case_id, cases, run_case
from unspool import longjson, trajectory
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
    with patch.object(longjson, "STEP", step):
        assert longjson.unescape(inner, b"[", b"]") == b"[" + text.encode() + b"]"


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_lone_surrogate_is_replaced(step: int) -> None:
    inner = rb"aaaaaaaaaaaaaaaaaaaa\ud83d bbbbbbbbbbbbbbbbb\ude00\ud83d\ude00"
    with patch.object(longjson, "STEP", step):
        assert bytes(longjson.unescape(inner)).decode() == f"{'a' * 20}\ufffd {'b' * 17}\ufffd😀"


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    "bad", [rb"aaaaaaaaaaaaaaaaaaaaaaa\x", rb'aaaaaaaaaaaaaaaaaaa"b', rb"a\\\u12"]
)
def test_what_is_no_string_is_refused(step: int, bad: bytes) -> None:
    with patch.object(longjson, "STEP", step), pytest.raises(json.JSONDecodeError):
        longjson.unescape(bad)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=20,
)


@pytest.fixture
def everything_is_long() -> Iterator[None]:
    with patch.object(longjson, "LONG", 8), patch.object(longjson, "STEP", 7):
        yield


@pytest.mark.usefixtures("everything_is_long")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES), st.sampled_from([None, 1]), st.booleans())
def test_a_long_array_is_what_it_is(
    values: list[Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    assert list(longjson.LongArray(text).take()) == values
    made = b"".join(longjson.encode_long(values))
    assert longjson.decode_long(bytearray(made)) == values
    assert made == msgspec.json.encode(values)


@pytest.mark.usefixtures("everything_is_long")
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b'[1,"cut off', ValueError),
        (b'["\\q is no escape"]', ValueError),
        (b'["half \\ud83d of a pair"]', ValueError),
        (b'["not \xff\xfe UTF-8"]', UnicodeDecodeError),
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
    assert run_case(case) == expected
