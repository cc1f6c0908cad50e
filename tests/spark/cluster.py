"""A real Spark cluster on loopback, from the pip package: a master and workers, each a process."""

import os
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests run once: what the compiler would gain later, they never get back."""


def why_not() -> str:
    """Why no cluster can be started here; empty where one can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "there is no Java"
    return ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Cluster:
    """Master and workers; `python` is what the workers run, with what is in this checkout."""

    def __init__(
        self, folder: Path, workers: int = 2, memory: str = "1g", python: str = sys.executable
    ) -> None:
        self.folder = folder
        self.memory = memory
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.env = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "PYSPARK_PYTHON": python,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        self._await(lambda: self._answers())
        for _ in range(workers):
            self.add_worker()
        self._await(lambda: all(self._registered(number) for number in range(workers)))

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        command = Path(spec.origin).parent / "bin" / "spark-class"
        web = ("--webui-port", str(free_port()))
        with open(self.folder / f"process-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(
                [str(command), f"org.apache.spark.deploy.{kind}", *options, *web],
                env=self.env,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def add_worker(self) -> None:
        work = self.folder / f"work-{len(self.workers)}"
        options = ("--cores", "1", "--memory", self.memory, "--work-dir", str(work))
        self.workers.append(self._start("worker.Worker", self.url, "--host", "127.0.0.1", *options))

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _registered(self, number: int) -> bool:
        log = self.folder / f"process-{number + 1}.log"
        return b"Successfully registered" in log.read_bytes()

    def _await(self, ready: object) -> None:
        assert callable(ready)
        end = time.monotonic() + 120
        while not ready():
            assert time.monotonic() < end, f"the cluster did not start: see {self.folder}"
            assert all(p.poll() is None for p in self.processes), f"it ended: see {self.folder}"
            time.sleep(0.2)

    def executors_of(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """An executor is a child of its worker."""
        found = []
        for children in Path(f"/proc/{worker.pid}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
        return found

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
