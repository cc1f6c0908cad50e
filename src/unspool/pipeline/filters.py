"""Filters: which finished trajectories go out. Each one counts what it drops."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from unspool.io.times import parse_time
from unspool.pipeline.job import Job
from unspool.trajectory import Message, Trajectory

Messages = Callable[[], Iterable[Message]]
"""A conversation's messages, as often as they are asked for."""

TELEMETRY = "copilot-telemetry"
FILTERS = ("since", "require-system-first", "regex", "sample")
"""In the order in which they are asked."""
LISTLESS = {"only-echoes", "input-missing"}
"""Partial trajectories whose message list nobody logged: they cannot begin with a system message."""


class Filters:
    """The filters of a job, in their fixed order."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pattern = re.compile(job.regex) if job.regex else None

    def drops(self, trajectory: Trajectory, messages: Messages) -> str | None:
        """The name of the filter that drops it."""
        if self.job.since is not None and not self._is_recent(trajectory, self.job.since):
            return "since"
        if self._needs_system(trajectory) and not _begins_with_system(messages()):
            return "require-system-first"
        if self.pattern is not None and not any(
            self.pattern.search(m.content) or (m.typed and self.pattern.search(m.typed))
            for m in messages()
        ):
            return "regex"
        return None

    def _needs_system(self, trajectory: Trajectory) -> bool:
        if self.job.require_system_first is None:
            listless = LISTLESS.intersection(trajectory.partial or ())
            return trajectory.source == TELEMETRY and not listless
        return self.job.require_system_first

    @staticmethod
    def _is_recent(trajectory: Trajectory, since: int) -> bool:
        last = parse_time(trajectory.ended_at)
        return last is not None and last >= since


def _begins_with_system(messages: Iterable[Message]) -> bool:
    return any(message.role == "system" for message in islice(messages, 1))


def sample_hash(seed: int, ident: str) -> bytes:
    return hashlib.sha256(f"{seed}:{ident}".encode("utf-8", "replace")).digest()


def sampled(idents: Sequence[str], job: Job) -> set[int]:
    """The numbers of the conversations that the sample keeps."""
    numbers = range(len(idents))
    if job.sample is None or job.sample >= len(idents):
        return set(numbers)
    if job.sample_mode == "first":
        return set(numbers[: job.sample])
    return set(sorted(numbers, key=lambda n: (sample_hash(job.seed, idents[n]), n))[: job.sample])
