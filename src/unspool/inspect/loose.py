"""A shelf over loose files: conversations read straight from where they lie."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from unspool.inspect.shelf import Entry, make_entry, match, newest_first
from unspool.pipeline.batch import Progress, open_run
from unspool.pipeline.job import Job
from unspool.sinks import Family
from unspool.trajectory import Trajectory

KEEP_MESSAGES = 50_000
"""Conversations are kept in memory up to this many messages; beyond it they are read again."""


_Key = tuple[str, str]
"""(source, id)"""


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
        self._below: dict[_Key, list[_Key]] = {}
        """Conversation → its sub-agents."""

    def entries(self) -> Sequence[Entry]:
        if self._entries is None:
            kept: list[Trajectory] | None = []
            held = 0
            made: list[Entry] = []
            for trajectory in self._read():
                made.append(make_entry(trajectory))
                self._below[_key(trajectory)] = _children(trajectory)
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
        self.entries()
        wanted = family_keys((entry.source, entry.id), self._below)
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


def _key(trajectory: Trajectory) -> _Key:
    return (trajectory.source, trajectory.conversation_id)


def _children(trajectory: Trajectory) -> list[_Key]:
    return [
        (link.source or trajectory.source, link.conversation_id)
        for link in trajectory.children or ()
        if link.kind == "subagent"
    ]


def family_keys(root: _Key, below: Mapping[_Key, list[_Key]]) -> set[_Key]:
    """A conversation and all sub-agents below it, which may be of another source."""
    found: set[_Key] = set()
    waiting = [root]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += below.get(key, [])
    return found
