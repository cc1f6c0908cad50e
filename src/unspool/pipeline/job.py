"""Job: what a run is asked to do, and what it says of itself when it is done."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from unspool.facts import Problem
from unspool.io.origins import Tally

MEGABYTE = 1024 * 1024

Progress = Callable[[int], None]
"""Is told how many more bytes were read."""


class Job(msgspec.Struct, kw_only=True):
    """Everything that a run depends on."""

    paths: list[str]
    source: str | None = None
    sink: str = "jsonl"
    sink_options: dict[str, Any] = {}
    workers: int = 1
    memory_bytes: int = 64 * MEGABYTE
    """Facts beyond this go to disk (all workers together)."""
    recover: bool = False
    merge_tools: bool = True
    reasoning: bool = True
    since: int | None = None
    require_system_first: bool | None = None
    """None: only of telemetry."""
    regex: str | None = None
    sample: int | None = None
    seed: int = 0
    sample_mode: Literal["random", "first"] = "random"
    scan_tags: bool = False
    """Count the prompt tags of what is kept."""
    temporary: str | None = None
    """Folder for temporary files."""


class Summary(msgspec.Struct, kw_only=True, omit_defaults=False):
    """What a run did. `records` = used + superseded + noise + unrecognised + problem_records."""

    files: int = 0
    files_skipped: int = 0
    bytes: int = 0
    seconds: float = 0.0
    records: int = 0
    used: int = 0
    superseded: int = 0
    noise: int = 0
    unrecognised: int = 0
    problem_records: int = 0
    conversations: int = 0
    """Conversations found."""
    written: int = 0
    messages: int = 0
    """Messages in what was written."""
    merged: int = 0
    """Conversations put together from more than one file."""
    partial: int = 0
    filtered: dict[str, int] = {}
    empty: list[str] = []
    """Conversations that the output format has nothing to show of."""
    problems: dict[str, int] = {}
    """Problems by code."""
    samples: list[Problem] = []
    unknown: dict[str, int] = {}
    sources: dict[str, int] = {}
    tag_summary: str = ""
    """Where the scan of prompt tags was written, if it was."""

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1_000_000 / self.seconds if self.seconds > 0 else 0.0

    @property
    def problems_told(self) -> str:
        """Every kind of problem with its count and the first place where it was met."""
        places = {
            problem.code: f"{problem.origin}:{problem.offset}" for problem in reversed(self.samples)
        }
        return ", ".join(
            f"{count} × {code}" + (f" (first at {places[code]})" if code in places else "")
            for code, count in self.problems.items()
        )

    def count(self, tally: Tally) -> None:
        self.records = tally.records
        self.noise = tally.noise
        self.unrecognised = tally.unrecognised
        self.problem_records = tally.problems
        self.unknown = dict(sorted(tally.unknown.items(), key=lambda item: (-item[1], item[0])))
        kept = tally.records - tally.noise - tally.unrecognised - tally.problems
        self.superseded = max(0, min(self.superseded, kept))
        self.used = kept - self.superseded
