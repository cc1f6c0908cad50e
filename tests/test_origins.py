"""Files that are packed and damaged, or grow while they are read: what can be read is read."""

import gzip
import json
import zlib
from pathlib import Path

import pytest
import zstandard

from unspool.errors import NothingToRead
from unspool.origins import Origin, iter_lines, read_head
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


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_cut_off_one_gives_what_it_holds_and_a_problem(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(LINES)
    (tmp_path / "log.jsonl.gz").write_bytes(packed[: int(len(packed) * share)])
    with open_run(Job(paths=[str(tmp_path)])) as run:
        found = list(run.trajectories(run.reduce()))
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
