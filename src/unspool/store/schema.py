"""The store's tables, as an ordered list of migrations.

`PRAGMA user_version` counts the migrations that a store has been through. A migration is never
changed once it has been released: a new one is added. `docs/store.md` explains every table.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from unspool.errors import StoreError
from unspool.store.tables import CONVERSATIONS, INDEXES, ORIGINS, SEARCH

APPLICATION_ID = 0x756E7370
"""`unsp`, so that `file` and others can tell a store from any other database."""


def create_origins(connection: sqlite3.Connection) -> None:
    """Where traces were read from, and what was kept of them."""
    _run(connection, ORIGINS)


def create_conversations(connection: sqlite3.Connection) -> None:
    """Sessions, conversations and what they are made of."""
    _run(connection, CONVERSATIONS)


def create_search(connection: sqlite3.Connection) -> None:
    """The searchable texts: what was typed, answered, called and returned."""
    _run(connection, SEARCH)


def create_indexes(connection: sqlite3.Connection) -> None:
    """What every written conversation asks for: without them a sync of many is quadratic."""
    _run(connection, INDEXES)


ATTEMPTS = """
ALTER TABLE origins ADD COLUMN attempt TEXT NOT NULL DEFAULT ''; -- a half-written version, not taken
UPDATE origins SET state = '?' WHERE state != '' OR path LIKE '%.db' OR path LIKE '%.vscdb%';
"""


def add_attempts(connection: sqlite3.Connection) -> None:
    """Half-written documents; databases are told by their counters from now on, so look again."""
    _run(connection, ATTEMPTS)


WHOLE_PIECES = """
DROP TABLE pieces;
CREATE VIRTUAL TABLE pieces USING fts5(
    typed, answered, called, returned,
    content='texts', content_rowid='id', tokenize='trigram', detail='none'
);
INSERT INTO pieces (rowid, typed, answered, called, returned)
    SELECT id, typed, answered, called, returned FROM texts;
"""


def complete_pieces(connection: sqlite3.Connection) -> None:
    """The index of pieces of all texts, but without places: these were nine tenths of its size."""
    _run(connection, WHOLE_PIECES)


DUE_PIECES = """
CREATE TABLE pieces_due (conversation_id TEXT PRIMARY KEY) WITHOUT ROWID;  -- not yet in `pieces`
"""


def put_off_pieces(connection: sqlite3.Connection) -> None:
    """What the index of pieces does not hold yet."""
    _run(connection, DUE_PIECES)


LOST_FACTS = """
ALTER TABLE facts ADD COLUMN gone_since TEXT; -- the database no longer tells of the conversation
"""


def mark_lost_facts(connection: sqlite3.Connection) -> None:
    """What a database forgot stays, and is marked."""
    _run(connection, LOST_FACTS)


LIVE = """
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, also after old rows are dropped
    conversation TEXT NOT NULL,     -- conversations.id
    kind TEXT NOT NULL,             -- new, changed, removed
    at TEXT NOT NULL
);
CREATE INDEX changes_by_time ON changes(at);
CREATE TRIGGER conversation_made AFTER INSERT ON conversations BEGIN
    INSERT INTO changes (conversation, kind, at)
        VALUES (NEW.id, 'new', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;
CREATE TRIGGER conversation_changed AFTER UPDATE ON conversations BEGIN
    INSERT INTO changes (conversation, kind, at)
        VALUES (NEW.id, 'changed', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;
CREATE TRIGGER conversation_removed AFTER DELETE ON conversations BEGIN
    INSERT INTO changes (conversation, kind, at)
        VALUES (OLD.id, 'removed', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;
ALTER TABLE raw_traces ADD COLUMN event_id TEXT;    -- of one live event; NULL: a block of records
ALTER TABLE raw_traces ADD COLUMN event_type TEXT;
ALTER TABLE raw_traces ADD COLUMN sequence INTEGER; -- its number in the queue
ALTER TABLE raw_traces ADD COLUMN received_at TEXT; -- when it arrived
CREATE UNIQUE INDEX raw_traces_by_event ON raw_traces(event_id) WHERE event_id IS NOT NULL;
CREATE TABLE cursors (
    name TEXT PRIMARY KEY,          -- the queue that events came from
    position TEXT NOT NULL          -- the last event of it that the store has
) WITHOUT ROWID;
CREATE TABLE activity (
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    state TEXT NOT NULL,            -- working, waiting, idle, failed, ended
    tool TEXT,                      -- the one that runs now
    since TEXT NOT NULL,            -- when the state began
    at TEXT NOT NULL,               -- when it was last heard of
    PRIMARY KEY (platform, external_id)
) WITHOUT ROWID;
"""


def add_live(connection: sqlite3.Connection) -> None:
    """Live capture: what changed, single events, how far a queue was read, who is working."""
    _run(connection, LIVE)


LISTED = """
CREATE INDEX conversations_listed
    ON conversations(ifnull(ended_at, started_at), id, parent_id, messages, partial);
"""


def index_list(connection: sqlite3.Connection) -> None:
    """The order in which conversations are listed, without a look at their rows, which are wide."""
    _run(connection, LISTED)


COVERED = """
DROP INDEX conversations_listed;
CREATE INDEX conversations_listed ON conversations(
    ifnull(ended_at, started_at), id, parent_id, messages, partial, source, project, model, title,
    branch, external_id, started_at, ended_at, turns, tools, tool_failures, children, prompt_tokens,
    completion_tokens, cost_usd, agent_version, cached_tokens, cache_write_tokens, lines_added,
    lines_removed
);
DROP INDEX IF EXISTS tool_calls_by_name;
DROP INDEX tool_calls_by_conversation;
CREATE INDEX tool_calls_by_conversation
    ON tool_calls(conversation_id, name, message_index, is_error);
"""


def cover_questions(connection: sqlite3.Connection) -> None:
    """All that lists, filters and figures ask of conversations and calls stands in an index: a store
    that the disk has not read yet answers from a few megabytes."""
    _run(connection, COVERED)


HOOKED = """
ALTER TABLE activity ADD COLUMN hooked INTEGER NOT NULL DEFAULT 1; -- a hook told it, not the transcript
"""


def tell_who_told(connection: sqlite3.Connection) -> None:
    """Whether a hook told the state of an agent: only then the transcript has to wait its turn."""
    _run(connection, HOOKED)


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    create_origins,
    create_conversations,
    create_search,
    create_indexes,
    add_attempts,
    complete_pieces,
    put_off_pieces,
    mark_lost_facts,
    add_live,
    index_list,
    cover_questions,
    tell_who_told,
]


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Statement by statement: `executescript` would end the transaction that we are in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the store has been through; an error where it is newer than we are."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store is of version {version}, newer than this unspool knows ({len(MIGRATIONS)}):"
            " upgrade unspool"
        )
    return version


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the store up to date, each step whole or not at all; how many steps that took."""
    steps = 0
    while version_of(connection) < len(MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again: two programs may have found the same old store.
            version = version_of(connection)
            if version < len(MIGRATIONS):
                MIGRATIONS[version](connection)
                connection.execute(f"PRAGMA user_version = {version + 1}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                steps += 1
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has rolled it back already
                connection.execute("ROLLBACK")
            raise
    return steps
