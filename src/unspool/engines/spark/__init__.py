"""Spark: the engine for traces that outgrew one machine. `docs/spark.md`.

session.py  Spark itself; the only user of pyspark
frames.py   the driver: two jobs over DataFrames, and linking between them
tasks.py    what the Python workers do: read, reduce, finish
rows.py     bytes of any length as rows of at most 256 kB
output.py   the files that tasks write, and how they come into place
elsewhere.py, archive.py, daemon.py   data in no local file; workers that lack unspool; their start

Nothing here is imported by the rest of unspool.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.engines.spark.frames import Extraction
    from unspool.engines.spark.session import DataFrame, SparkSession

__all__ = ["extract", "run"]


def extract(spark: "SparkSession", data: Any, **given: Any) -> "DataFrame":
    """The conversations in files, or in a table of raw events, as a DataFrame.

    Takes what `run` takes. The columns are those of `conversations.parquet`, JSON as strings; with
    `to="jsonl"` there is one, `value`, with the lines of trajectory JSONL. The DataFrame reads the
    files in `staging`: keep them as long as you use it.
    """
    return run(spark, data, **given).conversations


def run(spark: "SparkSession", data: Any, **given: Any) -> "Extraction":
    """The same with all that it knows: `.conversations`, `.table("files")`, `.summary`, `.problems`."""
    from unspool.engines.spark.frames import run as run_frames

    return run_frames(spark, data, **given)
