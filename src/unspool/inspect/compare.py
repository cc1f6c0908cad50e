"""Compare: two trajectory files, conversation by conversation, in little memory.

Of the first file only an index is kept: for every conversation where its line begins and a hash of
the line. The second file is streamed; lines with equal hashes are equal, and only where they differ
are the two lines decoded and compared field by field. A key that holds null or an empty object is
one that is not there: other writers leave it out.
"""

import difflib
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
from unspool.io.door import read_json
from unspool.io.origins import Origin, iter_lines, open_origin, read_head
from unspool.io.values import list_of
from unspool.sinks import jsonl

Json = dict[str, Any]

SHOWN = 20
CONTEXT = frozenset(("context", "file_path"))
"""Fields that say where a conversation was found and what surrounded it, not what was said."""
PROGRESS_BYTES = 8_000_000
Progress = Callable[[int], None] | None
"""Takes how many bytes more are done; None where nobody listens."""

ABSENT = msgspec.UNSET
"""Stands for a value that one side does not have."""
_DIFF_LINES = 4000
"""Longer texts are shown from the first line that differs, not aligned."""


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
_BAD = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def compare(
    a: str,
    b: str,
    ignore: frozenset[str] = frozenset(),
    shown: int = SHOWN,
    progress: Callable[[int], Progress] | None = None,
) -> Comparison:
    """Compare two files; `ignore` names fields that do not count.

    `progress` gets the number of bytes that there are and gives what takes the bytes done.
    """
    report = Comparison()
    with plain_file(a) as first, plain_file(b) as second:
        sizes = (Path(origin.path).stat().st_size for origin in (first, second))
        advance = progress(sum(sizes)) if progress is not None else None
        index = Index()
        for offset, ident, line in _iter_ids(first, advance):
            if ident is None:
                report.unreadable += 1
            else:
                index.add(ident, offset, line)
        report.in_a = len(index.offsets)
        with open(first.path, "rb") as lines:
            for _, ident, line in _iter_ids(second, advance):
                if ident is None:
                    report.unreadable += 1
                    continue
                report.in_b += 1
                row = index.take(ident)
                if row is None:
                    report.only_in_b += 1
                    if len(report.ids_only_in_b) < shown:
                        report.ids_only_in_b.append(ident)
                elif index.hashes[row] == _hash(line):
                    report.equal += 1
                else:
                    other = _line_at(lines, index.offsets[row])
                    try:
                        one, two = lean(_decode(other)), lean(_decode(line))
                    except _BAD:  # the id alone could be read
                        report.unreadable += 1
                        continue
                    fields = [
                        name
                        for name in dict.fromkeys([*one, *two])
                        if name not in ignore and one.get(name, ABSENT) != two.get(name, ABSENT)
                    ]
                    if not fields:
                        report.equal += 1
                        continue
                    for name in fields:
                        report.fields[name] = report.fields.get(name, 0) + 1
                    change = Change(ident, fields)
                    if "messages" in fields:
                        pairs = zip_longest(messages_of(one), messages_of(two), fillvalue=ABSENT)
                        change.first_message = next(
                            (n for n, (x, y) in enumerate(pairs) if x != y), None
                        )
                    if CONTEXT.issuperset(fields):
                        report.different_context += 1
                        listed = report.context
                    else:
                        report.different_payload += 1
                        listed = report.payload
                    if len(listed) < shown:
                        listed.append(change)
            for offset in index.left():
                report.only_in_a += 1
                if len(report.ids_only_in_a) < shown:
                    line = _line_at(lines, offset)
                    report.ids_only_in_a.append(_decode(line)["conversation_id"])
    report.fields = dict(sorted(report.fields.items(), key=lambda item: (-item[1], item[0])))
    return report


