"""`unspool sync`: growing files, files that go away, a killed sync, a busy store."""

import json
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import CASES, plain
from tests.test_extract import ENV, conversation
from unspool.errors import StoreBusy, StoreError
from unspool.store import maintenance
from unspool.store.conversations import get_trajectory
from unspool.store.intake import Report
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, writing
from unspool.store.sync import Sync
from unspool.store.tables import VERSION
from unspool.trajectory import Trajectory


def sync(store: Path, *paths: Path, raw: bool = True) -> Report:
    with writing(store) as connection:
        return Sync(connection, raw=raw).run([str(path) for path in paths])


def stored(store: Path) -> list[dict[str, Any]]:
    with reading(store) as connection:
        idents = [row[0] for row in connection.execute("SELECT id FROM conversations")]
        found = [get_trajectory(connection, ident) for ident in idents]
    return _sorted(trajectory for trajectory in found if trajectory is not None)


def _sorted(trajectories: Any) -> list[dict[str, Any]]:
    made = [_without_paths(trajectory) for trajectory in trajectories]
    return sorted(made, key=lambda t: (t["source"], t["conversation_id"]))


def _without_paths(trajectory: Trajectory) -> dict[str, Any]:
    (made,) = plain([trajectory])
    made.pop("file_path", None)
    made.pop("origins", None)
    return made


def sound(store: Path) -> None:
    with reading(store) as connection:
        assert maintenance.verify(connection) == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three cases of every source: the laws run over all, here it is about the store."""
    made = tmp_path / "home"
    for source in sorted(CASES.iterdir()):
        for case in sorted(source.glob("*/input"))[:3]:
            shutil.copytree(case, made / source.name / case.parent.name)
    return made


def test_what_is_read_back_is_what_an_extract_gives(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    report = sync(store, home)
    assert report.written > 8
    assert stored(store) == _sorted(unspool.extract(home))
    sound(store)


def test_nothing_changed_reads_nothing(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    first = sync(store, home)
    second = sync(store, home)
    assert (second.read, second.bytes, second.written) == (0, 0, 0)
    assert second.unchanged == first.origins


def test_a_grown_file_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    home.mkdir()
    log = home / "log.jsonl"
    head = conversation("one", "hello") + conversation("two", "hi")
    log.write_bytes(head)
    sync(store, home)
    tail = conversation("one", "hello", "again") + conversation("three", "new")
    log.write_bytes(head + tail[:-50])  # the last line is still being written
    assert sync(store, home).bytes == len(tail) - 50
    log.write_bytes(head + tail)
    report = sync(store, home)
    assert report.bytes < len(tail)
    assert stored(store) == _sorted(unspool.extract(home))
    sound(store)
    with reading(store) as connection:
        assert connection.execute("SELECT count(*) FROM problems").fetchone() == (0,)


def test_a_rewritten_file_replaces_what_it_said(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    home.mkdir()
    log = home / "log.jsonl"
    log.write_bytes(conversation("one", "hello") + conversation("two", "hi"))
    sync(store, home)
    log.write_bytes(conversation("one", "something else altogether, and longer than before") * 2)
    report = sync(store, home)
    assert report.removed == 1
    assert stored(store) == _sorted(unspool.extract(home))
    sound(store)


def test_what_is_gone_stays(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, home)
    before = stored(store)
    shutil.rmtree(home / "copilot_telemetry")
    report = sync(store, home)
    assert report.gone > 2
    assert stored(store) == before
    with reading(store) as connection:
        gone = connection.execute("SELECT count(*) FROM origins WHERE gone_since IS NOT NULL")
        assert gone.fetchone()[0] == report.gone
    assert sync(store, home).gone == 0


def test_rebuild_from_raw_records_is_a_fresh_extract(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, home)
    expected = _sorted(unspool.extract(home))
    shutil.rmtree(home)
    with writing(store) as connection:
        connection.execute("DELETE FROM facts")  # nothing but the raw records is left
        rebuild(connection)
    assert stored(store) == expected
    sound(store)


def test_without_raw_records(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, home, raw=False)
    with writing(store) as connection:
        assert connection.execute("SELECT count(*) FROM raw_traces").fetchone() == (0,)
        rebuild(connection)
    assert stored(store) == _sorted(unspool.extract(home))


def test_only_the_owner_may_read_it(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, home)
    assert stat.S_IMODE(store.stat().st_mode) == 0o600


def test_one_writer(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with writing(store), pytest.raises(StoreBusy, match=f"process {os.getpid()}"), writing(store):
        pass


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from unspool.store import maintenance
from unspool.store.opening import reading, writing
from unspool.store.sync import Sync
home, store, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)

def sync(most=None):
    # killed at the statement with this number; how many there were
    count = 0
    def seen(_):
        nonlocal count
        count += 1
        if count == most:
            os.kill(os.getpid(), signal.SIGKILL)
    with writing(store) as connection:
        connection.set_trace_callback(seen)
        Sync(connection).run([home])
    return count

def child(most=None):
    pid = os.fork()
    if not pid:
        sync(most)
        os._exit(0)
    return pid

def fresh():
    for file in store.parent.glob(store.name + "*"):
        file.unlink()

start = time.monotonic()
statements = sync()
whole = time.monotonic() - start
fresh()
found = 0
for number in range(40):
    by_time = number % 2
    pid = child(None if by_time else rng.randint(1, statements))
    if by_time:
        time.sleep(rng.uniform(0, whole))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    found += os.WIFSIGNALED(status)
    if store.exists():
        with reading(store) as connection:
            assert maintenance.verify(connection) == []
            done = not connection.execute("SELECT 1 FROM dirty").fetchone()
    if store.exists() and done and not os.WIFSIGNALED(status):
        fresh()
sync()
print(found)
"""


