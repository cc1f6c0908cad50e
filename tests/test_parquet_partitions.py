"""Parquet in folders, one for each source, project or month: as readers see them, and read back."""

from pathlib import Path

import duckdb
import polars
import pytest
from pyarrow import parquet

import unspool
from tests.test_parquet import ALL_CASES, run
from unspool.io.origins import Origin, Tally, read_head
from unspool.sinks import parquet as sink
from unspool.sinks.parquet import UNKNOWN, partition_of
from unspool.sinks.parquet.rows import TABLES
from unspool.trajectory import Message, Trajectory, Workspace, encode_trajectory

KEYS = ("source", "project", "month")
HELLO = Message("user", "hi")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """All cases as JSONL, sorted."""
    path = tmp_path_factory.mktemp("lines") / "all.jsonl"
    assert run("extract", *ALL_CASES, "-o", path, "--workers", 1).returncode == 0
    return sorted(path.read_bytes().split(b"\n")[:-1])


@pytest.fixture(scope="module", params=KEYS)
def partitioned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp(request.param) / "tables"
    by = ("--partition-by", request.param, "--workers", 1)
    done = run("extract", *ALL_CASES, "--to", "parquet", *by, "-o", out)
    assert done.returncode == 0, done.stderr
    return request.param, out


def test_what_is_written_is_read_back_equal(
    partitioned: tuple[str, Path], lines: list[bytes]
) -> None:
    _, folder = partitioned
    read = [
        encode_trajectory(one)
        for path in sorted(folder.rglob("*.parquet"))
        if sink.claims(read_head(str(path)))
        for one in sink.read(Origin(str(path), path.name), Tally())
        if isinstance(one, Trajectory)
    ]
    assert sorted(read) == lines
    assert len(list(unspool.extract(folder))) == len(lines)
    assert {path.name for path in folder.iterdir()} == set(TABLES)


def test_a_file_alone_is_whole(partitioned: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = partitioned
    file = next(iter(sorted((folder / "conversations").rglob("*.parquet"))))
    away = tmp_path / "away.parquet"
    away.write_bytes(file.read_bytes())
    assert list(unspool.extract(away)) == list(unspool.extract(file))
    assert all(one.source for one in unspool.extract(away))


def test_readers_see_the_folder_as_a_column(partitioned: tuple[str, Path]) -> None:
    key, folder = partitioned
    for table, columns in TABLES.items():
        place = folder / table
        names = {*columns, key}
        query = f"SELECT * FROM read_parquet('{place}/*/*.parquet', hive_partitioning = true)"
        told = duckdb.sql(query)
        assert set(told.columns) == names
        frame = polars.scan_parquet(place, hive_partitioning=True).collect()
        assert set(frame.columns) == names
        arrow = parquet.read_table(place)
        assert set(arrow.column_names) == names
        assert len(told) == frame.height == arrow.num_rows
        values = {str(v) for v in frame[key].unique().to_list()}
        assert values == {str(v) for v in arrow[key].to_pylist()}
        assert values == {str(row[0]) for row in told.select(key).distinct().fetchall()}


def test_values_are_what_the_conversations_say(partitioned: tuple[str, Path]) -> None:
    key, folder = partitioned
    told = {
        "source": "extra->>'source'",
        "project": "coalesce(workspace_path, extra->'workspace'->>'name', repository)",
        "month": "strftime(coalesce(started_at, ended_at) AT TIME ZONE 'UTC', '%Y-%m')",
    }[key]
    place = f"read_parquet('{folder}/conversations/*/*.parquet', hive_partitioning = true)"
    differing = duckdb.sql(
        f"SELECT {key}, {told} FROM {place} WHERE {key} IS DISTINCT FROM {told}"
    ).fetchall()
    assert [row for row in differing if len(row[1]) < 100] == []


def test_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    some = [case for case in ALL_CASES if "/claude_code/" in case or "/pi/" in case]
    for workers in (1, 2):
        out = tmp_path / str(workers)
        by = ("--partition-by", "source", "--workers", workers)
        assert run("extract", *some, "--to", "parquet", *by, "-o", out).returncode == 0
    files = sorted(p.relative_to(tmp_path / "1") for p in (tmp_path / "1").rglob("*.parquet"))
    assert Path("messages/source=claude-code/part-0.parquet") in files
    for file in files:
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


def test_names_are_safe() -> None:
    def name(path: str | None) -> str:
        return partition_of(Trajectory("c", [], workspace=Workspace(path=path)), "project")

    assert name("/home/ann/shop") == "project=%2Fhome%2Fann%2Fshop"
    assert name("../..") == "project=..%2F.%2E"
    assert name("C:\\Ünï=x y\n") == "project=C%3A%5C%C3%9Cn%C3%AF%3Dx%20y%0A"
    assert name(None) == name("") == f"project={UNKNOWN}"
    assert name("half \ud83d") == "project=half%20%EF%BF%BD"
    long = name("/ü" * 500)
    assert len(long) < 210
    assert long != name("/ü" * 501)
    assert partition_of(Trajectory("c", [], started_at="?"), "month") == f"month={UNKNOWN}"
    at = Trajectory("c", [], started_at="2026-03-31T23:30:00-02:00")
    assert partition_of(at, "month") == "month=2026-04"


def test_names_that_differ_by_case_do_not_replace_each_other(tmp_path: Path) -> None:
    talk = [
        Trajectory(path, [HELLO], source="pi", workspace=Workspace(path=path))
        for path in ("/A", "/a")
    ]
    lines = tmp_path / "c.jsonl"
    lines.write_bytes(b"\n".join(map(encode_trajectory, talk)))
    by = ("--to", "parquet", "--partition-by", "project")
    assert run("extract", lines, *by, "-o", tmp_path / "out").returncode == 0
    files = sorted((tmp_path / "out" / "conversations").rglob("*.parquet"))
    assert [file.name for file in files] == ["part-0.parquet", "part-1.parquet"]


def test_tables_of_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    lines = tmp_path / "c.jsonl"
    lines.write_bytes(encode_trajectory(Trajectory("c", [HELLO], source="pi")))
    parts = ("--to", "parquet", "--partition-by", "source")
    assert run("extract", lines, *parts, "-o", tmp_path / "out").returncode == 0
    for args in (parts, ("--to", "parquet")):
        again = run("extract", lines, *args, "-o", tmp_path / "out")
        assert again.returncode == 2
        assert "holds tables already" in again.stderr
    plain = run("extract", lines, "--to", "parquet", "-o", tmp_path / "plain")
    assert plain.returncode == 0
    assert run("extract", lines, *parts, "-o", tmp_path / "plain").returncode == 2
    assert len(list(unspool.extract(tmp_path / "out"))) == 1
    wrong = run("extract", lines, "--partition-by", "source", "-o", tmp_path / "x.jsonl")
    assert wrong.returncode == 2
    assert "--to parquet" in wrong.stderr


def test_export_takes_partitions_too(tmp_path: Path) -> None:
    lines = tmp_path / "c.jsonl"
    lines.write_bytes(encode_trajectory(Trajectory("c", [HELLO])))
    by = ("--to", "parquet", "--partition-by", "month")
    done = run("export", lines, *by, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "usage" / f"month={UNKNOWN}" / "part-0.parquet").exists()
