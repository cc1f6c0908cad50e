"""From the hook's shell command to the queue: each event once, in order, whatever its payload is."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from unspool.hooks.spool import HALF_WRITTEN_SECONDS, Layout, hand_over
from unspool.live.intake import make_arrival, sweep, take_in
from unspool.live.logs import log_line, log_path
from unspool.live.queue import Arrival, SqliteQueue


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.beside(tmp_path / "conversations.db")
    made.make()
    return made


@pytest.fixture
def queue(layout: Layout) -> Any:
    made = SqliteQueue(layout.live / "queue.db")
    yield made
    made.close()


def drop(layout: Layout, name: str, data: bytes, at: int) -> None:
    """As a hook does, at a time of our choice."""
    file = layout.tmp / name
    file.write_bytes(data)
    os.utime(file, ns=(at, at))
    file.rename(layout.new / name)


def payload(**fields: Any) -> bytes:
    return json.dumps({"session_id": "s1", "hook_event_name": "Stop", **fields}).encode()


def test_the_hooks_command_ends_in_the_queue(layout: Layout, queue: SqliteQueue) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", hand_over(layout.spool)], input=payload(), capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"{}")
    (batch,) = take_in(layout, queue)
    assert [(one.platform, one.event_type, one.session) for one in batch] == [
        ("claude-code", "Stop", "s1")
    ]
    (event,) = queue.read("")
    assert event.arrival.data == payload()
    assert abs(event.arrival.received_ns - time.time_ns()) < 60e9
    assert list(layout.new.iterdir()) == []


def test_in_order_of_arrival_and_each_once(layout: Layout, queue: SqliteQueue) -> None:
    for number in (3, 1, 2):
        drop(layout, f"any.{number}", payload(tool_use_id=f"t{number}"), number)
    drop(layout, "any.again", payload(tool_use_id="t1"), 4)  # from a second hook file
    drop(layout, "any.a", payload(), 5)
    drop(layout, "any.b", payload(), 6)  # nothing tells that these are the same
    assert [len(batch) for batch in take_in(layout, queue)] == [6]
    events = queue.read("")
    assert [event.arrival.received_ns for event in events] == [1, 2, 3, 5, 6]
    assert list(take_in(layout, queue)) == []


def test_a_file_that_outlived_its_intake_is_one_event(layout: Layout, queue: SqliteQueue) -> None:
    for _ in range(2):
        drop(layout, "any.1", payload(), 1)
        list(take_in(layout, queue))
    assert len(queue.read("")) == 1


def test_a_time_stamp_does_not_make_two_events_of_one() -> None:
    first = make_arrival(payload(timestamp="1", prompt_id="p"), "any.1", 1)
    second = make_arrival(payload(timestamp="2", prompt_id="p"), "any.2", 2)
    assert first.event_id == second.event_id


@pytest.mark.parametrize(
    ("name", "fields", "platform", "session"),
    [
        ("any.x", {"transcript_path": "/h/.claude/projects/p/s1.jsonl"}, "claude-code", "s1"),
        ("any.x", {}, "claude-code", "s1"),
        ("any.x", {"timestamp": "2026-01-01T00:00:00Z"}, "copilot-cli", "s1"),
        ("any.x", {"conversation_id": "c", "generation_id": "g"}, "cursor", "c"),
        ("cursor.any.x", {"cursor_version": "3.8", "conversation_id": "c"}, "cursor", "c"),
        ("codex.x", {"turn_id": "t"}, "codex", "s1"),
        ("gemini-cli.x", {}, "gemini-cli", "s1"),
        (
            "any.x",
            {"transcript_path": "/h/workspaceStorage/a/t.jsonl"},
            "copilot-vscode",
            "s1",
        ),
        ("any.x", {"transcript_path": "C:\\u\\.codex\\sessions\\r.jsonl"}, "codex", "s1"),
    ],
)
def test_whose_an_event_is(name: str, fields: Any, platform: str, session: str) -> None:
    arrival = make_arrival(payload(**fields), name, 1)
    assert (arrival.platform, arrival.session) == (platform, session)


BAD = [
    b"",
    b"\n",
    b"null",
    b"[1]",
    b'{"session_id":"s1","hook_',
    b"\xff\xfe{",
    b"{}{}",
    b"{" * 9999,
]


def test_bad_payloads_go_through(layout: Layout, queue: SqliteQueue) -> None:
    for number, data in enumerate(BAD):
        drop(layout, f"any.{number}", data, number)
    list(take_in(layout, queue))
    events = queue.read("")
    assert [event.arrival.data for event in events] == BAD
    assert events[4].arrival.session == "s1"
    for event in events:
        assert log_line(event.arrival).count(b"\n") == 1


def test_a_line_of_the_log_is_the_payload_with_its_time(layout: Layout) -> None:
    arrival = Arrival("e", 1_700_000_000_000_000_000, "cursor", "stop", "../../etc", b'{\n "a": 1}')
    assert json.loads(log_line(arrival)) == {"_logged_at": "2023-11-14T22:13:20.000000Z", "a": 1}
    assert json.loads(log_line(arrival._replace(data=b"{ }"))).keys() == {"_logged_at"}
    path = Path(log_path(layout, arrival))
    assert path.parent == layout.live / "logs" / "cursor"
    assert ".." not in path.name


def test_failing_three_times_is_death_and_dead_can_be_retried(queue: SqliteQueue) -> None:
    queue.put([Arrival(f"e{n}", n, "x", "", "", b"{}") for n in range(3)])
    for _ in range(2):
        bad = [event for event in queue.read("") if event.arrival.event_id == "e0"]
        assert queue.fail(bad, "why") == []
    events = queue.read("")
    assert [event.arrival.event_id for event in events] == ["e1", "e2", "e0"]
    assert queue.fail(events[2:], "why") == events[2:]
    assert [(dead.arrival.event_id, dead.error) for dead in queue.dead()] == [("e0", "why")]
    assert queue.put([Arrival("e0", 0, "x", "", "", b"{}")]) == 0  # dead is dead
    assert queue.retry() == 1
    assert queue.dead() == []
    queue.acknowledge(queue.read("")[-1].position)
    assert queue.read("") == []
    queue.put([Arrival("e9", 9, "x", "", "", b"{}")])
    assert queue.read("")[0].sequence > events[-1].sequence  # numbers never come back


def test_what_a_killed_hook_left_is_swept(layout: Layout) -> None:
    old, fresh = layout.tmp / "any.old", layout.tmp / "any.fresh"
    old.write_bytes(b"{")
    fresh.write_bytes(b"{")
    then = time.time() - HALF_WRITTEN_SECONDS - 60
    os.utime(old, (then, then))
    assert sweep(layout) == 1
    assert list(layout.tmp.iterdir()) == [fresh]
