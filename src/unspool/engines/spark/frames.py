"""Frames: the driver of an extraction, two Spark jobs and linking between them.

    job 1   spans ─ read ─ shuffle by conversation ─ reduce ─→ STAGING/reduced
    driver  all cards ─ link ─→ STAGING/patches
    job 2   conversations and patches ─ shuffle ─ finish ─→ files below STAGING/finished
    write   those files into their place

Linking sees all conversations, so nothing can be finished before all are reduced. What waits lies in
files: Spark would else read everything again for the second job. Only the DataFrame API of Spark 3.5
is used, so that it runs by Spark Connect too, which has no RDD and no SparkContext.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from unspool import sources
from unspool.engines.spark import tasks
from unspool.engines.spark.elsewhere import discover_urls, is_url
from unspool.engines.spark.output import CONVERSATIONS, place, placed_files, staged_files
from unspool.engines.spark.rows import (
    BATCH_ROWS,
    CONVERSATION,
    MESSAGES,
    PARTS,
    PATCH,
    REPORT,
    SCHEMA,
)
from unspool.engines.spark.session import DataFrame, SparkSession, pandas, told_plainly
from unspool.engines.spark.session import functions as F
from unspool.errors import NothingToRead, UsageError
from unspool.facts import Problem
from unspool.io.folders import is_folder
from unspool.io.origins import Origin, Tally
from unspool.link import link
from unspool.pipeline.batch import SAMPLES, SAMPLES_PER_CODE
from unspool.pipeline.discover import cut, discover
from unspool.pipeline.finish import FILTERS
from unspool.pipeline.job import Job, Summary
from unspool.sinks.parquet.rows import TABLES

SHAPES = ("jsonl", "parquet")
LEAST_SPAN_BYTES = 4 << 20
PORTION_BYTES = 128 << 20
"""What one task reads: what a conversation repeats within it is joined before the shuffle."""
LEAST_TASKS = 4
"""A task costs every Python worker some milliseconds: a gigabyte is not worth more of them."""
MOST_PARTITIONS = 10_000
TABLE_PARTITIONS = 200
"""Spark's own default: how large a table is, nobody knows before it is read."""
TABLE_SOURCE = "copilot-telemetry"
PATCHES_PER_FILE = 10_000

Files = dict[str, list[str]]
MOVES = "source string, target string"
FILES_PER_TASK = 64
"""That are moved: in an object store each is copied."""
TYPES = {
    "text": "string",
    "long": "string",
    "texts": "array<string>",
    "count": "bigint",
    "number": "double",
    "flag": "boolean",
    "time": "timestamp",
    "json": "string",
    "jsons": "array<string>",
}
"""Kind of a column (see `sinks.parquet.rows`) → its type in Spark."""

STAGED = {
    # Files of a task that failed, or ran twice, never get among the others.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # A reader holds a row group; the writer looks how long one is after so many rows of up to 1 MB.
    "parquet.block.size": str(16 << 20),
    "parquet.page.size.row.check.min": "1",
    "parquet.enable.dictionary": "false",
}
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows of a staged file that Java holds at once; by itself it takes 4096, of up to 1 MB each.
    "spark.sql.parquet.columnarReaderBatchSize": str(BATCH_ROWS),
}


def run(
    spark: SparkSession,
    data: Any,
    *,
    staging: str,
    to: str = "parquet",
    partitions: int | None = None,
    column: str = "value",
    origin: str | None = None,
    offset: str | None = None,
    **given: Any,
) -> "Extraction":
    """See `unspool.engines.spark.run`. `given` are fields of a Job."""
    if to not in SHAPES:
        raise UsageError(f"Spark writes {' or '.join(SHAPES)}, not {to}")
    if isinstance(data, str | os.PathLike):
        data = [data]
    paths = [os.path.expanduser(path) for path in data] if isinstance(data, list | tuple) else []  # noqa: PTH111
    job = Job(paths=paths, sink=to, **given)
    extraction = Extraction(spark, job, staging, partitions)
    with told_plainly(), _settings(spark):
        if paths:
            facts = extraction.open_paths()
        else:
            facts = extraction.open_table(data, column, origin, offset)
        extraction.reduce(facts)
        extraction.link()
        extraction.finish()
    return extraction


