"""What travels through Spark, without Spark: rows of bounded size, long conversations, files."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

import unspool
from unspool.engines.spark import output, tasks
from unspool.engines.spark.daemon import without_archives
from unspool.engines.spark.output import place, placed_files, staged_files, write_line, write_part
from unspool.engines.spark.rows import CONVERSATION, MESSAGES, PIECE_BYTES, Item, pack, unpack
from unspool.link import make_card
from unspool.pipeline.job import Job
from unspool.sinks import Family
from unspool.sinks.jsonl import write
from unspool.sinks.parquet.rows import TABLES
from unspool.trajectory import Message, Trajectory, pack_trajectory, unpack_trajectory


def test_items_come_back_and_none_of_them_stays() -> None:
    item = Item(b"key", 3, CONVERSATION, b"head", bytes(range(256)) * 10_000)
    small = Item(b"other", 4, MESSAGES, None, b"")
    assert list(unpack(pack([item, small]))) == [item, small]
    tracemalloc.start()
    for _ in range(20):
        for batch in pack([item]):
            assert max(map(len, batch.column("data").to_pylist())) <= PIECE_BYTES
    del batch
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000_000  # one item is longer


@pytest.mark.parametrize("title", ["long", "half a sign: \ud83d"])
@pytest.mark.parametrize("wild", [None, 2**70], ids=["plain", "a number that no file holds"])
def test_a_long_conversation_goes_in_portions(wild: int | None, title: str) -> None:
    messages = [Message("user", f"{n} " + "words ö " * 2000) for n in range(200)]
    messages[150].extra = {"n": wild}
    trajectory = Trajectory(conversation_id="c", messages=messages, source="pi", title=title)
    packed = pack_trajectory(trajectory)
    items = list(tasks._conversation(trajectory, make_card(trajectory), (("f", 0), ("pi", "c"), 0)))
    assert len(items) > 1 or wild or title != "long"
    job = Job(paths=[], require_system_first=False)
    dropped: Counter[str] = Counter()
    (finished,) = tasks._finish(items, job, {}, dropped)
    again = unpack_trajectory(packed)
    tasks.finish(again, None)
    (piece,) = write(Family(again), {})
    line = BytesIO()
    write_line(finished, line)
    assert line.getvalue() == piece.data
    assert not dropped


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
@pytest.mark.parametrize("remote", [False, True], ids=["local", "as a URL"])
def test_files_of_one_attempt_are_moved_once(
    sink: str, remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task ran twice; and so does the one that moves what it wrote."""
    if remote:
        monkeypatch.setattr(output, "_local", lambda url: None)  # all by pyarrow's file systems
    staging, out = f"file://{tmp_path}/staging", f"file://{tmp_path}/out"

    def told() -> Iterator[Trajectory]:
        for number in range(3):
            yield Trajectory(f"c{number}", [Message("user", "hi")] * (number + 1), source="pi")

    lost = write_part(told(), sink, staging, 7)
    part, written, messages = write_part(told(), sink, staging, 7)
    assert (written, messages) == (3, 6)
    assert part != lost[0]
    pairs = zip(staged_files(sink, part).values(), placed_files(sink, part).values(), strict=True)
    moves = [(f"{staging}/{old}", f"{out}/{new}") for old, new in pairs]
    for some in (moves[:1], moves, [("", f"{out}/_SUCCESS")]):
        columns = [pa.array(column) for column in zip(*some, strict=True)]
        list(place([pa.RecordBatch.from_arrays(columns, names=["source", "target"])]))
    names = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")}
    if sink == "jsonl":
        assert names == {"part-00007.jsonl"}
    else:
        assert names == {f"{table}/part-00007.parquet" for table in TABLES}
    assert (tmp_path / "out" / "_SUCCESS").read_bytes() == b""
    again = unspool.extract(tmp_path / "out")
    assert sorted(one.conversation_id for one in again) == ["c0", "c1", "c2"]


def test_the_archive_of_an_installed_pyspark_is_left_out() -> None:
    """And Java's; anything else stays: another Spark's archive belongs to nothing that is installed."""
    own = "/site-packages/pyspark/python/lib/pyspark.zip"
    foreign = "/opt/spark/python/lib/pyspark.zip"
    path = [foreign, own, "/opt/spark/jars/spark-core_2.13-4.3.0.jar", "/site-packages"]
    assert without_archives(path) == [foreign, "/site-packages"]
