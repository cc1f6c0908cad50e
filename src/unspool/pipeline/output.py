"""Output: what was written goes to its place, whole or not at all."""

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unspool import sinks
from unspool.errors import OutputError, UsageError
from unspool.io.signals import Later
from unspool.pipeline.finish import Writer, Written
from unspool.pipeline.job import Job
from unspool.pipeline.shuffle import Slot, Slots
from unspool.sinks import Combine, Family, Options, unique_names


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is whole; otherwise nothing of it stays.

    A link keeps leading where it led. A device, a pipe or an open descriptor (`/dev/stdout`, which
    may well be a file that is appended to) is written to, never replaced.
    """
    try:
        if is_special(path):
            with open(path, "ab") as file:
                yield file
        else:
            with _replacing(Path(os.path.realpath(path))) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    name: str | None = None
    try:
        with Later():
            handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    finally:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()


def is_special(path: str | Path) -> bool:
    """Whether something is there that is no plain file of its own: a device, a pipe, a descriptor."""
    if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/")):
        return True
    return os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 - never raise


def write_one(written: Iterable[Written], output: str | None) -> None:
    """All pieces one after the other, to a file or to standard output."""
    slots = [slot for item in written for _, slot in item.pieces]
    if output is not None and output != "-" and not is_special(output):
        sole = _sole_file(slots)
        with suppress(OSError):  # another file system, or a folder that is not there yet
            if sole is not None:
                sole.replace(os.path.realpath(output))
                return
    with opened(output) as file, closing(Slots()) as pieces:
        for slot in slots:
            file.write(pieces.read(slot))


def _sole_file(slots: list[Slot]) -> Path | None:
    """The file that holds the pieces in this order and nothing else: that of a single worker does."""
    end = 0
    for slot in slots:
        if (slot.file, slot.offset) != (slots[0].file, end):
            return None
        end += slot.size
    file = Path(slots[0].file) if slots else None
    return file if file is not None and file.stat().st_size == end else None


@contextmanager
def opened(output: str | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that gets its name only when it is whole."""
    if output is not None and output != "-":
        with whole_file(Path(output)) as file:
            yield file
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write the output: {error.strerror or error}") from None


def write_many(written: Iterable[Written], output: str) -> list[Path]:
    """Every piece a file of its own in the folder; names told apart where they collide.

    Files in sub-folders (images by their hash) are shared, not told apart.
    """
    folder = _folder(output)
    pieces = [(name, slot) for item in written for name, slot in item.pieces]
    top = unique_names(name for name, _ in pieces if "/" not in name)
    made: dict[Path, None] = {}
    with closing(Slots()) as slots:
        for name, slot in pieces:
            path = folder / (name if "/" in name else next(top))
            if path in made:
                continue
            with whole_file(path) as file:
                file.write(slots.read(slot))
            made[path] = None
    return list(made)


def spool_families(
    families: Iterable[Family], sink: str, options: Options, reasoning: bool, path: Path
) -> list[Written]:
    """What a sink makes of finished conversations, put into a file, from where it is written out."""
    job = Job(paths=[], sink=sink, sink_options=dict(options), reasoning=reasoning)
    writer = Writer(job, {}, path)
    try:
        return [writer.put(family) for family in families]
    finally:
        writer.spool.close()


def write_output(
    written: list[Written], sink: str, combine: Combine | None, output: str | None
) -> list[Path]:
    """All that was written, as the sink has it: one file, many, or such as it combines them to. The
    files, where they lie in a folder."""
    if combine is not None:
        groups: dict[str, list[Slot]] = {}
        for item in written:
            for name, slot in item.pieces:
                groups.setdefault(name, []).append(slot)
        pieces = {name: _iter_slots(slots) for name, slots in groups.items()}
        return write_combined(combine, sinks.combined_files(sink), pieces, str(output))
    if sinks.load(sink).MANY_FILES:
        return write_many(written, str(output))
    write_one(written, output)
    return []


def _iter_slots(places: Iterable[Slot]) -> Iterator[bytes | memoryview]:
    with closing(Slots()) as slots:
        for place in places:
            yield slots.view(place)


def write_combined(
    combine: Combine,
    names: Iterable[str],
    groups: Mapping[str, Iterable[bytes | memoryview]],
    output: str,
) -> list[Path]:
    """The files that a sink makes of the pieces of all conversations; all of them or none.

    `groups`: folder of a partition → its pieces. `messages.parquet` becomes
    `messages/source=pi/part-0.parquet` then; without partitions the one folder has no name.
    """
    folder = _folder(output)
    tables = {name: folder / Path(name).stem for name in names}
    partitioned = any(groups)
    for name, table in tables.items():
        if table.is_dir() or (partitioned and (folder / name).exists()):
            raise UsageError(f"{folder} holds tables already: name another folder")
    if not partitioned:
        with ExitStack() as stack:
            files = {name: stack.enter_context(whole_file(folder / name)) for name in tables}
            combine(groups.get("", ()), files)
        return [folder / name for name in tables]
    try:
        _write_partitions(combine, tables, groups, folder)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    return list(tables.values())


def _write_partitions(
    combine: Combine,
    tables: Mapping[str, Path],
    groups: Mapping[str, Iterable[bytes | memoryview]],
    folder: Path,
) -> None:
    """Tables get their names when all partitions of all of them are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    draft: Path | None = None
    numbers: Counter[str] = Counter()
    try:
        with Later():
            draft = Path(tempfile.mkdtemp(prefix=".unspool-", dir=folder))
        for partition, pieces in sorted(groups.items()):
            # Where a file system folds case, two projects may have one folder.
            part = f"part-{numbers[partition.lower()]}.parquet"
            numbers[partition.lower()] += 1
            with ExitStack() as stack:
                files = {}
                for name, table in tables.items():
                    path = draft / table.name / partition / part
                    path.parent.mkdir(parents=True, exist_ok=True)
                    files[name] = stack.enter_context(open(path, "wb"))
                combine(pieces, files)
        for table in tables.values():
            (draft / table.name).rename(table)
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _folder(output: str) -> Path:
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; this format needs a folder")
    return folder
