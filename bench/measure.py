"""Measuring one command: wall time, and peak memory of its whole process tree."""

import subprocess
import sys
import threading
import time
from pathlib import Path

Row = tuple[str, str]

FLOOR = """
import sys, time, orjson, pathlib
start = time.perf_counter()
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file() and not path.name.endswith(tuple(sys.argv[2:])):
        with open(path, "rb") as file:
            for line in file:
                if line.strip():
                    orjson.loads(line)
print(time.perf_counter() - start)
"""


def floor(folder: Path, skip: str = "") -> float:
    """Seconds of one process that does nothing but `orjson.loads` on every line.

    Files whose names end with `skip` (databases) are left out.
    """
    command = [sys.executable, "-c", FLOOR, str(folder), *([skip] if skip else [])]
    subprocess.run(command, capture_output=True, check=True)  # warms the page cache
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(made.stdout)


class Measured:
    """Wall time and peak memory (all processes together) of one command."""

    def __init__(self, command: list[str]) -> None:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.peak_bytes = 0
        self._stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process.pid,))
        watcher.start()
        _, error = process.communicate()
        self._stop.set()
        watcher.join()
        self.seconds = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError(error.decode())

    def _watch(self, pid: int) -> None:
        while not self._stop.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, sum(_pss(p) for p in _tree(pid)))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for known in found:
        try:
            children = Path(f"/proc/{known}/task/{known}/children").read_text().split()
        except OSError:
            continue
        found += [int(child) for child in children]
    return found


def _pss(pid: int) -> int:
    """Proportional set size: pages that forked workers share are counted once."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def extract_command(folder: Path, output: Path, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "unspool", "extract", str(folder), "-o", str(output), "-q", *options,
    ]  # fmt: skip
