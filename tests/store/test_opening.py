"""A store that cannot be written or opened is one clear line, and what can be read of it is read."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness import CASES, obey_modes
from tests.store.test_sync import sound, stored, sync
from tests.store.test_sync_odd import talk
from tests.telemetry import write
from tests.test_extract import ENV
from unspool.errors import StoreBusy
from unspool.store.opening import reading, writing

ONE_BY_ONE = """
import contextlib, io, json, sys
from unspool.cli import main
made = []
for arguments in json.loads(sys.argv[1]):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    sys.argv = ["unspool", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as done:
            texts = (file.buffer.getvalue().decode() for file in (out, err))
            made.append((done.code, *texts))
print(json.dumps(made))
"""


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


def run(*commands: tuple[object, ...], **env: str) -> list[Done]:
    """Commands of somebody who may do what file modes say, in one process."""
    texts = json.dumps([list(map(str, command)) for command in commands])
    process = [sys.executable, "-c", ONE_BY_ONE, texts]
    done = subprocess.run(process, env={**ENV, **env}, capture_output=True, preexec_fn=obey_modes)
    assert not done.stderr, done.stderr.decode()
    return [Done(*one) for one in json.loads(done.stdout)]


def on(store: Path, *commands: tuple[object, ...]) -> list[Done]:
    return run(*((*command, "--store", store) for command in commands))


def are_one_line(found: list[Done], words: str) -> None:
    assert found
    for done in found:
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert re.search(words, done.stderr)


def home_of(folder: Path) -> Path:
    write(folder / "home" / "a.jsonl", talk("one"))
    return folder / "home"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "kept" / "s.db"
    sync(path, home_of(tmp_path))
    write(tmp_path / "home" / "b.jsonl", talk("two", "d"))
    return path


READERS = (
    ("search", "one"),
    ("stats",),
    ("store", "info"),
    ("store", "verify"),
)
SYNC = ("sync", str(CASES))
WRITERS = (("store", "vacuum"), ("store", "rebuild"), ("align", "--auto"))


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o400, 0o700), (0o400, 0o500), (0o600, 0o500)]
)
def test_a_read_only_store(store: Path, file_mode: int, folder_mode: int) -> None:
    (store.parent / "s.db.lock").unlink()
    store.chmod(file_mode)
    store.parent.chmod(folder_mode)
    writers = on(store, ("sync", store.parents[1] / "home"), *WRITERS[:2])
    are_one_line(writers, "read-only|no permission")
    found, *others = on(store, *READERS)
    assert "one!" in found.stdout
    assert {(done.code, done.stderr) for done in (found, *others)} == {(0, "")}
    nobody = str(store.parents[1] / "nobody")
    (shown,) = run(("show", "c"), UNSPOOL_STORE=str(store), HOME=nobody)
    assert "one!" in shown.stdout
    if folder_mode == 0o500:  # else nothing had to be written
        assert shown.stderr.startswith("unspool: not brought up to date: the store")
    store.parent.chmod(0o700)
    store.chmod(0o600)
    assert [t["messages"][-1]["content"] for t in stored(store)] == ["one!"]


def test_a_folder_without_permission(store: Path) -> None:
    store.parent.chmod(0)
    are_one_line(on(store, SYNC, *READERS, *WRITERS), "no permission")
    store.parent.chmod(0o700)


def test_a_folder_that_may_not_be_made(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o500)
    are_one_line(on(tmp_path / "closed" / "new" / "s.db", ("sync", home)), "no permission")


def test_a_store_that_may_not_be_read(store: Path) -> None:
    store.chmod(0)
    are_one_line(on(store, SYNC, *READERS), "no permission")


def test_a_folder_in_place_of_the_store(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    are_one_line(on(home, ("sync", home), *READERS), "is a folder")


def test_an_older_store_that_is_read_only(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 0")
    store.chmod(0o400)
    store.parent.chmod(0o500)
    are_one_line(on(store, ("stats",)), "before the first release")
    store.parent.chmod(0o700)


def test_no_store_is_made_to_look_at_it(tmp_path: Path) -> None:
    are_one_line(on(tmp_path / "absent" / "s.db", *READERS, *WRITERS), "unspool sync")
    assert list(tmp_path.iterdir()) == []


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    home, path = home_of(tmp_path), tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    are_one_line(on(path, ("sync", home), *READERS, *WRITERS), "another program")
    assert path.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own; where none may be mounted, the limit of file sizes is tested elsewhere."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not shutil.which("mount") or _mount(folder, "size=600k").returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _mount(folder: Path, options: str) -> subprocess.CompletedProcess[bytes]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True)


def test_a_full_disk_and_a_read_only_one(small_disk: Path) -> None:
    home, path = CASES / "claude_code", small_disk / "s.db"
    are_one_line(on(path, ("sync", home)), "no space left")
    sound(path)
    assert _mount(small_disk, "remount,ro").returncode == 0
    refused, checked = on(path, ("sync", home), ("store", "verify"))
    are_one_line([refused], "read-only")
    assert checked.stdout == "sound\n"
    assert _mount(small_disk, "remount,rw,size=50m").returncode == 0
    sync(path, home)
    sound(path)
    assert len(stored(path)) > 20


def test_a_second_sync_waits(store: Path) -> None:
    home = store.parents[1] / "home"
    command = [
        sys.executable,
        "-m",
        "unspool",
        "sync",
        home,
        "--store",
        store,
        "-q",
        "--wait",
        "30",
    ]
    with writing(store):
        waiting = subprocess.Popen(list(map(str, command)), env=ENV)
        time.sleep(0.7)
        assert waiting.poll() is None
    assert waiting.wait(timeout=30) == 0
    assert len(stored(store)) == 2


def test_a_second_sync_says_who_is_busy(store: Path) -> None:
    with writing(store):
        are_one_line(on(store, SYNC), f"process {os.getpid()}")
        with reading(store) as connection:  # reading goes on
            assert connection.execute("SELECT count(*) FROM conversations").fetchone() == (1,)
    with writing(store) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_another_program_that_writes_is_busy_too(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.store.opening.BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="another program"):
            sync(store, store.parents[1] / "home")


def test_a_damaged_store_is_one_line(store: Path) -> None:
    data = bytearray(store.read_bytes())
    data[100:8192] = b"\xff" * 8092
    store.write_bytes(data)
    are_one_line(on(store, SYNC, *READERS), "not a store, or it is damaged")


def test_where_the_store_lies(tmp_path: Path) -> None:
    """In the data folder of the person; where a variable says; where an option says."""
    home = tmp_path / "me"
    write(home / ".claude" / "projects" / "p" / "a.jsonl", talk("one"))
    env = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "UNSPOOL_STORE": ""}
    run(("sync",), ("scan",), **env)
    kept = home / "data" / "unspool" / "conversations.db"
    assert len(stored(kept)) == 1
    for name in ("", "-wal", "-shm", ".lock"):
        file = kept.with_name(kept.name + name)
        assert not file.exists() or file.stat().st_mode & 0o077 == 0
    assert sqlite3.connect(kept).execute("PRAGMA journal_mode").fetchone() == ("wal",)
    named, option = home / "named.db", home / "option.db"
    run(("sync",), **{**env, "UNSPOOL_STORE": str(named)})
    run(("sync", "--store", option), **{**env, "UNSPOOL_STORE": str(home / "not-this.db")})
    assert len(stored(named)) == len(stored(option)) == 1
    assert not (home / "not-this.db").exists()


def test_sync_finds_what_scan_finds(tmp_path: Path) -> None:
    home = tmp_path / "me"
    shutil.copytree(CASES / "claude_code" / "rewind" / "input", home / ".claude" / "projects")
    sessions = CASES / "copilot_cli"
    for case in sorted(sessions.glob("*/input"))[:6]:
        shutil.copytree(case, home / ".copilot" / "session-state" / case.parent.name)
    env = {"HOME": str(home), "UNSPOOL_STORE": str(tmp_path / "s.db")}
    scanned, synced = run(("scan", "--json"), ("sync", "--json"), **env)
    holdings = {one["source"]: one for one in json.loads(scanned.stdout)["holdings"]}
    assert json.loads(synced.stdout)["written"]
    with reading(tmp_path / "s.db") as connection:
        rows = connection.execute(
            "SELECT source, sum(parent_id IS NULL), sum(messages) FROM conversations"
            " WHERE messages GROUP BY source"
        ).fetchall()
    assert {row[0]: (row[1], row[2]) for row in rows} == {
        name: (one["conversations"], one["messages"]) for name, one in holdings.items()
    }
