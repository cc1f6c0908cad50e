"""Discover: from the paths that were given to the origins that can be read."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.errors import OutputError
from unspool.facts import NOBODY, Key, Problem
from unspool.io.compression import packed_as
from unspool.io.door import clean_text
from unspool.io.folders import is_folder, walk
from unspool.io.origins import Origin, read_head

RANGE_BYTES = 64 * 1024 * 1024
"""Files longer than this are cut into ranges, where their source allows it."""


LINES = (".jsonl", ".ndjson", ".json")

COMPANIONS = ("-wal", "-shm", "-journal")
"""Files that belong to a database beside them and are read with it."""


STDIN = "-"
PEEK_BYTES = 4096
COPY_BYTES = 1 << 20


def told_of(path: str) -> str:
    return "standard input" if path == STDIN else path


class Found(msgspec.Struct):
    """The origins, and what was passed over."""

    origins: list[Origin] = []
    problems: list[Problem] = []
    skipped: int = 0
    """Files met in folders that are of no known format."""
    files: int = 0

    def nothing_in(self, paths: Iterable[str]) -> str:
        """Why there is nothing to read."""
        reasons = [
            f"{told_of(p.origin)}: {p.sample or 'not a format that unspool knows'}"
            for p in self.problems
        ]
        if self.skipped:
            reasons.append(f"{self.skipped} files are of no known format")
        where = ", ".join(map(told_of, paths))
        return f"nothing readable in {where}" + (f" ({'; '.join(reasons[:3])})" if reasons else "")

    def unreadable(self, error: OSError, path: str = "") -> None:
        text = error.strerror or str(error)
        self.problems.append(_problem(path or str(error.filename), "unreadable", text))


def discover(paths: Iterable[str], source: str | None = None) -> Found:
    """Every readable file under the paths, in sorted order, each once."""
    found = Found()
    seen: set[tuple[int, int]] = set()
    for argument in paths:
        named = not is_folder(argument)
        for path, name in walk(argument, found.unreadable):
            try:
                status = Path(path).stat()
                if (status.st_dev, status.st_ino) in seen or not status.st_size:
                    continue
                if path.endswith(COMPANIONS) and not named:
                    continue
                seen.add((status.st_dev, status.st_ino))
                origin = recognise(Origin(path, name, size=status.st_size, named=named), source)
                if origin.source:
                    found.files += 1
                    found.origins.append(origin)
                elif named:
                    found.problems.append(_problem(path, "unknown-format", ""))
                else:
                    found.skipped += 1
            except OSError as error:
                found.unreadable(error, path)
    found.origins.sort(key=lambda origin: origin.path)
    return found


def discover_with_streams(paths: list[str], folder: Path, source: str | None = None) -> Found:
    """The same; standard input and pipes are first put into files in the folder, to have a size."""
    spooled = {
        _spool(path, folder / f"stream-{number}"): path
        for number, path in enumerate(paths)
        if _is_stream(path)
    }
    places = {path: place for place, path in spooled.items()}
    found = discover([places.get(path, path) for path in paths], source)
    found.origins = [
        msgspec.structs.replace(origin, name=spooled.get(origin.path, origin.name))
        for origin in found.origins
    ]
    found.problems = [
        msgspec.structs.replace(problem, origin=spooled.get(problem.origin, problem.origin))
        for problem in found.problems
    ]
    return found


def _is_stream(path: str) -> bool:
    """Standard input, or a pipe: `<(zcat log.gz)`."""
    try:
        return path == STDIN or Path(path).is_fifo()
    except OSError:
        return False  # it may not be looked at: opening it says why


def _spool(path: str, place: Path) -> str:
    try:
        with ExitStack() as stack:
            source = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
            head = source.read(PEEK_BYTES)
            place = place.with_suffix(packed_as(head))
            target = stack.enter_context(open(place, "wb"))
            target.write(head)
            shutil.copyfileobj(source, target, COPY_BYTES)
    except OSError as error:
        raise OutputError(f"cannot keep {told_of(path)}: {error.strerror or error}") from None
    return str(place)


def recognise(origin: Origin, source: str | None = None) -> Origin:
    """The origin with the name of its format, or (empty) of none that is known."""
    head = read_head(origin.path)
    name = sinks.recognise(head, source) or sources.recognise(head, source)
    if name is None and head.is_one_line and (origin.named or head.name.endswith(LINES)):
        # A very long line that is nobody's: the next ones tell whose file it is.
        head = read_head(origin.path, after_first_line=True)
        name = sinks.recognise(head, source) or sources.recognise(head, source)
    if name is None and (origin.named or head.name.endswith(LINES)):
        name = source  # asked for: read as this, whatever it looks like
    return msgspec.structs.replace(origin, source=name or "", lines=head.has_lines)


def _problem(path: str, code: str, text: str) -> Problem:
    return Problem(key=NOBODY, origin=clean_text(path), offset=0, code=code, sample=text)


_FAIR = 1.02
"""How much more than its share of the bytes a worker keeps before others take conversations over."""


class Plan(msgspec.Struct):
    """The spans of a run as units of work."""

    shared: list[Origin]
    """Spans that may tell of any conversation: any worker may read them."""
    families: dict[Key, list[Origin]]
    """Conversation with its sub-agents → the files that hold it and, as their paths say, nothing
    else. They are one unit of work. So is, for a single worker, a database that tells one conversation
    behind the other: each is reduced when the next one begins."""
    workers: int

    def deal(self, held: list[dict[Key, int]]) -> dict[Key, int]:
        """Whose each family is: of the worker that holds most bytes of it, as long as that is not
        much more work than the others have."""
        sizes = {family: [0] * self.workers for family in self.families}
        for number, families in enumerate(held):
            for family, size in families.items():
                sizes.setdefault(family, [0] * self.workers)[number] = size
        work = {
            family: sum(own) + sum(span.size for span in self.families.get(family, ()))
            for family, own in sizes.items()
        }
        fair = sum(work.values()) / self.workers * _FAIR
        loads = [0] * self.workers
        owners: dict[Key, int] = {}
        for family in sorted(work, key=lambda family: (-work[family], family)):
            most = max(sizes[family])
            owner = sizes[family].index(most)
            if not most or loads[owner] + work[family] > fair:
                owner = loads.index(min(loads))
            owners[family] = owner
            loads[owner] += work[family]
        return owners

    def share(self, units: Iterable[Key]) -> None:
        """The files of these hold more than their paths say, or tell of a conversation twice."""
        for unit in sorted(units):
            self.shared += self.families.pop(unit)


def make_plan(origins: Iterable[Origin], workers: int) -> Plan:
    """All origins as units of work, for no more workers than there are units."""
    plan = Plan([], {}, 1)
    for span in cut(origins):
        name = sources.session_of(span)
        if name is None:
            plan.shared.append(span)
        else:
            plan.families.setdefault((span.source, name), []).append(span)
    plan.workers = max(1, min(workers, len(plan.shared) + len(plan.families)))
    in_turn = [span for span in plan.shared if sources.tells_in_turn(span.source)]
    if plan.workers == 1 and in_turn:
        longest = max(in_turn, key=lambda span: span.size)
        plan.shared.remove(longest)
        plan.families[(longest.source, longest.path)] = [longest]
    return plan


def cut(origins: Iterable[Origin], size: int = RANGE_BYTES) -> Iterator[Origin]:
    """Long origins as several byte ranges."""
    for origin in origins:
        whole = origin.source in sinks.READERS or not sources.load(origin.source).RANGES
        if whole or not origin.lines or origin.size <= size:
            yield origin
            continue
        for start in range(origin.start, origin.size, size):
            yield msgspec.structs.replace(origin, start=start, end=min(start + size, origin.size))
