"""What the Spark engine costs beside `extract`: processor time and memory of its Python workers.

    PYTHONPATH=src:. python -m bench.spark FOLDER [WORKERS]   on a cluster of so many workers
    PYTHONPATH=src:. python -m bench.spark --skew FOLDER      makes one conversation of 1 GB there
    PYTHONPATH=src:. python -m bench.spark --growth FOLDER    1 and 4 GB, one worker and two, as the
                                                              rows of the table in docs/spark.md

It is not part of `make bench`: it needs Java and minutes.
"""

import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.spark.cluster import ROOT, Cluster, settings
from tests.telemetry import call, event

from bench.telemetry import generate

TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Samples the Python workers of a cluster until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self.own = {worker.pid for worker in cluster.workers}
        self.cpu: dict[int, float] = {}
        self.java_cpu: dict[int, float] = {}
        self.peak_kb: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
                try:
                    command = (folder / "cmdline").read_bytes()
                    is_java = b"CoarseGrainedExecutorBackend" in command
                    if b"spark.daemon" not in command and not is_java:
                        continue
                    fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                    status = (folder / "status").read_text()
                except OSError:
                    continue
                pid, parent = int(folder.name), int(fields[1])
                if parent not in self.own:
                    continue
                self.own.add(pid)
                cpu = self.java_cpu if is_java else self.cpu
                cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                if is_java:
                    continue
                peak = status.partition("VmHWM:")[2].split()
                self.peak_kb[pid] = int(peak[0]) if peak else 0

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def run_on_cluster(data: str, workers: int, folder: Path) -> dict[str, float]:
    cluster = Cluster(folder, workers, java="")
    watch = Watch(cluster)
    try:
        began = time.monotonic()
        process = _unspool(
            *(data, "-o", str(folder / "out"), "--engine", "spark", "--master", cluster.url),
            *(part for item in settings(cluster).items() for part in ("--conf", "=".join(item))),
        )
        seconds = time.monotonic() - began
    finally:
        watch.stop()
        cluster.close()
    told = json.loads(process.stderr.strip().rpartition("\n")[2])
    return {
        "workers": workers,
        "megabytes": told["bytes"] / 1e6,
        "conversations": told["written"],
        "seconds": seconds,
        "python_cpu": sum(watch.cpu.values()),
        "java_cpu": sum(watch.java_cpu.values()),
        "python_peak_mb": max(watch.peak_kb.values()) * 1024 / 1e6,
        "output_mb": sum(f.stat().st_size for f in (folder / "out").glob("part-*")) / 1e6,
    }


def _unspool(*arguments: str) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        [sys.executable, "-m", "unspool", "extract", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        sys.exit(process.stderr)
    return process


def run_here(data: str, folder: Path) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _unspool(data, "-o", str(folder / "x.jsonl"), "--workers", "2", "--no-context-tag-summary")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "output_mb": (folder / "x.jsonl").stat().st_size / 1e6,
    }


def make_skew(folder: Path, segments: int = 125, calls: int = 20, small: int = 10_000) -> None:
    """One conversation of 1 GB, whose lists join to 100 MB, among small ones. A list grows to the
    800 kB that a sender lets through; then comes a summary, and all goes on from there."""
    folder.mkdir(parents=True, exist_ok=True)
    words = "the value of parse error in module import class return file path test update "
    with open(folder / "skew.jsonl", "w", encoding="utf-8") as file:
        for segment in range(segments):
            summary = f"<conversation-summary>\nPart {segment}.\n</conversation-summary>"
            messages = [
                {"role": "system", "content": "You help. " + words * 20},
                {"role": "user", "content": summary},
            ]
            for number in range(calls):
                text = f"{segment}.{number} " + words * 500
                messages.append({"role": "user", "content": f"Go on with {segment}.{number}."})
                messages.append({"role": "assistant", "content": text})
                at = segment * calls + number
                file.write(json.dumps(call(messages, at, "large"), separators=(",", ":")) + "\n")
            for number in range(segment, small, segments):
                lists = [
                    {"role": "system", "content": "You help."},
                    {"role": "user", "content": f"Question {number}: {words}"},
                ]
                file.write(json.dumps(call(lists, 1, f"small-{number}")) + "\n")
                file.write(json.dumps(event("request.sent", 1, conversationId="x")) + "\n")


def compare(data: Path, *clusters: int) -> None:
    """`extract`, and Spark on clusters of so many workers."""
    for workers in clusters:
        with tempfile.TemporaryDirectory() as temporary:
            here = run_here(str(data), Path(temporary))
            spark = run_on_cluster(str(data), workers, Path(temporary))
        print("extract", here)
        print("spark  ", spark, f"Python {spark['python_cpu'] / here['cpu']:.2f} × extract")


def grow(folder: Path) -> None:
    """What more data and more workers cost. The data, 5 GB, is made where it is not there yet."""
    print(
        "| read | workers | time | Python, all processes | `extract` | Java | peak of a Python worker |"
    )
    for gigabytes in (1, 4):
        data = folder / f"{gigabytes}-gb"
        if not data.exists():
            generate(folder / "unfinished", gigabytes * 1_000_000_000)
            (folder / "unfinished").rename(data)
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as temporary:
                here = run_here(str(data), Path(temporary))
                spark = run_on_cluster(str(data), workers, Path(temporary))
            print(
                f"| {gigabytes} GB | {workers} | {spark['seconds']:.0f} s"
                f" | {spark['python_cpu']:.1f} s = {spark['python_cpu'] / here['cpu']:.2f} ×"
                f" | {here['cpu']:.1f} s | {spark['java_cpu']:.0f} s"
                f" | {spark['python_peak_mb']:.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    *options, last = [argument for argument in sys.argv[1:] if not argument.isdigit()]
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    folder = Path(last)
    compileall.compile_dir(ROOT / "src", quiet=1)  # as pip does: no run compiles
    if "--growth" in options:
        grow(folder)
    else:
        if "--skew" in options:
            make_skew(folder)
        compare(folder, *(numbers or [2]))
