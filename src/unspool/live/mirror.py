"""Mirror: the files of another machine, as its intake sends them.

An intake without the store sends the bytes by which its files grew; a worker writes them to
`mirror/<host>/<path>` beside the store, where they are read like any other file. Pieces may come
twice or in another order: each says where it belongs. A database is sent whole, as one consistent
copy.
"""

import hashlib
import os
import re
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from unspool.hooks.spool import FILE_MODE, Layout
from unspool.io.folders import walk
from unspool.live.monitors import KNOWN_SECONDS, STAYS_HOT_SECONDS, WALK_SECONDS, is_recent
from unspool.live.queue import Arrival, SqliteQueue
from unspool.pipeline.discover import COMPANIONS
from unspool.store.reading import copied_database
from unspool.store.survey import is_database

FILE_BYTES = "file_bytes"
"""The type of an event that holds a piece of a file."""
PIECE_BYTES = 1024 * 1024
LARGEST_DATABASE = 128 * 1024 * 1024
_UNSAFE = re.compile(r"[^\w.@+=,~ -]")
_SENT = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY,
    edition TEXT NOT NULL,          -- another one where the file was begun anew
    offset INTEGER NOT NULL,        -- up to where it was sent
    head TEXT NOT NULL,             -- of its first bytes: tells growth from rewriting
    mtime_ns INTEGER NOT NULL
);
"""


class Piece(msgspec.Struct):
    host: str
    path: str
    edition: str
    offset: int
    total: int
    """How long the file was when this was read; a database is whole when it has so much."""
    mtime_ns: int
    data: bytes
    whole: bool = False
    """A copy of a database, not bytes by which a file grew."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Piece).decode


def _head(path: str, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(min(size, 1024)), digest_size=8).hexdigest()


class Sender:
    """What of the files under some folders was sent."""

    def __init__(self, journal: SqliteQueue, tops: Iterable[str], live: Path) -> None:
        self.journal = journal
        self.tops = [os.path.abspath(top) for top in tops]  # noqa: PTH100 - compared as text
        self.live = str(live) + os.sep
        """Ours: the journal would send itself, and to open it beside SQLite drops SQLite's locks."""
        self.host = socket.gethostname()
        self._sent: dict[str, tuple[int, int]] = {}
        """Path → size and time of what was looked at last."""
        self._hot: dict[str, float] = {}
        """Path → when it last moved."""
        self._known_at = self._walk_at = float("-inf")
        journal.connection.executescript(_SENT)

    def step(self) -> int:
        """Put what grew into the journal, as far as it is time to look; how many pieces."""
        total = 0
        now = time.monotonic()
        for path in self._due(now):
            with suppress(OSError, sqlite3.Error):
                status = os.stat(path)  # noqa: PTH116 - thousands of files
                modified = status.st_mtime_ns
                with suppress(FileNotFoundError):
                    modified = max(modified, os.stat(path + "-wal").st_mtime_ns)  # noqa: PTH116
                if self._sent.get(path) != (status.st_size, modified):
                    if path in self._sent or is_recent(modified):
                        self._hot[path] = now
                    total += self._send(path, status, modified)
                    self._sent[path] = status.st_size, modified
        return total

    def _due(self, now: float) -> list[str]:
        """By need, like the monitors: what moves, all that is known, or what may be new."""
        self._hot = {p: at for p, at in self._hot.items() if now - at < STAYS_HOT_SECONDS}
        if now - self._walk_at >= WALK_SECONDS:
            self._walk_at = self._known_at = now
            return [
                path
                for top in self.tops
                for path, _ in walk(top)
                if not path.endswith(COMPANIONS) and not path.startswith(self.live)
            ]
        if now - self._known_at >= KNOWN_SECONDS:
            self._known_at = now
            return list(self._sent)
        return list(self._hot)

    def _send(self, path: str, status: os.stat_result, modified: int) -> int:
        database = is_database(path)
        row = self.journal.connection.execute(
            "SELECT edition, offset, head, mtime_ns FROM files WHERE path = ?", (path,)
        ).fetchone()
        if row is not None and row[3] == modified and (database or row[1] == status.st_size):
            return 0
        if database:
            if status.st_size > LARGEST_DATABASE:
                return 0
            with copied_database(path) as copy:
                pieces = list(self._pieces(path, f"{modified:x}", 0, copy.read(), modified, True))
            offset, head = status.st_size, ""
        else:
            edition, offset = (row[0], row[1]) if row is not None else ("", 0)
            head = _head(path, min(offset, status.st_size)) if row is not None else ""
            if row is None or status.st_size < offset or head != row[2]:
                edition, offset = f"{status.st_ino:x}-{modified:x}", 0
            with open(path, "rb") as file:
                file.seek(offset)
                grown = file.read()
            if not path.endswith(".json"):
                grown = grown[: grown.rfind(b"\n") + 1]  # a line that is being written waits
            pieces = list(self._pieces(path, edition, offset, grown, modified))
            offset += len(grown)
            head = _head(path, offset)
        if pieces:
            self.journal.put(pieces)
        self.journal.connection.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
            (path, f"{modified:x}" if database else edition, offset, head, modified),
        )
        return len(pieces)

    def _pieces(
        self,
        path: str,
        edition: str,
        offset: int,
        data: bytes,
        modified: int,
        whole: bool = False,
    ) -> Iterator[Arrival]:
        total = offset + len(data)
        for start in range(0, len(data), PIECE_BYTES):
            piece = Piece(
                self.host, path, edition, offset + start, total, modified,
                data[start : start + PIECE_BYTES], whole,
            )  # fmt: skip
            packed = _encode(piece)
            ident = hashlib.sha256(packed).hexdigest()
            yield Arrival(ident, time.time_ns(), "", FILE_BYTES, "", packed)


