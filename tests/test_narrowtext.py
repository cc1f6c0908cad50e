"""Narrow text: half as wide, and nothing is lost."""

from sys import getsizeof
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from unspool.io import longjson, longtext, narrowtext
from unspool.io.dirty_json import clean
from unspool.io.packing import Packer

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("😀🎉𐀀ab\n"))


@given(TEXTS)
def test_there_and_back(text: str) -> None:
    assert narrowtext.widen(narrowtext.narrow(text)) == text


@given(TEXTS, st.integers(1, 5))
def test_in_steps(text: str, step: int) -> None:
    made = narrowtext.narrow(text)
    with patch.object(longtext, "STEP", step):
        assert "".join(narrowtext.iter_steps(made)) == made
        assert b"".join(narrowtext.iter_bytes(made)) == text.encode()


@given(st.lists(TEXTS))
def test_put_together(pieces: list[str]) -> None:
    assert narrowtext.put_together(pieces) == narrowtext.narrow("".join(pieces))


def test_of_many_kinds() -> None:
    text = "".join(map(chr, range(0x1F300, 0x1F600))) * 3
    assert narrowtext.widen(narrowtext.narrow(text)) == text


def test_half_as_wide() -> None:
    text = "x" * 1000 + "😀"
    assert getsizeof(narrowtext.narrow(text)) * 1.8 < getsizeof(text)
    assert narrowtext.narrow("x" * 1000) == "x" * 1000


@given(st.recursive(TEXTS, lambda v: st.lists(v) | st.dictionaries(TEXTS, v), max_leaves=10))
def test_what_encodes_puts_it_together(value: object) -> None:
    made = narrowed(value)
    assert longjson.encode(made) == longjson.encode(value)
    assert Packer().encode(made) == Packer().encode(value)
    assert clean(made) == value


def narrowed(value: object) -> object:
    if isinstance(value, str):
        return narrowtext.narrow(value)
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    if isinstance(value, dict):
        return {narrowed(key): narrowed(item) for key, item in value.items()}
    return value
