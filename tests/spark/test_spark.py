"""`unspool extract --engine spark` on a real cluster: the same conversations as `extract`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench.spark import make_skew, run_on_cluster
from bench.telemetry import generate

from tests.harness import CASES
from tests.spark.cluster import (
    ROOT,
    Cluster,
    connect_server,
    settings,
    spark_version,
    why_not,
)
from unspool.io.origins import Origin, iter_lines
from unspool.sinks.parquet.rows import TABLES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),  # one cluster for all
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
FULL = "UNSPOOL_SPARK_FULL"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


def unspool(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unspool", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def on_spark(cluster: Cluster, *arguments: object) -> list[object]:
    given = [part for item in settings(cluster).items() for part in ("--conf", "=".join(item))]
    return ["extract", *arguments, "--engine", "spark", "--master", cluster.url, *given]


def summary(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The closing summary, without what a clock says, and without samples: `extract` shows those that
    its workers met first, by chance."""
    assert process.returncode == 0, process.stderr
    told: dict[str, Any] = json.loads(process.stderr.strip().rpartition("\n")[2])
    for name in ("seconds", "megabytes_per_second", "tag_summary", "samples"):
        del told[name]
    return told


def lines(*files: Path) -> list[bytes]:
    return sorted(line for file in files for line in file.read_bytes().splitlines(keepends=True))


