"""The store's tables, as an ordered list of migrations.

`PRAGMA user_version` is the number of the last migration that a store has been through. A migration is
never changed once it has been released: a new one is added. `docs/store.md` explains every table.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from unspool.errors import StoreError
from unspool.store.tables import CONVERSATIONS, LIVE, ORIGINS, SEARCH

APPLICATION_ID = 0x756E7370
"""`unsp`, so that `file` and others can tell a store from any other database."""
FIRST = 16
"""The number of the first migration: versions that were never released had others before it."""


def create_tables(connection: sqlite3.Connection) -> None:
    _run(connection, ORIGINS, CONVERSATIONS, SEARCH, LIVE)


def _run(connection: sqlite3.Connection, *scripts: str) -> None:
    """Statement by statement: `executescript` would end the transaction that we are in."""
    for script in scripts:
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [create_tables]


def newest() -> int:
    """The version of a store that has been through all migrations."""
    return FIRST - 1 + len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """The store's version, 0 before the first; an error where it is none that we know."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > newest():
        raise StoreError(
            f"the store is of version {version}, newer than this unspool knows ({newest()}):"
            " upgrade unspool"
        )
    if 0 < version < FIRST:
        path = connection.execute("PRAGMA database_list").fetchone()[2]
        raise StoreError(
            f"the store {path} is of version {version}, from before the first release;"
            " moved away, `unspool sync` makes a new one from the files that are there"
        )
    return version


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the store up to date, each step whole or not at all; how many steps that took."""
    steps = 0
    while version_of(connection) < newest():
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again: two programs may have found the same old store.
            version = max(version_of(connection), FIRST - 1)
            if version < newest():
                MIGRATIONS[version + 1 - FIRST](connection)
                connection.execute(f"PRAGMA user_version = {version + 1}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                steps += 1
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has rolled it back already
                connection.execute("ROLLBACK")
            raise
    return steps
