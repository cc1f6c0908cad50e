"""Daemon: Spark's own, which forks the Python workers, but lighter and sooner ready.

Spark puts `pyspark/python/lib/pyspark.zip` before all else on the path of its Python processes. Source
code in an archive is compiled anew by each of them, which is two thirds of the time that they take to
start. Where the package that the archive belongs to is installed, the archive is left out. So is the
Java archive that Spark puts beside it, in which there is no Python. Both are also forgotten: else every
worker would read their tables of contents, thousands of names, again and again, which takes 0.1 s.

What tasks need is imported here, once for all workers of an executor. Arrow's own allocator keeps what
batches once took, 8 MB; pyarrow has to know before it is imported that it uses the system's. numpy,
which pyarrow takes where it is installed, is 11 MB for each worker, and our tasks make no use of it: in
a session that does nothing but extract (`open_session` says so by ALONE) it is left out.
"""

import gc
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

ALONE = "UNSPOOL_SPARK_ALONE"
"""In the environment of executors whose Python runs no tasks but ours."""


def without_archives(path: list[str]) -> list[str]:
    return [
        entry
        for entry in path
        if not (entry.endswith(".zip") and str(Path(entry).parent.parent.parent.parent) in path)
        and not entry.endswith(".jar")
    ]


def import_tasks() -> None:
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if os.environ.get(ALONE):
        sys.modules["numpy"] = None  # type: ignore[assignment]  # as if it were not installed
    from unspool.engines.spark import tasks  # noqa: F401


if __name__ == "__main__":
    gc.disable()
    sys.path[:] = without_archives(sys.path)
    for entry in list(sys.path_importer_cache):
        if entry not in sys.path and (".zip" in entry or ".jar" in entry):
            del sys.path_importer_cache[entry]
    import_tasks()
    import_module("pyspark.serializers")  # as the daemon does
    # After every task Spark looks through all objects for garbage: what was imported is none.
    gc.freeze()
    gc.enable()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
