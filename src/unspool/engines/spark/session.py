"""Session: Spark itself, and what it says when it cannot work. The only user of pyspark."""

import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from unspool.engines.spark.daemon import ALONE
from unspool.errors import EngineError, MissingExtra, UnspoolError

try:
    import pandas
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession, functions
except ImportError as error:
    raise MissingExtra("Spark needs: pip install 'unspool[spark]'") from error

__all__ = [
    "DataFrame",
    "SparkSession",
    "functions",
    "open_session",
    "pandas",
    "told_plainly",
]

CONNECT = "sc://"
REACH_SECONDS = 5
DAEMON = "unspool.engines.spark.daemon"
_ADDRESS = re.compile(r"([^:/;?,]+):(\d+)")


@contextmanager
def open_session(
    master: str, settings: Mapping[str, str], progress: bool = False
) -> Iterator[SparkSession]:
    """A session on the master, ended with the block; `sc://host:port` is a Spark Connect server."""
    warnings.filterwarnings("ignore", module="pyspark")  # of pandas, which we do not use
    # pyspark takes it from here only. The default is right where workers are set up as this machine is.
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    _reach(master)
    home = os.environ.get("JAVA_HOME")
    has_java = Path(home, "bin", "java").exists() if home else shutil.which("java")
    if not has_java and not master.startswith(CONNECT):
        where = f"JAVA_HOME is {home}, and there is no bin/java" if home else "no java in PATH"
        raise EngineError(f"Spark needs Java 17: {where}")
    with told_plainly():
        builder = SparkSession.builder.appName("unspool")
        if master.startswith(CONNECT):
            builder = builder.remote(master)
        else:
            builder = builder.master(master).config("spark.log.level", "ERROR")
            builder = builder.config("spark.ui.showConsoleProgress", str(progress).lower())
            # What linking needs of all conversations comes to the driver at once.
            builder = builder.config("spark.driver.maxResultSize", "0")
            builder = builder.config("spark.python.daemon.module", DAEMON)
            builder = builder.config(f"spark.executorEnv.{ALONE}", "1")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _reach(master: str) -> None:
    """Spark itself asks for a minute before it says that nobody answers, in forty lines."""
    if not master.startswith(("spark://", CONNECT)):
        return
    reasons: list[str] = []
    for host, port in _ADDRESS.findall(master.partition("://")[2]):
        try:
            socket.create_connection((host, int(port)), REACH_SECONDS).close()
            return
        except OSError as error:
            reasons.append(error.strerror or str(error))
    raise EngineError(
        f"cannot reach {master}: {reasons[0] if reasons else 'it names no host:port'}"
    )


@contextmanager
def told_plainly() -> Iterator[None]:
    """What Spark raises becomes one line."""
    try:
        yield
    except UnspoolError:
        raise
    except Exception as error:
        if not isinstance(error, PySparkException) and "py4j" not in type(error).__module__:
            raise
        raise EngineError(f"Spark failed: {one_line(str(error))}") from None


_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


def one_line(text: str) -> str:
    """The innermost reason that a long message of Spark tells."""
    if "No module named 'unspool'" in text:
        return "its Python workers do not have unspool (docs/spark.md says how to send it along)"
    causes = [f"{name}: {told}" for name, told in _CAUSE.findall(text)]
    own = [cause for cause in causes if not cause.startswith(("Py", "Spark", "Py4J"))]
    return (own[-1] if own else text.strip().partition("\n")[0])[:300]
