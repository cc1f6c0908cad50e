"""The tables: the columns that others know, one row for everything, raw records as they were."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

import unspool
from tests.harness import CASES, put_trajectory
from tests.store.conftest import made
from tests.store.test_sync import _sorted, run, sound, stored, sync
from unspool.store.blocks import iter_raw
from unspool.store.conversations import get_trajectory
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, transaction, writing
from unspool.store.rows import make_rows
from unspool.store.sync import Sync
from unspool.trajectory import FileTouch, Link, Trajectory, Usage, pack_trajectory

SEED = {
    "cursor_sessions": "id external_session_id workspace_hash workspace_name workspace_path"
    " started_at ended_at metadata",
    "conversations": "id session_id external_id platform workspace_hash workspace_name started_at"
    " ended_at interaction_count acceptance_rate total_tokens total_changes context metadata"
    " tool_sequence acceptance_decisions",
    "conversation_alignments": "id claude_conversation_id cursor_conversation_id correlation_data"
    " created_at",
}


def rich(ident: str = "c1", source: str = "claude-code") -> Trajectory:
    one = made(ident, source, "Fix the limiter", "Done.")
    one.references = [{"kind": "commit", "value": "abc123", "turn": 0}, {"kind": "pr", "value": 7}]
    one.checkpoints = [{"number": 3, "title": "Before"}, {"title": "After"}]
    one.children = [Link("sub", tool_call_id=f"{ident}-1")]
    one.metadata = {"k": [1, None, {"deep": "ü"}]}
    one.context = {"rules": ["r"]}
    return one


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with writing(tmp_path / "s.db") as connection:
        with transaction(connection):
            put_trajectory(connection, rich())
        yield connection


@pytest.mark.parametrize("table", SEED)
def test_the_seeds_tables_have_its_columns_first(store: Any, table: str) -> None:
    columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
    expected = SEED[table].split()
    assert columns[: len(expected)] == expected


def test_the_check_binds_two_platforms_and_the_ids_are_unique(store: Any) -> None:
    put = "INSERT INTO conversations (id, external_id, platform, source, started_at, session_id)"
    for platform, session in (("cursor", None), ("claude_code", "x")):
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            store.execute(f"{put} VALUES ('n', 'n', ?, '', '', ?)", (platform, session))
    store.execute(f"{put} VALUES ('n', 'n', 'anything_else', '', '', NULL)")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        store.execute(f"{put} VALUES ('m', 'n', 'anything_else', '', '', NULL)")


def test_a_trajectory_read_back_is_the_one_that_was_put_in(store: Any) -> None:
    found = get_trajectory(store, "claude_code:c1")
    assert found == rich()
    assert found is not None
    assert pack_trajectory(found) == pack_trajectory(rich())


def test_everything_has_its_row(store: Any) -> None:
    def rows(query: str) -> Any:
        return store.execute(query).fetchall()

    assert rows("SELECT kind, value, turn_index FROM git_references") == [
        ("commit", "abc123", 0),
        ("pr", "7", None),
    ]
    assert rows("SELECT number, title FROM checkpoints") == [(3, "Before"), (2, "After")]
    assert rows("SELECT * FROM links") == [
        ("claude_code:c1", "claude_code:sub", "subagent", "c1-1")
    ]
    assert rows("SELECT name, is_error, turn_index, started_at FROM tool_calls") == [
        ("Edit", 1, 0, "2026-03-04T10:00:02.000Z")
    ]
    touched = rows("SELECT path, operation, lines_added, outcome, turn_index FROM files_touched")
    assert touched == [
        ("/w/app/limiter.py", "edit", 5, "accepted", 0),
        ("/w/app/limiter.py", "edit", 9, "rejected", 0),
    ]
    roles = [message.role for message in rich().messages]
    roles += ["checkpoint", "checkpoint"]  # their words are found by search, as those of messages
    assert [row[0] for row in rows("SELECT role FROM messages ORDER BY message_index")] == roles
    assert json.loads(rows("SELECT metadata FROM conversations")[0][0]) == rich().metadata


def test_one_row_per_turn(store: Any) -> None:
    cursor = store.execute("SELECT * FROM conversation_turns ORDER BY turn_index")
    names = [column[0] for column in cursor.description]
    first, second = (dict(zip(names, row, strict=True)) for row in cursor)
    assert (first["prompt"], first["answer"]) == ("Fix the limiter", "Done.")
    assert (first["model"], first["prompt_tokens"], first["completion_tokens"]) == (
        "claude-sonnet-4-5", 1000, 100,
    )  # fmt: skip
    assert (first["tools"], first["files"]) == ('["Edit"]', '["/w/app/limiter.py"]')
    assert first["started_at"] == "2026-03-04T10:00:01.000Z"
    assert (second["prompt"], second["prompt_tokens"], second["tools"]) == (
        "and the tests?", None, "[]",
    )  # fmt: skip


def test_the_prompt_of_a_turn_is_what_was_typed(store: Any) -> None:
    one = rich("c2")
    context = one.messages.pop(3)
    one.messages.insert(0, context)  # what a program injects may come first
    with transaction(store):
        put_trajectory(store, one)
    row = store.execute(
        "SELECT prompt FROM conversation_turns WHERE conversation_id = 'claude_code:c2'"
    ).fetchone()
    assert row == ("Fix the limiter",)


def test_metrics_by_their_formulas() -> None:
    one = rich()
    outcomes = ("accepted", "modified", "rejected", "denied", "undone", "failed", None)
    one.files = [FileTouch("/a", operation="edit", outcome=outcome) for outcome in outcomes]
    one.files += [FileTouch("/a", operation="read"), FileTouch("/b", operation="create")]
    figures = make_rows(one).conversation
    assert figures["total_changes"] == 4  # accepted, modified, unknown, created
    assert len(json.loads(figures["acceptance_decisions"])) == 5
    assert figures["acceptance_rate"] == 2 / 5
    assert figures["interaction_count"] == 2
    assert figures["total_tokens"] == 1100
    assert figures["tool_sequence"] == '["Edit"]'
    one.messages[0].copied = one.messages[1].copied = True
    figures = make_rows(one).conversation
    assert (figures["interaction_count"], figures["tool_sequence"]) == (1, "[]")


def test_what_metrics_cannot_know_is_unknown() -> None:
    one = rich()
    one.files = [
        FileTouch("/a", operation="edit"),
        FileTouch("/a", operation="edit", outcome="failed"),
    ]
    figures = make_rows(one).conversation
    assert figures["acceptance_rate"] is None
    assert figures["acceptance_decisions"] == "[]"
    assert figures["lines_added"] is None
    one.usage = Usage()
    assert make_rows(one).conversation["total_tokens"] is None
    one.usage = None
    assert make_rows(one).conversation["total_tokens"] is None


def kept(store: Path, name: str) -> tuple[bytes, list[tuple[Any, ...]]]:
    with reading(store) as connection:
        (ident,) = connection.execute("SELECT id FROM origins WHERE name = ?", (name,)).fetchone()
        rows = connection.execute(
            "SELECT platform, external_id, event_types, started_at, ended_at, records, data"
            " FROM raw_traces WHERE origin_id = ? ORDER BY first_offset",
            (ident,),
        ).fetchall()
        return b"".join(data for _, data in iter_raw(connection, ident)), rows


def test_raw_records_are_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks per conversation, compressed, with types and times: put together, the file."""
    monkeypatch.setattr("unspool.store.blocks.BLOCK_BYTES", 2000)
    home = CASES / "copilot_telemetry"
    store = tmp_path / "s.db"
    sync(store, home)
    conversations: set[str] = set()
    kinds: set[str] = set()
    for path in sorted(home.glob("*/input/*.jsonl")):
        data, rows = kept(store, path.relative_to(home).as_posix())
        whole = path.read_bytes()
        assert whole.startswith(data)
        assert b"\n" not in whole[len(data) :]  # a line that is being written waits
        conversations |= {row[1] for row in rows}
        for row in rows:
            block = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(row[-1]))
            assert len(block) == row[5] == sum(json.loads(row[2]).values())
            assert [offset for offset, _ in block] == sorted(offset for offset, _ in block)
        kinds |= {kind for row in rows for kind in json.loads(row[2])}
        assert all(row[3] is None or row[3] <= row[4] for row in rows)
    assert len(conversations) > 10
    assert "GitHub.copilot-chat/engine.messages" in kinds