def mirror_folder(layout: Layout) -> Path:
    return layout.live.parent / "mirror"


def apply(layout: Layout, arrival: Arrival) -> Path | None:
    """Write one piece where it belongs; the file, if it is whole that far.

    What is not yet the file's own lies in `live/mirror`, where nobody reads: pieces that came before
    those that they follow, and a database until all of it is there.
    """
    try:
        piece = _decode(arrival.data)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    # Below the mirror, whatever the path says.
    parts = [part for part in re.split(r"[/\\]+", piece.path) if part not in ("", ".", "..")]
    path = mirror_folder(layout).joinpath(*map(_safe, (piece.host, *parts)))
    aside = layout.live / "mirror" / hashlib.sha256(str(path).encode()).hexdigest()[:32]
    for folder in (path.parent, aside):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = aside / "database" if piece.whole else path
    edition = aside / "edition"
    current = edition.read_text() if edition.exists() else None
    if piece.edition != current and piece.offset == 0:
        # Begun anew: what stood there goes when the first piece of the new one is here.
        incoming = aside / "incoming"
        incoming.unlink(missing_ok=True)
        _write(incoming, 0, piece.data)
        incoming.replace(target)
        edition.write_text(piece.edition)
    elif piece.edition == current and target.exists() and piece.offset <= target.stat().st_size:
        _write(target, piece.offset, piece.data)
    elif piece.edition == current and piece.whole:
        return path  # it is there, and came again
    else:
        _write(aside / f"{_safe(piece.edition)}.{piece.offset}.early", 0, piece.data)
        return None
    early = aside.glob(f"{_safe(piece.edition)}.*.early")
    waiting = {int(one.suffixes[-2][1:]): one for one in early}
    for offset in sorted(waiting):
        if offset <= target.stat().st_size:
            _write(target, offset, waiting[offset].read_bytes())
            waiting[offset].unlink()
    if piece.whole:
        if target.stat().st_size < piece.total:
            return None
        target.replace(path)
    os.utime(path, ns=(piece.mtime_ns, piece.mtime_ns))
    return path


def _safe(part: str) -> str:
    return _UNSAFE.sub("_", part)[:200].rstrip(". ") or "_"


def _write(path: Path, offset: int, data: bytes) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY, FILE_MODE)
    try:
        os.pwrite(handle, data, offset)
    finally:
        os.close(handle)
