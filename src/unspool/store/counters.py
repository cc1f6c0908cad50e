"""Counters: what tells that a database changed, out of the first bytes of its files.

A database with a rollback journal counts its transactions in its header: equal counters, equal
contents, whatever size and time say. In WAL mode that counter stands still. There it is the log that
tells (its salts change whenever it is begun anew), and where the database is in use the index of the
log, which counts transactions too; and as a checkpoint leaves no trace in any of them, the time.
The backup that an editor keeps beside a database is read only where that one is missing or broken: it
counts as changed whenever the database does.
"""

import os

from unspool.io.databases import BACKUP, MAGIC

HEADER_BYTES = 100
LOG_HEADER_BYTES = 32
INDEX_HEADER_BYTES = 48
_WRITE_VERSION = 18
_WAL = 2


def database_state(path: str, status: os.stat_result) -> str:
    """A text that changes when the database does; empty where the file is no database."""
    own = _own_state(path, status)
    return (
        f"{own} of {_state_of(path.removesuffix(BACKUP))}" if own and path.endswith(BACKUP) else own
    )


def _state_of(path: str) -> str:
    """Of the database that a backup is of."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked of every backup
        return _own_state(path, status) or f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        return "missing"


def _own_state(path: str, status: os.stat_result) -> str:
    header = _start(path, HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        return ""
    # Change counter and pages; schema cookie; the counter for which the header is valid.
    counted = f"sqlite {header[24:32].hex()} {header[40:44].hex()} {header[92:96].hex()}"
    counted += f" {status.st_size}"  # a file that was cut off has the counters of the whole one
    if header[_WRITE_VERSION] != _WAL:
        return counted
    return f"{counted} {status.st_mtime_ns} {_log_state(path)}"


def _log_state(path: str) -> str:
    try:
        status = os.stat(path + "-wal")  # noqa: PTH116 - asked of every database
        log = _start(path + "-wal", LOG_HEADER_BYTES)
    except OSError:
        return ""
    try:
        index = _start(path + "-shm", INDEX_HEADER_BYTES).hex()
    except OSError:
        index = str(status.st_mtime_ns)  # a log that is begun anew keeps its length
    return f"{status.st_size} {log.hex()} {index}"


def _start(path: str, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(size)