def test_a_raw_database_is_the_database(tmp_path: Path) -> None:
    home = CASES / "copilot_cli" / "store_only" / "input"
    store = tmp_path / "s.db"
    sync(store, home)
    (path,) = home.rglob("*.db")
    data, rows = kept(store, path.relative_to(home).as_posix())
    assert rows[0][2] == '{"database": 1}'
    copy = tmp_path / "copy.db"
    copy.write_bytes(data)
    dumps = []
    for one in (copy, path):
        with closing(sqlite3.connect(f"{one.as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            dumps.append(list(opened.iterdump()))
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("kind", ["jsonl", "atif"])
def test_trajectories_of_files_are_kept_as_they_are(tmp_path: Path, kind: str) -> None:
    """Also when the sync that read them was killed before it had linked them."""
    home, store = tmp_path / "home", tmp_path / "s.db"
    home.mkdir()
    case = CASES / "claude_code" / "persisted_output" / "input"
    target = home / "a.jsonl" if kind == "jsonl" else home
    assert run("extract", case, "--to", kind, "-o", target, "-q").returncode == 0
    expected = _sorted(unspool.extract(home))
    assert expected
    with writing(store) as connection:
        killed = Sync(connection)
        killed.update.link = list  # type: ignore[method-assign,assignment]  # it ended before
        killed.run([str(home)])
    sync(store, home)
    assert stored(store) == expected
    shutil.rmtree(home)
    with writing(store) as connection:
        rebuild(connection)
    assert stored(store) == expected
    sound(store)


def test_the_documented_queries_run_in_the_shell(store: Any, tmp_path: Path) -> None:
    """As people do who open the file with sqlite3, read-only, while it is being written."""
    text = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    queries = text.split("```sql\n")[1].split("```")[0]
    command = ["sqlite3", "-readonly", "-bail", "-json", str(tmp_path / "s.db")]
    try:
        done = subprocess.run(command, input=queries, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("sqlite3 is not here")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Fix the limiter" in done.stdout
