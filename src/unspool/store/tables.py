"""Tables: the SQL that makes the store, and what those who ask in SQL get of them, with the types that
SQLite does not keep."""

import sqlite3
from collections.abc import Iterator

APPLICATION_ID = 0x756E7370
"""`unsp`, so that `file` and others can tell a store from any other database."""
VERSION = 18
"""`PRAGMA user_version` of the tables. Those with lower numbers were never released."""

ORIGINS = """
CREATE TABLE origins (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    source TEXT NOT NULL,           -- empty: of no known format
    size_bytes INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT '', -- databases: change counter and log
    read_bytes INTEGER NOT NULL,    -- up to where whole records were read
    tail_hash TEXT NOT NULL,        -- of the bytes before that: tells growth from rewriting
    records INTEGER NOT NULL DEFAULT 0,
    first_seen TEXT NOT NULL,
    last_read TEXT NOT NULL,
    gone_since TEXT,                -- the file is no longer there; its conversations are
    attempt TEXT NOT NULL DEFAULT '' -- a half-written version, not taken
);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    origin_id INTEGER NOT NULL REFERENCES origins(id),
    source TEXT NOT NULL,
    data BLOB NOT NULL,             -- zstandard of MessagePack
    gone_since TEXT                 -- the database no longer tells of the conversation
);
CREATE INDEX facts_by_conversation ON facts(platform, external_id);
CREATE INDEX facts_by_origin ON facts(origin_id);
CREATE TABLE raw_traces (
    id INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,      -- empty: records of no one conversation
    origin_id INTEGER NOT NULL REFERENCES origins(id),
    event_types TEXT NOT NULL,      -- JSON: type -> how many records
    started_at TEXT,
    ended_at TEXT,
    first_offset INTEGER NOT NULL,
    records INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,    -- before compression
    data BLOB NOT NULL,             -- zstandard of MessagePack: [[offset, bytes], ...]
    event_id TEXT,                  -- of one live event; NULL: a block of records
    event_type TEXT,
    sequence INTEGER,               -- its number in the queue
    received_at TEXT                -- when it arrived
);
CREATE UNIQUE INDEX raw_traces_by_event ON raw_traces(event_id) WHERE event_id IS NOT NULL;
CREATE INDEX raw_traces_by_origin ON raw_traces(origin_id, first_offset);
CREATE INDEX raw_traces_by_conversation ON raw_traces(platform, external_id);
CREATE TABLE dirty (
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    PRIMARY KEY (platform, external_id)
) WITHOUT ROWID;
CREATE TABLE problems (
    id INTEGER PRIMARY KEY,
    origin_id INTEGER REFERENCES origins(id),
    offset INTEGER NOT NULL,
    code TEXT NOT NULL,
    external_id TEXT NOT NULL DEFAULT '',
    sample TEXT NOT NULL DEFAULT ''
);
CREATE INDEX problems_by_origin ON problems(origin_id);
"""