def test_a_killed_sync_goes_on(home: Path, tmp_path: Path) -> None:
    """kill -9 at forty moments; the store is sound each time and whole in the end."""
    store = tmp_path / "s.db"
    command = [sys.executable, "-c", KILLED, str(home), str(store), "7"]
    done = subprocess.run(command, env=ENV, check=True, capture_output=True)
    assert int(done.stdout) > 15
    assert stored(store) == _sorted(unspool.extract(home))
    sound(store)


def run(*args: object, limit: int | None = None) -> subprocess.CompletedProcess[bytes]:
    def lower() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "unspool", *map(str, args)]
    return subprocess.run(command, capture_output=True, env=ENV, preexec_fn=lower)


def test_a_full_disk_is_one_line(home: Path, tmp_path: Path) -> None:
    done = run("sync", home, "--store", tmp_path / "s.db", limit=200_000)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_store_from_a_newer_version_is_one_line(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    connection = sqlite3.connect(store)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="newer"), writing(store):
        pass


def test_what_is_no_store_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("not a database, but a letter to a friend" * 50)
    with pytest.raises(StoreError, match="not a store"), writing(tmp_path / "s.db"):
        pass
    with pytest.raises(StoreError, match="unspool sync"), reading(tmp_path / "absent.db"):
        pass


def test_a_store_from_before_the_first_release_is_one_line(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with writing(store) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")
    with pytest.raises(StoreError, match="sync"), writing(store):
        pass


def test_store_commands(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    assert json.loads(run("sync", home, "--store", store, "--json").stdout)["written"] > 8
    made = json.loads(run("store", "info", "--store", store, "--json").stdout)
    assert made["conversations"] > 8
    assert run("store", "verify", "--store", store).stdout == b"sound\n"
    assert run("store", "vacuum", "--store", store).returncode == 0
    assert run("store", "rebuild", "--store", store).returncode == 0
    with sqlite3.connect(store) as connection:
        connection.execute(
            "DELETE FROM trajectories WHERE rowid = (SELECT min(rowid) FROM trajectories)"
        )
    assert run("store", "verify", "--store", store).returncode == 1


def test_an_export_of_a_stored_chat_leaves_when_the_chat_comes(tmp_path: Path) -> None:
    case = CASES / "vscode_chat" / "exported_under_another_id" / "input"
    store = tmp_path / "s.db"
    sync(store, case / "exports")
    (alone,) = [t for t in stored(store) if not t.get("parent")]
    sync(store, case)
    assert stored(store) == _sorted(unspool.extract(case))
    assert alone["conversation_id"] not in {t["conversation_id"] for t in stored(store)}
    sound(store)
