"""Measuring one command: wall time, processor time, and peak memory of its whole process tree."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

Row = tuple[str, str]

KEPT_DATA = "UNSPOOL_BENCH_DATA"
"""A folder in this variable keeps the made-up data from one run to the next."""

FLOOR = """
import sys, time, orjson, pathlib
start = time.perf_counter()
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file() and not path.name.endswith(tuple(sys.argv[2:])):
        with open(path, "rb", buffering=1 << 20) as file:
            for line in file:
                orjson.loads(line)
print(time.perf_counter() - start, time.process_time())
"""


FLOOR_OF_ROWS = """
import sys, time, orjson, sqlite3
start = time.perf_counter()
base = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for table in sys.argv[2:]:
    for (data,) in base.execute(f"SELECT CAST(data AS BLOB) FROM {table}"):
        orjson.loads(data)
print(time.perf_counter() - start, time.process_time())
"""


class Floor(NamedTuple):
    """What `orjson.loads` on every line costs: seconds on the clock and of the processor."""

    seconds: float
    cpu_seconds: float


def floor(folder: Path, skip: str = "") -> Floor:
    """The best of three fresh processes that do nothing but `orjson.loads` on every line.

    Files whose names end with `skip` (databases) are left out.
    """
    return _best(FLOOR, str(folder), *([skip] if skip else []))


def floor_of_rows(database: Path, *tables: str) -> Floor:
    """The same for the rows of a database, whose `data` is JSON: to read them is part of it, as lines
    are read from a file."""
    return _best(FLOOR_OF_ROWS, str(database), *tables)


def _best(script: str, *arguments: str) -> Floor:
    command = [sys.executable, "-c", script, *arguments]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    return Floor(min(float(run[0]) for run in runs), min(float(run[1]) for run in runs))


class Measured:
    """Wall time, processor time and peak memory (all processes together) of one command."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        environment = dict(os.environ if environment is None else environment)
        # As it is where unspool is installed: with its modules compiled, which pip does.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.peak_bytes = 0
        self._stop = threading.Event()
        with tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=errors, env=environment
            )
            watcher = threading.Thread(target=self._watch, args=(process.pid,))
            watcher.start()
            _, status, used = os.wait4(process.pid, 0)
            self.seconds = time.perf_counter() - start
            self.cpu_seconds = used.ru_utime + used.ru_stime
            process.returncode = os.waitstatus_to_exitcode(status)
            self._stop.set()
            watcher.join()
            errors.seek(0)
            if process.returncode:
                raise RuntimeError(errors.read().decode())

    def _watch(self, pid: int) -> None:
        while not self._stop.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, pss_of_tree(pid))

    def over(self, base: Floor) -> str:
        """The figures of a row: seconds, their ratio to the floor, memory."""
        return (
            f"{self.seconds:.2f} s = {self.seconds / base.seconds:.2f} × floor"
            f" (processor {self.cpu_seconds / base.cpu_seconds:.2f} ×),"
            f" peak {self.peak_bytes / 1e6:.0f} MB"
        )


def _tree(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        pids += [int(child) for child in children]
    return pids


def pss_of_tree(pid: int) -> int:
    """Bytes of memory that a process and all its children hold."""
    return sum(_pss(one) for one in _tree(pid))


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


@contextmanager
def made_data(name: str, generate: Callable[[Path], object]) -> Iterator[Path]:
    """A folder that `generate` has filled; with UNSPOOL_BENCH_DATA it is kept for the next run."""
    place = os.environ.get(KEPT_DATA)
    if place:
        folder = Path(place, name)
        if not folder.exists():
            unfinished = Path(place, f"{name}.unfinished")
            unfinished.mkdir(parents=True)
            generate(unfinished)
            unfinished.rename(folder)
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
            generate(Path(temporary))
            yield Path(temporary)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def extract_rows(job: str, folder: Path, workers: tuple[int, ...] = (1, 2)) -> list[Row]:
    """What `extract` of a folder costs with so many workers, and whether all write the same."""
    base = floor(folder)
    rows: list[Row] = [
        (f"{job}: input", f"{size_of(folder) / 1e6:.0f} MB"),
        (f"{job}: floor, orjson.loads on every line", f"{base.seconds:.2f} s"),
    ]
    with tempfile.TemporaryDirectory(prefix="unspool-bench-out-") as temporary:
        outputs = [Path(temporary, f"out-{count}.jsonl") for count in workers]
        for count, output in zip(workers, outputs, strict=True):
            done = Measured(extract_command(folder, output, "--workers", str(count)))
            rows.append((f"{job}: extract --workers {count}", done.over(base)))
        if len(outputs) > 1:
            same = len({output.read_bytes() for output in outputs}) == 1
            rows.append((f"{job}: output of all", "equal" if same else "DIFFERENT"))
    return rows
