"""A real Spark cluster on loopback, from the pip package: a master and workers, each a process."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
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


def spark_version() -> tuple[int, ...]:
    found = version("pyspark").split(".") if find_spec("pyspark") is not None else []
    return tuple(int(part) for part in found[:2])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Cluster:
    """Master and workers; the workers run this Python, with what is in this checkout."""

    def __init__(
        self, folder: Path, workers: int = 2, memory: str = "1g", java: str = QUICK_JAVA
    ) -> None:
        self.java = java
        self.folder = folder
        self.memory = memory
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.env = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        self._await(lambda: _is_open(self.port))
        for _ in range(workers):
            self.add_worker()
        self._await(lambda: all(self._registered(number) for number in range(workers)))

    def spark_home(self) -> Path:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parent

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        command = self.spark_home() / "bin" / "spark-class"
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
        # Room for two applications, each with an executor of one core on every worker.
        options = ("--cores", "2", "--memory", "3g", "--work-dir", str(work))
        self.workers.append(self._start("worker.Worker", self.url, "--host", "127.0.0.1", *options))

    def _registered(self, number: int) -> bool:
        log = self.folder / f"process-{number + 1}.log"
        return b"Successfully registered" in log.read_bytes()

    def _await(self, ready: object) -> None:
        assert callable(ready)
        end = time.monotonic() + 300
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


def settings(cluster: Cluster) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": cluster.java,
        "spark.executor.extraJavaOptions": cluster.java,
        "spark.executor.memory": cluster.memory,
        "spark.executor.cores": "1",
        "spark.cores.max": str(len(cluster.workers)),
    }


@contextmanager
def connect_server(cluster: Cluster) -> Iterator[str]:
    """A Spark Connect server on the cluster."""
    port = free_port()
    given = {
        **settings(cluster),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    log = cluster.folder / f"connect-{port}.log"
    with open(log, "wb") as file:
        server = subprocess.Popen(
            [
                str(cluster.spark_home() / "bin" / "spark-submit"),
                *("--master", cluster.url),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *(part for item in given.items() for part in ("--conf", "=".join(item))),
                "spark-internal",
            ],
            env=cluster.env,
            stdout=file,
            stderr=file,
        )
    try:
        end = time.monotonic() + 240
        while not _is_open(port):
            assert time.monotonic() < end, log.read_text()
            assert server.poll() is None, log.read_text()
            time.sleep(0.3)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
