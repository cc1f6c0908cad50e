"""Related: which cards of the store can concern each other (`link/reach.py`), kept in tables that only
this connection has, so that live capture links only what changed.

They are made from all cards when they are first needed, and follow the cards from then on, in the same
transactions. What another process did to the cards shows by their checksums.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from unspool.facts import Key
from unspool.link import Card
from unspool.link.reach import Reach, reach_of

_TABLES = """
CREATE TABLE temp.known (
    number INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (platform, external_id)
);
CREATE TABLE temp.reach (
    token INTEGER NOT NULL,
    asks INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (token, asks, number)
) WITHOUT ROWID;
"""
BUILD_KB = 32_000
BUILD_ROWS = 100_000
MOST_MENDED = 20
"""If another process changed more cards than these, the tables are made anew."""

_card = msgspec.msgpack.Decoder(Card).decode


class Related:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._asks: set[int] = set()
        self._holds: set[int] = set()
        """What cards asked for and held that changed since the last family was taken."""
        connection.executescript(
            "DROP TABLE IF EXISTS temp.known; DROP TABLE IF EXISTS temp.reach;"
        )
        connection.executescript(_TABLES)
        connection.execute("BEGIN")  # the tables are ours alone, but a million rows are one write
        connection.execute(f"PRAGMA temp.cache_size = -{BUILD_KB}")
        rows: list[tuple[int, int, int]] = []
        for number, (platform, ident, packed) in enumerate(self._cards(), 1):
            connection.execute(
                "INSERT INTO temp.known VALUES (?, ?, ?, ?)",
                (number, platform, ident, zlib.crc32(packed)),
            )
            asks, holds = reach_of(_card(packed))
            rows += [(token, 1, number) for token in asks]
            rows += [(token, 0, number) for token in holds]
            if len(rows) > BUILD_ROWS:
                self._put_sorted(rows)
        self._put_sorted(rows)
        connection.execute("COMMIT")
        connection.execute("PRAGMA temp.cache_size = -2000")
        connection.execute("PRAGMA shrink_memory")

    def _put_sorted(self, rows: list[tuple[int, int, int]]) -> None:
        """In the order of the table, which is several times as fast."""
        rows.sort()
        self.connection.executemany("INSERT INTO temp.reach VALUES (?, ?, ?)", rows)
        rows.clear()

    def _cards(self) -> Iterator[tuple[str, str, bytes]]:
        yield from self.connection.execute("SELECT platform, external_id, card FROM cards")

    def is_current(self) -> bool:
        """Mends what another process changed; False where that was too much."""
        known = {
            (platform, ident): checksum
            for platform, ident, checksum in self.connection.execute(
                "SELECT platform, external_id, checksum FROM temp.known"
            )
        }
        moved = {
            (platform, ident): packed
            for platform, ident, packed in self._cards()
            if known.pop((platform, ident), None) != zlib.crc32(packed)
        }
        if len(moved) + len(known) > MOST_MENDED:
            return False
        for key in (*moved, *known):
            number = self._number(key)
            if number is not None:
                statement = "DELETE FROM temp.reach WHERE number = ? RETURNING token"
                tokens = {token for (token,) in self.connection.execute(statement, (number,))}
                self._asks |= tokens
                self.connection.execute("DELETE FROM temp.known WHERE number = ?", (number,))
        for key, packed in moved.items():
            self.change(key, None, packed)
        return True

    def change(self, key: Key, old: bytes | None, new: bytes | None) -> None:
        """A card was written or removed."""
        before = reach_of(_card(old)) if old is not None else Reach(set(), set())
        after = self._put(key, new, before) if new is not None else Reach(set(), set())
        number = self._number(key)
        gone = [(token, 1, number) for token in before.asks - after.asks]
        gone += [(token, 0, number) for token in before.holds - after.holds]
        statement = "DELETE FROM temp.reach WHERE token = ? AND asks = ? AND number = ?"
        self.connection.executemany(statement, gone)
        if new is None:
            self.connection.execute("DELETE FROM temp.known WHERE number = ?", (number,))
        self._asks |= before.asks | after.asks
        self._holds |= before.holds | after.holds

    def _number(self, key: Key) -> int | None:
        statement = "SELECT number FROM temp.known WHERE platform = ? AND external_id = ?"
        row = self.connection.execute(statement, key).fetchone()
        return int(row[0]) if row is not None else None

    def _put(self, key: Key, packed: bytes, before: Reach | None = None) -> Reach:
        (number,) = self.connection.execute(
            "INSERT INTO temp.known (platform, external_id, checksum) VALUES (?1, ?2, ?3)"
            " ON CONFLICT DO UPDATE SET checksum = ?3 RETURNING number",
            (*key, zlib.crc32(packed)),
        ).fetchone()
        made = reach_of(_card(packed))
        asks, holds = made if before is None else (made[0] - before[0], made[1] - before[1])
        new = [(token, 1, number) for token in asks] + [(token, 0, number) for token in holds]
        self.connection.executemany("INSERT OR IGNORE INTO temp.reach VALUES (?, ?, ?)", new)
        return made

    def family(self) -> dict[Key, tuple[Card, bytes | None]]:
        """The cards, each with its patch, that can say something else now: those that changed since the
        last time, and whoever they reach."""
        found: dict[Key, tuple[Card, bytes | None]] = {}
        asks, holds = self._asks, self._holds
        self._asks, self._holds = set(), set()
        while asks or holds:
            keys = {
                *self._having("r.token IN", asks),
                *self._having("r.asks = 1 AND r.token IN", holds),
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

    def _having(self, condition: str, tokens: Iterable[int]) -> set[Key]:
        rows = self.connection.execute(
            "SELECT DISTINCT k.platform, k.external_id FROM temp.reach r"
            f" JOIN temp.known k ON k.number = r.number WHERE {condition}"
            " (SELECT value FROM json_each(?))",
            (json.dumps(list(tokens)),),
        )
        return set(rows.fetchall())
