"""What a hook costs an agent: a shell, the hand-over of a real payload, its end."""

import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.measure import Row
from unspool.hooks.spool import Layout, hand_over

RUNS = 500
PAYLOAD = (
    b'{"session_id":"s","hook_event_name":"PostToolUse","tool_response":"' + b"x" * 3700 + b'"}'
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder) / "live")
        layout.make()
        command = hand_over(layout.spool)
        kinds = {
            "hook": ["bash", "-c", command],
            "hook, spool gone": ["bash", "-c", hand_over(Path(folder) / "gone")],
            "floor: bash -c true": ["bash", "-c", "true"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        for _ in range(RUNS):  # in turns, so that each meets the same load
            for name, argv in kinds.items():
                times[name].append(_once(argv))
        arrived = sum(1 for _ in layout.new.iterdir())
    assert arrived == RUNS, f"{RUNS - arrived} events lost"
    return [(name, _figures(measured)) for name, measured in times.items()]


def _once(argv: list[str]) -> tuple[float, float]:
    """Milliseconds on the clock, and of the processor in all its processes."""
    start, used = time.perf_counter(), _processor_seconds()
    subprocess.run(argv, input=PAYLOAD, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000, (_processor_seconds() - used) * 1000


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _figures(times: list[tuple[float, float]]) -> str:
    clock = statistics.quantiles([wall for wall, _ in times], n=100)
    processor = statistics.median(cpu for _, cpu in times)
    return f"p50 {clock[49]:.1f} ms, p99 {clock[98]:.1f} ms; processor {processor:.1f} ms"
