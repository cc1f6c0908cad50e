"""Records: what the agent itself wrote of a message, out of the raw copies that the store keeps.

A log is kept line by line, and a fact tells at which byte its line stood. A document or a database is
kept whole, and no fact knows its bytes: there the part is looked for that names the message's id, or
else says its words: an object of the document, a row of a table. Where no part does, the message was
put together from several, and the file itself is shown.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.facts import AnyFact, Key, MessageSeen, ToolCalled, ToolReturned
from unspool.io.temporary import scratch
from unspool.serve.answers import RawRecord, RawRecords
from unspool.store.blocks import decode_block, expand, get_facts, iter_raw
from unspool.store.update import owner_of
from unspool.trajectory import Message, Trajectory, text_of

SHOWN_BYTES = 1_000_000
"""Of a record so much is shown."""
MOST = 20
_WORDS = 60
_SHORT = 3
"""Words of so few characters stand everywhere; they are looked for as a whole value."""
_LONGEST_KEY = 500
_PARSED_BYTES = 64_000_000
_DATABASE = b"SQLite format 3\x00"


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


def records_of(connection: sqlite3.Connection, trajectory: Trajectory, number: int) -> RawRecords:
    message = trajectory.messages[number]
    owner = owner_of(connection, (trajectory.source, trajectory.conversation_id))
    gathered = get_facts(connection, owner) if owner is not None else None
    facts: list[AnyFact] = list(gathered.facts) if gathered is not None else []
    stating = [fact for fact in facts if _names(fact, message)]
    stating = stating or [fact for fact in facts if _says(fact, message)]
    places: dict[str, set[int]] = {}
    for fact in stating:
        places.setdefault(fact.origin, set()).add(fact.offset)
    if not stating:
        paths = {fact.origin for fact in facts} or {trajectory.file_path or ""}
        places = {path: set() for path in (*paths, *(trajectory.origins or ()))}
    records: list[RawRecord] = []
    for wanted in _ways_to_know(message, stating):
        for path in sorted(places):
            offsets = sorted(places[path])
            records += _from_origin(connection, owner, path, offsets, wanted)
        if records:
            break
    note = ""
    if not records:
        note = "No one part of what was read tells of this message alone: this is the beginning of all."
        records = [record for path in sorted(places) for record in _beginning(connection, path)]
    if not records and owner is None:
        note = "It came in a whole conversation, not as a record. This is the message."
        text = msgspec.json.encode(message).decode()
        records = [_record(trajectory.file_path or "", None, f"messages[{number}]", text)]
    elif not records:
        note = "The store holds no raw records of it: it was synced without them."
    return RawRecords(number, records[:MOST], note)


def _names(fact: AnyFact, message: Message) -> bool:
    """Whether the fact tells of the message by id."""
    if isinstance(fact, MessageSeen):
        return bool(message.id) and message.id in (fact.id, fact.entry)
    if isinstance(fact, ToolReturned):
        return bool(message.tool_call_id) and fact.call == message.tool_call_id
    calls = {call.id for call in message.tool_calls or ()}
    return isinstance(fact, ToolCalled) and bool(fact.id) and fact.id in calls


def _says(fact: AnyFact, message: Message) -> bool:
    """Whether the fact has the message's words, where no id is common to both."""
    if isinstance(fact, MessageSeen):
        return bool(fact.text) and (fact.role, fact.text) == (message.role, message.content)
    if isinstance(fact, ToolReturned):
        return message.role == "tool" and bool(fact.text) and fact.text == message.content
    calls = {(call.name, call.function.arguments) for call in message.tool_calls or ()}
    return isinstance(fact, ToolCalled) and (fact.name, fact.arguments) in calls


def _ways_to_know(message: Message, stating: Iterable[AnyFact]) -> Iterator[Wanted]:
    ids = {message.id, message.tool_call_id}
    if not any(ids):
        ids |= {call.id for call in message.tool_calls or ()}
    if message.id and not any(message.id == getattr(fact, "id", None) for fact in stating):
        ids |= {fact.entry for fact in stating}
    yield Wanted(tuple(sorted(ident for ident in ids if ident)), True)
    text = text_of(message) or message.content
    longest = max(_plain_pieces(text), key=len, default="")[:_WORDS].strip()
    if len(longest) > _SHORT:
        yield Wanted((longest,), False)
    elif text:
        yield Wanted((text,), True)
    for call in message.tool_calls or ():
        yield Wanted((call.name,), True)