CONVERSATIONS = """
CREATE TABLE cursor_sessions (
    id TEXT PRIMARY KEY,
    external_session_id TEXT NOT NULL UNIQUE,
    workspace_hash TEXT NOT NULL,
    workspace_name TEXT,
    workspace_path TEXT,
    started_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP,
    metadata TEXT DEFAULT '{}'
);
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    session_id TEXT,
    external_id TEXT NOT NULL,
    platform TEXT NOT NULL,
    workspace_hash TEXT,
    workspace_name TEXT,
    started_at TIMESTAMP NOT NULL,  -- empty where no record has a time
    ended_at TIMESTAMP,
    interaction_count INTEGER DEFAULT 0,
    acceptance_rate REAL,
    total_tokens INTEGER DEFAULT 0,
    total_changes INTEGER DEFAULT 0,
    context TEXT DEFAULT '{}',
    metadata TEXT DEFAULT '{}',
    tool_sequence TEXT DEFAULT '[]',
    acceptance_decisions TEXT DEFAULT '[]',
    -- what follows is ours
    source TEXT NOT NULL,
    title TEXT,
    project TEXT,
    workspace_path TEXT,
    repository TEXT,
    branch TEXT,
    agent_version TEXT,
    model TEXT,
    parent_id TEXT,                 -- external id of the conversation that started it
    children INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    tools INTEGER NOT NULL DEFAULT 0,
    tool_failures INTEGER NOT NULL DEFAULT 0,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    cost_usd REAL,
    lines_added INTEGER,
    lines_removed INTEGER,
    partial TEXT,
    FOREIGN KEY (session_id) REFERENCES cursor_sessions(id),
    CHECK (
        (platform = 'cursor' AND session_id IS NOT NULL) OR
        (platform = 'claude_code' AND session_id IS NULL) OR
        platform NOT IN ('cursor', 'claude_code')
    ),
    UNIQUE(external_id, platform)
);
CREATE INDEX conversations_by_end ON conversations(ended_at);
-- All that lists, filters and figures ask of conversations and calls stands in an index: a store that
-- the disk has not read yet answers from a few megabytes.
CREATE INDEX conversations_listed ON conversations(
    ifnull(ended_at, started_at), id, parent_id, messages, partial, source, project, model, title,
    branch, external_id, started_at, ended_at, turns, tools, tool_failures, children, prompt_tokens,
    completion_tokens, cost_usd, agent_version, cached_tokens, cache_write_tokens, lines_added,
    lines_removed
);
CREATE TABLE trajectories (
    conversation_id TEXT PRIMARY KEY REFERENCES conversations(id) ON DELETE CASCADE,
    data BLOB NOT NULL              -- zstandard of MessagePack: the whole trajectory
);
CREATE TABLE cards (
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    facts_of TEXT NOT NULL,         -- the conversation whose facts it was made from
    card BLOB NOT NULL,             -- MessagePack: what linking needs to know
    patch BLOB,                     -- MessagePack: what linking found out
    PRIMARY KEY (platform, external_id)
) WITHOUT ROWID;
CREATE INDEX cards_by_facts ON cards(facts_of);
CREATE TABLE conversation_turns (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    turn_index INTEGER NOT NULL,
    prompt TEXT,
    answer TEXT,
    model TEXT,
    mode TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    tools TEXT NOT NULL DEFAULT '[]',
    files TEXT NOT NULL DEFAULT '[]',
    started_at TIMESTAMP,
    ended_at TIMESTAMP,
    duration_ms REAL,
    first_message INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, turn_index)
) WITHOUT ROWID;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    message_index INTEGER NOT NULL,
    message_id TEXT,
    role TEXT NOT NULL,
    kind TEXT,
    turn_index INTEGER,
    model TEXT,
    mode TEXT,
    tool_name TEXT,
    is_error INTEGER,
    copied INTEGER NOT NULL DEFAULT 0,
    timestamp TIMESTAMP,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    length INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX messages_by_conversation ON messages(conversation_id, message_index);
CREATE TABLE model_usage (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    model TEXT NOT NULL,            -- empty: tokens of no known model
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    cache_write_tokens INTEGER,
    PRIMARY KEY (conversation_id, model)
) WITHOUT ROWID;
CREATE TABLE tool_calls (
    id INTEGER PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    message_index INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT,
    status TEXT,
    is_error INTEGER,
    duration_ms REAL,
    started_at TIMESTAMP,
    ended_at TIMESTAMP,
    child_id TEXT,
    turn_index INTEGER
);
CREATE INDEX tool_calls_by_conversation
    ON tool_calls(conversation_id, name, message_index, is_error);
CREATE TABLE files_touched (
    id INTEGER PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    operation TEXT NOT NULL,
    lines_added INTEGER,
    lines_removed INTEGER,
    message_index INTEGER,
    turn_index INTEGER,
    tool TEXT,
    tool_call_id TEXT,
    outcome TEXT,
    timestamp TIMESTAMP
);
CREATE INDEX files_touched_by_conversation ON files_touched(conversation_id);
CREATE INDEX files_touched_by_path ON files_touched(path);
CREATE TABLE git_references (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    kind TEXT,
    value TEXT,
    turn_index INTEGER,
    data TEXT NOT NULL
);
CREATE INDEX git_references_by_conversation ON git_references(conversation_id);
CREATE TABLE checkpoints (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    title TEXT,
    data TEXT NOT NULL
);
CREATE INDEX checkpoints_by_conversation ON checkpoints(conversation_id);
CREATE TABLE links (
    parent_id TEXT NOT NULL,        -- conversations.id; the row may not be there
    child_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tool_call_id TEXT,
    PRIMARY KEY (parent_id, child_id, kind)
) WITHOUT ROWID;
CREATE INDEX links_by_child ON links(child_id);
CREATE TABLE conversation_origins (
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    origin_id INTEGER NOT NULL REFERENCES origins(id),
    PRIMARY KEY (conversation_id, origin_id)
) WITHOUT ROWID;
CREATE TABLE conversation_alignments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    claude_conversation_id TEXT,
    cursor_conversation_id TEXT,
    correlation_data JSON,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (claude_conversation_id) REFERENCES conversations(id),
    FOREIGN KEY (cursor_conversation_id) REFERENCES conversations(id)
);
CREATE INDEX alignments_by_claude ON conversation_alignments(claude_conversation_id);
CREATE INDEX alignments_by_cursor ON conversation_alignments(cursor_conversation_id);
"""

