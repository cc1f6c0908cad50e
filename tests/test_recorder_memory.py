"""A hundred thousand requests: memory stays flat and every collection bounded."""

import subprocess
import sys
from pathlib import Path

from unspool import extract
from unspool.record import Recorder
from unspool.record.history import KEYS
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


TURNS = """
import gc, sys, tracemalloc
from unspool.record import Recorder

def round(number):
    messages = []
    for n in range(max(0, number - 2), number):
        messages.append({"role": "user", "content": f"q{n}"})
        messages.append({"role": "assistant", "content": f"a{n}"})
    messages.append({"role": "user", "content": f"q{number}"})
    for conversation in range(400):
        recorder.log_request("m", messages, f"a{number}", session_id=f"c{conversation}")

def traced():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

with Recorder(agent="demo", path=sys.argv[1]) as recorder:
    for number in range(3):
        round(number)
    tracemalloc.start()
    for number in range(3, 9):
        round(number)
        print(traced(), *recorder.sizes.values())
"""


def test_what_is_allocated_stays_flat_when_conversations_take_turns(tmp_path: Path) -> None:
    """Every request is of another conversation than the one before, most of them forgotten."""
    command = [sys.executable, "-c", TURNS, str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [[int(value) for value in line.split()] for line in made.stdout.splitlines()]
    traced = [row[0] for row in rows]
    # Traced is what was allocated since the start: by the second round all was replaced by its like.
    assert traced[-1] - traced[1] < 100_000, f"allocated memory grew: {traced}"
    assert len({tuple(row[1:]) for row in rows}) == 1
    assert rows[-1][1] == OPEN_CONVERSATIONS
    found = {t.conversation_id: [m.content for m in t.messages] for t in extract(tmp_path)}
    assert found["c7"] == [text for n in range(9) for text in (f"q{n}", f"a{n}")]


def test_one_endless_conversation(tmp_path: Path) -> None:
    with Recorder(path=tmp_path, max_entries=1000) as recorder:
        most = 0
        for n in range(12_000):
            recorder.log_request(
                "m", [{"role": "user", "content": f"q{n}"}], f"a{n}", session_id="c"
            )
            if n % 1000 == 0:
                most = max(most, *recorder.sizes.values())
        assert most <= 4 * KEYS
        assert len(list(tmp_path.iterdir())) <= 9
