"""Comparison: two trajectory files, conversation by conversation, in little memory.

Of the first file only an index is kept: for every conversation where its line begins and a hash of
the line. The second file is streamed; lines with equal hashes are equal, and only where they differ
are the two lines decoded and compared field by field.
"""

import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from unspool.errors import UnknownFormat, UnreadableOrigin
from unspool.inspect.differences import differing_fields, first_message
from unspool.io.dirty_json import salvage
from unspool.io.origins import Origin, iter_lines, open_origin, read_head
from unspool.sinks import jsonl

Json = dict[str, Any]

SHOWN = 20
PROGRESS_BYTES = 8_000_000
Told = Callable[[int], None] | None
"""What is told how many bytes more are done; None where nobody listens."""


class Change(msgspec.Struct, omit_defaults=True):
    """A conversation that is not the same in both files."""

    conversation_id: str
    fields: list[str]
    """The fields that differ."""
    first_message: int | None = None
    """The first message that differs."""


class Comparison(msgspec.Struct):
    """What comparing gave; of the ids, the first few of each kind."""

    in_a: int = 0
    in_b: int = 0
    equal: int = 0
    only_in_a: int = 0
    only_in_b: int = 0
    different_payload: int = 0
    different_context: int = 0
    """Different in their context and in nothing else."""
    unreadable: int = 0
    """Lines of either file that are no conversation."""
    fields: dict[str, int] = {}
    """Field → in how many conversations it differs."""
    ids_only_in_a: list[str] = []
    ids_only_in_b: list[str] = []
    payload: list[Change] = []
    context: list[Change] = []

    @property
    def same(self) -> bool:
        return not (
            self.only_in_a or self.only_in_b or self.different_payload or self.different_context
        )


class _Id(msgspec.Struct):
    conversation_id: str


_ids: msgspec.json.Decoder[_Id] = msgspec.json.Decoder(_Id)
_BAD = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@contextmanager
def plain_file(path: str) -> Iterator[Origin]:
    """The file as one that can be read at any place: one that is packed, or in UTF-16, is made
    plain for the time."""
    try:
        head = read_head(path)
        if head.data.strip() and not jsonl.claims(head):
            raise UnknownFormat(f"{path}: no trajectory JSONL")
        if head.plain:
            yield Origin(path, Path(path).name)
            return
        with tempfile.NamedTemporaryFile(prefix="unspool-", suffix=".jsonl") as copy:
            with open_origin(path) as packed:
                shutil.copyfileobj(packed, copy, 1 << 20)
            copy.flush()
            yield Origin(copy.name, Path(path).name)
    except OSError as error:
        raise UnreadableOrigin(f"{path}: {error.strerror or error}") from None


class Index:
    """Where the conversations of a file lie; the k-th line of an id means the k-th in the other."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.hashes = array("Q")
        self._rows: dict[bytes, int] = {}
        self._met = bytearray()
        self._repeats: dict[bytes, int] = {}
        self._taken: dict[bytes, int] = {}

    def add(self, ident: str, offset: int, line: bytes) -> None:
        key = _key(ident)
        if key in self._rows:
            number = self._repeats[key] = self._repeats.get(key, 0) + 1
            key = _key(ident, number)
        self._rows[key] = len(self.offsets)
        self.offsets.append(offset)
        self.hashes.append(_hash(line))
        self._met.append(0)

    def take(self, ident: str) -> int | None:
        """The row of the next conversation with this id."""
        key = _key(ident)
        row = self._rows.get(key)
        if row is not None and self._met[row]:
            number = self._taken[key] = self._taken.get(key, 0) + 1
            row = self._rows.get(_key(ident, number))
        if row is not None:
            self._met[row] = 1
        return row

    def left(self) -> Iterator[int]:
        """Where the conversations lie that nobody took."""
        return (self.offsets[row] for row, met in enumerate(self._met) if not met)


def _key(ident: str, number: int = 0) -> bytes:
    return blake2b(f"{number} {ident}".encode("utf-8", "replace"), digest_size=16).digest()


def _hash(line: bytes) -> int:
    return int.from_bytes(blake2b(line, digest_size=8).digest(), "little")


def _iter_ids(origin: Origin, told: Told) -> Iterator[tuple[int, str | None, bytes]]:
    """(offset, conversation id or None where the line is no conversation, line)."""
    reported = 0
    for offset, line in iter_lines(origin):
        try:
            ident: str | None = _ids.decode(line).conversation_id
        except msgspec.ValidationError:
            ident = None
        except _BAD:
            ident = _odd_id(line)
        yield offset, ident, line
        if told is not None and offset - reported > PROGRESS_BYTES:
            told(offset - reported)
            reported = offset


def _odd_id(line: bytes) -> str | None:
    """The id of a conversation with half a character in it."""
    try:
        ident = _decode(line).get("conversation_id")
    except _BAD:
        return None
    return ident if isinstance(ident, str) else None


def _decode(line: bytes) -> dict[str, Any]:
    """The conversation as plain data."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        found = salvage(line)
        if found.code or len(found.values) != 1 or not isinstance(found.values[0], dict):
            raise
        return found.values[0]


