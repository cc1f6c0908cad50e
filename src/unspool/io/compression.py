"""Unpacking: what gzip and zstandard files hold, and what files in UTF-16 say, as plain bytes."""

import codecs
import errno
import gzip
import io
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import zstandard

PACKED = (".gz", ".zst")
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_ZSTD_FRAME = 0xFD2FB528
_ZSTD_SKIPPED = 0x184D2A50
BUFFER_BYTES = 1 << 20


def packed_as(head: bytes) -> str:
    """The suffix that a stream with these first bytes would have as a file; or none."""
    return next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), "")


class _Made(io.RawIOBase):
    """What a packed file holds, or one in UTF-16 says. It can be gone back in, by beginning anew.

    One that is damaged raises OSError like any unreadable file.
    """

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._inner = begin()
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # Not `readinto`, which would lose what it read before it met the damage.
            count = cast(int, self._inner.readinto1(buffer))
        except (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise OSError(errno.EIO, f"damaged: {error}") from None
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        while whence == os.SEEK_END and self.read(BUFFER_BYTES):
            pass
        target = max(offset if whence == os.SEEK_SET else self._at + offset, 0)
        if target < self._at:
            self._inner.close()
            self._inner, self._at = self._begin(), 0
        while self._at < target and self.read(min(target - self._at, BUFFER_BYTES)):
            pass
        return self._at

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Utf8:
    """What a file in UTF-16 says, in UTF-8; its mark is gone."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._text = io.TextIOWrapper(file, "utf-16", errors="replace", newline="")
        self._ready = b""

    def readinto1(self, buffer: Any) -> int:
        if not self._ready:
            self._ready = self._text.read(1 << 18).encode()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._text.close()


class _Zstd:
    """What a zstandard file holds. One that is cut off says so, as one of gzip does."""

    def __init__(self, raw: io.BufferedReader, path: str) -> None:
        self._path = path
        decompressor = zstandard.ZstdDecompressor()
        self._inner: Any = decompressor.stream_reader(raw, closefd=True, read_across_frames=True)

    def readinto1(self, buffer: Any) -> int:
        count = cast(int, self._inner.readinto1(buffer))
        if not count and len(buffer) and _is_cut(self._path):
            raise EOFError("it ends in the middle of a frame")
        return count

    def close(self) -> None:
        self._inner.close()


def open_unpacked(path: str) -> io.BufferedReader:
    """Open for reading bytes, unpacked and in UTF-8: Windows PowerShell writes UTF-16 where the
    output of a program goes to a file."""
    file = _open_packed(path) if path.endswith(PACKED) else _open_plain(path)
    try:
        utf16 = _starts_with_mark(file)
    except OSError:
        file.close()
        raise
    if not utf16:
        return file
    file.close()
    begin = _open_packed if path.endswith(PACKED) else _open_plain
    return io.BufferedReader(_Made(lambda: _Utf8(begin(path))), BUFFER_BYTES)


def _open_plain(path: str) -> io.BufferedReader:
    return cast(io.BufferedReader, open(path, "rb", buffering=BUFFER_BYTES))


def _open_packed(path: str) -> io.BufferedReader:
    def begin() -> Any:
        if path.endswith(".gz"):
            return gzip.open(path, "rb")
        raw = open(path, "rb")  # noqa: SIM115 - the reader closes it
        return _Zstd(raw, path)

    return io.BufferedReader(_Made(begin), BUFFER_BYTES)


def _starts_with_mark(file: io.BufferedReader) -> bool:
    if not isinstance(file.raw, io.FileIO):
        return file.peek(2)[:2] in UTF16_MARKS
    if not file.raw.seekable():
        return False
    # Not through the buffer, which would read a megabyte of every file that is merely looked at.
    start = file.raw.read(2)
    file.raw.seek(0)
    return start in UTF16_MARKS


def _is_cut(path: str) -> bool:
    """Whether a zstandard file ends before its last frame does: the decompressor says nothing.

    Only the headers of frames and blocks (RFC 8878, 3.1) are read.
    """
    end = Path(path).stat().st_size
    with open(path, "rb") as file:
        while file.tell() < end:
            if end - file.tell() < 8:
                return True  # not even an empty frame is that short
            magic = int.from_bytes(file.read(4), "little")
            if magic & ~0xF == _ZSTD_SKIPPED:
                file.seek(int.from_bytes(file.read(4), "little"), io.SEEK_CUR)
            elif magic == _ZSTD_FRAME:
                _pass_frame(file)
            else:
                return False  # no frame: what the decompressor made of it stands
        return file.tell() > end


def _pass_frame(file: io.BufferedReader) -> None:
    """To the end of the frame, which may be beyond that of the file."""
    descriptor = int.from_bytes(file.read(1), "little")
    single, checked = descriptor >> 5 & 1, descriptor >> 2 & 1
    header = (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    header += (single, 2, 4, 8)[descriptor >> 6]
    file.seek(header, io.SEEK_CUR)
    last = False
    while not last:
        block = file.read(3)
        if len(block) < 3:
            file.seek(1, io.SEEK_END)
            return
        bits = int.from_bytes(block, "little")
        last, run = bool(bits & 1), bits >> 1 & 3 == 1
        file.seek(1 if run else bits >> 3, io.SEEK_CUR)
    file.seek(4 if checked else 0, io.SEEK_CUR)
