"""Processes that fork while they record, and the garbage collector: nobody waits for ever."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.record import Recorder

USER = {"role": "user", "content": "hello"}

BUSY = """
import os, sys, threading
from unspool.record import Recorder

recorder = Recorder(path=sys.argv[1])
ended = threading.Event()

def talk(name):
    recorder.log_request("m", [{"role": "user", "content": name}], f"answer to {name}", session_id=name)

def work(number):
    count = 0
    while not ended.is_set():
        talk(f"thread-{number}-{count % 5}")
        count += 1

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for number in range(20):
    child = os.fork()
    if not child:
        talk(f"child-{number}")
        os._exit(0)
    os.waitpid(child, 0)
ended.set()
"""

SHORT = """
import os, sys
from unspool.record import Recorder

recorder = Recorder()
recorder.log_request("m", ["one"], "two", session_id="c")
child = os.fork()
if not child:
    with recorder:
        recorder.log_request("m", ["three"], "four", session_id="c")
    sys.exit()
os.waitpid(child, 0)
print([message.content for made in recorder.trajectories() for message in made.messages])
recorder.close()
print(recorder.path.exists())
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@forking
def test_a_process_that_forks_while_its_threads_record(tmp_path: Path) -> None:
    run(BUSY, str(tmp_path))
    with Recorder(path=tmp_path) as recorder:
        made = {t.conversation_id: [m.content for m in t.messages] for t in recorder.trajectories()}
    for number in range(20):
        assert made[f"child-{number}"] == [f"child-{number}", f"answer to child-{number}"]


@forking
def test_a_child_leaves_its_parents_temporary_journal() -> None:
    assert run(SHORT).split("\n") == ["['one', 'two', 'three', 'four']", "False", ""]


class Collecting:
    """A message that lets the garbage collector run while it is being recorded."""

    def model_dump(self, **options: Any) -> dict[str, str]:
        gc.collect()
        return USER


def test_a_stream_that_the_garbage_collector_closes(tmp_path: Path) -> None:
    with Recorder(path=tmp_path) as recorder:

        def stream() -> Iterator[None]:
            with recorder.request("m", ["first"], session_id="c") as request:
                request.chunk("half")
                yield

        forgotten: list[Any] = [stream()]
        next(forgotten[0])
        forgotten.append(forgotten)
        del forgotten
        worker = threading.Thread(
            target=lambda: recorder.log_request("m", [Collecting()], "ok", session_id="c"),
            daemon=True,
        )
        worker.start()
        worker.join(20)
        assert not worker.is_alive()
        (made,) = recorder.trajectories()
    assert [(m.content, m.status) for m in made.messages] == [
        *(("first", None), ("half", "interrupted"), ("hello", None), ("ok", None)),
    ]
