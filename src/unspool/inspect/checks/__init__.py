"""Checks: what raw telemetry says of itself, before anything is rebuilt from it."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from unspool.errors import NothingToRead
from unspool.facts import Problem
from unspool.io.origins import Tally
from unspool.pipeline.discover import discover
from unspool.sources.copilot_telemetry import NAME, Event, iter_events

Told = Callable[[int], None] | None
Progress = Callable[[int], Told] | None
"""Gets the number of bytes that there are and gives what is told the bytes done."""

_EVERY = 1000
_PLACES = 5


class Unread(msgspec.Struct):
    """Something that could not be read, and where."""

    code: str
    origin: str
    offset: int
    sample: str


class Problems(msgspec.Struct, kw_only=True):
    """What of the telemetry could not be read: how much, and the first places."""

    problems: int = 0
    unread: list[Unread] = []

    def lack(self, problem: Problem) -> None:
        self.problems += 1
        if len(self.unread) < _PLACES:
            self.unread.append(Unread(problem.code, problem.origin, problem.offset, problem.sample))


def iter_telemetry(
    paths: Iterable[str], tally: Tally, progress: Progress = None
) -> Iterator[Event | Problem]:
    """The events of all telemetry under the paths, in order, and what could not be read."""
    paths = list(paths)
    found = discover(paths, NAME)
    if not found.origins:
        raise NothingToRead(found.nothing_in(paths))
    for problem in found.problems:
        tally.problems += 1
        yield problem
    told = progress(sum(origin.size for origin in found.origins)) if progress else None
    for origin in found.origins:
        if told is None:
            yield from iter_events(origin, tally)
        else:
            yield from _told(iter_events(origin, tally), origin.size, told)


def _told(
    events: Iterator[Event | Problem], size: int, told: Callable[[int], None]
) -> Iterator[Event | Problem]:
    done = 0
    for number, event in enumerate(events):
        yield event
        # A packed file is longer unpacked than its size says.
        if number % _EVERY == 0 and done < event.offset <= size:
            told(event.offset - done)
            done = event.offset
    told(size - done)
