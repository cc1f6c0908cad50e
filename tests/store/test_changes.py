"""The change stream: whoever writes a conversation tells it, and readers in any process follow."""

from pathlib import Path

import msgspec
import pytest

from tests.harness import put_trajectory
from tests.store.conftest import made
from tests.store.test_sync import run
from unspool.store.changes import changes_after, drop_old_changes, last_change
from unspool.store.conversations import remove
from unspool.store.events import Event, iter_events, position, put_events, put_position
from unspool.store.opening import transaction, writing


def test_writing_and_removing_is_told_in_order(tmp_path: Path) -> None:
    with writing(tmp_path / "s.db") as connection:
        one = made("c1", "claude-code", "Hello", "Hi")
        for _ in range(2):
            with transaction(connection):
                put_trajectory(connection, one)
        with transaction(connection):
            remove(connection, "claude_code:c1")
        news = changes_after(connection, 0)
    assert [(c.seq, c.conversation, c.kind) for c in news.changes] == [
        (1, "claude_code:c1", "new"),
        (2, "claude_code:c1", "changed"),
        (3, "claude_code:c1", "removed"),
    ]
    assert news.seq == 3
    assert not news.reset


def test_what_is_rolled_back_is_not_told(tmp_path: Path) -> None:
    def fail(connection: object) -> None:
        with transaction(connection):  # type: ignore[arg-type]
            put_trajectory(connection, made("c1", "claude-code", "a", "b"))  # type: ignore[arg-type]
            raise KeyError

    with writing(tmp_path / "s.db") as connection:
        with pytest.raises(KeyError):
            fail(connection)
        assert changes_after(connection, 0).changes == []


def test_a_reader_that_was_away_too_long_begins_anew(tmp_path: Path) -> None:
    with writing(tmp_path / "s.db") as connection:
        with transaction(connection):
            for number in range(4):
                put_trajectory(connection, made(f"c{number}", "claude-code", "a", "b"))
        connection.execute("UPDATE changes SET at = '2020-01-01T00:00:00.000Z' WHERE seq <= 2")
        drop_old_changes(connection)
        assert changes_after(connection, 1).reset
        assert [c.seq for c in changes_after(connection, 2).changes] == [3, 4]
        connection.execute("DELETE FROM changes")
        assert changes_after(connection, 3).reset
        assert changes_after(connection, 4) == (4, [], False)
        assert changes_after(connection, 9).reset  # of another store
        assert last_change(connection) == 4


def test_events_are_kept_one_by_one_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    key = ("claude-code", "c1")
    lines = [b'{"hook_event_name":"Stop"}\n', b"no json\n"]
    with writing(path) as connection, transaction(connection):
        put_trajectory(connection, made("c1", "claude-code", "a", "b"))
        (ident,) = connection.execute(
            "INSERT INTO origins (path, name, source, size_bytes, mtime_ns, read_bytes, tail_hash,"
            " first_seen, last_read) VALUES ('log', 'log', '', 0, 0, 0, '', '', '') RETURNING id"
        ).fetchone()
        events = [
            Event("e1", key, "Stop", 1, 1_700_000_000_123_456_789, 0, lines[0]),
            Event("e2", key, "", 2, 1_700_000_000_123_456_789, len(lines[0]), lines[1]),
        ]
        put_events(connection, ident, events)
        put_position(connection, "q", "2")
        assert position(connection, "q") == "2"
        read = list(iter_events(connection, key))
        assert [(e.event_id, e.event_type, e.sequence) for e in read] == [
            ("e1", "Stop", 1),
            ("e2", "", 2),
        ]
        assert read[0].received_at == "2023-11-14T22:13:20.123456Z"
        assert [e.event_id for e in iter_events(connection, key, "Stop")] == ["e1"]
    result = run("store", "events", "c1", "--store", str(path), "--json")
    first, second = (msgspec.json.decode(line) for line in result.stdout.splitlines())
    assert first["payload"] == {"hook_event_name": "Stop"}
    assert second["text"] == "no json\n"
