"""Files that are packed and damaged, or grow while they are read: what can be read is read."""

import gzip
import json
import zlib
from pathlib import Path

import pytest
import zstandard

from unspool.errors import NothingToRead
from unspool.io.origins import Origin, iter_lines, open_origin, read_head
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job

LINES = b"".join(
    json.dumps(
        {
            "name": "GitHub.copilot-chat/conversation.messageText",
            "data": {
                "baseData": {
                    "properties": {
                        "conversationId": f"c{n}",
                        "source": "user",
                        "turnIndex": "0",
                        "messageText": f"word {zlib.crc32(str(n).encode())}",
                    }
                }
            },
        }
    ).encode()
    + b"\n"
    for n in range(3000)
)
PACK = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("suffix", PACK)
def test_a_whole_one_is_read_as_if_it_were_not_packed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(PACK[suffix](LINES) + PACK[suffix](LINES))  # two frames, one after the other
    assert read_head(str(path)).data == LINES[:65536]
    read = b"".join(line + b"\n" for _, line in iter_lines(Origin(str(path), path.name)))
    assert read == LINES * 2


@pytest.mark.parametrize(
    ("suffix", "share"), [(".gz", 0.02), (".gz", 0.5), (".gz", 0.98), (".zst", 0.5), (".zst", 0.98)]
)
def test_a_cut_off_one_gives_what_it_holds_and_a_problem(
    tmp_path: Path, suffix: str, share: float
) -> None:
    lines = LINES.splitlines(keepends=True)
    frames = [PACK[suffix](b"".join(lines[n : n + 100])) for n in range(0, 3000, 100)]
    # A cut-off frame of zstandard gives nothing: of several, those before it are whole.
    packed = PACK[suffix](LINES) if suffix == ".gz" else b"".join(frames)
    (tmp_path / f"log.jsonl{suffix}").write_bytes(packed[: int(len(packed) * share)])
    with open_run(Job(paths=[str(tmp_path)])) as run:
        found = list(run.trajectories())
        assert 0 < len(found) < 3000
        assert run.summary.problems == {"unreadable": 1}


@pytest.mark.parametrize("suffix", PACK)
def test_one_that_is_not_packed_at_all_is_told_in_one_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(LINES)
    with pytest.raises(NothingToRead, match="damaged"), open_run(Job(paths=[str(path)])):
        pass


def test_a_file_that_grows_while_it_is_read_ends_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"{}\n" * 3 + b'{"a":')
    read = []
    for _, line in iter_lines(Origin(str(path), path.name)):
        with path.open("ab") as file:
            file.write(b"1}\n" + b"{}\n" * 2_000_000 if not read else b"{}\n")
        read.append(line)
    assert read == [b"{}", b"{}", b"{}", b'{"a":1}']


FRAMES = {
    "one": zstandard.ZstdCompressor().compress(LINES),
    "checked": zstandard.ZstdCompressor(write_checksum=True).compress(LINES),
    "unsized": zstandard.ZstdCompressor(write_content_size=False).compress(LINES),
    "runs": zstandard.ZstdCompressor().compress(b"a" * 300_000 + LINES[:50]),
    "skipped": b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.ZstdCompressor().compress(LINES),
    "empty": zstandard.ZstdCompressor().compress(b""),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_cut_off_frame_is_never_taken_for_a_whole_one(tmp_path: Path, name: str) -> None:
    whole, path = FRAMES[name], tmp_path / "x.zst"
    path.write_bytes(whole)
    with open_origin(str(path)) as file:
        file.read()
    ends = {len(whole) - back for back in range(1, 9)} | set(range(13, len(whole), 997))
    for end in sorted(end for end in ends if end > 0):
        path.write_bytes(whole[:end])
        with pytest.raises(OSError, match="damaged"), open_origin(str(path)) as file:
            file.read()
