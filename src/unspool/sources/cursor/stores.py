"""A chat's `store.db`: its row of fields, its blobs, its root, and what that root stands for."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.sources.cursor.blobs import DEEPEST, archives, message_of, references, subagents, walk
from unspool.sources.cursor.rewound import Layout
from unspool.sources.cursor.sent import is_summary


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Row '0' of `meta`: the hexadecimal digits of a JSON object; or a row for each of its fields."""
    rows: dict[str, Any] = {}
    for key, value in connection.execute("SELECT key, value FROM meta ORDER BY key"):
        data = value if isinstance(value, bytes) else str(value or "").encode()
        for candidate in (data, _unhexed(data)):
            try:
                return msgspec.json.decode(candidate, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        rows[str(key)] = value
    return rows


def _unhexed(data: bytes) -> bytes:
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        return b""


class Blobs:
    """The blobs of one store, by their names."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
        if row is None or row[0] is None:
            return None
        return row[0] if isinstance(row[0], bytes) else str(row[0]).encode()

    def root(self, named: Any) -> bytes:
        """The root that is named; where it is missing or empty (4 of 648 real stores), the node that
        names the most blobs; empty without any."""
        found = self.get(named) if isinstance(named, str) else None
        if found:
            return found
        known = {str(name) for (name,) in self._connection.execute("SELECT id FROM blobs")}
        best, most = b"", 0
        for _, data in self._nodes("ASC"):
            size = sum(reference.hex() in known for _, reference in references(data))
            if size > most:
                best, most = data, size
        return best

    def layout(self, root: bytes) -> Layout:
        """The messages under the root; then what only its archives or the roots before it name, the
        latest first. Without a root's messages, all that there are, as they were written."""
        layout = self.narrow_layout(root)
        others = self._of_others(root, 0)
        lost = dict.fromkeys(name for name in self._messages() if name not in others)
        if not layout.main:
            layout.rest = list(lost)
            return layout
        known = set(lost)
        for name in layout.main:
            lost.pop(name, None)
        for _, data in self._nodes("DESC") if lost else ():
            listed = [name for _, found in references(data) if (name := found.hex()) in known]
            if any(name in lost for name in listed):
                layout.add(listed)
                for name in listed:
                    lost.pop(name, None)
        if lost:
            layout.branches.append((len(layout.main), list(lost)))
        return layout

    def narrow_layout(self, root: bytes) -> Layout:
        """The messages under a root and in its archives."""
        layout = Layout((name for name, _ in walk(root, self.get)), self._is_summary)
        for names, summary in archives(root, self.get):
            layout.recall(names, summary)
        return layout

    def _of_others(self, root: bytes, depth: int) -> set[str]:
        """The messages of the sub-agents whose chats the root holds."""
        found: set[str] = set()
        for _, state in subagents(root) if depth < DEEPEST else ():
            found.update(self.narrow_layout(state).main, self._of_others(state, depth + 1))
        return found

    def _nodes(self, order: str) -> Iterator[tuple[str, bytes]]:
        """What is no message, as it was written."""
        statement = f"SELECT id, data FROM blobs ORDER BY rowid {order}"
        for name, data in self._connection.execute(statement):
            if isinstance(data, bytes) and data[:1] != b"{":
                yield str(name), data

    def _messages(self) -> Iterator[str]:
        statement = "SELECT id, data FROM blobs ORDER BY rowid"
        for name, data in self._connection.execute(statement):
            if isinstance(data, bytes) and message_of(data) is not None:
                yield str(name)

    def _is_summary(self, name: str) -> bool:
        value = message_of(self.get(name) or b"")
        return value is not None and is_summary(value)
