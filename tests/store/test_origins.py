"""What a sync sees of its origins: half-written documents, what went away, what grows oddly."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import CASES, obey_modes
from tests.store.test_sync import _sorted, sound, stored, sync
from tests.store.test_sync_odd import talk
from tests.telemetry import write
from tests.test_extract import ENV, conversation
from unspool.store.blocks import iter_raw
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, writing
from unspool.store.survey import survey
from unspool.store.sync import Sync

CHATS = CASES / "vscode_chat"


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_half_written_document_does_not_shorten(tmp_path: Path, cut: float) -> None:
    """It is read when it is whole, a problem until then, and looked at once."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    path = document(home)
    sync(store, home)
    before, data = stored(store), path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    report = sync(store, home)
    assert sum(report.problems.values()) == 1
    assert stored(store) == before
    assert sync(store, home).problems == {}
    path.write_bytes(data[: int(len(data) * cut) - 7])
    assert sync(store, home).problems
    assert stored(store) == before
    longer = json.loads(data)
    new = {"requestId": "request_new", "responseId": "response_new"}
    longer["requests"].append({**longer["requests"][-1], **new})
    path.write_text(json.dumps(longer))
    assert sync(store, home).problems == {}
    assert stored(store) == _sorted(unspool.extract(home))
    assert stored(store) != before
    with reading(store) as connection:
        assert connection.execute("SELECT count(*) FROM problems").fetchone() == (0,)
    sound(store)


def document(home: Path) -> Path:
    """A chat of VS Code's as one JSON document, of two requests at least."""
    for case in sorted(CHATS.glob("*/input")):
        for path in sorted(case.rglob("chatSessions/*.json")):
            if len(json.loads(path.read_bytes()).get("requests", ())) > 1:
                shutil.copytree(case, home)
                return home / path.relative_to(case)
    raise AssertionError("no case has one")