def _plain_pieces(text: str) -> list[str]:
    """Pieces of a text in which nothing is escaped."""
    for mark in '"\\\n\r\t/':
        text = text.replace(mark, "\0")
    return text[:20_000].split("\0")


def _from_origin(
    connection: sqlite3.Connection,
    owner: Key | None,
    path: str,
    offsets: list[int],
    wanted: Wanted,
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
        yield from _lines(connection, origin, owner, path, offsets, wanted)
        return
    pieces = iter_raw(connection, origin)
    _, beginning = next(pieces, (0, b""))
    rest = (data for _, data in pieces)
    if beginning.startswith(_DATABASE):
        yield from _rows(path, beginning, rest, wanted)
    elif size <= _PARSED_BYTES:
        yield from _parts(path, b"".join((beginning, *rest)), offsets, wanted)


def _beginning(connection: sqlite3.Connection, path: str) -> Iterator[RawRecord]:
    for (origin,) in connection.execute("SELECT id FROM origins WHERE path = ?", (path,)):
        for offset, data in islice(iter_raw(connection, origin), 1):
            yield _record(path, offset, "", data.decode("utf-8", "replace"))


def _lines(
    connection: sqlite3.Connection,
    origin: int,
    owner: Key | None,
    path: str,
    offsets: list[int],
    wanted: Wanted,
) -> Iterator[RawRecord]:
    """Lines of a log: those that are known, or the first that holds what is wanted."""
    sought = wanted.in_bytes() if not offsets else []
    # A line that is known may stand among another's: a sub-agent's last words in its parent's.
    whose = owner if owner is not None and not offsets else (None, None)
    rows = connection.execute(
        "SELECT data FROM raw_traces WHERE origin_id = ?1 AND (?2 IS NULL OR platform = ?2 AND"
        " external_id = ?3) ORDER BY first_offset",
        (origin, *whose),
    )
    for (data,) in rows:
        for offset, line in decode_block(expand(data)):
            if offset in offsets or any(one in line for one in sought):
                yield _record(path, offset, "", line.decode("utf-8", "replace"))
                if not offsets:
                    return


def _parts(path: str, data: bytes, offsets: list[int], wanted: Wanted) -> Iterator[RawRecord]:
    """Lines, or objects of one document."""
    at_lines = [at for at in offsets if at == 0 or data[at - 1 : at] == b"\n"]
    if offsets and at_lines == offsets and b"\n" in data.rstrip():
        lines = [(at, data[at:].partition(b"\n")[0] if at < len(data) else b"") for at in offsets]
        if all(map(_is_object, (line for _, line in lines))):
            yield from (
                _record(path, at, "", line.decode("utf-8", "replace")) for at, line in lines
            )
            return
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        at = 0
        for line in data.splitlines(keepends=True):
            if any(one in line for one in wanted.in_bytes()):
                yield _record(path, at, "", line.decode("utf-8", "replace"))
                if not wanted.whole:
                    return
            at += len(line)
        return
    for where, part in _objects(document, wanted):
        yield _record(path, None, where, msgspec.json.encode(part).decode())


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _objects(document: Any, wanted: Wanted) -> list[tuple[str, Any]]:
    """The outermost objects, below the document itself, that name it; the first that says its words."""
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, list):
            inner = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
        elif isinstance(value, dict):
            texts = [one for one in value.values() if isinstance(one, str)]
            if (where or not isinstance(document, dict)) and any(map(wanted.is_in, texts)):
                found.append((where, value))
                if len(found) >= (MOST if wanted.whole else 1):
                    return found
                continue
            inner = [(f"{where}.{name}" if where else name, one) for name, one in value.items()]
        else:
            continue
        waiting += reversed(inner)
    return found


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
