"""A hundred thousand requests: memory stays flat and every collection bounded."""

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

from unspool import extract
from unspool.record import Recorder
from unspool.record.ledger import OPEN_CONVERSATIONS

CONVERSATIONS = 2000

MANY = """
import sys, time
from pathlib import Path
from unspool.record import Recorder

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096

def answer(n):
    return f"answer {n} " + "y" * 200

recorder = Recorder(agent="demo", path=sys.argv[1])
start = time.process_time()
for block in range(10):
    for at in range(10_000):
        conversation = block * 200 + at // 50
        turn = at % 50
        messages = [{"role": "system", "content": "s"}]
        for n in range(max(0, turn - 2), turn):
            messages.append({"role": "user", "content": f"q{n}"})
            messages.append({"role": "assistant", "content": answer(n)})
        messages.append({"role": "user", "content": f"q{turn}"})
        with recorder.request("m", messages, session_id=f"c{conversation}") as request:
            request.respond(answer(turn), usage={"prompt_tokens": 10})
    print(resident(), *recorder.sizes.values(), flush=True)
print(time.process_time() - start, file=sys.stderr)
"""


def test_a_hundred_thousand_requests(tmp_path: Path) -> None:
    """In a process of its own, so that its resident memory is the recorder's."""
    command = [sys.executable, "-c", MANY, str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [[int(value) for value in line.split()] for line in made.stdout.splitlines()]
    resident = [row[0] for row in rows]
    assert resident[-1] - resident[1] < 4_000_000, f"resident memory grew: {resident}"
    held = {tuple(row[1:]) for row in rows[1:]}
    assert len(held) == 1, "collections are as large after 100,000 requests as after 20,000"
    assert float(made.stderr.splitlines()[-1]) < 30, "seconds of processor time"
    assert len(list(tmp_path.iterdir())) == CONVERSATIONS
    last = next(iter(extract(next(tmp_path.glob("c1999-*")))))
    assert len(last.messages) == 101


def test_what_is_allocated_stays_flat_when_conversations_take_turns(tmp_path: Path) -> None:
    """Every request is of another conversation than the one before, most of them forgotten."""
    with Recorder(agent="demo", path=tmp_path) as recorder:
        for number in range(3):
            _round(recorder, number)
        gc.collect()
        tracemalloc.start()
        for number in range(3, 6):
            _round(recorder, number)
        gc.collect()
        # Traced is what was allocated since: all that is held was replaced by its like.
        first = tracemalloc.get_traced_memory()[0]
        for number in range(6, 9):
            _round(recorder, number)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
        tracemalloc.stop()
        sizes = recorder.sizes
    assert grown < 100_000, f"{grown} bytes more after 3,000 further requests"
    assert sizes["conversations"] == OPEN_CONVERSATIONS
    assert sizes["open_files"] <= 64
    assert sizes["messages"] <= OPEN_CONVERSATIONS * 30
    made = {t.conversation_id: [m.content for m in t.messages] for t in extract(tmp_path)}
    assert made["c7"] == [text for n in range(9) for text in (f"q{n}", f"a{n}")]


def _round(recorder: Recorder, number: int) -> None:
    """One request of every conversation, with the last two turns as its history."""
    messages: list[dict[str, Any]] = []
    for n in range(max(0, number - 2), number):
        messages.append({"role": "user", "content": f"q{n}"})
        messages.append({"role": "assistant", "content": f"a{n}"})
    messages.append({"role": "user", "content": f"q{number}"})
    for conversation in range(1000):
        recorder.log_request("m", messages, f"a{number}", session_id=f"c{conversation}")


def test_one_endless_conversation(tmp_path: Path) -> None:
    with Recorder(path=tmp_path, max_entries=1000) as recorder:
        most = 0
        for n in range(12_000):
            recorder.log_request(
                "m", [{"role": "user", "content": f"q{n}"}], f"a{n}", session_id="c"
            )
            if n % 1000 == 0:
                most = max(most, *recorder.sizes.values())
        assert most <= 2 * 4096
        assert len(list(tmp_path.iterdir())) <= 9
