"""The key-value tables of Cursor's editor databases, read by key ranges and one row at a time.

The databases grow to gigabytes: every statement here is a search in the index of the keys, and no
statement asks for more than one value, or the values of one range, at a time.
"""

import sqlite3
from collections.abc import Iterator

_VALUE = "CAST(value AS BLOB)"
"""Values are TEXT or BLOB, whatever the column says; NULL and JSON's `null` are deleted rows."""


class Keys:
    """One table of keys and values."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        self._range = f"FROM {table} WHERE key >= ? AND key < ?"

    def range(self, prefix: str) -> Iterator[tuple[str, bytes | None]]:
        """Keys and values of the rows whose key begins with the prefix, by key."""
        statement = f"SELECT key, {_VALUE} {self._range}"
        for key, value in self._connection.execute(statement, (prefix, after(prefix))):
            yield str(key), value

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys alone: the index holds them, the values stay unread."""
        statement = f"SELECT key {self._range}"
        for (key,) in self._connection.execute(statement, (prefix, after(prefix))):
            yield str(key)

    def as_written(self, prefix: str) -> list[str]:
        """The same in the order in which the rows were written."""
        statement = f"SELECT rowid, key {self._range}"
        rows = self._connection.execute(statement, (prefix, after(prefix)))
        return [str(key) for _, key in sorted(rows)]

    def has(self, prefix: str) -> bool:
        return next(self.keys(prefix), None) is not None

    def get(self, key: str) -> bytes | None:
        statement = f"SELECT {_VALUE} FROM {self._table} WHERE key = ?"
        row = self._connection.execute(statement, (key,)).fetchone()
        return row[0] if row and row[0] != b"null" else None

    def groups(self, prefix: str) -> Iterator[str]:
        """What stands between the prefix and the next colon, each once: a leap per group."""
        at = prefix
        statement = f"SELECT key {self._range} ORDER BY key LIMIT 1"
        while row := self._connection.execute(statement, (at, after(prefix))).fetchone():
            group = str(row[0])[len(prefix) :].partition(":")[0]
            behind = f"{prefix}{group};"
            if behind <= at:
                return  # a damaged index may lead back to what was told
            yield group
            at = behind


def after(prefix: str) -> str:
    """The first key behind all that begin with the prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