class Extraction:
    """One run: its conversations, in files below `staging`, and what it has to tell."""

    def __init__(self, spark: SparkSession, job: Job, staging: str, partitions: int | None) -> None:
        self.spark = spark
        self.job = job
        self.staging = staging.rstrip("/")
        self.partitions = partitions
        self.summary = Summary()
        self.problems: list[Problem] = []
        """All of them, in order of place."""
        self._started = time.monotonic()
        self._patched = False
        self._parts: list[str] = []
        """What the tasks of job 2 call the files that count."""
        self._files: Files = {}
        self._names: Mapping[str, str] = {}  # of a table none
        self._given = {p if is_url(p) else str(Path(p).absolute()): p for p in job.paths}
        """Argument as workers, which stand in other folders, have it → as it was given."""

    def open_paths(self) -> DataFrame:
        """The facts in files: cut into spans where the workers can open them, else line by line."""
        folders = [path for path in self._given if is_url(path) or is_folder(path)]
        self._names = tasks.Names(folders, self._given)
        local = [path for path in self._given if not is_url(path)]
        urls = [path for path in self._given if is_url(path)]
        found = discover(local, self.job.source)
        if urls:
            try:
                more = discover_urls(urls, self.job.source)
            except (OSError, ValueError, ImportError) as error:
                if local:
                    text = f"{urls[0]}: {error}; only Spark may open it, and not beside files"
                    raise UsageError(text) from None
                return self._open_lines(urls)
            found.origins += more.origins
            found.problems += more.problems
            found.files += more.files
            found.skipped += more.skipped
        if not found.origins:
            raise NothingToRead(found.nothing_in(self.job.paths))
        self.summary.files = found.files
        self.summary.files_skipped = found.skipped
        self.summary.bytes = sum(origin.size for origin in found.origins)
        self.problems += found.problems
        portions = make_portions(found.origins)
        if self.partitions is None:
            # What was joined is a quarter of what was read, or less.
            self.partitions = min(max(LEAST_TASKS, len(portions) // 2), MOST_PARTITIONS)
        return self._spans(portions).mapInArrow(
            partial(tasks.read, recover=self.job.recover), SCHEMA
        )

    def _spans(self, portions: list[list[Origin]]) -> DataFrame:
        """A partition per portion."""
        count = len(portions)
        rows = [
            (task, tasks.encode(span)) for task, portion in enumerate(portions) for span in portion
        ]
        spans = _frame(self.spark, rows, "task long, span binary")
        numbers = self.spark.range(0, count, 1, count).withColumnRenamed("id", "task")
        return numbers.join(F.broadcast(spans), "task")

    def _open_lines(self, urls: list[str]) -> DataFrame:
        """What pyarrow cannot open, or has a pattern in it, as Spark sees it: rows that do not know
        where in a file they stand."""
        # Without it a carriage return by itself would end a line, too.
        text = self.spark.read.option("lineSep", "\n").text(urls)
        self.summary.files = len(text.inputFiles())
        named = text.select("value", F.col("_metadata.file_path").alias("path"))
        return self.open_table(named, "value", "path", None)

    def open_table(
        self, table: DataFrame, column: str, origin: str | None, offset: str | None
    ) -> DataFrame:
        """The facts in a table with a column of raw events."""
        source = self.job.source or TABLE_SOURCE
        if source not in sources.SOURCES or not sources.load(source).RANGES:
            raise UsageError(f"a table cannot hold {source}: its records need the ones before them")
        raw = F.col(column).cast("binary")
        if self.partitions is None:
            self.partitions = TABLE_PARTITIONS
        # A row without an offset is placed by its digest: the same row is the same record.
        digest = F.shiftrightunsigned(F.xxhash64(raw), 1)
        rows = table.select(
            F.spark_partition_id().cast("long").alias("task"),
            raw.alias("raw"),
            (F.col(origin).cast("string") if origin else F.lit("table")).alias("origin"),
            (F.col(offset).cast("long") if offset else digest).alias("offset"),
        )
        return rows.mapInArrow(
            partial(tasks.read_rows, source=source, recover=self.job.recover), SCHEMA
        )

    def reduce(self, facts: DataFrame) -> None:
        """Job 1."""
        reduce = partial(tasks.reduce, merge_tools=self.job.merge_tools)
        reduced = self._together(facts).mapInArrow(reduce, SCHEMA)
        reduced.write.options(**STAGED).parquet(f"{self.staging}/reduced")

    def _together(self, rows: DataFrame) -> DataFrame:
        """All rows of a key in one partition, in order. Spark's own hash is the same everywhere."""
        return rows.repartition(self.partitions, "key").sortWithinPartitions("key", "task", "seq")

    def _staged(self, name: str) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(f"{self.staging}/{name}")

    def link(self) -> None:
        """The heads of all conversations come to the driver; what linking finds out goes to files."""
        conversations: list[tasks.Reduced] = []
        tally = Tally()
        heads = self._staged("reduced").where(F.col("head").isNotNull()).select("kind", "head")
        for kind, head in heads.collect():
            if kind == REPORT:
                report = tasks.decode_report(bytes(head))
                tally.add(report.tally)
                self.summary.superseded += report.superseded
                self.problems += report.problems
            else:
                conversations.append(tasks.decode_reduced(bytes(head)))
        conversations.sort(key=lambda one: one.place)
        patches = link(one.card for one in conversations)
        rows = [
            (tasks.encode(one.place), -1, 0, 0, PATCH, None, tasks.encode(patch))
            for one in conversations
            if (patch := patches.get(one.card.key)) is not None
        ]
        self._patched = bool(rows)
        for at in range(0, len(rows), PATCHES_PER_FILE):
            some = _frame(self.spark, rows[at : at + PATCHES_PER_FILE], SCHEMA)
            some.write.options(**STAGED).mode("append").parquet(f"{self.staging}/patches")
        absorbed = {key for key, patch in patches.items() if patch.absorbed}
        self._count([one for one in conversations if one.card.key not in absorbed], tally)

    def _count(self, kept: list[tasks.Reduced], tally: Tally) -> None:
        summary = self.summary
        summary.count(tally)
        summary.conversations = len(kept)
        summary.merged = sum(one.merged for one in kept)
        summary.partial = sum(one.partial for one in kept)
        summary.sources = dict(sorted(Counter(one.card.source for one in kept).items()))
        self.problems = sorted(map(self._shown, self.problems), key=lambda one: one.place)
        counts: Counter[str] = Counter()
        for problem in self.problems:
            counts[problem.code] += 1
            if counts[problem.code] <= SAMPLES_PER_CODE and len(summary.samples) < SAMPLES:
                summary.samples.append(problem)
        summary.problems = dict(sorted(counts.items()))

    def _shown(self, problem: Problem) -> Problem:
        """With the origin as a person gave it."""
        for absolute, given in self._given.items():
            if problem.origin == absolute or problem.origin.startswith(absolute + os.sep):
                origin = given.removesuffix(os.sep) + problem.origin[len(absolute) :]
                return msgspec.structs.replace(problem, origin=origin)
        return problem

    def finish(self) -> None:
        """Job 2."""
        rows = self._staged("reduced").where(F.col("kind").isin(CONVERSATION, MESSAGES))
        if self._patched:
            rows = rows.unionByName(self._staged("patches"))
        finish = partial(
            tasks.finish_all, job=self.job, names=self._names, folder=f"{self.staging}/finished"
        )
        # What the driver wanted to know of them need not travel once more.
        rows = self._together(rows.withColumn("head", F.lit(None).cast("binary")))
        numbered = rows.withColumn("task", F.spark_partition_id().cast("long"))
        # Of every partition Spark takes one result, whatever died meanwhile: each file counts once.
        dropped: Counter[str] = Counter()
        for name, count, messages in numbered.mapInArrow(finish, PARTS).collect():
            if name in FILTERS:
                dropped[name] += count
            elif count:
                self._parts.append(name)
                self.summary.written += count
                self.summary.messages += messages
        self.summary.filtered = {name: dropped[name] for name in FILTERS if name in dropped}
        self._files = self._named(f"{self.staging}/finished", staged_files)
        self.summary.seconds = time.monotonic() - self._started

    def _named(self, folder: str, name: Callable[[str, str], dict[str, str]]) -> Files:
        """Table → its files in the folder."""
        files: Files = {}
        for part in sorted(self._parts, key=lambda part: part.rpartition("/")[2]):
            for table, file in name(self.job.sink, part).items():
                files.setdefault(table, []).append(f"{folder}/{file}")
        return files

    def table(self, name: str) -> DataFrame:
        """One of the tables of docs/parquet.md; of JSONL there is only `conversations`."""
        files = self._files.get(name, [])
        if self.job.sink == "jsonl":
            schema = "value string"
        else:
            schema = ", ".join(f"`{column}` {TYPES[kind]}" for column, kind in TABLES[name].items())
        if not files:
            return self.spark.createDataFrame([], schema)
        reader = self.spark.read.schema(schema)
        if self.job.sink == "jsonl":
            return reader.text(files, lineSep="\n")
        return reader.parquet(*files)

    @property
    def conversations(self) -> DataFrame:
        return self.table(CONVERSATIONS)

    def write(self, output: str) -> None:
        """The files into a folder, or for Parquet those of every table into one of its own. `_SUCCESS`
        is there when all is."""
        files = self._named(output, placed_files)
        moves = [
            move for table in files for move in zip(self._files[table], files[table], strict=True)
        ]
        with told_plainly():
            self._place(moves)
            self._place([("", f"{output}/_SUCCESS")])
        self._files = files
        self.summary.seconds = time.monotonic() - self._started

    def _place(self, moves: list[tuple[str, str]]) -> None:
        """By the workers: the driver of a Spark Connect server need not see the files."""
        if moves:
            frame = _frame(self.spark, moves, MOVES).repartition(-(-len(moves) // FILES_PER_TASK))
            frame.mapInArrow(place, MOVES).collect()


def _frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    """Rows of the driver. By way of pandas they go as Arrow; by itself Spark would start Python workers
    for nothing but to pickle them."""
    names = [column.split()[0] for column in schema.split(", ")]
    return spark.createDataFrame(pandas.DataFrame(rows, columns=names), schema)


def make_portions(origins: Iterable[Origin]) -> list[list[Origin]]:
    """Spans in portions of about equal size, each the work of one task."""
    origins = list(origins)
    total = sum(origin.size for origin in origins)
    size = min(PORTION_BYTES, max(LEAST_SPAN_BYTES, total // LEAST_TASKS))
    portions: list[list[Origin]] = []
    room = 0
    for span in cut(origins, size):
        length = (span.end or span.size) - span.start
        if length > room:
            portions.append([])
            room = size
        portions[-1].append(span)
        room -= length
    return portions


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Ours while our jobs run. A service that lets nobody set them keeps batches small by itself."""
    before: dict[str, str | None] = {}
    for name, value in SETTINGS.items():
        try:
            old = spark.conf.get(name, None)
            spark.conf.set(name, value)
            before[name] = old
        except Exception:
            continue
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
