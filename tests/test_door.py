"""The door: what comes in dirty, long, glued or cut off, and what of it is told."""

import gc
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import cases, facts_of, origins_of
from unspool.io import door
from unspool.io.door import iter_json_lines, read_json
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape


class Line(msgspec.Struct):
    type: str = ""
    text: str | None = None
    n: int | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


LINE = Shape(Line)


def read(path: Path, *cuts: int, recover: bool = False) -> tuple[list[Any], list[Any], Tally]:
    """(offset and value of each record, code and sample of each problem), read in ranges."""
    tally = Tally()
    records: list[Any] = []
    ends = [*sorted(cuts), None]
    for start, end in zip([0, *sorted(cuts)], ends, strict=True):
        origin = Origin(path=str(path), name="x", start=start, end=end)
        for offset, data, line in iter_json_lines(origin, LINE, tally, recover):
            assert msgspec.json.decode(data).get("text") == line.text
            records.append((offset, line.type, line.text, bytes(line.data)))
    problems = [(flaw.offset, flaw.code, flaw.sample) for flaw in tally.flaws]
    return records, problems, tally


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


DIRTY = {
    "clean": (b'{"type":"a","text":"x"}', ["x"], []),
    "trailing comma": (b'{"type":"a","text":"x"},', ["x"], []),
    "line of an array": (b'[{"type":"a","text":"x"},', ["x"], []),
    "NUL tail": (b'{"type":"a","text":"x"}\0\0\0', ["x"], []),
    "not UTF-8": (b'{"type":"a","text":"x\xff"}', ["x\ufffd"], ["invalid-utf8"]),
    "not UTF-8 where nobody looks": (
        b'{"type":"a","text":"x","data":{"y":"\xff"}}', ["x"], ["invalid-utf8"]),
    "half a pair": (b'{"type":"a","text":"x\\ud83d"}', ["x\ufffd"], ["half-character"]),
    "bare control character": (b'{"type":"a","text":"x\x01\ty"}', ["x\x01\ty"], []),
    "glued": (b'{"type":"a","text":"x"}{"type":"b","text":"y"}', ["x", "y"], []),
    "array": (b'[{"type":"a","text":"x"},{"type":"b","text":"y"}]', ["x", "y"], []),
    "two writers": (
        b'{"type":"a","text":"I thi{"type":"b","text":"y"}', ["y"], ["truncated-json"]),
    "two writers, between fields": (b'{"type":"a",{"type":"b","text":"y"}', ["y"], ["truncated-json"]),
    "two writers, in an escape": (b'{"text":"I\\{"type":"b","text":"y"}', ["y"], ["truncated-json"]),
    "second writer after a power loss": (
        b'{"type":"a","text":"I\0\0\0{"type":"b","text":"y"}', ["y"], ["truncated-json"]),
    "cut off": (b'{"type":"a","text":"x', [], ["truncated-json"]),
    "cut off behind an object": (b'{"type":"a","data":[{"text":"x"}', [], ["truncated-json"]),
    "broken": (b'{"type":"a","text":nonsense,"data":{"text":"x"}}', [], ["invalid-json"]),
    "too deep": (b'{"type":"a","data":' + b"[" * 300 + b"]" * 300 + b"}", [], ["too-deep"]),
    "no JSON": (b"{nonsense", [], ["invalid-json"]),
    "wrong type": (b'{"type":"a","text":"x","n":"many"}', ["x"], ["wrong-type"]),
    "other values": (b'{"type":"a","text":"x"} 3 "y"', ["x"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", DIRTY)
def test_each_rung(tmp_path: Path, name: str) -> None:
    line, texts, codes = DIRTY[name]
    records, problems, tally = read(write(tmp_path / "x.jsonl", line + b"\n"))
    assert [text for _, _, text, _ in records] == texts
    assert [code for _, code, _ in problems] == codes
    assert tally.records == len(texts) + tally.problems + tally.unrecognised


def test_a_cut_off_value_is_closed_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", b'{"type":"a","text":"I thi{"type":"b","text":"y"}')
    records, problems, _ = read(path, recover=True)
    assert [text for _, _, text, _ in records] == ["I thi", "y"]
    assert [code for _, code, _ in problems] == ["recovered"]
    assert read_json(b'{"a":"x\ty\\ud83d","b":"cut \xc3', recover=True).values == [
        {"a": "x\ty\ufffd", "b": "cut \ufffd"}
    ]


def test_elements_of_a_written_out_array_are_compact(tmp_path: Path) -> None:
    """What a source keeps as it was written, such as a call's arguments, has no line breaks in it."""
    values = [{"type": "a", "text": "x", "data": {"command": "ls", "lines": [1, 2]}}]
    path = write(tmp_path / "a.json", json.dumps(values, indent=2).encode())
    origin = Origin(path=str(path), name="x", lines=False)
    (record,) = iter_json_lines(origin, LINE, Tally())
    assert bytes(record[2].data) == b'{"command":"ls","lines":[1,2]}'


def test_a_value_over_several_lines(tmp_path: Path) -> None:
    """Seen in Copilot CLI: newlines that nobody escaped."""
    data = b'{"type":"a","text":"one\n  two\n\nthree"}\n{"type":"b","text":"y"}\n'
    records, problems, _ = read(write(tmp_path / "x.jsonl", data))
    assert [(offset, text) for offset, _, text, _ in records] == [
        (0, "one\n  two\n\nthree"),
        (data.index(b'{"type":"b"'), "y"),
    ]
    assert not problems


LINES = st.sampled_from(
    [line for line, _, _ in DIRTY.values() if len(line) < 200]
    + [b'{"type":"a","text":"one\n two\n\nthree"}', b"", b"plain words", b"\xef\xbb\xbf", b'"}']
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=st.lists(LINES, max_size=8), cuts=st.lists(st.integers(1, 300), max_size=4, unique=True)
)
def test_any_ranges_give_the_same(tmp_path: Path, lines: list[bytes], cuts: list[int]) -> None:
    path = write(tmp_path / "x.jsonl", b"\n".join(lines))
    assert read(path) == read(path, *cuts)


def test_a_long_string_is_cut_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LONGEST_BYTES", 1000)
    long = "é😀\n" * 500
    data = (
        json.dumps({"type": "a", "text": long, "n": 7}).encode()
        + b"\n"
        + b'{"type":"b","text":"y"}'
    )
    records, problems, tally = read(write(tmp_path / "x.jsonl", data))
    (_, kind, text, _), (_, _, other, _) = records
    assert kind == "a"
    assert long.startswith(text)
    assert 100 < len(text) < 1000
    assert other == "y"
    raw = json.dumps(long)[1:-1].encode()
    ((offset, code, shown),) = problems
    assert (offset, code) == (0, "long-value")
    assert f"{len(raw):,} bytes" in shown
    assert sha256(raw).hexdigest() in shown
    assert tally.records == 2
    assert not tally.problems


@settings(deadline=None)
@given(st.text(st.sampled_from('ab\\"\n\u0001é行😀u d8'), min_size=20), st.booleans())
def test_a_cut_leaves_characters_whole(text: str, ascii_only: bool) -> None:
    before, door.LONGEST_BYTES = door.LONGEST_BYTES, 100
    try:
        whole = text * 30
        salvage = read_json(json.dumps([whole], ensure_ascii=ascii_only).encode())
    finally:
        door.LONGEST_BYTES = before
    assert [flaw.code for flaw in salvage.flaws] == ["long-value"]
    assert whole.startswith(salvage.values[0][0])


def test_a_long_string_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LONGEST_BYTES", 1000)
    salvage = read_json(b'{"type":"a","text":"' + b"x" * 5000, recover=True)
    assert salvage.code == "recovered"
    assert [flaw.code for flaw in salvage.flaws] == ["long-value", "recovered"]
    assert salvage.values[0]["text"].strip("x") == ""


def test_places_are_bytes() -> None:
    salvage = read_json('[{"a":"é"},\n{"b":1},'.encode())
    assert (salvage.values, salvage.places) == ([{"a": "é"}, {"b": 1}], [1, 13])


@pytest.mark.parametrize("source", sorted({case.parent.name for case in cases()}))
def test_what_a_source_knows_of_a_file_is_let_go_with_it(source: str) -> None:
    """Runs do not look for circles of objects: a shape in one would stay, with all that it holds."""
    origins = [one for case in cases(source) for one in origins_of(case / "input")]
    facts_of(origins)  # now everything is imported that has shapes for all files
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(one, Shape) for one in gc.get_objects())
        facts_of(origins)
        assert sum(isinstance(one, Shape) for one in gc.get_objects()) == before
    finally:
        gc.enable()
