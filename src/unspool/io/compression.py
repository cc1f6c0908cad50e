"""Unpacking: what gzip and zstandard files hold, and what files in UTF-16 say, as plain bytes."""

import codecs
import errno
import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator
from typing import Any, cast

import zstandard

PACKED = (".gz", ".zst")
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
BUFFER_BYTES = 1 << 20
_PIECE_BYTES = 1 << 12
"""Of a zstandard file at a time: it may hold thousands of times as much."""


def packed_as(head: bytes) -> str:
    """The suffix that a stream with these first bytes would have as a file; or none."""
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")


def open_origin(path: str) -> io.BufferedReader:
    """Open for reading bytes, unpacked and in UTF-8: Windows PowerShell writes UTF-16 where the
    output of a program goes to a file."""
    file = _open(path)
    try:
        utf16 = _starts_with_mark(file)
    except OSError:
        file.close()
        raise
    if not utf16:
        return file
    file.close()
    return io.BufferedReader(_Made(lambda: _iter_utf8(path)), BUFFER_BYTES)


def _open(path: str) -> io.BufferedReader:
    """Unpacked."""
    if path.endswith(PACKED):
        unpack = _iter_gzip if path.endswith(".gz") else _iter_zstd
        return io.BufferedReader(_Made(lambda: unpack(path)), BUFFER_BYTES)
    return cast(io.BufferedReader, open(path, "rb", buffering=BUFFER_BYTES))


def _starts_with_mark(file: io.BufferedReader) -> bool:
    if not isinstance(file.raw, io.FileIO):
        return file.peek(2)[:2] in UTF16_MARKS
    if not file.raw.seekable():
        return False
    # Not through the buffer, which would read a megabyte of every file that is merely looked at.
    start = file.raw.read(2)
    file.raw.seek(0)
    return start in UTF16_MARKS


def _iter_gzip(path: str) -> Generator[bytes, None, None]:
    with gzip.open(path, "rb") as file:
        while piece := file.read1(BUFFER_BYTES):
            yield piece


def _iter_zstd(path: str) -> Generator[bytes, None, None]:
    with open(path, "rb") as file:
        frame: Any = None
        while packed := file.read(_PIECE_BYTES):
            while packed:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(packed)
                packed = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
        if frame is not None:
            raise EOFError("it ends in the middle of a frame")


def _iter_utf8(path: str) -> Generator[bytes, None, None]:
    """What a file in UTF-16 says, in UTF-8; its mark is gone."""
    with io.TextIOWrapper(_open(path), "utf-16", errors="replace", newline="") as text:
        while piece := text.read(1 << 18):
            yield piece.encode()


class _Made(io.RawIOBase):
    """A file that is made while it is read. It can be gone back in, by beginning anew.

    One that is damaged raises OSError like any unreadable file.
    """

    def __init__(self, begin: Callable[[], Generator[bytes, None, None]]) -> None:
        self._begin = begin
        self._pieces = begin()
        self._ready = memoryview(b"")
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self._ready:
                self._ready = memoryview(next(self._pieces))
        except StopIteration:
            return 0
        except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise OSError(errno.EIO, f"damaged: {error}") from None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        while whence == os.SEEK_END and self.read(BUFFER_BYTES):
            pass
        target = max(offset if whence == os.SEEK_SET else self._at + offset, 0)
        if target < self._at:
            self._pieces.close()
            self._pieces, self._ready, self._at = self._begin(), memoryview(b""), 0
        while self._at < target and self.read(min(target - self._at, BUFFER_BYTES)):
            pass
        return self._at

    def close(self) -> None:
        self._pieces.close()
        super().close()
