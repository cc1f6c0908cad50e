"""Sinks: the shapes that go out.

A sink is a module with the names of the `Sink` protocol and a row in SINKS. It gets a family (a
conversation, with its sub-agents if the sink wants them) and gives pieces: for a one-file format the
bytes to append, for a many-file format file names and their contents. A format whose files hold many
conversations each, but are more than their pieces one after the other, makes them in a second step
(`load_combine`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from unspool.errors import UsageError
from unspool.facts import Problem
from unspool.io.origins import Head, Origin, Tally
from unspool.trajectory import Trajectory

SINKS: dict[str, str] = {
    "atif": "unspool.sinks.atif",
    "chat-json": "unspool.sinks.chat_json",
    "html": "unspool.sinks.html",
    "jsonl": "unspool.sinks.jsonl",
    "markdown": "unspool.sinks.markdown",
    "otlp": "unspool.sinks.otlp",
    "parquet": "unspool.sinks.parquet",
    "timeline": "unspool.sinks.timeline",
}
"""Name → module."""

READERS: dict[str, str] = {
    "atif": "unspool.sinks.atif",
    "jsonl": "unspool.sinks.jsonl",
    "parquet": "unspool.sinks.parquet",
}
"""Formats that already are trajectories and are decoded directly, beside their writers."""


class Reader(Protocol):
    """What a module in READERS offers: a format that is read straight into trajectories."""

    NAME: str

    def claims(self, head: Head) -> bool:
        """Whether the file is of this format."""

    def read(self, origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
        """The trajectories of the file; bad data as problems."""


class Family(NamedTuple):
    """A conversation and, for sinks that ask for them, all its descendants."""

    root: Trajectory
    descendants: tuple[Trajectory, ...] = ()


class Piece(NamedTuple):
    """Bytes for the one output file (name is empty), or a file of its own."""

    name: str
    data: bytes | bytearray


Options = Mapping[str, Any]
"""The command line's options for sinks: `reasoning`, `atif_version`, `subagents` …"""


Combine = Callable[[Iterable[bytes | memoryview], Mapping[str, BinaryIO]], None]
"""The pieces of all conversations, or of those of one partition, in order, into the files that FILES
names. The name of such a piece is the folder of its partition, or empty."""


class Sink(Protocol):
    """What a sink module offers. One that combines pieces also has FILES, the names of its files, and
    `load_combine`, which raises MissingExtra where a package that it needs is not installed."""

    NAME: str
    MANY_FILES: bool
    """Whether the output is a folder: every conversation is a file of its own, or FILES names them."""
    FAMILIES: bool
    """Whether a conversation is wanted together with its sub-agents."""

    def write(self, family: Family, options: Options) -> Iterable[Piece]:
        """The conversation in the sink's shape; nothing where it has nothing to show."""


def load(name: str) -> Sink:
    return cast(Sink, import_module(SINKS[name]))


def load_combine(name: str, options: Options) -> Combine | None:
    """The second step of a sink that has one."""
    begin: Callable[[Options], Combine] | None = getattr(load(name), "load_combine", None)
    if begin is None and options.get("partition_by"):
        raise UsageError("--partition-by goes with --to parquet")
    return begin(options) if begin is not None else None


def combined_files(name: str) -> tuple[str, ...]:
    return getattr(load(name), "FILES", ())


def is_installed(name: str) -> bool:
    """Whether the optional packages that the sink needs are here."""
    needed: tuple[str, ...] = getattr(import_module(SINKS[name]), "REQUIRES", ())
    return all(find_spec(package) is not None for package in needed)


@cache
def load_reader(name: str) -> Reader:
    return cast(Reader, import_module(READERS[name]))


def recognise(head: Head, only: str | None = None) -> str | None:
    """The name of the format that the file is in, where it already holds trajectories."""
    for name in READERS if only is None else (only,):
        if name in READERS and load_reader(name).claims(head):
            return name
    return None


def safe_name(ident: str) -> str:
    """A file name out of an id: nothing that any system's file names forbid."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in ident).strip(".") or "_"
    return name[:150]


def unique_names(names: Iterable[str]) -> Iterator[str]:
    """The names, told apart where two would be one file (also on systems that fold case)."""
    taken: set[str] = set()
    for name in names:
        stem, dot, suffix = name.partition(".")
        unique, number = name, 2
        while unique.lower() in taken:
            unique = f"{stem}-{number}{dot}{suffix}"
            number += 1
        taken.add(unique.lower())
        yield unique
