"""JSON inside of a JSON string, unescaped in pieces: the same as unescaped at once."""

import json
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unspool.reduce import quoted

TEXTS = st.text(st.sampled_from('ab\\"\n\u0001é行😀u d8')) | st.text()


def escaped(text: str, ascii_only: bool) -> bytes:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


@given(TEXTS, st.booleans(), st.integers(1, 20))
@example("😀" * 30, True, 1)
@example("\\" * 40, True, 3)
@example("x" * 60 + "行" * 20, False, 5)
def test_in_pieces_as_at_once(text: str, ascii_only: bool, step: int) -> None:
    inner = escaped(text, ascii_only)
    with patch.object(quoted, "STEP", step):
        assert quoted.unescape(inner, b"[", b"]") == b"[" + text.encode() + b"]"


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_lone_surrogate_is_replaced(step: int) -> None:
    inner = rb"aaaaaaaaaaaaaaaaaaaa\ud83d bbbbbbbbbbbbbbbbb\ude00\ud83d\ude00"
    with patch.object(quoted, "STEP", step):
        assert bytes(quoted.unescape(inner)).decode() == f"{'a' * 20}\ufffd {'b' * 17}\ufffd😀"


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    "bad", [rb"aaaaaaaaaaaaaaaaaaaaaaa\x", rb'aaaaaaaaaaaaaaaaaaa"b', rb"a\\\u12"]
)
def test_what_is_no_string_is_refused(step: int, bad: bytes) -> None:
    with patch.object(quoted, "STEP", step), pytest.raises(json.JSONDecodeError):
        quoted.unescape(bad)
