"""Files as a collection: conversations read straight from where they lie."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from unspool.inspect.collection import Entry, make_entry, match, newest_first
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job, Progress
from unspool.sinks import Family
from unspool.trajectory import Trajectory

KEEP_MESSAGES = 50_000
"""Conversations are kept in memory up to this many messages; beyond it they are read again."""

_Key = tuple[str, str]
"""(source, id)"""


class FileCollection:
    """The conversations under some paths, read when first asked for."""

    def __init__(
        self,
        paths: Iterable[str],
        progress: Callable[[int], Progress] | None = None,
    ) -> None:
        self._paths = list(paths)
        self._progress = progress
        self._entries: list[Entry] | None = None
        self._kept: list[Trajectory] | None = []
        self._problems: dict[str, int] = {}
        self._children: dict[_Key, list[_Key]] = {}
        """Conversation → its sub-agents."""

    def entries(self) -> Sequence[Entry]:
        if self._entries is None:
            entries: list[Entry] = []
            messages = 0
            for trajectory in self._read():
                entries.append(make_entry(trajectory))
                self._children[_key(trajectory)] = [
                    (link.source or trajectory.source, link.conversation_id)
                    for link in trajectory.children or ()
                    if link.kind == "subagent"
                ]
                messages += len(trajectory.messages)
                if messages > KEEP_MESSAGES:
                    self._kept = None
                if self._kept is not None:
                    self._kept.append(trajectory)
            self._entries = newest_first(entries)
        return self._entries

    def problems(self) -> Mapping[str, int]:
        self.entries()
        return self._problems

    def find(self, ident: str) -> Entry:
        return match(ident, self.entries())

    def family(self, entry: Entry) -> Family:
        self.entries()
        wanted: set[_Key] = set()
        waiting = [(entry.source, entry.id)]
        while waiting:  # its sub-agents, and theirs, which may be of another source
            key = waiting.pop()
            if key not in wanted:
                wanted.add(key)
                waiting += self._children.get(key, [])
        everything = self._read() if self._kept is None else iter(self._kept)
        members = {key: t for t in everything if (key := _key(t)) in wanted}
        root = members.pop((entry.source, entry.id))
        return Family(root, tuple(members.values()))

    def _read(self) -> Iterator[Trajectory]:
        if not self._paths:
            return
        job = Job(paths=self._paths, workers=os.cpu_count() or 1)
        with open_run(job, self._progress) as run:
            trajectories = run.trajectories()
            self._problems = dict(run.problem_codes)
            yield from trajectories


def _key(trajectory: Trajectory) -> _Key:
    return (trajectory.source, trajectory.conversation_id)
