"""A shelf over loose files: conversations read straight from where they lie."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from unspool.pipeline.batch import Progress, open_run
from unspool.pipeline.job import Job
from unspool.shelf import Entry, make_entry, match, newest_first
from unspool.sinks import Family
from unspool.trajectory import Trajectory

KEEP_MESSAGES = 50_000
"""Conversations are kept in memory up to this many messages; beyond it they are read again."""


class LooseShelf:
    """The conversations under some paths, read when first asked for."""

    def __init__(
        self,
        paths: Iterable[str],
        progress: Callable[[int], Progress] | None = None,
    ) -> None:
        self._paths = list(paths)
        self._progress = progress
        self._entries: list[Entry] | None = None
        self._kept: list[Trajectory] | None = None
        self._problems: dict[str, int] = {}

    def entries(self) -> Sequence[Entry]:
        if self._entries is None:
            kept: list[Trajectory] | None = []
            held = 0
            made: list[Entry] = []
            for trajectory in self._read():
                made.append(make_entry(trajectory))
                held += len(trajectory.messages)
                if kept is not None:
                    kept.append(trajectory)
                    kept = kept if held <= KEEP_MESSAGES else None
            self._entries, self._kept = newest_first(made), kept
        return self._entries

    def problems(self) -> Mapping[str, int]:
        self.entries()
        return self._problems

    def find(self, ident: str) -> Entry:
        return match(ident, self.entries())

    def family(self, entry: Entry) -> Family:
        wanted = family_keys(entry, self.entries())
        everything = self._read() if self._kept is None else iter(self._kept)
        found = {key: t for t in everything if (key := _key(t)) in wanted}
        root = found.pop((entry.source, entry.id))
        return Family(root, tuple(found.values()))

    def _read(self) -> Iterator[Trajectory]:
        if not self._paths:
            return
        job = Job(paths=self._paths, workers=os.cpu_count() or 1)
        with open_run(job, self._progress) as run:
            reduced = run.reduce()
            self._problems = dict(run.problem_codes)
            yield from run.trajectories(reduced)


def _key(trajectory: Trajectory) -> tuple[str, str]:
    return (trajectory.source, trajectory.conversation_id)


def family_keys(root: Entry, entries: Sequence[Entry]) -> set[tuple[str, str]]:
    """(source, id) of a conversation and of all sub-agents below it."""
    below: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.parent_id is not None:
            below.setdefault(entry.parent_id, []).append(entry)
    found: set[tuple[str, str]] = set()
    waiting = [root]
    while waiting:
        entry = waiting.pop()
        if (entry.source, entry.id) not in found:
            found.add((entry.source, entry.id))
            waiting += below.get(entry.id, [])
    return found
