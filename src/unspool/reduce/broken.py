"""Broken lists: cut off, with a part missing, or not clean. What stands before the break is used."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from unspool import longtext
from unspool.facts import SnapshotSeen
from unspool.longjson import LongArray, decode_long, unescape
from unspool.longtext import is_long, is_utf8
from unspool.records import clean, is_too_deep, mend_escapes, recover_json
from unspool.reduce.listing import Call, Listing, elements, in_place


def read_broken(fact: SnapshotSeen) -> Listing | None:
    """All whole messages, and the cut-off one as far as it goes."""
    if is_long(len(fact.text)):
        return _read_long(fact)
    trouble = ""
    try:
        text = fact.text.decode("utf-8")
    except UnicodeDecodeError:
        text = fact.text.decode("utf-8", "replace")
        trouble = "invalid-utf8"
    try:
        if fact.escaped:
            text = json.loads(f'"{_close_escape(text)}"', strict=False)
    except (ValueError, RecursionError):
        return None
    whole = None if fact.broken else _whole_list(text + "]")
    if whole is None and not fact.broken and (mended := mend_escapes(text)) != text:
        text, trouble = mended, trouble or "invalid-escape"
        whole = _whole_list(text + "]")
    value = whole if whole is not None else recover_json(text) if text[:1] == "[" else None
    if not isinstance(value, list):
        return None
    messages = elements(value)
    calls = [Call(view, len(messages)) for view in in_place(fact.views)]
    listing = Listing(messages, calls, missing=whole is None)
    cut = whole is None and not fact.broken
    listing.trouble = trouble or ("messages-cut-off" if cut else "")
    return listing


def _whole_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return clean(value) if isinstance(value, list) and not is_too_deep(value) else None


def _close_escape(text: str) -> str:
    """The text without an escape that was cut in two at its end."""
    tail = len(text) - len(text.rstrip("\\"))
    return text[:-1] if tail % 2 else text


def _read_long(fact: SnapshotSeen) -> Listing | None:
    """The same of a very long text, which is held as few times as can be."""
    views, broken = in_place(fact.views), fact.broken
    trouble = "" if is_utf8(fact.text) else "invalid-utf8"
    try:
        text = _plain(fact, bool(trouble))
        del fact
        array = None if broken else _whole_array(text)
        if array is None and not broken:
            mended = longtext.mend(text)
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
        text = longtext.mend(b"".join((b'"', text))).text
        del text[:1]
    elif mended:
        text = longtext.mend(text).text
    if not fact.escaped:
        return bytearray(text)
    end = bytes(text[-100:])
    cut = (len(end) - len(end.rstrip(b"\\"))) % 2  # an escape that was cut in two
    return bytearray(unescape(memoryview(text)[: len(text) - cut]))


def _whole_array(text: bytearray) -> LongArray | None:
    """The array, which then has the text; None where it is not clean up to its end."""
    text += b"]"
    try:
        return LongArray(text)
    except ValueError:
        del text[-1:]
        return None


def _take_beginning(text: bytearray) -> Iterator[Any]:
    end = max(longtext.whole_elements(text), 1)
    rest = bytearray(text[end:].lstrip(b", "))
    del text[end:]
    text += b"]"
    closed = longtext.close(rest)
    del rest
    cut_off = [] if closed is None else [decode_long(closed)]
    return chain(LongArray(text).take(), cut_off)
