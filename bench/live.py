"""Live capture: how fast events come in, how long they take to the store, what it costs to wait.

Ten conversations of 5 MB go on at the same time; each gets a line and a hook event every three seconds.
The lag is the daemon's own: from the arrival of the oldest event to the commit that shows it. What it
costs to wait is counted from 13 seconds after the last event, with the same conversations known: the
minute holds the end of the processes that reduced, and four walks for new files.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench import claude_code
from bench.measure import Row
from unspool.hooks.spool import Layout
from unspool.live.daemon import read_status
from unspool.live.intake import take_in
from unspool.live.queue import SqliteQueue, queue_path

EVENTS = 20_000
CONVERSATIONS = 10
CONVERSATION_BYTES = 5_000_000
EVERY_SECONDS = 3.0
SECONDS = 60.0
IDLE_SECONDS = 60.0


def run() -> list[Row]:
    return [*_intake(), *_lag()]


def _payload(session: str, number: int, transcript: str = "") -> bytes:
    return json.dumps(
        {
            "session_id": session,
            "transcript_path": transcript or f"/home/ann/.claude/projects/p/{session}.jsonl",
            "cwd": "/home/ann/shop",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{session}_{number}",
            "tool_input": {"command": f"pytest -q tests/test_{number}.py"},
            "tool_response": {"stdout": os.urandom(1400).hex(), "stderr": "", "interrupted": False},
        }
    ).encode()


def _drop(layout: Layout, name: str, data: bytes) -> None:
    file = layout.tmp / name
    file.write_bytes(data)
    file.rename(layout.new / name)


def _intake() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="unspool-bench-live-") as folder:
        layout = Layout.beside(Path(folder, "s.db"))
        layout.make()
        for number in range(EVENTS):
            _drop(layout, f"any.{number}", _payload(f"s{number % 50}", number))
        queue = SqliteQueue(queue_path(layout))
        started, worked = time.perf_counter(), time.process_time()
        for _ in take_in(layout, queue):
            pass
        seconds, cpu = time.perf_counter() - started, time.process_time() - worked
        queue.close()
        return [
            ("live: intake, events of 3 kB a second", f"{EVENTS / seconds:,.0f}"),
            ("live: intake, by its CPU time", f"{EVENTS / cpu:,.0f}"),
        ]


@contextmanager
def _daemon(store: Path, home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "unspool", "watch", str(home), "--store", str(store), "-q"]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_and_memory(pid: int) -> tuple[float, float]:
    """(seconds of CPU so far, megabytes in memory) of a process and its children, of which pages
    that they share count once; Linux only."""
    seconds = megabytes = 0.0
    for one in (pid, *_children(pid)):
        with suppress(OSError):  # it has just ended
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            # With those that it has waited for.
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
            megabytes += int(rollup.partition("\nPss:")[2].split()[0]) / 1000
    return seconds, megabytes


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _lag() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="unspool-bench-live-") as folder:
        store, home = Path(folder, "data", "s.db"), Path(folder, "home")
        layout = Layout.beside(store)
        layout.make()
        claude_code.generate(home / ".claude", CONVERSATION_BYTES * CONVERSATIONS)
        files = sorted(home.rglob("*.jsonl"), key=lambda file: -file.stat().st_size)
        files = files[:CONVERSATIONS]
        held: dict[Path, list[bytes]] = {}
        for file in files:
            lines = file.read_bytes().splitlines(keepends=True)
            held[file] = lines[-40:]
            file.write_bytes(b"".join(lines[:-40]))
        sizes = [file.stat().st_size / 1e6 for file in files]
        with _daemon(store, home) as process:
            time.sleep(5)
            while not store.exists() or not read_status(layout).get("lag_ms_p50"):
                _drop(layout, f"any.first{time.time_ns()}", _payload("warm", time.time_ns()))
                time.sleep(2)
            before, _ = cpu_and_memory(process.pid)
            started = time.monotonic()
            number, most = 0, 0.0
            while time.monotonic() - started < SECONDS:
                for file in files:
                    number += 1
                    if held[file]:
                        with open(file, "ab") as log:
                            log.write(held[file].pop(0))
                    _drop(layout, f"any.{number}", _payload(file.stem, number, str(file)))
                    time.sleep(EVERY_SECONDS / len(files))
                most = max(most, cpu_and_memory(process.pid)[1])
            time.sleep(3)
            status = read_status(layout)
            busy = (cpu_and_memory(process.pid)[0] - before) / (time.monotonic() - started)
            time.sleep(10)
            at, _ = cpu_and_memory(process.pid)
            time.sleep(IDLE_SECONDS)
            after, megabytes = cpu_and_memory(process.pid)
        return [
            (
                "live: conversations at the same time",
                f"{len(files)} of {max(sizes):.1f} MB at most",
            ),
            ("live: event to store, p50", f"{status.get('lag_ms_p50')} ms"),
            ("live: event to store, p95", f"{status.get('lag_ms_p95')} ms"),
            ("live: busy, share of a core", f"{busy:.0%}"),
            ("live: busy, memory at most", f"{most:.0f} MB"),
            ("live: idle, share of a core", f"{(after - at) / IDLE_SECONDS:.2%}"),
            ("live: idle, memory", f"{megabytes:.0f} MB"),
        ]
