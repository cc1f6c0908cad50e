"""What travels through Spark, without Spark: rows of bounded size, long conversations in portions."""

import tracemalloc

import pytest

pytest.importorskip("pyarrow")

from unspool.engines.spark import tasks
from unspool.engines.spark.rows import CONVERSATION, MESSAGES, PIECE_BYTES, Item, pack, unpack
from unspool.link import make_card
from unspool.pipeline.job import Job
from unspool.sinks import Family
from unspool.sinks.jsonl import write
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
    (finished,) = tasks._finish(items, job, {})
    again = unpack_trajectory(packed)
    tasks.finish(again, None)
    (piece,) = write(Family(again), {})
    assert bytes(finished.data) + b"\n" == piece.data
    assert finished.messages == 200
