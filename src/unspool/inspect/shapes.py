"""Shapes: what files look like, for a bug report. Names that programs chose, versions and counts only.

Nothing that a person wrote or that names a person's work leaves: no values, no paths, no file names.
A value is told only where it is a record's type or a program's version; a key only where it looks like
the name of a field, and below the first level only in the wrappers that programs put records into.
"""

import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool import __version__, sinks, sources
from unspool.inspect.scan import Findings
from unspool.io.databases import DAMAGE, open_database
from unspool.io.door import recover_json
from unspool.io.folders import walk
from unspool.io.origins import Head, read_head

_FIELD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,39}")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,39}")
_VERSION = re.compile(r"v?\d[0-9A-Za-z.+-]{0,30}")
_TYPES = ("type", "kind", "subtype", "role", "event", "hook_event_name")
_WRAPPERS = frozenset(("message", "data", "payload", "event", "params", "request", "response"))
_SUFFIXES = frozenset(
    (".db", ".gz", ".json", ".jsonl", ".log", ".md", ".ndjson", ".sqlite", ".sqlite3", ".toml", ".txt",
     ".vscdb", ".yaml", ".yml", ".zst")
)  # fmt: skip
"""Any other could be part of a name that a person chose."""
RECORDS = 50
"""Records looked at in each file."""


class Shape(msgspec.Struct):
    """Files of one source (null: unspool does not know them) and suffix, told together."""

    source: str | None
    suffix: str
    content: str
    """json-lines, json, sqlite, text or binary."""
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    """Those looked at, at the beginning of each file."""
    types: Counter[str] = msgspec.field(default_factory=Counter)
    """`type=user` → how many records."""
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    """`message.role` → how many records; `table.column` of a database."""
    other_fields: int = 0
    """Keys that do not look like the name of a field, and so are not told."""
    versions: Counter[str] = msgspec.field(default_factory=Counter)


def report(findings: Findings, paths: Iterable[str]) -> dict[str, Any]:
    """What a maintainer needs to know about files that unspool does not read."""
    return {
        "unspool": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        "holdings": [
            {name: getattr(holding, name) for name in _COUNTS if getattr(holding, name)}
            for holding in findings.holdings
        ],
        "problems": findings.problems,
        "shapes": list(iter_shapes(paths)),
    }


_COUNTS = ("source", "files", "size_bytes", "conversations", "subagents", "messages", "versions")


def iter_shapes(paths: Iterable[str]) -> Iterator[Shape]:
    """The shapes of all files under the paths, the largest first."""
    shapes: dict[tuple[str | None, str, str], Shape] = {}
    for top in paths:
        for path, _ in walk(top, lambda error: None):
            try:
                size = Path(path).stat().st_size
                head = read_head(path)
            except OSError:
                continue  # the problems tell of it
            if not size:
                continue
            source = sinks.recognise(head) or sources.recognise(head)
            content, records = _records(head)
            suffix = Path(path).suffix.lower()
            suffix = suffix if suffix in _SUFFIXES else ""
            shape = shapes.setdefault((source, suffix, content), Shape(source, suffix, content))
            shape.files += 1
            shape.size_bytes += size
            if content == "sqlite":
                _add_tables(shape, path)
            for record in records:
                _add(shape, record)
    return iter(sorted(shapes.values(), key=lambda shape: -shape.size_bytes))


def _records(head: Head) -> tuple[str, list[dict[str, Any]]]:
    """What the file's content is, and the objects at its beginning."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data.startswith(b"SQLite format 3\0"):
        return "sqlite", []
    if b"\0" in data[:1024]:
        return "binary", []
    if head.objects:
        content = "json-lines" if len(head.objects) > 1 or not head.whole else "json"
        return content, list(head.objects[:RECORDS])
    if data[:1] not in (b"{", b"["):
        return "text", []
    value = recover_json(data)
    values = value if isinstance(value, list) else [value]
    return "json", [item for item in values[:RECORDS] if isinstance(item, dict)]


def _add(shape: Shape, record: dict[str, Any]) -> None:
    shape.records += 1
    for name, value in record.items():
        if not _FIELD.fullmatch(name):
            shape.other_fields += 1
            continue
        shape.fields[name] += 1
        if name in _TYPES and isinstance(value, str) and _TYPE.fullmatch(value):
            shape.types[f"{name}={value}"] += 1
        elif "version" in name.lower() and _VERSION.fullmatch(str(value)):
            shape.versions[f"{name}={value}"] += 1
        elif name in _WRAPPERS and isinstance(value, dict):
            for below in value:
                if _FIELD.fullmatch(below):
                    shape.fields[f"{name}.{below}"] += 1
                else:
                    shape.other_fields += 1


def _add_tables(shape: Shape, path: str) -> None:
    try:
        with open_database(path) as database:
            for table in filter(_FIELD.fullmatch, database.tables()):
                columns = filter(_FIELD.fullmatch, database.columns(table))
                shape.fields.update(f"{table}.{column}" for column in columns)
    except DAMAGE:
        shape.other_fields += 1
