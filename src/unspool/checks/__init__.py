"""Checks: what raw telemetry says of itself, before anything is rebuilt from it."""

from collections.abc import Iterable, Iterator

from unspool.errors import NothingToRead
from unspool.facts import Problem
from unspool.origins import Tally
from unspool.pipeline.discover import discover
from unspool.sources.copilot_telemetry import NAME, Event, iter_events


def iter_telemetry(paths: Iterable[str], tally: Tally) -> Iterator[Event | Problem]:
    """The events of all telemetry under the paths, in order, and what could not be read."""
    found = discover(paths, NAME)
    if not found.origins:
        raise NothingToRead("no telemetry under the given paths")
    for problem in found.problems:
        tally.problems += 1
        yield problem
    for origin in found.origins:
        yield from iter_events(origin, tally)
