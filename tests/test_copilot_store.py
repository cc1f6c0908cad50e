"""The session store of Copilot CLI and of Copilot Chat: real databases, of every schema version."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import facts_of, origins_of, reduce_all
from unspool.facts import Problem
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

SESSION = "00000000-0000-4000-8000-0000000000aa"
TABLES = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (id TEXT PRIMARY KEY, cwd TEXT, repository TEXT, {host} branch TEXT,
  summary TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE turns (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  turn_index INTEGER NOT NULL, user_message TEXT, assistant_response TEXT, timestamp TEXT,
  UNIQUE(session_id, turn_index));
CREATE TABLE checkpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  checkpoint_number INTEGER NOT NULL, title TEXT, overview TEXT, history TEXT, work_done TEXT,
  technical_details TEXT, important_files TEXT, next_steps TEXT, created_at TEXT);
CREATE TABLE session_files (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  file_path TEXT NOT NULL, tool_name TEXT, turn_index INTEGER, first_seen_at TEXT);
CREATE TABLE session_refs (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  ref_type TEXT NOT NULL, ref_value TEXT NOT NULL, turn_index INTEGER, created_at TEXT);
CREATE VIRTUAL TABLE search_index USING fts5(content, session_id UNINDEXED, source_type UNINDEXED,
  source_id UNINDEXED);
"""
FORGE = """
CREATE TABLE dynamic_context_items (id INTEGER PRIMARY KEY, content TEXT);
CREATE TABLE forge_trajectory_events (id INTEGER PRIMARY KEY, session_id TEXT, tool_call_id TEXT,
  turn_index INTEGER, event_type TEXT, command TEXT, output TEXT, exit_code INTEGER,
  event_key TEXT, event_value TEXT, created_at TEXT);
"""
USAGE = """
CREATE TABLE assistant_usage_events (id INTEGER PRIMARY KEY, session_id TEXT, turn_index INTEGER,
  agent_id TEXT, parent_tool_call_id TEXT, model TEXT, copilot_usage_model TEXT,
  input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER,
  cache_write_tokens INTEGER, reasoning_tokens INTEGER, total_nano_aiu INTEGER, duration_ms REAL,
  initiator TEXT, finish_reason TEXT, created_at TEXT);
"""


