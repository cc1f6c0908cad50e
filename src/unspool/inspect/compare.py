"""Compare: two trajectory files, conversation by conversation, in little memory.

Of the first file only an index is kept: for every conversation where its line begins and a hash of
the line. The second file is streamed; lines with equal hashes are equal, and only where they differ
are the two lines decoded and compared field by field. A key that holds null or an empty object is
one that is not there: other writers leave it out.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from unspool.errors import UnknownFormat, UnreadableOrigin
from unspool.io.origins import Origin, iter_lines, open_origin, read_head
from unspool.io.values import list_of
from unspool.pipeline.job import Progress
from unspool.sinks import jsonl

Json = dict[str, Any]

SHOWN = 20
CONTEXT = frozenset(("context", "file_path"))
"""Fields that say where a conversation was found and what surrounded it, not what was said."""
PROGRESS_BYTES = 8_000_000

ABSENT = msgspec.UNSET
"""Stands for a value that one side does not have."""


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
    """Different in their context or file path and in nothing else."""
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


class Difference(msgspec.Struct):
    """One place where the two sides differ; a side that lacks the value leaves it out."""

    path: str
    a: Any = ABSENT
    b: Any = ABSENT


class _Id(msgspec.Struct):
    conversation_id: str


_ids: msgspec.json.Decoder[_Id] = msgspec.json.Decoder(_Id)
_HASHES = 2**64
_BAD = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def compare(
    a: str,
    b: str,
    ignore: frozenset[str] = frozenset(),
    shown: int = SHOWN,
    progress: Callable[[int], Progress | None] | None = None,
) -> Comparison:
    """Compare two files; `ignore` names fields that do not count.

    `progress` gets the number of bytes that there are and gives what takes the bytes done.
    """
    report = Comparison()
    with plain_file(a) as first, plain_file(b) as second:
        sizes = (Path(origin.path).stat().st_size for origin in (first, second))
        advance = progress(sum(sizes)) if progress is not None else None
        index: dict[bytes, int | None] = {}
        """The k-th conversation with an id → where its line begins and, in the same number, the hash of
        the line; None once the k-th of the other file was compared with it."""
        for offset, ident, line in _iter_ids(first, advance):
            if ident is None:
                report.unreadable += 1
                continue
            number = 0
            while (key := _key(ident, number)) in index:
                number += 1
            index[key] = offset * _HASHES + _hash(line)
        report.in_a = len(index)
        with open(first.path, "rb") as lines:
            for _, ident, line in _iter_ids(second, advance):
                if ident is None:
                    report.unreadable += 1
                    continue
                report.in_b += 1
                number = 0
                while (row := index.get(key := _key(ident, number))) is None and key in index:
                    number += 1
                if row is None:
                    report.only_in_b += 1
                    if len(report.ids_only_in_b) < shown:
                        report.ids_only_in_b.append(ident)
                    continue
                index[key] = None
                offset, hashed = divmod(row, _HASHES)
                if hashed == _hash(line):
                    report.equal += 1
                    continue
                try:
                    change = _compare_lines(ident, _line_at(lines, offset), line, ignore)
                except _BAD:  # the id alone could be read
                    report.unreadable += 1
                    continue
                if change is None:
                    report.equal += 1
                    continue
                for name in change.fields:
                    report.fields[name] = report.fields.get(name, 0) + 1
                if CONTEXT.issuperset(change.fields):
                    report.different_context += 1
                    listed = report.context
                else:
                    report.different_payload += 1
                    listed = report.payload
                if len(listed) < shown:
                    listed.append(change)
            for row in index.values():
                if row is not None:
                    report.only_in_a += 1
                    if len(report.ids_only_in_a) < shown:
                        line = _line_at(lines, row // _HASHES)
                        report.ids_only_in_a.append(_ids.decode(line).conversation_id)
    report.fields = dict(sorted(report.fields.items(), key=lambda item: (-item[1], item[0])))
    return report


def _compare_lines(ident: str, a: bytes, b: bytes, ignore: frozenset[str]) -> Change | None:
    """What differs; None where nothing does that counts."""
    one, two = _decode(a), _decode(b)
    fields = [
        name
        for name in dict.fromkeys([*one, *two])
        if name not in ignore and one.get(name, ABSENT) != two.get(name, ABSENT)
    ]
    if not fields:
        return None
    change = Change(ident, fields)
    if "messages" in fields:
        pairs = zip_longest(messages_of(one), messages_of(two), fillvalue=ABSENT)
        change.first_message = next((n for n, (x, y) in enumerate(pairs) if x != y), None)
    return change


def _key(ident: str, number: int) -> bytes:
    return blake2b(f"{ident}/{number}".encode("utf-8", "replace"), digest_size=16).digest()


def _hash(line: bytes) -> int:
    return int.from_bytes(blake2b(line, digest_size=8).digest(), "little")


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


def _iter_ids(origin: Origin, advance: Progress | None) -> Iterator[tuple[int, str | None, bytes]]:
    """(offset, conversation id or None where the line is no conversation, line)."""
    reported = 0
    for offset, line in iter_lines(origin):
        ident: str | None = None
        with suppress(*_BAD):
            ident = _ids.decode(line).conversation_id
        yield offset, ident, line
        if advance is not None and offset - reported > PROGRESS_BYTES:
            advance(offset - reported)
            reported = offset


def _line_at(lines: BinaryIO, offset: int) -> bytes:
    lines.seek(offset)
    return lines.readline().removeprefix(b"\xef\xbb\xbf").strip(b"\r\n\0 \t")


def _decode(line: bytes) -> Json:
    """The conversation as plain data."""
    plain: Json = lean(msgspec.json.decode(line, type=Json))
    return plain


def lean(value: Any) -> Any:
    """The value without keys that hold null or an empty object."""
    if isinstance(value, list):
        return [lean(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: lean(field) for name, field in value.items()}
    return {name: field for name, field in fields.items() if field is not None and field != {}}


class Pair(msgspec.Struct):
    """A conversation in both files; None where one of them lacks it."""

    number: int
    """Which of those with its id it is, from 1."""
    a: Json | None
    b: Json | None
    differences: list[Difference]


def compare_one(a: str, b: str, ident: str, pick: Callable[[Json], Json]) -> Pair | None:
    """How what is picked of the conversation with this id differs; of several the first that differs,
    else the first. None where neither file has it."""
    first: Pair | None = None
    both = zip_longest(_iter_conversations(a, ident), _iter_conversations(b, ident))
    for number, (one, two) in enumerate(both, 1):
        differences = list(iter_differences(pick(one or {}), pick(two or {})))
        pair = Pair(number, one, two, differences)
        if differences or one is None or two is None:
            return pair
        first = first or pair
    return first


def _iter_conversations(path: str, ident: str) -> Iterator[Json]:
    with plain_file(path) as origin:
        for _, own_id, line in _iter_ids(origin, None):
            if own_id == ident:
                try:
                    yield _decode(line)
                except _BAD as error:
                    raise UnreadableOrigin(f"{path}: {ident}: {error}") from None


def messages_of(conversation: Json) -> list[Any]:
    return list_of(conversation.get("messages"))


def iter_differences(a: Any, b: Any) -> Iterator[Difference]:
    """Field by field, down to values that hold no others; lists item by item."""
    waiting: list[tuple[str, Any, Any]] = [("", a, b)]
    while waiting:
        place, one, two = waiting.pop()
        if one == two:
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            names = dict.fromkeys([*one, *two])
            below = [
                (f"{place}.{name}" if place else name, one.get(name, ABSENT), two.get(name, ABSENT))
                for name in names
            ]
        elif isinstance(one, list) and isinstance(two, list):
            pairs = zip_longest(one, two, fillvalue=ABSENT)
            below = [(f"{place}[{number}]", x, y) for number, (x, y) in enumerate(pairs)]
        else:
            yield Difference(place, one, two)
            continue
        waiting += reversed(below)
