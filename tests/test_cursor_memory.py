"""Databases of Cursor's grow to gigabytes: they are read by their index, and memory stays bounded."""

import tracemalloc
from pathlib import Path
from typing import Any

from tests.cursor_stores import bubble, rows_of, write_editor
from tests.harness import origins_of
from unspool import sources
from unspool.io.databases import open_database
from unspool.io.origins import Tally
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job
from unspool.sources.cursor.tables import Keys


def test_every_statement_is_a_search_in_the_index(tmp_path: Path) -> None:
    path = write_editor(
        tmp_path / "state.vscdb", rows_of({"composerId": "c"}, bubble("b", 1, "hi"))
    )
    with open_database(path) as database:
        statements: list[str] = []
        database.connection.set_trace_callback(statements.append)
        keys = Keys(database.connection, "cursorDiskKV")
        for found in (keys.range("bubbleId:"), keys.keys("bubbleId:"), keys.groups("bubbleId:")):
            assert len(list(found)) == 1
        assert keys.has("bubbleId:")
        assert keys.get("bubbleId:c:b")
        database.connection.set_trace_callback(None)
        assert len(statements) >= 5
        for statement in statements:
            plan = database.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            assert all("SEARCH" in row[3] and "INDEX" in row[3] for row in plan), plan
            assert "TEMP" not in str(plan)


def test_memory_does_not_grow_with_the_database(tmp_path: Path) -> None:
    body = "x" * 40_000
    said = [bubble(f"{n:04d}", 1 + (n % 5 > 0), f"{n} {body}") for n in range(500)]
    path = write_editor(tmp_path / "state.vscdb", rows_of({"composerId": "c"}, *said))
    assert path.stat().st_size > 20_000_000
    (origin,) = origins_of(tmp_path)
    source = sources.load("cursor")
    tracemalloc.start()
    count = sum(1 for _ in source.read(origin, Tally()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 500
    assert peak < 1_500_000


def test_memory_of_a_whole_run_is_bounded_by_the_longest_conversation(tmp_path: Path) -> None:
    body = "x" * 40_000
    rows: dict[str, Any] = {}
    for number in range(16):
        said = [bubble(f"{n:04d}", 1 + (n % 5 > 0), f"{n} {body}") for n in range(60)]
        rows |= rows_of({"composerId": f"c-{number}"}, *said)
    path = write_editor(tmp_path / "in/Cursor/state.vscdb", rows)
    assert path.stat().st_size > 38_000_000
    del rows, said
    job = Job(paths=[str(tmp_path / "in")], memory_bytes=2_000_000, temporary=str(tmp_path))
    tracemalloc.start()
    with open_run(job) as run:
        written = run.write()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(written) == 16
    # One conversation is 2.4 MB: its texts once, and little more.
    assert peak < 12_000_000
