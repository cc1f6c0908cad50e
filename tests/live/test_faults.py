"""Faults: events that we cannot read, files that are rewritten, disks that are full."""

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES
from tests.live.test_live_is_batch import Capture, differences, rows
from tests.live.test_watch import SESSION, Home
from tests.test_extract import ENV
from unspool.live.intake import make_arrival
from unspool.live.reducers import Here
from unspool.store.batches import Batch
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, writing
from unspool.store.survey import survey
from unspool.store.sync import Sync

pytestmark = pytest.mark.live


def prompt(session: int, words: str, number: int) -> Any:
    payload = {"session_id": SESSION % session, "hook_event_name": "UserPromptSubmit"}
    data = json.dumps({**payload, "prompt": words}).encode()
    return make_arrival(data, f"any.{number}", 1_760_000_000_000_000_000 + number)


def typed(store: Path) -> list[str]:
    with reading(store) as connection:
        return sorted(row[0] for row in connection.execute("SELECT typed FROM texts"))


def test_what_fails_three_times_is_dead_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(tmp_path)
    words = ["one", "poison", "two"]
    read_origin = Batch.read_origin

    def fail(self: Batch, origin: Any, *args: Any, **more: Any) -> Any:
        if b"poison" in Path(origin.path).read_bytes()[origin.start :]:
            raise ZeroDivisionError("a fault of ours")
        return read_origin(self, origin, *args, **more)

    monkeypatch.setattr(Batch, "read_origin", fail)
    capture.arrive(*(prompt(1, word, number) for number, word in enumerate(words)))
    capture.arrive(prompt(2, "another session", 9))
    with capture.writer() as writer:
        capture.step(writer)
        assert typed(capture.store) == ["another session", "one", "two"]
        (dead,) = capture.queue.dead()
        assert b"poison" in dead.arrival.data
        assert dead.error == "ZeroDivisionError: a fault of ours"
        monkeypatch.undo()
        assert capture.queue.retry() == 1
        capture.step(writer)
    assert typed(capture.store) == ["another session", "one", "poison", "two"]
    capture.queue.close()


def test_a_store_is_rebuilt_from_its_events(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    with capture.writer() as writer:
        for number in range(5):
            capture.arrive(prompt(number % 2, f"words {number}", number))
            capture.step(writer)
        before = rows(capture.store)
        rebuild(writer.connection)
    assert differences(rows(capture.store), before) == []
    capture.queue.close()


def line(number: int, words: str) -> bytes:
    said = {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
    }
    said |= {"sessionId": SESSION % 3, "message": {"role": "user", "content": words}}
    return json.dumps(said).encode() + b"\n"


def test_files_that_are_rewritten_are_as_after_a_sync_of_each_change(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    other = tmp_path / "other" / "s.db"
    capture.home.mkdir()
    file = capture.home / f"{SESSION % 3}.jsonl"
    versions = [
        line(0, "a") + line(1, "b"),
        line(0, "a") + line(1, "b") + line(2, "c")[:20],
        line(0, "a"),  # cut off
        line(0, "another") + line(1, "b") + line(2, "c"),
        None,  # deleted
        line(0, "another") + line(1, "b") + line(2, "c") + line(3, "d"),
    ]
    with capture.writer() as writer:
        for version in versions:
            if version is None:
                file.unlink()
            else:
                file.write_bytes(version)
            capture.step(writer)
            with writing(other) as connection:
                Sync(connection).run([str(capture.home)])
    assert differences(rows(capture.store), rows(other)) == []
    assert typed(capture.store) == ["another", "b", "c", "d"]
    capture.queue.close()


def test_what_nobody_lived_to_link_is_linked_by_the_next(tmp_path: Path) -> None:
    capture = Capture(tmp_path)
    other = tmp_path / "other" / "s.db"
    shutil.copytree(CASES / "claude_code" / "fork_copies" / "input", capture.home)
    with capture.writer() as writer:
        writer.take_files(survey(writer.connection, [str(capture.home)]).changed)
        assert writer.update.reduce(writer.dirty()) == []
    with capture.writer() as writer:  # the first one was killed before it linked
        writer.bring_up_to_date(writer.dirty())
    with writing(other) as connection:
        Sync(connection).run([str(capture.home)])
    assert differences(rows(capture.store), rows(other)) == []
    capture.queue.close()


def test_what_cannot_be_made_after_linking_is_made_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(tmp_path)
    other = tmp_path / "other" / "s.db"
    shutil.copytree(CASES / "claude_code" / "fork_copies" / "input", capture.home)
    reduce, rounds = Here.reduce, []

    def fail_once(self: Here, wanted: Any) -> Any:
        rounds.append(dict(wanted))
        for key, made in reduce(self, wanted):
            yield key, "ZeroDivisionError: a fault of ours" if len(rounds) == 2 else made

    monkeypatch.setattr(Here, "reduce", fail_once)
    with capture.writer() as writer:
        writer.update.relate()  # nothing waits yet: from now on only what changed is linked
        writer.take_files(survey(writer.connection, [str(capture.home)]).changed)
        dirty = writer.dirty()
        _, faults = writer.bring_up_to_date(dirty)
        assert faults
        assert {key for key, _ in faults} == rounds[1].keys() <= set(writer.dirty())
        _, faults = writer.bring_up_to_date({key for key, _ in faults})
        assert (faults, writer.dirty()) == ([], [])
    with writing(other) as connection:
        Sync(connection).run([str(capture.home)])
    assert differences(rows(capture.store), rows(other)) == []
    capture.queue.close()


def test_a_full_disk_keeps_events_in_the_spool(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for _ in range(300):
        home.drop(tool_response={"stdout": "x" * 20, "noise": [n * 7919 for n in range(300)]})

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    command = home.command("watch", str(home.files), "--once", "--json")
    done = subprocess.run(command, env=ENV, capture_output=True, preexec_fn=small)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(home.layout.new.iterdir())
    done = home.once()
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(home.calls()) == 300
