"""Daemon: Spark's own, which starts the Python workers, but out of compiled files.

Spark puts `pyspark/python/lib/pyspark.zip` before all else on the path of its Python processes. Source
code in an archive is compiled anew by each of them, which is two thirds of the time that they take to
start. Where the package that the archive belongs to is installed, the archive is left out.
"""

import runpy
import sys
from pathlib import Path


def without_archives(path: list[str]) -> list[str]:
    return [
        entry
        for entry in path
        if not (entry.endswith(".zip") and str(Path(entry).parent.parent.parent.parent) in path)
    ]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
