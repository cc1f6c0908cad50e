"""Monitors: which files and databases changed, without any help from the system or from hooks.

With the extra `watchfiles` the system tells as well (`notices.py`), but nothing depends on it.
Polling is cheap where it is done by need: transcripts that are being written are looked at twice a
second (once where none moved for ten seconds), all known files every five, folders for new files
every fifteen; where nothing moved for ten minutes, known files with these. A hook that names a
transcript makes it hot at once.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from unspool.io.folders import walk
from unspool.pipeline.discover import COMPANIONS
from unspool.store.survey import (
    Changed,
    Known,
    Survey,
    known_origin,
    known_origins,
    live_folder,
    own_files,
)

HOT_SECONDS = 0.5
WARM_SECONDS = 1.0
WARM_AFTER_SECONDS = 10.0
KNOWN_SECONDS = 5.0
WALK_SECONDS = 15.0
STAYS_HOT_SECONDS = 3600.0
QUIET_SECONDS = 600.0
DATABASE_SECONDS = 1.0
"""A database that is being written is looked at so often,"""
DATABASE_COST = 4
"""and read at most so that it takes a fifth of the time."""


class Monitors:
    """Everything under the tops, and what hooks name."""

    def __init__(self, connection: sqlite3.Connection, tops: Iterable[str]) -> None:
        self.connection = connection
        self.tops = [os.path.abspath(top) for top in tops]  # noqa: PTH100 - compared as text
        self.live = live_folder(connection)
        self.own = own_files(connection)
        self.known: dict[str, Known] = known_origins(connection)
        self.names: dict[str, str] = dict(connection.execute("SELECT path, name FROM origins"))
        self.hot: dict[str, float] = {}
        """Path → when it last moved."""
        self.rested: dict[str, float] = {}
        """Database → before when it is not read again."""
        self.moved = time.monotonic()
        self._hot_at = self._known_at = self._walk_at = float("-inf")
        self.rung = False
        self.noticed: set[str] = set()

    def ring(self, path: str) -> None:
        """A hook says that this file is being written."""
        self._name(path)
        self.hot[path] = self.moved = time.monotonic()
        self.rung = True

    def _name(self, path: str) -> None:
        if path not in self.names:
            top = next((top for top in self.tops if path.startswith(top + os.sep)), "")
            self.names[path] = path[len(top) + 1 :] if top else Path(path).name

    def notice(self, path: str) -> None:
        """The system says that something was written there: a log of a database stands for it."""
        for companion in COMPANIONS:
            path = path.removesuffix(companion)
        known = self.known.get(path)
        if known.source if known is not None else os.path.isfile(path):  # noqa: PTH113 - text
            self._name(path)
            self.noticed.add(path)

    def ask_again(self, paths: Iterable[str] | None = None) -> None:
        """These were taken in, or (None) somebody else wrote to the store."""
        if paths is None:
            self.known = known_origins(self.connection)
            return
        for path in paths:
            known = known_origin(self.connection, path)
            if known is not None:
                self.known[path] = known

    def poll(self) -> Survey:
        """What changed since, as far as it is time to look."""
        now = time.monotonic()
        made = Survey(own=self.own, live=self.live)
        for path in self.noticed:
            self._look(made, path)
        self.noticed.clear()
        if self.rung or now - self._hot_at >= self._hot_seconds(now):
            self.rung, self._hot_at = False, now
            self.hot = {p: at for p, at in self.hot.items() if now - at < STAYS_HOT_SECONDS}
            is_moving = now - self.moved < WARM_AFTER_SECONDS
            for path in list(self.hot):
                self._look(made, path)
                if is_moving:
                    for beside in _files_below(os.path.splitext(path)[0]):  # noqa: PTH122 - sub-agents'
                        if beside not in self.known:  # those that are written are hot themselves
                            self._look(made, beside)
        if now - self._walk_at >= WALK_SECONDS:
            self._walk_at = self._known_at = now
            for top in self.tops:
                for path, name in walk(top, made.unreadable.append):
                    self.names.setdefault(path, name)
                    self._look(made, path)
        elif now - self._known_at >= self._known_seconds(now):
            self._known_at = now
            for path, known in self.known.items():
                if not known.gone and known.source:
                    self._look(made, path)
        for changed in made.changed:
            self.moved = now
            # On the first day everything is new: what nobody writes to is not looked at all the time.
            if changed.known is not None or is_recent(changed.mtime_ns):
                self.hot[changed.path] = now
        return made

    def _look(self, made: Survey, path: str) -> None:
        if self.rested.get(path, 0) <= time.monotonic():
            name = self.names.get(path) or path.rpartition(os.sep)[2]
            made.look(path, name, self.known.get(path))

    def took(self, changed: list[Changed], seconds: float) -> None:
        """They were read, in so many seconds."""
        for one in changed:
            if one.state:
                rest = max(DATABASE_SECONDS, DATABASE_COST * seconds)
                self.rested[one.path] = time.monotonic() + rest
        self.ask_again(one.path for one in changed)

    def _known_seconds(self, now: float) -> float:
        return KNOWN_SECONDS if now - self.moved < QUIET_SECONDS else WALK_SECONDS

    def _hot_seconds(self, now: float) -> float:
        return HOT_SECONDS if now - self.moved < WARM_AFTER_SECONDS else WARM_SECONDS

    def wait_seconds(self) -> float:
        """How long nobody needs to look."""
        now = time.monotonic()
        next_look = min(self._known_at + self._known_seconds(now), self._walk_at + WALK_SECONDS)
        if self.hot:
            next_look = min(next_look, self._hot_at + self._hot_seconds(now))
        return max(next_look - now, 0)


def is_recent(mtime_ns: int) -> bool:
    return time.time_ns() - mtime_ns < STAYS_HOT_SECONDS * 1e9


def _files_below(folder: str) -> Iterator[str]:
    """Twice a second for everything that is being written, so without the care of `walk`."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files_below(entry.path)
                else:
                    yield entry.path
    except OSError:
        return  # most have none