def test_every_source_says_what_extract_says(cluster: Cluster, tmp_path: Path) -> None:
    """All cases of the laws at once, each in a folder of its own."""
    given = tmp_path / "cases"
    shutil.copytree(CASES, given, ignore=shutil.ignore_patterns("expected*"))
    ours = tmp_path / "ours.jsonl"
    told = {"ours": tmp_path / "ours.problems", "spark": tmp_path / "spark.problems"}
    plain = unspool(
        "extract", given, "--workers", 2, "-o", ours, "--json", "--problems", told["ours"]
    )
    output = tmp_path / "spark"
    spark = unspool(*on_spark(cluster, given, "-o", output, "--json", "--problems", told["spark"]))
    assert summary(spark) == summary(plain)
    assert lines(told["spark"]) == lines(told["ours"])
    assert (tmp_path / "spark" / "_SUCCESS").exists()
    assert not (tmp_path / "spark" / "_staging").exists()
    assert lines(*(tmp_path / "spark").glob("part-*")) == lines(ours)


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the bench has it, in little: conversations go on from one file to the next."""
    folder = tmp_path_factory.mktemp("telemetry")
    generate(folder, 40_000_000, files=2)
    return folder


@pytest.fixture(scope="module")
def expected(telemetry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("expected") / "ours.jsonl"
    assert unspool("extract", telemetry, "--workers", 2, "-o", file).returncode == 0
    return file


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ.update({k: cluster.env[k] for k in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")})
    builder = SparkSession.builder.master(cluster.url).config("spark.log.level", "ERROR")
    for name, value in settings(cluster).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


def values(frame: Any) -> list[bytes]:
    return sorted(row.value.encode() + b"\n" for row in frame.collect())


def test_files_and_tables_give_the_same(
    session: Any, telemetry: Path, expected: Path, tmp_path: Path
) -> None:
    from unspool.engines.spark import extract, run

    files = sorted(telemetry.iterdir())
    by_path = run(session, telemetry, staging=str(tmp_path / "paths"), to="jsonl")
    assert values(by_path.conversations) == lines(expected)

    rows = [
        (bytearray(line), file.name, offset)
        for file in files
        for offset, line in iter_lines(Origin(str(file), file.name))
    ]
    table = session.createDataFrame(rows, "event binary, file string, at long").repartition(5)
    given = {"to": "jsonl", "column": "event", "origin": "file", "partitions": 4}
    placed = run(session, table, staging=str(tmp_path / "table"), offset="at", **given)
    assert values(placed.conversations) == lines(expected)
    for name in ("records", "used", "superseded", "noise", "messages", "written"):
        assert getattr(placed.summary, name) == getattr(by_path.summary, name)
    # Without offsets a row stands where its digest says; times tell the order.
    digested = extract(session, table, staging=str(tmp_path / "digests"), **given)
    assert values(digested) == lines(expected)
    # A pattern is nothing that pyarrow opens: the lines come by Spark's text reader.
    pattern = f"file://{telemetry}/*.jsonl"
    by_line = extract(session, pattern, staging=str(tmp_path / "lines"), to="jsonl", partitions=4)
    assert placeless(values(by_line)) == placeless(lines(expected))


def placeless(found: list[bytes]) -> list[str]:
    """Without the files, which have their full names where Spark tells them."""
    conversations = [json.loads(line) for line in found]
    for conversation in conversations:
        del conversation["file_path"]
        conversation.pop("origins", None)
    return sorted(json.dumps(conversation) for conversation in conversations)


def test_urls_and_parquet(session: Any, telemetry: Path, expected: Path, tmp_path: Path) -> None:
    """What pyarrow opens is cut into spans too; the tables hold the rows of `extract --to parquet`."""
    from pyarrow import dataset, parquet

    from unspool.engines.spark import run

    extraction = run(session, f"file://{telemetry}", staging=str(tmp_path / "staging"))
    extraction.write(f"file://{tmp_path / 'tables'}")
    plain = unspool("extract", telemetry, "--to", "parquet", "-o", tmp_path / "ours")
    assert plain.returncode == 0, plain.stderr
    for table, columns in TABLES.items():
        ours = parquet.read_table(tmp_path / "ours" / f"{table}.parquet")
        spark = dataset.dataset(tmp_path / "tables" / table, format="parquet").to_table()
        assert spark.column_names == list(columns)
        rows = [sorted(map(repr, found.to_pylist())) for found in (ours, spark)]
        assert rows[0] == rows[1], table
    assert (tmp_path / "tables" / "_SUCCESS").exists()
    assert sorted(
        found.name for found in (tmp_path / "tables").iterdir() if found.is_dir()
    ) == sorted(TABLES)
    counted = unspool("sql", "select count(*) n from messages", tmp_path / "tables", "--json")
    assert json.loads(counted.stdout) == [{"n": extraction.summary.messages}], counted.stderr
    again = tmp_path / "again.jsonl"
    back = unspool("extract", tmp_path / "tables", "-o", again, "--no-context-tag-summary")
    assert back.returncode == 0, back.stderr
    assert lines(again) == lines(expected)
    # Spark as a reader: of files that a task wrote, and of those that `extract` writes.
    table = session.read.parquet(f"file://{tmp_path / 'ours' / 'conversations.parquet'}")
    for frame in (extraction.conversations, table):
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        assert types["messages"] == "array<string>"
        assert types["metadata"] == types["title"] == "string"
        assert types["started_at"] == "timestamp"
        assert types["n_messages"] == "bigint"
        assert types["partial"] == "array<string>"
        assert frame.count() == extraction.summary.written
    rows = [sorted(map(repr, frame.collect())) for frame in (extraction.conversations, table)]
    assert rows[0] == rows[1]
    # What Spark itself writes holds JSON as plain strings; it is read back all the same.
    extraction.conversations.write.parquet(f"file://{tmp_path / 'by-spark'}")
    own = unspool("extract", tmp_path / "by-spark", "-o", again, "--no-context-tag-summary")
    assert own.returncode == 0, own.stderr
    assert lines(again) == lines(expected)


@pytest.mark.skipif(not os.environ.get(FULL), reason=f"at full size with {FULL}")
def test_the_bench_data(cluster: Cluster, tmp_path: Path) -> None:
    generate(tmp_path / "telemetry", 2_000_000_000)
    ours, output = tmp_path / "ours.jsonl", tmp_path / "spark"
    plain = unspool("extract", tmp_path / "telemetry", "--workers", 2, "-o", ours, "--json")
    spark = unspool(*on_spark(cluster, tmp_path / "telemetry", "-o", output, "--json"))
    assert summary(spark) == summary(plain)
    assert lines(*output.glob("part-*")) == lines(ours)


@pytest.mark.skipif(not os.environ.get(FULL), reason=f"at full size with {FULL}")
def test_skew(tmp_path: Path) -> None:
    """One conversation of 1 GB among 10,000 small ones, in executors of 1 GB."""
    make_skew(tmp_path / "data")
    (tmp_path / "spark").mkdir()
    spark = run_on_cluster(str(tmp_path / "data"), 2, tmp_path / "spark")
    ours = tmp_path / "ours.jsonl"
    assert unspool("extract", tmp_path / "data", "--workers", 2, "-o", ours).returncode == 0
    assert lines(*(tmp_path / "spark" / "out").glob("part-*")) == lines(ours)
    joined_mb = max(map(len, lines(ours))) / 1e6
    assert spark["python_peak_mb"] <= 2 * joined_mb


def wait_for(ready: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)


def killed_in(session: Any, cluster: Cluster, stage: int, work: Callable[[], Any]) -> Any:
    """What the work gives when a worker and its executor die in the stage-th stage of its kind."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    tracker = session.sparkContext.statusTracker()
    met: list[int] = []

    def half_done() -> bool:
        """Stages with eight tasks are ours: reading first, then reducing."""
        for ident in tracker.getActiveStageIds():
            info = tracker.getStageInfo(ident)
            if info is None or info.numTasks != 8:
                continue
            if ident not in met:
                met.append(ident)
            if met.index(ident) == stage and info.numCompletedTasks >= 2:
                return True
        return not thread.is_alive()

    wait_for(half_done)
    assert thread.is_alive(), "it was over before anybody could die"
    victim = cluster.workers.pop(0)
    executors = cluster.executors_of(victim)
    for pid in (victim.pid, *executors):
        os.kill(pid, signal.SIGKILL)
    victim.wait()
    cluster.processes.remove(victim)
    cluster.add_worker()
    thread.join()
    assert results
    return results[0]


