"""Rebuild: every trajectory made anew from the raw records that the store kept.

For when a better reader comes: the records are laid out again as the files that they stood in, and
read. What was kept without raw records is made anew from its facts.
"""

import sqlite3
import tempfile
from pathlib import Path

from unspool import sinks, sources
from unspool.origins import PACKED, Origin, read_head
from unspool.store.keeping import forget_facts, iter_raw, moved, put_facts
from unspool.store.opening import transaction
from unspool.store.reading import read_origin
from unspool.store.rows import put_trajectory
from unspool.store.survey import Survey
from unspool.store.sync import Report, Sync


def rebuild(connection: sqlite3.Connection) -> Report:
    sync = Sync(connection)
    rows = connection.execute(
        "SELECT id, path, source FROM origins o WHERE EXISTS"
        " (SELECT 1 FROM raw_traces r WHERE r.origin_id = o.id) ORDER BY path"
    ).fetchall()
    with transaction(connection):
        connection.execute(
            "INSERT OR IGNORE INTO dirty SELECT DISTINCT platform, external_id FROM facts"
        )
    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        # All files first: some formats look at the files beside the one that they read.
        files = [lay_out(connection, ident, path, Path(folder)) for ident, path, _ in rows]
        for (ident, path, source), file in zip(rows, files, strict=True):
            _read_again(connection, ident, path, source, file)
    return sync.run([], Survey())


def _read_again(
    connection: sqlite3.Connection, ident: int, path: str, source: str, file: Path
) -> None:
    head = read_head(str(file))
    name = sinks.recognise(head) or sources.recognise(head) or source
    size = file.stat().st_size
    read = read_origin(Origin(str(file), Path(path).name, name, size))
    with transaction(connection):
        forget_facts(connection, ident)
        for key, gathered in read.collection.conversations.items():
            facts = [moved(fact, path) for fact in gathered.all_facts()]
            put_facts(connection, ident, key, gathered.source, facts)
            connection.execute("INSERT OR IGNORE INTO dirty VALUES (?, ?)", key)
        for trajectory in read.trajectories:
            trajectory.file_path = (
                path if trajectory.file_path == str(file) else trajectory.file_path
            )
            put_trajectory(connection, trajectory, [ident])


def lay_out(connection: sqlite3.Connection, ident: int, path: str, folder: Path) -> Path:
    """The origin as a file again, under the same names: formats are told by them too."""
    for suffix in PACKED:
        path = path.removesuffix(suffix)  # what was kept is unpacked
    original = Path(path)
    file = folder.joinpath(*original.parts[1:] if original.is_absolute() else original.parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as target:
        for _, data in iter_raw(connection, ident):
            target.write(data)
    return file