def test_a_first_reading_of_a_half_written_document_is_replaced(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    path = document(home)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    sync(store, home)
    path.write_bytes(data)
    sync(store, home)
    assert stored(store) == _sorted(unspool.extract(home))


def test_a_log_with_a_cut_line_is_no_half_written_document(tmp_path: Path) -> None:
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    write(path, talk("one"))
    sync(store, path.parent)
    path.write_bytes(b'{"name": "cut off\n' + conversation("c", "two"))
    assert sync(store, path.parent).problems
    assert stored(store) == _sorted(unspool.extract(path.parent))


def test_an_origin_that_vanishes_between_the_steps_is_gone(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    write(home / "a.jsonl", talk("one", "a"))
    write(home / "b.jsonl", talk("one", "b"))
    sync(store, home)
    before = stored(store)
    for name in "ab":
        write(home / f"{name}.jsonl", talk("two", name))
    write(home / "never-read.jsonl", talk("two", "n"))
    with writing(store) as connection:
        found = survey(connection, [str(home)])
        (home / "a.jsonl").unlink()
        (home / "never-read.jsonl").unlink()
        report = Sync(connection).run([], found)
    assert (report.gone, report.problems) == (1, {})
    kept = {t["conversation_id"]: t["messages"][-1]["content"] for t in stored(store)}
    assert kept == {"a": "one!", "b": "two!"}
    assert before != stored(store)
    with reading(store) as connection:
        rows = connection.execute("SELECT name FROM origins WHERE gone_since IS NOT NULL")
        assert rows.fetchall() == [("a.jsonl",)]
    sound(store)


def forbidden(home: Path, store: Path) -> dict[str, Any]:
    """What a sync of somebody says who may do what file modes say."""
    command = [sys.executable, "-m", "unspool", "sync", str(home), "--store", str(store), "--json"]
    done = subprocess.run(command, env=ENV, capture_output=True, preexec_fn=obey_modes)
    assert b"Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_folder_that_may_not_be_read_is_not_gone(tmp_path: Path, mode: int) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    write(home / "a.jsonl", talk("one", "a"))
    write(home / "closed" / "b.jsonl", talk("one", "b"))
    sync(store, home)
    before = stored(store)
    (home / "closed").chmod(mode)
    report = forbidden(home, store)
    (home / "closed").chmod(0o700)
    assert (report["gone"], report["problems"]) == (0, {"unreadable": 1})
    assert stored(store) == before
    shutil.rmtree(home / "closed")
    assert sync(store, home).gone == 1


def test_a_file_that_may_not_be_read_stays_as_it_was(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    write(home / "a.jsonl", talk("one", "a"))
    sync(store, home)
    write(home / "a.jsonl", talk("other", "a")).chmod(0)
    write(home / "b.jsonl", talk("new", "b")).chmod(0)
    report = forbidden(home, store)
    assert (report["gone"], report["problems"]) == (0, {"unreadable": 2})
    assert [t["messages"][-1]["content"] for t in stored(store)] == ["one!"]
    for name in "ab":
        (home / f"{name}.jsonl").chmod(0o600)
    sync(store, home)
    assert [t["messages"][-1]["content"] for t in stored(store)] == ["other!", "new!"]
    with reading(store) as connection:
        assert connection.execute("SELECT count(*) FROM problems").fetchone() == (0,)


def test_a_place_that_may_not_be_looked_into(tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "outer" / "home"
    write(home / "a.jsonl", talk("one", "a"))
    sync(store, home)
    home.parent.chmod(0)
    command = [sys.executable, "-m", "unspool", "sync", str(home), "--store", str(store), "--json"]
    done = subprocess.run(command, env=ENV, capture_output=True, preexec_fn=obey_modes)
    home.parent.chmod(0o700)
    assert b"Traceback" not in done.stderr
    with reading(store) as connection:
        rows = connection.execute("SELECT count(*) FROM origins WHERE gone_since IS NOT NULL")
        assert rows.fetchone() == (0,)


def test_a_long_log_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its facts are written in blocks: what comes out is the same, and every line is kept once."""
    monkeypatch.setattr("unspool.store.batches.PART_BYTES", 700)
    monkeypatch.setattr("unspool.store.batches.FACTS_BYTES", 900)
    monkeypatch.setattr("unspool.store.blocks.MOST_WAITING_BYTES", 500)
    store, home = tmp_path / "s.db", tmp_path / "home"
    for name in ("claude_code", "copilot_cli", "copilot_telemetry"):
        for case in sorted((CASES / name).glob("*/input"))[:4]:
            shutil.copytree(case, home / name / case.parent.name)
    sync(store, home)
    expected = _sorted(unspool.extract(home))
    assert stored(store) == expected
    with reading(store) as connection:
        logs = connection.execute(
            "SELECT id, path FROM origins WHERE path LIKE '%.jsonl'"
        ).fetchall()
        for ident, path in logs:
            assert (
                b"".join(data for _, data in iter_raw(connection, ident)) == Path(path).read_bytes()
            )
    sound(store)


def test_worker_processes_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a conversation, or a parent and its child, stand in different batches."""
    monkeypatch.setattr("unspool.store.batches.BATCH_BYTES", 2000)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    home = tmp_path / "home"
    for name in ("claude_code", "copilot_cli", "copilot_telemetry", "cursor"):
        for case in sorted((CASES / name).glob("*/input"))[:6]:
            shutil.copytree(case, home / name / case.parent.name)
    sync(tmp_path / "alone.db", home)
    monkeypatch.setattr("unspool.store.batches.WORTH_WORKERS_BYTES", 0)
    sync(tmp_path / "workers.db", home)
    assert stored(tmp_path / "workers.db") == stored(tmp_path / "alone.db")
    assert stored(tmp_path / "workers.db") == _sorted(unspool.extract(home))
    sound(tmp_path / "workers.db")


def test_a_log_that_is_not_recognised_while_it_grows(tmp_path: Path) -> None:
    """Most of its lines are of kinds that nobody knows yet."""
    store, path = tmp_path / "s.db", tmp_path / "in" / "events.copy.jsonl"
    path.parent.mkdir()
    started = {"sessionId": "s-1", "copilotVersion": "1.0.0"}
    events: list[dict[str, Any]] = [{"type": "session.start", "id": "e0", "data": started}]
    events += [{"type": f"new.kind{n}", "id": f"e{n}", "data": {"n": n}} for n in (1, 2, 3)]
    events += [{"type": "user.message", "id": "e9", "data": {"content": "hello"}}]
    events += [{"type": "user.message", "id": f"e{n}", "data": {"content": "x"}} for n in (10, 11)]
    for number, event in enumerate(events):
        event["timestamp"] = f"2026-02-15T10:00:{number:02d}.000Z"
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        sync(store, path.parent)
    assert stored(store) == _sorted(unspool.extract(path.parent))
    marks = [mark["data"]["type"] for mark in stored(store)[0]["marks"] if mark["kind"] == "event"]
    assert marks == ["new.kind1", "new.kind2", "new.kind3"]


@pytest.mark.parametrize("raw", [(False, True), (True, False), (True, False, True)])
def test_raw_records_of_some_syncs_only(tmp_path: Path, raw: tuple[bool, ...]) -> None:
    """What was kept in part is not taken for the whole when all is made anew."""
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    data = b""
    for number, keep in enumerate(raw):
        data += conversation(f"c{number}", "hello") + conversation("all", *["x"] * (number + 1))
        path.write_bytes(data)
        sync(store, path.parent, raw=keep)
    expected = _sorted(unspool.extract(path.parent))
    with writing(store) as connection:
        rebuild(connection)
    assert stored(store) == expected
    sound(store)


def test_the_store_is_not_one_of_its_own_origins(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", talk("one"))
    store = tmp_path / "s.db"
    first, second = sync(store, tmp_path), sync(store, tmp_path)
    assert (first.origins, first.unknown) == (1, 0)
    assert (second.origins, second.read, second.unchanged) == (1, 0, 1)


def test_a_usual_place_that_is_taken_away_is_gone(tmp_path: Path) -> None:
    home, store = tmp_path / "me", tmp_path / "s.db"
    write(home / ".claude" / "projects" / "p" / "a.jsonl", talk("one"))
    write(home / ".copilot" / "session-state" / "b.jsonl", talk("one", "d"))
    command = [sys.executable, "-m", "unspool", "sync", "--json"]
    env = {**ENV, "HOME": str(home), "UNSPOOL_STORE": str(store)}
    subprocess.run(command, env=env, check=True, capture_output=True)
    before = stored(store)
    shutil.rmtree(home / ".claude")
    done = subprocess.run(command, env=env, check=True, capture_output=True)
    assert json.loads(done.stdout)["gone"] == 1
    assert stored(store) == before


def test_a_log_of_objects_over_several_lines_grows(tmp_path: Path) -> None:
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    data = b""
    for number in range(3):
        event = json.loads(conversation(f"c{number}", "hello"))
        data += json.dumps(event, indent=2).encode() + b"\n"
        path.write_bytes(data[:-30])
        sync(store, path.parent)
        path.write_bytes(data)
        sync(store, path.parent)
        assert len(stored(store)) == number + 1
    assert stored(store) == _sorted(unspool.extract(path.parent))
