"""Syncs of what is in the way: damaged and locked origins, copies, odd stores and clocks."""

import json
import os
import pkgutil
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from bench.store import cursor

import unspool
from tests.harness import CASES, PEAK_KB
from tests.store.test_sync import _sorted, stored, sync
from tests.telemetry import answer, call, event, said, write
from tests.test_extract import ENV
from unspool.store.opening import writing
from unspool.store.sync import Sync

SYSTEM = said("system", "be good")


def talk(text: str, conversation: str = "c") -> list[dict[str, object]]:
    ids = {"modelCallId": "m", "conversation": conversation}
    return [call([SYSTEM, said("user", text)], 1, **ids), answer(f"{text}!", 2, **ids)]  # type: ignore[arg-type]


def last_words(store: Path) -> list[str]:
    return [trajectory["messages"][-1]["content"] for trajectory in stored(store)]


def test_another_file_of_the_same_size_with_an_older_time(tmp_path: Path) -> None:
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    write(path, talk("one"))
    sync(store, path.parent)
    write(path, talk("two"))
    os.utime(path, (1, 1))
    sync(store, path.parent)
    assert last_words(store) == ["two!"]


@pytest.mark.parametrize(
    "step", ["unspool.sources.copilot_telemetry.read", "unspool.store.batches.rebuild"]
)
def test_a_fault_of_ours_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """In reading it is a problem, and what was known stays; in reducing the next try may do better."""
    store, folder = tmp_path / "s.db", tmp_path / "in"
    write(folder / "bad.jsonl", talk("one", "bad"))
    write(folder / "good.jsonl", talk("two", "good"))
    sync(store, folder)
    whole = pkgutil.resolve_name(step)

    def fail(about: object, *more: object) -> object:
        if "bad" in str(about):
            raise ZeroDivisionError("a fault of ours")
        return whole(about, *more)

    monkeypatch.setattr(step, fail)
    monkeypatch.delenv("UNSPOOL_DEBUG", raising=False)
    write(folder / "bad.jsonl", talk("one more", "bad"))
    write(folder / "good.jsonl", talk("two more", "good"))
    report = sync(store, folder)
    is_reading = step.endswith("read")
    assert report.problems == ({"internal-error": 1} if is_reading else {})
    assert last_words(store) == ["one!" if is_reading else "one more!", "two more!"]


def test_one_of_two_origins_goes_away(tmp_path: Path) -> None:
    store, folder = tmp_path / "s.db", tmp_path / "in"
    asked, answered = talk("one")
    write(folder / "a.jsonl", [asked])
    write(folder / "b.jsonl", [answered])
    sync(store, folder)
    (folder / "b.jsonl").unlink()
    write(
        folder / "a.jsonl",
        [asked, event("interactiveSessionMessage", 1, sessionId="c", intent="x")],
    )
    report = sync(store, folder)
    assert (report.gone, last_words(store)) == (1, ["one!"])


@pytest.mark.parametrize("case", ["copilot_cli/store_only", "copilot_vscode/traces"])
def test_a_database_that_cannot_be_read_any_more_stays(tmp_path: Path, case: str) -> None:
    """Nothing of it is forgotten, the rest goes on, and it is read again when it is mended."""
    store, home = tmp_path / "s.db", tmp_path / "in"
    shutil.copytree(CASES / case / "input", home)
    sync(store, home)
    before = stored(store)
    assert before
    (path,) = home.rglob("*.db")
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * 5000)
    write(home / "z.jsonl", talk("one"))
    assert sync(store, home).problems
    kept = [t for t in stored(store) if t["conversation_id"] != "c"]
    assert (kept, len(stored(store))) == (before, len(before) + 1)
    path.write_bytes(data)
    assert not sync(store, home).problems
    assert len(stored(store)) == len(before) + 1


def test_a_copy_that_was_taken_away_does_not_replace(tmp_path: Path) -> None:
    store, folder = tmp_path / "s.db", tmp_path / "in"
    write(folder / "b.jsonl", talk("one"))
    exported = subprocess.run(
        [sys.executable, "-m", "unspool", "extract", str(folder), "-q"],
        capture_output=True, check=True, env=ENV,
    )  # fmt: skip
    asked, answered = talk("one")
    longer = [SYSTEM, said("user", "one"), said("assistant", "one!"), said("user", "two")]
    more = [call(longer, 3, modelCallId="m2"), answer("two!", 4, modelCallId="m2")]
    write(folder / "b.jsonl", [asked, answered, *more])
    (folder / "a.jsonl").write_bytes(exported.stdout)
    sync(store, folder)
    assert last_words(store) == ["two!"]
    (folder / "a.jsonl").write_bytes(exported.stdout + b"\n")  # read again, alone
    sync(store, folder)
    assert last_words(store) == ["two!"]