def make_store(path: Path, version: int) -> sqlite3.Connection:
    """A store as the CLI of that schema version makes it, with one session of two turns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = sqlite3.connect(path)
    store.executescript(TABLES.format(host="host_type TEXT," if version > 1 else ""))
    store.execute("INSERT INTO schema_version VALUES (?)", (version,))
    if version >= 4:
        store.executescript(FORGE)
    if version >= 5:
        store.executescript(USAGE)
    values = [SESSION, "/home/ana/shop", "ana/shop", "main", "Build the cart"]
    values += ["2026-05-04T10:00:00Z", "2026-05-04T10:05:00Z"]
    if version > 1:
        values.insert(3, "github")
    store.execute(f"INSERT INTO sessions VALUES ({','.join('?' * len(values))})", values)
    add_turn(store, 0, "Build the cart", "Built.")
    add_turn(store, 1, "Test it", None)
    store.execute(
        "INSERT INTO search_index VALUES (?,?,?,?)",
        ("# Plan", SESSION, "workspace_artifact", f"{SESSION}:workspace:plan.md"),
    )
    store.execute(
        "INSERT INTO search_index VALUES (?,?,?,?)",
        ("Build the cart Built.", SESSION, "turn", f"{SESSION}:turn:0"),
    )
    store.commit()
    return store


def add_turn(store: sqlite3.Connection, number: int, asked: str, answer: str | None) -> None:
    store.execute(
        "INSERT INTO turns (session_id, turn_index, user_message, assistant_response, timestamp) "
        "VALUES (?,?,?,?,?)",
        (SESSION, number, asked, answer, f"2026-05-04T10:0{number + 1}:00Z"),
    )


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def words(trajectory: Trajectory) -> list[str]:
    return [message.content for message in trajectory.messages]


@pytest.mark.parametrize("version", [1, 2, 4, 5])
def test_every_schema_version_is_read(tmp_path: Path, version: int) -> None:
    make_store(tmp_path / "session-store.db", version).close()
    made = only(tmp_path)
    assert words(made) == ["Build the cart", "Built.", "Test it"]
    assert made.partial == ["only-echoes"]
    assert made.metadata["plan"] == "# Plan"
    assert made.metadata.get("host_type") == ("github" if version > 1 else None)
    assert made.workspace is not None
    assert (made.workspace.path, made.workspace.branch) == ("/home/ana/shop", "main")


def test_a_renamed_copy_is_known_by_its_tables(tmp_path: Path) -> None:
    make_store(tmp_path / "backup.sqlite", 2).close()
    assert words(only(tmp_path)) == ["Build the cart", "Built.", "Test it"]


HOLDER = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute("PRAGMA journal_mode=WAL")
store.execute("PRAGMA wal_autocheckpoint=0")
store.execute(
    "INSERT INTO turns (session_id, turn_index, user_message, assistant_response, timestamp) "
    "VALUES (?, 2, 'Ship it', 'Shipped.', '2026-05-04T10:03:00Z')", (sys.argv[2],))
store.commit()
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def held_store(tmp_path: Path) -> Iterator[Path]:
    """A store in WAL mode that another process has open; its newest turn is only in the log."""
    path = tmp_path / "held" / "session-store.db"
    make_store(path, 2).close()
    command = [sys.executable, "-c", HOLDER, str(path), SESSION]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield path
        process.communicate("\n")


def listing(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_the_newest_turn_in_the_log_is_read_while_the_store_is_held_open(held_store: Path) -> None:
    assert b"Shipped." not in held_store.read_bytes()
    before = listing(held_store.parent)
    assert words(only(held_store.parent))[-2:] == ["Ship it", "Shipped."]
    assert listing(held_store.parent) == before


def test_a_copy_without_the_shared_memory_file_is_read_and_nothing_is_left(
    held_store: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{held_store}{suffix}", copy / f"session-store.db{suffix}")
    before = listing(copy)
    assert words(only(copy))[-2:] == ["Ship it", "Shipped."]
    assert listing(copy) == before


def write_log(folder: Path, events: list[tuple[str, str, dict[str, Any]]]) -> None:
    log = folder / "session-state" / SESSION / "events.jsonl"
    log.parent.mkdir(parents=True)
    lines = [
        json.dumps({"type": t, "data": d, "id": str(n), "timestamp": f"2026-05-04T{time}Z"})
        for n, (t, time, d) in enumerate(events)
    ]
    log.write_text("\n".join(lines) + "\n")


def test_the_last_words_of_a_sub_agent_are_no_answer(tmp_path: Path) -> None:
    """The store takes them for one where the turn ended without any."""
    found = "The cart is tested in tests/test_cart.py."
    store = make_store(tmp_path / "session-store.db", 2)
    store.execute("UPDATE turns SET assistant_response = ? WHERE turn_index = 0", (found,))
    store.commit()
    store.close()
    calls = [{"toolCallId": "t1", "name": "task", "arguments": {"prompt": "Look."}}]
    answer = {"messageId": "a", "content": "", "toolRequests": calls}
    result = {"content": f"Agent completed. status: completed\n\n{found}"}
    write_log(
        tmp_path,
        [
            ("session.start", "10:00:00", {"sessionId": SESSION}),
            ("user.message", "10:00:01", {"content": "Build the cart"}),
            ("assistant.message", "10:00:02", answer),
            ("tool.execution_complete", "10:00:03", {"toolCallId": "t1", "result": result}),
            ("abort", "10:00:04", {"reason": "user initiated"}),
            ("user.message", "10:02:01", {"content": "Test it"}),
        ],
    )
    made = only(tmp_path)
    assert [m.content for m in made.messages if m.role != "tool"] == [
        "Build the cart",
        "",
        "Test it",
    ]


def test_calls_of_the_store_count_for_the_run_that_crashed(tmp_path: Path) -> None:
    store = make_store(tmp_path / "session-store.db", 5)
    calls = ((1, "10:00:04", 500, 20), (2, "10:02:02", 900, 30))
    for number, time, prompt, completion in calls:
        store.execute(
            "INSERT INTO assistant_usage_events (id, session_id, model, input_tokens, "
            "output_tokens, cache_read_tokens, created_at) VALUES (?,?,?,?,?,?,?)",
            (number, SESSION, "model-a", prompt, completion, 100, f"2026-05-04T{time}Z"),
        )
    store.commit()
    store.close()
    usage = {"inputTokens": 500, "outputTokens": 20, "cacheReadTokens": 100}
    metrics = {"model-a": {"requests": {"count": 1, "cost": 1}, "usage": usage}}
    events = [
        ("session.start", "10:00:00", {"sessionId": SESSION}),
        ("user.message", "10:00:01", {"content": "Build the cart"}),
        (
            "assistant.message",
            "10:00:05",
            {"messageId": "a", "content": "Built.", "outputTokens": 20},
        ),
        ("session.shutdown", "10:01:00", {"modelMetrics": metrics}),
        ("session.resume", "10:02:00", {}),
        ("user.message", "10:02:01", {"content": "Test it"}),
        ("assistant.message", "10:02:03", {"messageId": "b", "content": "So.", "outputTokens": 30}),
    ]
    write_log(tmp_path, events)
    made = only(tmp_path)
    assert words(made) == ["Build the cart", "Built.", "Test it", "So."]
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (1400, 50)
    assert made.usage.cached_tokens == 200
    assert made.usage.extra == {"runs": 2, "runs_reported": 1}
    assert made.partial is None


def test_a_broken_store_is_a_problem_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "session-store.db"
    make_store(path, 2).close()
    data = bytearray(path.read_bytes())
    data[4096:9000] = b"\xff" * 4904
    path.write_bytes(data)
    tally = Tally()
    facts = facts_of(origins_of(tmp_path), tally)
    assert [fact.code for _, fact in facts if isinstance(fact, Problem)] == ["unreadable-database"]
    assert tally.problems == 1
