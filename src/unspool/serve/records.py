"""Records: what the agent itself wrote of a message, out of the raw copies that the store keeps.

The conversation is put together once more from its facts, and this time it is noted which facts each
message is made from: a fact knows its origin, and in a log also the byte at which its record stands.
Of a document or a database no fact knows the bytes: there the part is looked for that names the ids
of the facts, or else says the message's words: an object of the document, a row of a table.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from unspool.facts import Key, ToolReturned, View
from unspool.io.temporary import scratch
from unspool.pipeline.collect import rebuild
from unspool.pipeline.finish import finish
from unspool.reduce import Provenance, Statement
from unspool.serve.answers import RawRecord
from unspool.serve.recent import Recent
from unspool.store.batches import unpack_patch
from unspool.store.blocks import get_facts, iter_raw
from unspool.store.ids import row_id
from unspool.store.update import stored_card
from unspool.trajectory import Message, Trajectory, text_of

SHOWN_BYTES = 1_000_000
"""Of a record so much is shown."""
MOST = 20
_WORDS = 60
_SHORT = 3
"""Words of so few characters stand everywhere; they are looked for as a whole value."""
_LONGEST_KEY = 500
_PARSED_BYTES = 64_000_000
_JOINTS = re.compile(r"[:/#]")
_DATABASE = b"SQLite format 3\x00"


class Told(NamedTuple):
    """Where a message was told of, and by which ids."""

    origin: str
    offset: int
    ids: tuple[str, ...]


class Wanted(NamedTuple):
    """What a record of the message holds."""

    texts: tuple[str, ...]
    whole: bool
    """One of them is a whole value of the record; else it stands in one."""

    def is_in(self, value: str) -> bool:
        return value in self.texts if self.whole else any(text in value for text in self.texts)

    def in_bytes(self) -> list[bytes]:
        written = {form for text in self.texts for form in (text, json.dumps(text)[1:-1])}
        # Ids also stand in JSON within JSON, between other marks than quotes.
        if self.whole and max(map(len, self.texts), default=0) <= _SHORT:
            written = {form for text in written for form in (f'"{text}"', f'\\"{text}\\"')}
        return [text.encode() for text in written]

    def is_told(self, records: list[RawRecord]) -> bool:
        forms = self.in_bytes()
        return any(form in record.text.encode() for record in records for form in forms)


class Found(NamedTuple):
    records: list[RawRecord]
    note: str = ""


Of = TypeVar("Of")
Lines = list[list[list[Of]]]
"""What belongs to every message: of the conversation itself, and then of each of its branches."""


_traced: Recent[Lines[Told]] = Recent(8)
"""What the messages of the conversations that were asked for last were made from."""


def _trace(connection: sqlite3.Connection, key: Key) -> Lines[Statement]:
    stored = stored_card(connection, key)
    owner = stored.owner
    gathered = get_facts(connection, owner) if owner is not None else None
    if owner is None or gathered is None:
        return []
    provenance = Provenance()
    for trajectory, card in rebuild(owner, gathered, provenance=provenance).conversations:
        if card.key == key:
            finish(trajectory, unpack_patch(stored.patch))
            lines = [trajectory.messages, *(one.messages for one in trajectory.branches or ())]
            return [[provenance.of(message) for message in line] for line in lines]
    return []


def _told(statement: Statement) -> Told:
    names: tuple[str, ...] = ()
    if not isinstance(statement, View):
        own = (
            statement.call if isinstance(statement, ToolReturned) else getattr(statement, "id", "")
        )
        names = tuple(name for name in (own or statement.entry,) if name)
    return Told(statement.origin, statement.offset, names)


def records_of(
    connection: sqlite3.Connection, trajectory: Trajectory, version: str, line: int, number: int
) -> Found:
    """The records of a message: of the conversation (line 0) or of its n-th branch (line n)."""
    lines = [trajectory.messages, *(branch.messages for branch in trajectory.branches or ())]
    message = lines[line][number]
    key = (trajectory.source, trajectory.conversation_id)
    traced = _traced.get(
        key,
        version,
        lambda: [[[*map(_told, one)] for one in line] for line in _trace(connection, key)],
    )
    # (A daemon may have written the conversation anew since it was opened.)
    is_known = [*map(len, traced)] == [*map(len, lines)]
    told = traced[line][number] if is_known else []
    records = _find(connection, trajectory, message, told)
    if records:
        return Found(records[:MOST])
    paths = {one.origin for one in told} or {trajectory.file_path or ""}
    records = [record for path in sorted(paths) for record in _whole(connection, path)]
    if records:
        note = "No part of what was read is this message's alone. This is where it stands."
        return Found(records[:MOST], note)
    statements = _trace(connection, key)[line][number] if told else [message]
    note = "The store holds no copy of its record that anybody could read. This is what was read."
    texts = [(getattr(one, "origin", ""), msgspec.json.encode(one).decode()) for one in statements]
    return Found([_record(origin, None, "", text) for origin, text in texts[:MOST]], note)


def _find(
    connection: sqlite3.Connection, trajectory: Trajectory, message: Message, told: list[Told]
) -> list[RawRecord]:
    offsets: dict[str, set[int]] = {}
    for one in told:
        offsets.setdefault(one.origin, set()).add(one.offset)
    if not told:
        rows = connection.execute(
            "SELECT o.path FROM conversation_origins c JOIN origins o ON o.id = c.origin_id"
            " WHERE c.conversation_id = ?",
            (row_id(trajectory.source, trajectory.conversation_id),),
        )
        offsets = {path: set() for (path,) in rows}
    ways = [*_ways_to_know(message, told)]
    return _search(connection, offsets, ways) or _search(
        connection, {path: set() for path in _beside(connection, offsets)}, ways
    )


def _search(
    connection: sqlite3.Connection, places: dict[str, set[int]], ways: list[Wanted]
) -> list[RawRecord]:
    records: list[RawRecord] = []
    for wanted in ways:
        # Ids may lead to one part of the message (a call), and its words stand in another one.
        if records and (wanted.whole or wanted.is_told(records)):
            continue
        for path in sorted(places):
            offsets = sorted(places[path]) if not records else []
            records += islice(_from_origin(connection, path, offsets, wanted), MOST)
    return records


def _beside(connection: sqlite3.Connection, paths: Iterable[str]) -> list[str]:
    """Files that were kept because another one in their folder is read together with them: they
    state nothing by themselves (the values of Cursor's ItemTable, a file for each)."""
    folders = {str(Path(path).parent) for path in paths if path}
    rows = connection.execute(
        "SELECT path FROM origins o WHERE source != '' AND EXISTS (SELECT 1 FROM raw_traces r WHERE"
        " r.origin_id = o.id) AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.origin_id = o.id)"
    )
    return [path for (path,) in rows if str(Path(path).parent) in folders]


def _ways_to_know(message: Message, told: Sequence[Told]) -> Iterator[Wanted]:
    ids = {message.id, message.tool_call_id, *(name for one in told for name in one.ids)}
    if not any(ids):
        ids |= {call.id for call in message.tool_calls or ()}
    yield Wanted(tuple(sorted(ident for ident in ids if ident)), True)
    for text in (text_of(message) or message.content, message.thinking or ""):
        longest = max(_plain_pieces(text), key=len, default="")[:_WORDS].strip()
        if len(longest) > _SHORT:
            yield Wanted((longest,), False)
        elif text:
            yield Wanted((text,), True)
    for call in message.tool_calls or ():
        yield Wanted((call.name,), True)
    # Of ids that were put together ("r2/response", "span:4444444444444444") the agent's own part.
    parts = {part for ident in ids if ident for part in _JOINTS.split(ident)}
    yield Wanted(tuple(sorted(part for part in parts if re.search(r"\d", part))), True)


def _plain_pieces(text: str) -> list[str]:
    """Pieces of a text in which nothing is escaped."""
    for mark in '"\\\n\r\t/':
        text = text.replace(mark, "\0")
    return text[:20_000].split("\0")


def _from_origin(
    connection: sqlite3.Connection, path: str, offsets: list[int], wanted: Wanted
) -> Iterator[RawRecord]:
    found = connection.execute(
        "SELECT o.id, max(r.event_types LIKE '{\"document\"%' OR r.event_types LIKE '{\"database\"%'),"
        " sum(r.size_bytes) FROM origins o JOIN raw_traces r ON r.origin_id = o.id"
        " WHERE o.path = ? GROUP BY 1",
        (path,),
    ).fetchone()
    if found is None:
        return
    origin, whole, size = found
    if not whole:
        yield from _lines(path, iter_raw(connection, origin), offsets, wanted)
        return
    pieces = iter_raw(connection, origin)
    _, beginning = next(pieces, (0, b""))
    rest = (data for _, data in pieces)
    if beginning.startswith(_DATABASE):
        yield from _rows(path, beginning, rest, wanted)
    elif size <= _PARSED_BYTES:
        yield from _parts(path, b"".join((beginning, *rest)), offsets, wanted)


def _lines(
    path: str,
    lines: Iterable[tuple[int, bytes]],
    offsets: Iterable[int],
    wanted: Wanted,
    several: bool = False,
) -> Iterator[RawRecord]:
    """Lines of a log: those that are known, else the first that holds what is wanted, or `several`."""
    left = set(offsets)
    sought = wanted.in_bytes() if not left else []
    for offset, line in lines:
        # A record may be glued to the one before it, in the middle of a line.
        here = {at for at in left if offset <= at < offset + len(line)}
        left -= here
        if here or any(one in line for one in sought):
            yield _record(path, offset, "", line.decode("utf-8", "replace"))
            if not left and not several:
                return


def _parts(path: str, data: bytes, offsets: list[int], wanted: Wanted) -> Iterator[RawRecord]:
    """Objects of one document; of what is none, the records that begin at these bytes."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if b"\0" in data:
            return  # nobody could read it
        lines = data.splitlines(keepends=True)
        numbered = [*zip(accumulate(map(len, lines), initial=0), lines, strict=False)]
        known = {at for at, _ in numbered}.intersection(offsets)
        for record in _lines(path, numbered, known, wanted, wanted.whole and not known):
            yield _record(path, record.offset, "", _written_at(data, record.offset or 0))
        return
    for where, part in _objects(document, wanted):
        yield _record(path, None, where, msgspec.json.encode(part).decode())


def _whole(connection: sqlite3.Connection, path: str) -> Iterator[RawRecord]:
    """All that was kept of a document, or its beginning."""
    for (origin,) in connection.execute(
        "SELECT id FROM origins WHERE path = ?", (path,)
    ).fetchall():
        for _, data in islice(iter_raw(connection, origin), 1):
            if b"\0" not in data:
                yield _record(path, None, "", data.decode("utf-8", "replace"))


def _written_at(data: bytes, at: int) -> str:
    """The line that begins there; the whole object, where its brace stands alone in it. A line
    without an object is a heading ("user:"): all up to the next empty line."""
    end = data.find(b"\n", at)
    line = data[at : end if end >= 0 else len(data)]
    if line.strip().endswith(b"{"):
        text = data[at : at + SHOWN_BYTES].decode("utf-8", "replace")
        try:
            return text[: json.JSONDecoder().raw_decode(text, text.index("{"))[1]]
        except ValueError:
            pass
    if b"{" not in line:
        end = data.find(b"\n\n", at)
        line = data[at : end if end >= 0 else len(data)]
    return line.decode("utf-8", "replace")


def _objects(document: Any, wanted: Wanted) -> list[tuple[str, Any]]:
    """The outermost objects that name it, or the first that says its words; the document itself only
    where nothing in it does."""
    found: list[tuple[str, Any]] = []
    itself: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any, tuple[str, Any]]] = [("", document, ("", document))]
    """Where, what, and the object around it that is more than a name for a value."""
    while waiting:
        where, value, around = waiting.pop()
        if isinstance(value, list):
            inner = [(f"{where}[{number}]", one, around) for number, one in enumerate(value)]
        elif isinstance(value, dict):
            texts = [one for one in value.values() if isinstance(one, str)]
            for one in value.values():
                texts += (
                    [text for text in one if isinstance(text, str)] if isinstance(one, list) else []
                )
            holder = around if len(value) <= 2 and where else (where, value)
            if any(map(wanted.is_in, texts)):
                # {"key": "tool.call.id", "value": {"stringValue": "c1"}} is an attribute of a span.
                part = around if len(value) == 1 else (where, value)
                if not part[0]:
                    itself = [part]
                elif part not in found:
                    found.append(part)
                    if len(found) >= (MOST if wanted.whole else 1):
                        return found
                    continue
            inner = [
                (f"{where}.{name}" if where else name, one, holder) for name, one in value.items()
            ]
        else:
            continue
        waiting += reversed(inner)
    return found or itself


def _rows(path: str, beginning: bytes, rest: Iterable[bytes], wanted: Wanted) -> list[RawRecord]:
    """Rows of a database; where the id stands in a key, only those."""
    sought = list(wanted.texts)
    in_key: list[RawRecord] = []
    elsewhere: list[RawRecord] = []
    with scratch() as folder:
        copy = Path(folder, "copy")
        with copy.open("wb") as file:
            file.write(beginning)
            file.writelines(rest)
        database = sqlite3.connect(f"file:{copy}?mode=ro&immutable=1", uri=True)
        try:
            database.text_factory = lambda data: data.decode("utf-8", "replace")
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            ).fetchall()
            for (table,) in tables:
                columns = [
                    row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})")
                ]
                test = " OR ".join(
                    f"instr(CAST({_quoted(name)} AS TEXT), ?)" for name in columns for _ in sought
                )
                if not test:
                    continue
                rows = database.execute(
                    f"SELECT * FROM {_quoted(table)} WHERE {test} LIMIT {MOST}",
                    sought * len(columns),
                )
                for row in rows:
                    known = any(
                        isinstance(value, str) and len(value) < _LONGEST_KEY and one in value
                        for value in row
                        for one in sought
                    )
                    shown = {name: _shown(value) for name, value in zip(columns, row, strict=True)}
                    text = json.dumps(shown, ensure_ascii=False)
                    (in_key if known else elsewhere).append(
                        _record(path, None, f"table {table}", text)
                    )
        except sqlite3.DatabaseError:
            pass  # what could be read of it
        finally:
            database.close()
    return in_key or elsewhere[: MOST if wanted.whole else 1]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(value: Any) -> Any:
    """A value of a row; what is JSON as such."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return f"({len(value):,} bytes)"
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            pass
    return value


def _record(origin: str, offset: int | None, where: str, text: str) -> RawRecord:
    text = text.rstrip("\n")
    return RawRecord(origin, text[:SHOWN_BYTES], offset, where, truncated=len(text) > SHOWN_BYTES)
