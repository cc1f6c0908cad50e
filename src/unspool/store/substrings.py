"""Substrings: the index of every piece of a text, three characters at a time.

It takes a quarter of the time of a first sync, and only `search --substring` asks for it. So a
conversation is first noted as due; `unspool sync` and the search itself index what is.
"""

import sqlite3

from unspool.store.opening import transaction

TEXTS = "typed, answered, called, returned"
"""What both indexes hold."""
CONVERSATIONS_AT_ONCE = 100
_TEXTS_OF = "id IN (SELECT id FROM messages WHERE conversation_id = ?)"


def put_off(connection: sqlite3.Connection, ident: str) -> None:
    """The texts of the conversation are new."""
    connection.execute("INSERT OR IGNORE INTO pieces_due VALUES (?)", (ident,))


def forget(connection: sqlite3.Connection, ident: str) -> None:
    """Before the texts of the conversation are removed: what was indexed no longer is."""
    due = connection.execute("DELETE FROM pieces_due WHERE conversation_id = ?", (ident,))
    if not due.rowcount:
        connection.execute(
            f"INSERT INTO pieces (pieces, rowid, {TEXTS})"
            f" SELECT 'delete', id, {TEXTS} FROM texts WHERE {_TEXTS_OF}",
            (ident,),
        )


def catch_up(connection: sqlite3.Connection) -> None:
    """Index what is due."""
    while due := connection.execute(
        f"SELECT conversation_id FROM pieces_due LIMIT {CONVERSATIONS_AT_ONCE}"
    ).fetchall():
        with transaction(connection):
            for row in due:
                _index(connection, *row)


def _index(connection: sqlite3.Connection, ident: str) -> None:
    # Asked again, inside the transaction: another program may have been faster.
    due = connection.execute("DELETE FROM pieces_due WHERE conversation_id = ?", (ident,))
    if due.rowcount:
        connection.execute(
            f"INSERT INTO pieces (rowid, {TEXTS}) SELECT id, {TEXTS} FROM texts WHERE {_TEXTS_OF}",
            (ident,),
        )


def caught_up(connection: sqlite3.Connection) -> bool:
    """Whether the index holds everything now: a store may be read-only, or busy."""
    try:
        catch_up(connection)
    except sqlite3.OperationalError:
        return False
    return True