def test_problems_of_putting_together_are_kept_once(tmp_path: Path) -> None:
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    listed = event(
        "model.modelCall.input", 1, conversationId="c", modelCallId="m0",
        messageUuids='["lost"]', chunkIndex=0, totalChunks=1,
    )  # fmt: skip
    events = [*talk("one"), listed]
    write(path, events)
    sync(store, path.parent)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(talk("two", "d")[0]) + "\n" + json.dumps(talk("one")[0]) + "\n")
    sync(store, path.parent)
    with sqlite3.connect(store) as connection:
        codes = connection.execute("SELECT code FROM problems").fetchall()
    assert codes == [("message-body-missing",)]


def test_same_as_an_extract_whatever_comes_first(tmp_path: Path) -> None:
    """Files one by one, in the wrong order, are the same as all at once."""
    store, home = tmp_path / "s.db", tmp_path / "in"
    for name in ("across_files", "subagent_calls", "chunked_lists", "summary_opens_segment"):
        shutil.copytree(CASES / "copilot_telemetry" / name / "input", home / name)
    for path in sorted(home.rglob("*.jsonl"), reverse=True):
        sync(store, path)
    assert stored(store) == _sorted(unspool.extract(home))


def test_a_store_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", talk("one"))
    store = tmp_path / "new" / "deep" / "s.db"
    sync(store, tmp_path / "in")
    assert last_words(store) == ["one!"]


def test_a_conversation_of_tool_results_grows(tmp_path: Path) -> None:
    """Results stand in one search index and not in the other: both stay sound."""
    store, path = tmp_path / "s.db", tmp_path / "in" / "a.jsonl"
    told = [SYSTEM, said("user", "look")]
    for number in range(4):
        function = {"name": "look", "arguments": "{}"}
        made = [{"id": f"t{number}", "type": "function", "function": function}]
        told += [said("assistant", "", tool_calls=made)]
        told += [said("tool", f"found {number} {k}", tool_call_id=f"t{number}") for k in range(5)]
        write(path, [call(told, number, modelCallId=f"m{number}")])
        sync(store, path.parent)
        with sqlite3.connect(store) as connection:
            for index in ("words", "pieces"):
                connection.execute(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")
    assert last_words(store) == ["found 3 4"]


def test_writing_a_conversation_reads_no_table_through(tmp_path: Path) -> None:
    """100,000 conversations must not cost the square of that."""
    with writing(tmp_path / "s.db") as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        write(tmp_path / "in" / "a.jsonl", talk("one"))
        Sync(connection).run([str(tmp_path / "in")])
        connection.set_trace_callback(None)
        scanned: set[str] = set()
        for statement in statements:
            if " WHERE " in statement and statement.startswith(("SELECT", "DELETE", "UPDATE")):
                plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
                scanned |= {statement for *_, step in plan if step.startswith("SCAN")}
    assert not scanned


PEAK = f"""{PEAK_KB}
import sys
from pathlib import Path
from unspool.store.opening import writing
from unspool.store.conversations import catch_up
from unspool.store.sync import Sync
with writing(Path(sys.argv[2])) as connection:
    Sync(connection).run([sys.argv[1]])
    catch_up(connection)
print(peak_kb())
"""


def test_memory_does_not_grow_with_a_database(tmp_path: Path) -> None:
    """Its facts and its copy go into the store in blocks."""

    def peak(megabytes: int) -> int:
        home = tmp_path / str(megabytes)
        cursor(home / "Cursor" / "User" / "globalStorage", megabytes * 1_000_000)
        command = [sys.executable, "-c", PEAK, str(home), str(home / "s.db")]
        return int(subprocess.run(command, env=ENV, capture_output=True, check=True).stdout)

    # With less, SQLite's own cache of 64 MB is not yet full.
    assert peak(38) - peak(28) < 5_000
