"""Broken lists: cut off, with a part missing, or not clean. What stands before the break is used."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from unspool.facts import SnapshotSeen
from unspool.io.longjson import LongArray, decode_long, unescape
from unspool.io.longtext import close_broken, is_utf8, mend, split
from unspool.reduce.listing import Call, Listing, elements, in_place


def read_broken(fact: SnapshotSeen) -> Listing | None:
    """All whole messages, and the cut-off one as far as it goes. The text may be very long: it is held
    as few times as can be."""
    views, broken = in_place(fact.views), fact.broken
    trouble = "" if is_utf8(fact.text) else "invalid-utf8"
    try:
        text = _plain(fact, bool(trouble))
        del fact
        array = None if broken else _whole_array(text)
        if array is None and not broken:
            mended = mend(text)
            array = _whole_array(mended.text)
            trouble = trouble or ("invalid-escape" if array and mended.escapes else "")
            del mended
        missing = array is None
        values = array.take() if array is not None else _take_beginning(text)
        del text, array
    except (ValueError, RecursionError):
        return None
    messages = elements(values)
    calls = [Call(view, len(messages)) for view in views]
    listing = Listing(messages, calls, missing=missing)
    listing.trouble = trouble or ("messages-cut-off" if missing and not broken else "")
    return listing


def _plain(fact: SnapshotSeen, mended: bool) -> bytearray:
    """The list without its closing bracket, as it reads; ValueError where it cannot be read."""
    text: bytes | bytearray = fact.text
    if mended and fact.escaped:
        text = mend(b"".join((b'"', text))).text
        del text[:1]
    elif mended:
        text = mend(text).text
    if not fact.escaped:
        return bytearray(text)
    end = bytes(text[-100:])
    cut = (len(end) - len(end.rstrip(b"\\"))) % 2  # an escape that was cut in two
    made = unescape(memoryview(text)[: len(text) - cut])
    return made if isinstance(made, bytearray) else bytearray(made)


def _whole_array(text: bytearray) -> LongArray | None:
    """The array, which then has the text; None where it is not clean up to its end."""
    text += b"]"
    try:
        return LongArray(text)
    except ValueError:
        del text[-1:]
        return None


def _take_beginning(text: bytearray) -> Iterator[Any]:
    found = split(text, 1)
    closed = close_broken(text, found) if found.code else None
    del text[found.spans[-1][1] if found.spans else 1 :]
    text += b"]"
    cut_off = [] if closed is None else [decode_long(closed)]
    return chain(LongArray(text).take(), cut_off)
