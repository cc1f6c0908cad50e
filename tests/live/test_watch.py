"""`unspool watch` as a process: lines, states, one per store, kills at every point, locked stores."""

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PEAK_KB
from tests.live.test_intake import drop
from tests.test_extract import ENV
from unspool.hooks.spool import Layout, hand_over
from unspool.live import monitors
from unspool.live.daemon import Daemon, News, read_status
from unspool.live.queue import Backlog
from unspool.store.opening import reading, writing

pytestmark = pytest.mark.live
SESSION = "0c7f6d1e-1111-4a11-8a11-00000000000%d"
PATIENCE = 60


class Home:
    """A store with a spool, and a folder for transcripts."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "data" / "conversations.db"
        self.layout = Layout.beside(self.store)
        self.layout.make()
        self.files = folder / "home"
        self.files.mkdir()
        self.dropped = 0
        self.first_ns = 1_760_000_000_000_000_000

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "unspool", *args, "--store", str(self.store)]

    def watch(self, *args: str, failpoint: str = "") -> "subprocess.Popen[bytes]":
        env = {**ENV, "UNSPOOL_FAILPOINT": failpoint}
        return subprocess.Popen(
            self.command("watch", str(self.files), "--json", *args),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )

    @contextmanager
    def watching(self) -> Iterator["subprocess.Popen[bytes]"]:
        process = self.watch()
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)

    def once(self, failpoint: str = "") -> "subprocess.CompletedProcess[bytes]":
        process = self.watch("--once", failpoint=failpoint)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def drop(self, session: int = 0, event: str = "PostToolUse", **fields: Any) -> None:
        self.dropped += 1
        number = self.dropped
        payload = {
            "session_id": SESSION % session,
            "hook_event_name": event,
            "cwd": "/w",
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{number}",
            "tool_input": {"command": f"echo {number}"},
            "tool_response": {"stdout": f"{number}"},
            **fields,
        }
        at = self.first_ns + number * 1_000_000
        drop(self.layout, f"any.{number:06d}", json.dumps(payload).encode(), at)

    def rows(self, query: str) -> list[Any]:
        with reading(self.store) as connection:
            return connection.execute(query).fetchall()

    def calls(self) -> list[str]:
        return sorted(row[0] for row in self.rows("SELECT call_id FROM tool_calls"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_from_the_hook_to_the_store_while_it_happens(home: Home) -> None:
    with home.watching() as process:
        assert process.stdout is not None
        for event in ("UserPromptSubmit", "Notification"):
            payload = {
                "session_id": SESSION % 1,
                "hook_event_name": event,
                "prompt": "Mend the kite",
                "message": "Claude needs your permission to use Bash",
            }
            command = ["/bin/sh", "-c", hand_over(home.layout.spool)]
            subprocess.run(command, input=json.dumps(payload).encode(), stdout=subprocess.DEVNULL)
            line = json.loads(process.stdout.readline())
            if event == "UserPromptSubmit":
                while line["kind"] == "state":  # the event is known before its conversation is made
                    line = json.loads(process.stdout.readline())
                assert (line["kind"], line["title"], line["messages"]) == (
                    "new",
                    "Mend the kite",
                    1,
                )
                assert line["state"] == "working"
        while line["state"] != "waiting":
            line = json.loads(process.stdout.readline())
        transcript = home.files / f"{SESSION % 2}.jsonl"
        said = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": SESSION % 2}
        said |= {"timestamp": "2026-03-04T10:00:00Z", "message": {"role": "user", "content": "Hi"}}
        transcript.write_text(json.dumps(said) + "\n")
        while line["conversation"] != f"claude-code/{SESSION % 2}":
            line = json.loads(process.stdout.readline())
        assert line["messages"] == 1
        second = home.once()
        assert second.returncode == 1
        assert f"process {process.pid}".encode() in second.stderr
        info = subprocess.run(home.command("store", "info"), env=ENV, capture_output=True)
        assert f"process {process.pid}".encode() in info.stdout


def test_commands_drain_the_spool_without_a_daemon(home: Home) -> None:
    home.drop(1, "UserPromptSubmit", prompt="Mend the kite")
    done = subprocess.run(home.command("sync", str(home.files)), env=ENV, capture_output=True)
    assert done.returncode == 0
    assert list(home.layout.new.iterdir()) == []
    home.drop(1, "UserPromptSubmit", prompt="and the string")
    done = subprocess.run(home.command("search", "string"), env=ENV, capture_output=True)
    assert b"string" in done.stdout
    ((events, last),) = home.rows("SELECT count(*), max(sequence) FROM raw_traces")
    assert (events, last) == (2, 2)


FAILPOINTS = [
    "intake-read:1",
    "intake-queued:2",
    "intake-removed:2",
    "writer-read:1",
    "writer-uncommitted:1",
    "writer-committed:1",
    "writer-acknowledged:1",
    "files-uncommitted:1",
    "files-committed:1",
    "update-reduced:1",
    "update-written:1",
]


def test_kill_9_at_every_point_loses_and_doubles_nothing(home: Home) -> None:
    """Of 1,000 events, some in each round, and a transcript that grows; each round is killed."""
    transcript = home.files / f"{SESSION % 9}.jsonl"
    for number, failpoint in enumerate(FAILPOINTS):
        for _ in range(1000 // len(FAILPOINTS) + 1):
            home.drop(home.dropped % 3)
        said = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": SESSION % 9}
        said["message"] = {"role": "user", "content": f"line {number}"}
        with open(transcript, "a") as log:
            log.write(json.dumps(said) + "\n")
        assert home.once(failpoint).returncode == -signal.SIGKILL, failpoint
    done = home.once()
    assert (done.returncode, done.stderr) == (0, b"")
    assert home.calls() == sorted(f"toolu_{n}" for n in range(1, home.dropped + 1))
    ((events,),) = home.rows("SELECT count(*) FROM raw_traces WHERE event_id IS NOT NULL")
    assert events == home.dropped
    ((said_rows,),) = home.rows("SELECT count(*) FROM messages WHERE role = 'user'")
    assert said_rows == len(FAILPOINTS)
    assert home.rows("SELECT * FROM dirty") == []
    assert list(home.layout.new.iterdir()) == []


def test_a_locked_store_is_awaited(home: Home) -> None:
    with writing(home.store) as connection:  # as a long sync
        connection.execute("BEGIN IMMEDIATE")
        process = home.watch()
        for _ in range(20):
            home.drop()
        # The intake goes on meanwhile.
        until(lambda: not list(home.layout.new.iterdir()))
        assert process.stderr is not None
        assert b"is being written by process" in process.stderr.readline()
        connection.execute("ROLLBACK")
    until(lambda: len(home.calls()) == 20)
    process.terminate()
    process.communicate(timeout=PATIENCE)


def test_sync_and_daemon_take_turns(home: Home) -> None:
    with home.watching():
        for round_ in range(5):
            for _ in range(20):
                home.drop(round_)
            command = [*home.command("sync", str(home.files)), "--wait", "30"]
            assert subprocess.run(command, env=ENV, capture_output=True).returncode == 0
        until(lambda: len(home.calls()) == 100)
    assert Counter(home.calls()).most_common(1)[0][1] == 1


BAD = {
    "empty": b"",
    "cut off": b'{"session_id":"' + (SESSION % 5).encode() + b'","hook_event_name":"Stop","tool',
    "not UTF-8": b'{"session_id":"'
    + (SESSION % 5).encode()
    + b'","hook_event_name":"UserPromptSubmit","prompt":"caf\xe9"}',
    "two objects": b'{"session_id":"a1","hook_event_name":"UserPromptSubmit","prompt":"one"}'
    b'{"session_id":"a1","hook_event_name":"UserPromptSubmit","prompt":"two"}',
    "long": b'{"session_id":"a2","hook_event_name":"UserPromptSubmit","prompt":"'
    + b"x" * (20 << 20)
    + b'"}',
    "no object": b"[1, 2]",
}


def test_bad_payloads_are_problems_and_stop_nobody(home: Home) -> None:
    home.drop(5, "UserPromptSubmit", prompt="Mend the kite")
    for number, data in enumerate(BAD.values()):
        drop(home.layout, f"any.bad{number}", data, 1_770_000_000_000_000_000 + number)
    home.drop(5, "UserPromptSubmit", prompt="and the string")
    done = home.once()
    assert (done.returncode, done.stderr) == (0, b"")
    codes = Counter(row[0] for row in home.rows("SELECT code FROM problems"))
    assert codes["truncated-json"] == 1
    assert codes["invalid-utf8"] == 1
    assert codes["long-value"] == 1
    assert codes["not-json"] == 2
    typed = {row[0] for row in home.rows("SELECT typed FROM texts WHERE length(typed) < 99")}
    assert typed >= {"Mend the kite", "and the string", "one", "two"}


def test_a_backlog_is_drained_in_bounded_memory(home: Home) -> None:
    for _ in range(5000):
        home.drop(home.dropped % 50)
    script = (
        f"{PEAK_KB}\nimport sys\nfrom unspool.cli import group\n"
        "group.main(sys.argv[1:], standalone_mode=False)\nprint(peak_kb())"
    )
    command = home.command("watch", str(home.files), "--once", "--quiet")[3:]
    done = subprocess.run(
        [sys.executable, "-c", script, *command], env=ENV, capture_output=True, check=True
    )
    assert int(done.stdout) < 300_000
    assert len(home.calls()) == 5000


def test_kept_alignments_follow_what_changed(home: Home) -> None:
    cursor = {"conversation_id": "k1", "generation_id": "g", "cursor_version": "3.8"}
    cursor |= {"session_id": "k1", "workspace_roots": ["/w"]}
    home.drop(1, "UserPromptSubmit", prompt="Mend the kite", cwd="/w")
    home.drop(1, "beforeSubmitPrompt", prompt="Mend the kite", **cursor)
    home.once()
    command = [*home.command("align", f"claude-code/{SESSION % 1}", "cursor/k1"), "--json"]
    first = subprocess.run(command, env=ENV, capture_output=True)
    assert first.returncode == 0, first.stderr
    ((before,),) = home.rows("SELECT correlation_data FROM conversation_alignments")
    home.drop(1, "UserPromptSubmit", prompt="and the string of the kite", cwd="/w")
    home.drop(1, "beforeSubmitPrompt", prompt="and the string of the kite", **cursor)
    home.once()
    ((after,),) = home.rows("SELECT correlation_data FROM conversation_alignments")
    assert "string of the kite" in after
    assert "string of the kite" not in before


def test_a_store_that_is_made_anew_is_followed(home: Home) -> None:
    home.drop()
    with home.watching():
        until(lambda: home.store.exists() and len(home.calls()) == 1)
        for file in home.store.parent.glob("conversations.db*"):
            file.unlink()
        until(lambda: home.store.exists())
        home.drop()
        until(lambda: "toolu_2" in home.calls())


def test_the_system_may_tell_what_changed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `watchfiles` a new file is there without any look into the folders."""
    pytest.importorskip("watchfiles")
    monkeypatch.setattr(monitors, "WALK_SECONDS", 1e9)
    daemon = Daemon(home.store, [str(home.files)], lambda news: None, reducers=0)
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        until(lambda: read_status(home.layout))  # the folders were walked, for the only time
        numbers = itertools.count()

        def is_noticed() -> bool:
            """Writes another file: it may take a while until the folder is watched."""
            said = {"type": "user", "uuid": f"u{next(numbers)}", "parentUuid": None}
            said |= {"sessionId": f"s{said['uuid']}", "message": {"role": "user", "content": "Hi"}}  # type: ignore[dict-item]
            (home.files / f"{said['sessionId']}.jsonl").write_text(json.dumps(said) + "\n")
            return bool(home.rows("SELECT 1 FROM conversations"))

        until(is_noticed)
    finally:
        daemon.stop.set()
        daemon.bell.set()
        thread.join()


def test_it_says_first_who_runs(home: Home) -> None:
    home.first_ns = time.time_ns()
    home.drop(1, "UserPromptSubmit", prompt="Mend the kite")
    home.drop(2, "Stop")
    home.once()
    with home.watching() as process:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
    assert (line["kind"], line["state"]) == ("state", "working")
    assert line["conversation"] == f"claude-code/{SESSION % 1}"


def test_a_backlog_is_told_until_it_is_gone(tmp_path: Path) -> None:
    told: list[News] = []
    daemon = Daemon(tmp_path / "s.db", [], told.append)
    for waiting in (5, 500, 200, 5, 0, 0):
        daemon._tell_backlog(Backlog(waiting, time.time_ns() if waiting else None))
    assert [news.backlog for news in told] == [500, 200, 0]
