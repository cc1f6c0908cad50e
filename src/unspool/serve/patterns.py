"""Regular expressions: looked for in a process of their own.

Python's matcher cannot be interrupted and lets no other thread run; a pattern that never ends
(`(a+)+$`) would stop the whole server. So a process looks for it, tells what it finds as it finds it,
and is stopped when its time is over or nobody listens any more.
"""

import multiprocessing
import re
import sqlite3
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from unspool.errors import UsageError
from unspool.store.filters import Filters
from unspool.store.opening import reading
from unspool.store.search import FIELDS, Hit, iter_pattern

SECONDS = 20.0
_context = multiprocessing.get_context("spawn")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hit).decode


class PatternSearch:
    """One search that runs elsewhere."""

    def __init__(self, path: Path, pattern: str, filters: Filters, limit: int) -> None:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"not a regular expression: {error}") from None
        self._ours, theirs = _context.Pipe(duplex=False)
        self._process: BaseProcess = _context.Process(
            target=_look, args=(theirs, path, pattern, _encode(filters), limit), daemon=True
        )
        self._process.start()
        theirs.close()

    def next(self, seconds: float) -> Hit | None:
        """The next hit; None at the end, or a `TimeoutError`."""
        if not self._ours.poll(seconds):
            raise TimeoutError
        try:
            return _decode(self._ours.recv_bytes())
        except EOFError:
            return None

    def stop(self) -> None:
        self._process.kill()
        self._process.join(5)
        self._ours.close()


def _look(pipe: Connection, path: Path, pattern: str, filters: bytes, limit: int) -> None:
    chosen = msgspec.msgpack.decode(filters, type=Filters)
    try:
        with reading(path) as connection:
            connection.execute("PRAGMA query_only = ON")
            for hit in iter_pattern(connection, pattern, FIELDS, chosen, limit):
                pipe.send_bytes(_encode(hit))
    except (OSError, sqlite3.Error):
        pass  # nobody listens any more
    finally:
        pipe.close()