def compare(
    a: str,
    b: str,
    ignore: frozenset[str] = frozenset(),
    shown: int = SHOWN,
    progress: Callable[[int], Told] | None = None,
) -> Comparison:
    """Compare two files; `ignore` names fields that do not count.

    `progress` gets the number of bytes that there are and gives what is told the bytes done.
    """
    made = Comparison()
    with plain_file(a) as first, plain_file(b) as second:
        sizes = (Path(origin.path).stat().st_size for origin in (first, second))
        told = progress(sum(sizes)) if progress is not None else None
        index = Index()
        for offset, ident, line in _iter_ids(first, told):
            if ident is None:
                made.unreadable += 1
            else:
                index.add(ident, offset, line)
        made.in_a = len(index.offsets)
        with open(first.path, "rb") as lines:
            _stream(second, index, lines, made, ignore, shown, told)
            _take_left(index, lines, made, shown)
    made.fields = dict(sorted(made.fields.items(), key=lambda item: (-item[1], item[0])))
    return made


def _stream(
    origin: Origin,
    index: Index,
    lines: BinaryIO,
    made: Comparison,
    ignore: frozenset[str],
    shown: int,
    told: Told,
) -> None:
    for _, ident, line in _iter_ids(origin, told):
        if ident is None:
            made.unreadable += 1
            continue
        made.in_b += 1
        row = index.take(ident)
        if row is None:
            made.only_in_b += 1
            if len(made.ids_only_in_b) < shown:
                made.ids_only_in_b.append(ident)
        elif index.hashes[row] == _hash(line):
            made.equal += 1
        else:
            _take_change(ident, _line_at(lines, index.offsets[row]), line, made, ignore, shown)


def _line_at(lines: BinaryIO, offset: int) -> bytes:
    lines.seek(offset)
    return lines.readline().removeprefix(b"\xef\xbb\xbf").strip(b"\r\n\0 \t")


def _take_change(
    ident: str, a: bytes, b: bytes, made: Comparison, ignore: frozenset[str], shown: int
) -> None:
    try:
        one, two = _decode(a), _decode(b)
    except _BAD:  # the id alone could be read
        made.unreadable += 1
        return
    fields = [name for name in differing_fields(one, two) if name not in ignore]
    if not fields:
        made.equal += 1
        return
    for name in fields:
        made.fields[name] = made.fields.get(name, 0) + 1
    change = Change(ident, fields, first_message(one, two) if "messages" in fields else None)
    if fields == ["context"]:
        made.different_context += 1
        listed = made.context
    else:
        made.different_payload += 1
        listed = made.payload
    if len(listed) < shown:
        listed.append(change)


def _take_left(index: Index, lines: BinaryIO, made: Comparison, shown: int) -> None:
    for offset in index.left():
        made.only_in_a += 1
        if len(made.ids_only_in_a) < shown:
            made.ids_only_in_a.append(_decode(_line_at(lines, offset))["conversation_id"])


class Pair(NamedTuple):
    """A conversation in both files; None where one of them lacks it."""

    a: Json | None
    b: Json | None
    number: int
    """Which of those with its id it is, from 1."""


def find_pair(a: str, b: str, ident: str, differ: Callable[[Json, Json], bool]) -> Pair:
    """The conversation with this id; of several the first that differs, else the first."""
    found = zip_longest(find_conversations(a, ident), find_conversations(b, ident))
    pairs = [Pair(one, two, number) for number, (one, two) in enumerate(found, 1)]
    for pair in pairs:
        if pair.a is None or pair.b is None or differ(pair.a, pair.b):
            return pair
    return pairs[0] if pairs else Pair(None, None, 1)


def find_conversations(path: str, ident: str) -> list[Json]:
    """The conversations of a file with this id, as plain data."""
    made: list[Json] = []
    with plain_file(path) as origin:
        for _, found, line in _iter_ids(origin, None):
            if found == ident:
                try:
                    made.append(_decode(line))
                except _BAD as error:
                    raise UnreadableOrigin(f"{path}: {ident}: {error}") from None
    return made