class Index:
    """Where the conversations of a file lie; the k-th line of an id means the k-th in the other."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.hashes = array("Q")
        self._rows: dict[bytes, int] = {}
        """Conversation → the first of its rows that nobody took."""
        self._last: dict[bytes, int] = {}
        self._next: dict[int, int] = {}
        """A row → the next one with the same id."""

    def add(self, ident: str, offset: int, line: bytes) -> None:
        key, row = _key(ident), len(self.offsets)
        if key in self._rows:
            self._next[self._last.get(key, self._rows[key])] = row
            self._last[key] = row
        else:
            self._rows[key] = row
        self.offsets.append(offset)
        self.hashes.append(_hash(line))

    def take(self, ident: str) -> int | None:
        """The row of the next conversation with this id."""
        key = _key(ident)
        row = self._rows.pop(key, None)
        if row in self._next:
            self._rows[key] = self._next.pop(row)
        return row

    def left(self) -> Iterator[int]:
        """Where the conversations lie that nobody took."""
        rows = sorted([*self._rows.values(), *self._next.values()])
        return (self.offsets[row] for row in rows)


def _key(ident: str) -> bytes:
    return blake2b(ident.encode("utf-8", "replace"), digest_size=16).digest()


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


def _iter_ids(origin: Origin, advance: Progress) -> Iterator[tuple[int, str | None, bytes]]:
    """(offset, conversation id or None where the line is no conversation, line)."""
    reported = 0
    for offset, line in iter_lines(origin):
        ident: str | None = None
        try:
            ident = _ids.decode(line).conversation_id
        except msgspec.ValidationError:
            pass
        except _BAD:  # a conversation with half a character in it still has its id
            try:
                value = _decode(line).get("conversation_id")
                ident = value if isinstance(value, str) else None
            except _BAD:
                pass
        yield offset, ident, line
        if advance is not None and offset - reported > PROGRESS_BYTES:
            advance(offset - reported)
            reported = offset


def _line_at(lines: BinaryIO, offset: int) -> bytes:
    lines.seek(offset)
    return lines.readline().removeprefix(b"\xef\xbb\xbf").strip(b"\r\n\0 \t")


def _decode(line: bytes) -> Json:
    """The conversation as plain data."""
    try:
        return msgspec.json.decode(line, type=Json)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        saved = read_json(line)
        if saved.code or len(saved.values) != 1 or not isinstance(saved.values[0], dict):
            raise
        return saved.values[0]


def lean(value: Any) -> Any:
    """The value without keys that hold null or an empty object."""
    if isinstance(value, list):
        return [lean(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: lean(field) for name, field in value.items()}
    return {name: field for name, field in fields.items() if field is not None and field != {}}


class Pair(NamedTuple):
    """A conversation in both files; None where one of them lacks it."""

    a: Json | None
    b: Json | None
    number: int
    """Which of those with its id it is, from 1."""


def find_pair(a: str, b: str, ident: str, differ: Callable[[Json, Json], bool]) -> Pair:
    """The conversation with this id; of several the first that differs, else the first."""
    both = zip_longest(find_conversations(a, ident), find_conversations(b, ident))
    pairs = [Pair(one, two, number) for number, (one, two) in enumerate(both, 1)]
    for pair in pairs:
        if pair.a is None or pair.b is None or differ(pair.a, pair.b):
            return pair
    return pairs[0] if pairs else Pair(None, None, 1)


def find_conversations(path: str, ident: str) -> list[Json]:
    """The conversations of a file with this id, as plain data."""
    conversations: list[Json] = []
    with plain_file(path) as origin:
        for _, own_id, line in _iter_ids(origin, None):
            if own_id == ident:
                try:
                    conversations.append(lean(_decode(line)))
                except _BAD as error:
                    raise UnreadableOrigin(f"{path}: {ident}: {error}") from None
    return conversations


def messages_of(conversation: Json) -> list[Any]:
    return list_of(conversation.get("messages"))


def iter_differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Field by field, down to values that hold no others; lists item by item."""
    waiting: list[tuple[str, Any, Any]] = [(path, a, b)]
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
            yield Difference(place or "(all)", one, two)
            continue
        waiting += reversed(below)


def message_differences(a: Json, b: Json, index: int | None = None) -> list[Difference]:
    """How the messages differ, all of them or one."""
    differences: list[Difference] = []
    pairs = zip_longest(messages_of(a), messages_of(b), fillvalue=ABSENT)
    for number, (one, two) in enumerate(pairs):
        if (index is None or number == index) and one != two:
            differences += iter_differences(one, two, f"messages[{number}]")
    return differences


def text_diff(a: str, b: str) -> list[str]:
    """Two texts as the lines of a unified diff, without its header."""
    before, after = a.split("\n"), b.split("\n")
    if len(before) + len(after) > _DIFF_LINES:
        first = next(
            (n for n, (x, y) in enumerate(zip(before, after, strict=False)) if x != y),
            min(len(before), len(after)),
        )
        before, after = before[first : first + 10], after[first : first + 10]
        header = [f"@@ from line {first + 1}, ten lines of each @@"]
        return [*header, *(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