SEARCH = """
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,         -- messages.id
    typed TEXT,
    answered TEXT,
    called TEXT,
    returned TEXT
);
CREATE VIRTUAL TABLE words USING fts5(
    typed, answered, called, returned,
    content='texts', content_rowid='id',
    tokenize="unicode61 remove_diacritics 2 tokenchars '_'"
);
CREATE VIRTUAL TABLE pieces USING fts5( -- without places: these were nine tenths of its size
    typed, answered, called, returned,
    content='texts', content_rowid='id', tokenize='trigram', detail='none'
);
CREATE TABLE indexed (
    name TEXT PRIMARY KEY,          -- words, pieces
    up_to INTEGER NOT NULL          -- the last of `texts` that it holds
) WITHOUT ROWID;
INSERT INTO indexed VALUES ('words', 0), ('pieces', 0);
"""

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
    hooked INTEGER NOT NULL DEFAULT 1, -- a hook told it, so the transcript has to wait its turn
    PRIMARY KEY (platform, external_id)
) WITHOUT ROWID;
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Statement by statement: `executescript` would end the transaction that we are in."""
    statement = ""
    for line in (ORIGINS + CONVERSATIONS + SEARCH + LIVE).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


RELATIONS = (
    "conversations",
    "conversation_turns",
    "messages",
    "texts",
    "tool_calls",
    "files_touched",
    "model_usage",
    "git_references",
    "checkpoints",
    "links",
    "conversation_alignments",
    "cursor_sessions",
    "origins",
    "conversation_origins",
    "problems",
)
"""What the store says of conversations; not what only `sync` and `search` need."""
ROWS = 10_000
_KINDS = {"INTEGER": "count", "REAL": "number", "TIMESTAMP": "time", "JSON": "json"}
_JSON = ("context", "metadata", "tool_sequence", "acceptance_decisions", "tools", "files", "data")
"""Columns of text that hold JSON."""


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Column → kind, as the tables of Parquet have them (`sinks/parquet/rows.py`)."""
    columns: dict[str, str] = {}
    for _, name, declared, *_ in connection.execute(f"PRAGMA table_info({table})"):
        if declared != "BLOB":
            text = "json" if name in _JSON else "long"
            columns[name] = _KINDS.get(declared, text)
    return columns


def iter_values(
    connection: sqlite3.Connection, table: str, columns: dict[str, str]
) -> Iterator[list[list[object]]]:
    """Its values, column by column, some thousand rows at a time."""
    cursor = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
    while rows := cursor.fetchmany(ROWS):
        yield [list(values) for values in zip(*rows, strict=True)]
