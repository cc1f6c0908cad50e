"""Related: which cards of the store can concern each other (`link/reach.py`), kept in a file of its
own, so that live capture links only what changed.

The file is made from all cards when there is none, and follows the cards from then on, in the same
transactions. It is only a cache: what another process did to the cards, or a kill between the two
files, shows by the cards' checksums.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from unspool.facts import Key
from unspool.link import Card
from unspool.link.reach import Reach, reach_of

VERSION = 1
"""Of the tables and of what `reach_of` says; an older file is made anew."""
_TABLES = f"""
CREATE TABLE related.known (
    number INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (platform, external_id)
);
CREATE TABLE related.asks (
    token INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (token, number)
) WITHOUT ROWID;
CREATE TABLE related.holds (
    token INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (token, number)
) WITHOUT ROWID;
PRAGMA related.user_version = {VERSION};
"""
CACHE_KB = 2_000
SORTED_ROWS = 100_000
MOST_MENDED = 20
"""If another process changed more cards than these, the tables are filled anew."""

_card = msgspec.msgpack.Decoder(Card).decode


class Related:
    """Attached to the store's connection; without a path for as long as this lives."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self.connection = connection
        self.path = path
        self._asks: set[int] = set()
        self._holds: set[int] = set()
        """What cards asked for and held that changed since the last family was taken."""
        try:
            self._attach()
        except sqlite3.DatabaseError:  # no database, or of another version
            if path is not None:
                for end in ("", "-wal", "-shm"):
                    path.with_name(path.name + end).unlink(missing_ok=True)
            self._attach()
        self.refresh()

    def _attach(self) -> None:
        if "related" in {name for _, name, _ in self.connection.execute("PRAGMA database_list")}:
            self.connection.execute("DETACH related")
        if self.path is not None:
            self.path.touch(0o600)
        self.connection.execute("ATTACH ? AS related", (str(self.path or ""),))
        (version,) = self.connection.execute("PRAGMA related.user_version").fetchone()
        if not version:
            self.connection.executescript(_TABLES)
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"version {version}")
        self.connection.execute("PRAGMA related.journal_mode = WAL")
        self.connection.execute("PRAGMA related.synchronous = NORMAL")
        self.connection.execute(f"PRAGMA related.cache_size = -{CACHE_KB}")

    def refresh(self) -> bool:
        """Follows what another process changed; whether that was so much that all was read anew."""
        execute = self.connection.execute
        known: dict[Key, int] = {
            (platform, ident): checksum
            for platform, ident, checksum in execute(
                "SELECT platform, external_id, checksum FROM related.known"
            )
        }
        now: dict[Key, int] = {
            (platform, ident): zlib.crc32(packed)
            for platform, ident, packed in execute("SELECT platform, external_id, card FROM cards")
        }
        moved = {key for key in (*known, *now) if known.get(key) != now.get(key)}
        if len(moved) > MOST_MENDED:
            self._fill()
            return True
        for key in sorted(moved & known.keys()):
            number = self._number(key)
            for table in ("asks", "holds"):
                statement = f"DELETE FROM related.{table} WHERE number = ? RETURNING token"
                self._asks.update(token for (token,) in execute(statement, (number,)))
            execute("DELETE FROM related.known WHERE number = ?", (number,))
        for key in sorted(moved & now.keys()):
            card = "SELECT card FROM cards WHERE platform = ? AND external_id = ?"
            self.change(key, None, *execute(card, key).fetchone())
        return False

    def _fill(self) -> None:
        """From all cards; of a million messages that takes some seconds."""
        execute = self.connection.execute
        execute("BEGIN")
        for table in ("known", "asks", "holds"):
            execute(f"DELETE FROM related.{table}")
        rows: dict[str, list[tuple[int, int]]] = {"asks": [], "holds": []}

        def put_sorted() -> None:
            """In the order of the tables, which is several times as fast."""
            for table, pairs in rows.items():
                pairs.sort()
                self.connection.executemany(f"INSERT INTO related.{table} VALUES (?, ?)", pairs)
                pairs.clear()

        for platform, ident, packed in execute("SELECT platform, external_id, card FROM cards"):
            number = self._numbered((platform, ident), zlib.crc32(packed))
            reach = reach_of(_card(packed))
            rows["asks"] += [(token, number) for token in reach.asks]
            rows["holds"] += [(token, number) for token in reach.holds]
            if sum(map(len, rows.values())) > SORTED_ROWS:
                put_sorted()
        put_sorted()
        execute("COMMIT")
        execute("PRAGMA shrink_memory")
        self._asks.clear()
        self._holds.clear()

    def change(self, key: Key, old: bytes | None, new: bytes | None) -> None:
        """A card was written or removed."""
        before = reach_of(_card(old)) if old is not None else Reach(set(), set())
        after = reach_of(_card(new)) if new is not None else Reach(set(), set())
        number = self._number(key) if new is None else self._numbered(key, zlib.crc32(new))
        for table, was, now in (
            ("asks", before.asks, after.asks),
            ("holds", before.holds, after.holds),
        ):
            gone, come = (
                [(token, number) for token in tokens] for tokens in (was - now, now - was)
            )
            statement = f"DELETE FROM related.{table} WHERE token = ? AND number = ?"
            self.connection.executemany(statement, gone)
            self.connection.executemany(
                f"INSERT OR IGNORE INTO related.{table} VALUES (?, ?)", come
            )
        if new is None:
            self.connection.execute("DELETE FROM related.known WHERE number = ?", (number,))
        self._asks |= before.asks | after.asks
        self._holds |= before.holds | after.holds

    def _number(self, key: Key) -> int | None:
        statement = "SELECT number FROM related.known WHERE platform = ? AND external_id = ?"
        row = self.connection.execute(statement, key).fetchone()
        return int(row[0]) if row is not None else None

    def _numbered(self, key: Key, checksum: int) -> int:
        (number,) = self.connection.execute(
            "INSERT INTO related.known (platform, external_id, checksum) VALUES (?1, ?2, ?3)"
            " ON CONFLICT DO UPDATE SET checksum = ?3 RETURNING number",
            (*key, checksum),
        ).fetchone()
        return int(number)

    def family(self) -> dict[Key, tuple[Card, bytes | None]]:
        """The cards, each with its patch, that can say something else now: those that changed since the
        last time, and whoever they reach."""
        found: dict[Key, tuple[Card, bytes | None]] = {}
        asks, holds = self._asks, self._holds
        self._asks, self._holds = set(), set()
        while asks or holds:
            keys = {
                *self._having("holds", asks),
                *self._having("asks", asks | holds),
            } - found.keys()
            asks, holds = set(), set()
            for key in sorted(keys):
                packed, patch = self.connection.execute(
                    "SELECT card, patch FROM cards WHERE platform = ? AND external_id = ?", key
                ).fetchone()
                card = _card(packed)
                found[key] = (card, patch)
                reach = reach_of(card)
                asks |= reach.asks
                holds |= reach.holds
        return found

    def _having(self, table: str, tokens: Iterable[int]) -> set[Key]:
        rows = self.connection.execute(
            f"SELECT DISTINCT k.platform, k.external_id FROM related.{table} r"
            " JOIN related.known k ON k.number = r.number"
            " WHERE r.token IN (SELECT value FROM json_each(?))",
            (json.dumps(list(tokens)),),
        )
        return set(rows.fetchall())
