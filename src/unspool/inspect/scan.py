"""Scan: what the usual places of this machine hold, and what of it cannot be read."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from unspool import sources
from unspool.errors import NothingToRead
from unspool.inspect.collection import Entry, make_entry, newest_first, short_ids
from unspool.pipeline.batch import Run, open_run
from unspool.pipeline.job import Job, Progress


class Place(msgspec.Struct, frozen=True):
    """A usual place of a source's traces."""

    source: str
    path: str
    exists: bool


class Holding(msgspec.Struct):
    """What was found of one agent."""

    source: str
    places: list[str] = []
    files: int = 0
    size_bytes: int = 0
    conversations: int = 0
    """Without the sub-agents."""
    subagents: int = 0
    messages: int = 0
    first: str | None = None
    last: str | None = None
    versions: list[str] = []


class Trouble(msgspec.Struct):
    """What could not be read, by file and reason."""

    path: str
    reason: str
    count: int = 1
    sample: str = ""


class Findings(msgspec.Struct):
    places: list[Place]
    holdings: list[Holding] = []
    troubles: list[Trouble] = []
    problems: dict[str, int] = {}
    """Code → how many, over all files."""
    newest: Entry | None = None
    newest_id: str | None = None
    """Its id, as short as it may be."""


def usual_places(
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    platform: str | None = None,
) -> list[Place]:
    """Where the sources' traces lie on this machine, whether there are any or not."""
    home = home if home is not None else Path.home()
    env = env if env is not None else os.environ
    places: dict[tuple[str, str], Place] = {}
    for name in sources.SOURCES:
        for path in sources.load(name).places(home, env, platform or sys.platform):
            places.setdefault((name, str(path)), Place(name, str(path), is_there(path)))
    return list(places.values())


def main_places(places: Iterable[Place]) -> list[Place]:
    """The first of each source: the rest are those of rarer editors."""
    main: dict[str, Place] = {}
    for place in places:
        main.setdefault(place.source, place)
    return list(main.values())


def is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # there, but not for us: reading it will say why


def found_paths(places: Iterable[Place]) -> list[str]:
    """The places that exist, each once, none below another one."""
    return topmost(place.path for place in places if place.exists)


def topmost(paths: Iterable[str]) -> list[str]:
    """Each once, none below another one."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(Path(path).is_relative_to(above) for above in kept):
            kept.append(path)
    return kept


def scan(
    places: list[Place],
    progress: Callable[[int], Progress] | None = None,
    paths: Iterable[str] = (),
) -> Findings:
    """What lies under the paths; without any, in the places."""
    findings = Findings(places)
    paths = list(paths) or found_paths(places)
    if not paths:
        return findings
    job = Job(paths=paths, workers=os.cpu_count() or 1)
    try:
        with open_run(job, progress) as run:
            _take(findings, run)
    except NothingToRead as error:
        findings.troubles.append(Trouble(", ".join(paths), str(error)))
    return findings


def _take(findings: Findings, run: Run) -> None:
    holdings: dict[str, Holding] = {}
    entries: list[Entry] = []
    for trajectory in run.trajectories():
        if not trajectory.messages:
            continue  # a session that was opened and left: nothing was said
        entry = make_entry(trajectory)
        entries.append(entry)
        each = holdings.setdefault(entry.source, Holding(entry.source))
        each.conversations += entry.parent_id is None
        each.subagents += entry.parent_id is not None
        each.messages += entry.messages
        begun = [stamp for stamp in (each.first, entry.started_at) if stamp]
        each.first = min(begun, default=None)
        active = [stamp for stamp in (each.last, entry.ended_at, entry.started_at) if stamp]
        each.last = max(active, default=None)
        if entry.agent_version and entry.agent_version not in each.versions:
            each.versions.append(entry.agent_version)
    for origin in run.found.origins:
        each = holdings.setdefault(origin.source, Holding(origin.source))
        each.files += 1
        each.size_bytes += origin.size
    for each in holdings.values():
        own = [place for place in findings.places if place.source == each.source and place.exists]
        each.places = [place.path for place in own]
        each.versions.sort(key=_version)
    findings.holdings = sorted(
        holdings.values(), key=lambda each: (-each.conversations, each.source)
    )
    troubles: dict[tuple[str, str], Trouble] = {}
    for problem in run.problems():
        reason = problem.code.replace("-", " ")
        trouble = Trouble(problem.origin, reason, 0, problem.sample)
        troubles.setdefault((problem.origin, reason), trouble).count += 1
        findings.problems[problem.code] = findings.problems.get(problem.code, 0) + 1
    findings.troubles += troubles.values()
    roots = [entry for entry in newest_first(entries) if entry.parent_id is None]
    if roots:
        findings.newest = roots[0]
        findings.newest_id = short_ids(entries)(roots[0])


def _version(text: str) -> list[tuple[int, str]]:
    """1.0.9 before 1.0.10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in text.split(".")]
