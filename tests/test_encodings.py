"""Files in UTF-16, as Windows PowerShell writes what a program prints (`>`, `Tee-Object`)."""

import codecs
import gzip
import json
import random
import shutil
from pathlib import Path

import pytest
import zstandard

from tests.claude_lines import transcript
from tests.harness import case_id, cases, facts_of, origins_of, plain, reduce_all
from unspool.io.databases import MAGIC
from unspool.io.origins import Origin, iter_lines, open_origin, read_head
from unspool.pipeline.batch import extract
from unspool.pipeline.discover import cut
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, writing
from unspool.store.sync import Sync

MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
OWN = ("workspace.json", ".workspace-trusted")
"""Files that only the editors themselves write."""
TEXT = "".join(f'{{"n": {n}, "words": "naïve 日本 😀 {"x" * (n % 50)}"}}\n' for n in range(20_000))


def recoded(text: str, encoding: str, crlf: bool = False) -> bytes:
    text = text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text
    return MARKS[encoding] + text.encode(encoding)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("encoding", MARKS)
def test_it_is_read_as_if_it_were_utf8(
    tmp_path: Path, encoding: str, crlf: bool, suffix: str
) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(PACK[suffix](recoded(TEXT, encoding, crlf)))
    lines = [line for _, line in iter_lines(Origin(str(path), path.name))]
    assert lines == TEXT.encode().splitlines()
    head = read_head(str(path))
    assert head.objects[0] == {"n": 0, "words": "naïve 日本 😀 "}
    assert not head.plain
    assert not head.whole
    # There are no places in it to begin at: it is never cut.
    origin = Origin(str(path), path.name, "copilot-telemetry", 1 << 30, lines=head.has_lines)
    assert list(cut([origin])) == [origin]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("encoding", [None, *MARKS])
def test_any_place_can_be_gone_to(tmp_path: Path, encoding: str | None, suffix: str) -> None:
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(PACK[suffix](recoded(TEXT, encoding) if encoding else TEXT.encode()))
    data = TEXT.encode()
    dice = random.Random(1)
    with open_origin(str(path)) as file:
        for _ in range(12):
            at = dice.choice((0, 1, 2, 3, len(data), dice.randrange(len(data))))
            file.seek(at)
            assert file.tell() == at
            assert file.read(dice.choice((1, 7, 3_000_000))) in data[at:] or at == len(data)
        assert file.seek(-5, 2) == len(data) - 5
        assert file.read() == data[-5:]


def texts(case: Path) -> list[Path]:
    """The files of a case that may be text written by a program's output."""
    found = [path for path in (case / "input").rglob("*") if path.is_file()]
    return [path for path in found if path.suffix in (".jsonl", ".json", ".log", ".txt", ".ndjson")]


@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("case", [c for c in cases() if texts(c)], ids=case_id)
def test_every_source_reads_it(tmp_path: Path, case: Path, encoding: str) -> None:
    """The same conversations come of every case with its files in UTF-16."""
    folder = shutil.copytree(case / "input", tmp_path / "input")
    for old in texts(case):
        data = old.read_bytes()
        if data.startswith(MAGIC) or "tool-results" in old.parts or old.name in OWN:
            continue
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            pytest.skip("no text in UTF-8 to begin with")
        path = folder / old.relative_to(case / "input")
        path.write_bytes(recoded(text, encoding))
    made = plain(reduce_all(facts_of(origins_of(folder))), folder)
    assert made == json.loads((case / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_long_one_is_read_once_by_many(tmp_path: Path, workers: int) -> None:
    rows = b"".join(transcript(f"prompt {n}", f"s{n}") for n in range(3000)).decode()
    (tmp_path / "a.jsonl").write_bytes(recoded(rows, "utf-16-le", crlf=True))
    (tmp_path / "b.jsonl").write_bytes(transcript("other", "other"))
    found = list(extract(str(tmp_path), workers=workers))
    assert len(found) == 3001
    assert sum(len(one.messages) for one in found) == 6002


def test_a_store_takes_it_in_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "traces" / "run.jsonl"
    log.parent.mkdir()
    log.write_bytes(recoded(transcript("one", "s1").decode(), "utf-16-le", crlf=True))
    store = tmp_path / "store.db"
    for _ in range(2):
        with writing(store) as connection:
            report = Sync(connection).run([str(log.parent)])
        assert (report.read, report.problems) == (1, {})
        more = transcript("two", "s2").decode().replace("\n", "\r\n")
        with log.open("ab") as file:
            file.write(more.encode("utf-16-le"))
    assert stored(store) == ["s1", "s2"]
    log.unlink()
    with writing(store) as connection:
        connection.execute("DELETE FROM facts")
        assert rebuild(connection).written == 2  # out of what the store itself has kept
    assert stored(store) == ["s1", "s2"]


def stored(store: Path) -> list[str]:
    with reading(store) as connection:
        rows = connection.execute("SELECT external_id FROM conversations ORDER BY 1")
        return [ident for (ident,) in rows]