@pytest.mark.parametrize("stage", [0, 1], ids=["reading", "reducing"])
def test_a_worker_is_killed(
    stage: int, session: Any, cluster: Cluster, telemetry: Path, expected: Path, tmp_path: Path
) -> None:
    from unspool.engines.spark import run

    def work() -> Any:
        return run(session, telemetry, staging=str(tmp_path / "s"), to="jsonl", partitions=8)

    extraction = killed_in(session, cluster, stage, work)
    assert values(extraction.conversations) == lines(expected)
    extraction.write(f"file://{tmp_path / 'out'}")
    assert lines(*(tmp_path / "out").glob("part-*")) == lines(expected)


def test_a_driver_is_killed(cluster: Cluster, telemetry: Path, tmp_path: Path) -> None:
    """What stays behind does not look complete; and a new run says that it is there."""
    output = tmp_path / "out"
    arguments = on_spark(cluster, telemetry, "-o", output)
    driver = subprocess.Popen(
        [sys.executable, "-m", "unspool", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for((output / "_staging" / "reduced").exists)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not (output / "_SUCCESS").exists()
    assert not list(output.glob("part-*"))
    again = unspool(*arguments)
    assert again.returncode == 1
    assert again.stderr.startswith(f"unspool: {output} is not empty")


@pytest.mark.skipif(not os.environ.get(FULL), reason=f"a minute, with {FULL}")
def test_workers_without_unspool(
    cluster: Cluster, telemetry: Path, expected: Path, tmp_path: Path
) -> None:
    """The archive brings it along; pyarrow and pandas, which Spark needs itself, are there."""
    made = subprocess.run(
        [sys.executable, "-m", "unspool.engines.spark.archive", tmp_path / "unspool.tar.gz"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert made.returncode == 0
    output = tmp_path / "out"
    bare = ("--conf", f"spark.pyspark.python={bare_python(tmp_path)}")
    hidden = ("--conf", "spark.executorEnv.PYTHONPATH=/nowhere")
    without = unspool(*on_spark(cluster, telemetry, "-o", output), *bare, *hidden)
    assert without.returncode == 1, without.stderr
    assert "do not have unspool" in without.stderr
    assert not output.exists()
    sent = ("--conf", f"spark.archives={tmp_path / 'unspool.tar.gz'}#sent")
    found = ("--conf", "spark.executorEnv.PYTHONPATH=sent")
    process = unspool(*on_spark(cluster, telemetry, "-o", output), *bare, *sent, *found)
    assert process.returncode == 0, process.stderr
    assert lines(*output.glob("part-*")) == lines(expected)


def bare_python(folder: Path) -> Path:
    """A Python that has what Spark needs of it, and nothing of ours."""
    venv.create(folder / "bare", symlinks=True)
    (library,) = (folder / "bare" / "lib").glob("python*/site-packages")
    for package in ("numpy", "pandas", "pyarrow", "dateutil", "six", "pytz", "tzdata", "pyspark"):
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            there = file.parent if file.name == "__init__.py" else file
            (library / there.name).symlink_to(there)
            for beside in there.parent.glob(f"{package}.libs"):  # what its native code needs
                (library / beside.name).symlink_to(beside)
    return folder / "bare" / "bin" / "python"


@pytest.mark.skipif(spark_version() < (4,), reason="tried from Spark 4.0 on")
def test_connect(cluster: Cluster, telemetry: Path, expected: Path, tmp_path: Path) -> None:
    """The same through a server that gives no RDD and no SparkContext."""
    with connect_server(cluster) as url:
        output = tmp_path / "out"
        process = unspool("extract", telemetry, "-o", output, "--engine", "spark", "--master", url)
    assert process.returncode == 0, process.stderr
    assert lines(*output.glob("part-*")) == lines(expected)


def one_line(process: subprocess.CompletedProcess[str], code: int, text: str) -> None:
    assert process.returncode == code, process.stderr
    assert process.stderr.count("\n") == 1, process.stderr
    assert text in process.stderr


def test_what_cannot_work_is_told_in_one_line(tmp_path: Path) -> None:
    output = tmp_path / "out"
    extract = ("extract", CASES, "--engine", "spark", "-o", output)
    one_line(unspool(*extract), 2, "needs --master URL")
    one_line(unspool(*extract, "--master", "local", "--sample", 3), 2, "does not take --sample")
    one_line(unspool(*extract, "--master", "local", "--to", "html"), 2, "jsonl or parquet")
    one_line(unspool(*extract, "--master", "spark://127.0.0.1:1"), 1, "cannot reach spark://")
    one_line(unspool(*extract, "--master", "sc://127.0.0.1:1"), 1, "cannot reach sc://")
    one_line(unspool(*extract, "--master", "local", JAVA_HOME="/nowhere"), 1, "needs Java 17")
    one_line(unspool("extract", CASES, "--master", "local"), 2, "goes with --engine spark")
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError('not here')")
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    missing = unspool(*extract, "--master", "local", PYTHONPATH=path)
    one_line(missing, 1, "pip install 'unspool[spark]'")
    output.mkdir()
    (output / "part-0").touch()
    one_line(unspool(*extract, "--master", "local"), 1, "is not empty")
    elsewhere = ("extract", CASES, "--engine", "spark", "--master", "local", "-o", tmp_path / "new")
    one_line(unspool(*elsewhere, "--staging", output), 1, "is not empty")
