"""Many machines feed one store over a real redis-server, which may be killed and emptied."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.live.test_intake import drop, payload
from unspool.errors import QueueError
from unspool.hooks.spool import Layout
from unspool.live import redis_queue
from unspool.live.forward import send_on
from unspool.live.intake import take_in
from unspool.live.mirror import Piece, Sender, _encode, apply, mirror_folder
from unspool.live.queue import Arrival, SqliteQueue
from unspool.live.redis_queue import RedisQueue

SOURCE = str(Path(__file__).parents[2] / "src")
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
pytestmark = pytest.mark.live


def _missing() -> NoReturn:
    reason = "redis-server is missing (apt-get install redis-server)"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Server:
    """A redis-server of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            [*command, "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        wait_for(self._answers)

    def _answers(self) -> bool:
        try:
            RedisQueue(self.address).close()
        except QueueError:
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if shutil.which("redis-server") is None:
        _missing()
    made = Server(tmp_path)
    yield made
    made.kill()


def wait_for(is_so: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def arrival(number: int) -> Arrival:
    data = payload(session_id="s1", tool_use_id=f"t{number}", hook_event_name="PostToolUse")
    return Arrival(f"e{number}", number, "claude-code", "PostToolUse", "s1", data)


# The queue


def test_what_is_put_is_read_once_and_trimmed_when_the_store_has_it(server: Server) -> None:
    queue = RedisQueue(server.address)
    queue.put([arrival(number) for number in range(5)])
    assert queue.backlog("").events == 5
    first = queue.read("", 3)
    assert [event.arrival for event in first] == [arrival(number) for number in range(3)]
    assert queue.client.xlen(redis_queue.STREAM) == 5  # nothing is acknowledged yet
    queue.acknowledge(first[-1].position, first[:2])
    assert queue.client.xlen(redis_queue.STREAM) == 3  # the third is still ours
    queue.acknowledge(first[-1].position, first[2:])
    rest = queue.read("", 10)
    assert [event.arrival.event_id for event in rest] == ["e3", "e4"]
    queue.acknowledge(rest[-1].position, rest)
    assert queue.client.xlen(redis_queue.STREAM) == 0
    assert queue.acknowledged() == rest[-1].position
    assert queue.backlog("").events == 0


def test_the_entries_of_a_dead_worker_are_claimed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queue, "CLAIM_MS", 300)
    dead = RedisQueue(server.address, "dead")
    dead.put([arrival(1), arrival(2)])
    assert len(dead.read("")) == 2  # and then it dies, before it acknowledges
    other = RedisQueue(server.address, "other")
    assert other.read("") == []
    time.sleep(0.5)
    assert [event.arrival.event_id for event in other.read("")] == ["e1", "e2"]


def test_a_worker_that_comes_back_has_what_it_had(server: Server) -> None:
    RedisQueue(server.address, "one").put([arrival(1)])
    assert RedisQueue(server.address, "one").read("")
    assert [event.arrival for event in RedisQueue(server.address, "one").read("")] == [arrival(1)]


def test_what_fails_three_times_is_dead_and_can_be_tried_again(server: Server) -> None:
    queue = RedisQueue(server.address, "one")
    queue.put([arrival(1)])
    for number in range(3):
        (event,) = queue.read("")
        assert [one.arrival.event_id for one in queue.fail([event], "broken")] == (
            ["e1"] if number == 2 else []
        )
    assert queue.read("") == []
    (dead,) = queue.dead()
    assert (dead.arrival, dead.error) == (arrival(1), "broken")
    assert queue.retry() == 1
    assert [event.arrival for event in queue.read("")] == [arrival(1)]


def test_what_others_put_there_is_no_traceback(server: Server) -> None:
    queue = RedisQueue(server.address)
    queue.client.xadd(redis_queue.STREAM, {"foo": "bar"})
    (event,) = queue.read("")
    assert event.arrival.data == b""


def test_the_journal_is_kept_until_the_store_has_it(server: Server, tmp_path: Path) -> None:
    journal = SqliteQueue(tmp_path / "journal.db")
    journal.put([arrival(number) for number in range(3)])
    queue = RedisQueue(server.address)
    assert send_on(journal, queue) == 3
    assert send_on(journal, queue) == 0
    assert journal.backlog("").events == 3
    queue.client.flushall()
    assert send_on(journal, queue) == 3  # Redis has lost everything: once more
    worker = RedisQueue(server.address)
    events = worker.read("")
    assert [event.arrival for event in events] == [arrival(number) for number in range(3)]
    worker.acknowledge(events[-1].position, events)
    send_on(journal, queue)
    assert journal.backlog("").events == 0


# Files of another machine


def test_pieces_of_a_file_in_any_order_twice_and_anew(tmp_path: Path) -> None:
    layout = Layout.beside(tmp_path / "store.db")
    layout.make()

    def piece(
        edition: str, offset: int, data: bytes, total: int = 0, name: str = "s.jsonl"
    ) -> None:
        path = f"/home/ann/.claude/{name}"
        made = Piece("host", path, edition, offset, total, 10**18, data, whole=total > 0)
        apply(layout, Arrival("", 0, "", "file_bytes", "", _encode(made)))

    target = mirror_folder(layout) / "host/home/ann/.claude/s.jsonl"
    piece("a", 4, b"two\n")
    piece("a", 0, b"one\n")
    assert target.read_bytes() == b"one\ntwo\n"
    piece("a", 0, b"one\n")
    piece("a", 8, b"three\n")
    assert target.read_bytes() == b"one\ntwo\nthree\n"
    piece("b", 0, b"anew\n")
    piece("a", 14, b"four\n")  # late, of a file that is no more
    assert target.read_bytes() == b"anew\n"
    # A database takes the place of the one before when all of it is here.
    database = target.with_name("d.db")
    for _ in range(2):
        piece("a", 4, b"5678", 8, "d.db")
        piece("a", 0, b"1234", 8, "d.db")
    piece("b", 0, b"abcd", 6, "d.db")
    assert database.read_bytes() == b"12345678"
    piece("b", 4, b"ef", 6, "d.db")
    assert database.read_bytes() == b"abcdef"


@pytest.mark.parametrize("path", ["/../../etc/passwd", "..\\..\\x", "/a/../../../b", "/./.", ""])
def test_no_path_leads_out_of_the_mirror(tmp_path: Path, path: str) -> None:
    layout = Layout.beside(tmp_path / "in" / "store.db")
    layout.make()
    made = Piece("../../host", path + "/x", "e", 0, 0, 10**18, b"data")
    apply(layout, Arrival("", 0, "", "file_bytes", "", _encode(made)))
    outside = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert all(one.is_relative_to(tmp_path / "in") for one in outside)


# Real processes


@contextmanager
def watching(store: Path, server: Server, role: str, *options: str, **env: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "unspool", "watch", "--store", str(store), "--role", role]
    process = subprocess.Popen(
        [*command, "--queue", server.address, *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **env},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()  # type: ignore[union-attr]  # it is a pipe


def transcript(number: int) -> str:
    after = f"u{number - 1}" if number else None
    record = {
        "type": "user" if number % 2 == 0 else "assistant", "uuid": f"u{number}",
        "parentUuid": after, "sessionId": "s1", "version": "2.1.300", "cwd": "/home/ann/shop",
        "timestamp": f"2026-03-04T10:00:{number:02}.000Z",
        "message": {
            "id": f"m{number}", "role": "user" if number % 2 == 0 else "assistant",
            "content": f"words {number}",
        },
    }  # fmt: skip
    return json.dumps(record) + "\n"


def messages_in(store: Path) -> int:
    try:
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        (count,) = connection.execute(
            "SELECT ifnull(max(messages), 0) FROM conversations"
        ).fetchone()
        connection.close()
    except sqlite3.Error:
        return 0
    return int(count)


def events_in(store: Path) -> list[str]:
    try:
        connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        rows = connection.execute(
            "SELECT event_id FROM raw_traces WHERE event_id IS NOT NULL"
        ).fetchall()
        connection.close()
    except sqlite3.Error:
        return []
    return [row[0] for row in rows]


def test_another_machine_feeds_the_store_while_redis_dies(server: Server, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    home = there / ".claude" / "projects" / "-home-ann-shop"
    for folder in (here, home):
        folder.mkdir(parents=True)
    log = home / "s1.jsonl"
    layout = Layout.beside(there / "none.db")
    layout.make()
    store = here / "store.db"
    with (
        watching(there / "none.db", server, "intake", str(there / ".claude")),
        watching(store, server, "worker") as worker,
    ):
        for number in range(30):
            with log.open("a") as file:
                file.write(transcript(number))
            drop(layout, f"any.{number}", payload(tool_use_id=f"t{number}"), 10**18 + number)
            if number == 10:
                server.kill()
                time.sleep(1)
                server.start()  # empty: nothing of it was on disk
            if number == 20:
                RedisQueue(server.address).client.flushall()
            time.sleep(0.05)
        wait_for(lambda: messages_in(store) == 30)
        wait_for(lambda: len(events_in(store)) >= 30)
        shown = subprocess.run(
            [sys.executable, "-m", "unspool", "show", "s1", "--queue", server.address],
            capture_output=True, text=True, env=ENVIRONMENT,
        )  # fmt: skip
        assert "words 28" in shown.stdout, shown.stderr
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert len(events_in(store)) == len(set(events_in(store))) == 30
    assert not (there / "none.db").exists()


def test_an_intake_sends_what_is_new_and_nothing_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = Layout.beside(tmp_path / "none.db")
    layout.make()
    journal = SqliteQueue(layout.live / "queue.db")
    (tmp_path / "s1.jsonl").write_text(transcript(0))
    sender = Sender(journal, ["."], layout.live)
    assert [sender.step(), sender.step()] == [1, 0]
    with (tmp_path / "s1.jsonl").open("a") as file:
        file.write(transcript(1))
    assert sender.step() == 1
    journal.close()


def test_an_unreachable_redis_is_one_line_and_the_spool_keeps(
    server: Server, tmp_path: Path
) -> None:
    server.kill()
    store = tmp_path / "home" / "store.db"
    layout = Layout.beside(store)
    layout.make()
    with watching(store, server, "all", str(tmp_path / "home")) as process:
        assert "watching" in process.stderr.readline()
        for number in (1, 2):
            drop(layout, f"any.{number}", payload(tool_use_id=f"t{number}"), 10**18 + number)
            assert "redis://127.0.0.1" in process.stderr.readline()
            server.start()
            wait_for(lambda number=number: len(events_in(store)) == number)  # type: ignore[misc]
            assert "it works again" in process.stderr.readline()
            server.kill()


def test_a_worker_killed_before_it_acknowledges_doubles_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "home" / "store.db"
    store.parent.mkdir()
    RedisQueue(server.address).put([arrival(number) for number in range(50)])
    with watching(store, server, "worker", UNSPOOL_FAILPOINT="writer-committed:1") as process:
        assert process.wait(60) == -signal.SIGKILL
    queue = RedisQueue(server.address)
    assert queue.backlog("").events == 50  # not acknowledged
    # Another one claims them after a minute; here at once.
    pending = queue.client.xpending_range(redis_queue.STREAM, redis_queue.GROUP, "-", "+", 100)
    idents = [one["message_id"] for one in pending]
    queue.client.xclaim(redis_queue.STREAM, redis_queue.GROUP, "next", 0, idents, idle=100_000)
    with watching(store, server, "worker"):
        wait_for(lambda: queue.backlog("").events == 0)
    assert sorted(events_in(store)) == sorted(f"e{number}" for number in range(50))


def test_the_spool_goes_through_the_journal(server: Server, tmp_path: Path) -> None:
    layout = Layout.beside(tmp_path / "store.db")
    layout.make()
    drop(layout, "any.1", payload(tool_use_id="t1"), 1)
    journal = SqliteQueue(tmp_path / "journal.db")
    list(take_in(layout, journal))
    assert send_on(journal, RedisQueue(server.address)) == 1
    assert list(layout.new.iterdir()) == []
