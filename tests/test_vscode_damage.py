"""VS Code chats: wrong types, broken files, lines of any length."""

import base64
import copy
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import PEAK_KB, facts_of, origins_of
from tests.vscode import INPUTS, chat, codes, one, put, read, request, words
from unspool.io.origins import Tally

JUNK = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", [], {}, [None], {"kind": 3}, [[]], "\ud800"]
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found += paths_in(item, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = junk
    return value


@pytest.mark.parametrize("name", ["part_kinds", "attachments", "export_notes"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wrong_types_anywhere(name: str, tmp_path: Path, data: st.DataObject) -> None:
    """Any value of any field may be anything: the other requests are still read."""
    (path,) = sorted((INPUTS / name / "input").rglob("*.json"))
    value = json.loads(path.read_text())
    value["requests"].append(request(99, "still here"))
    places_ = [
        p
        for p in paths_in(value)
        if p[0] == "requests" and len(p) > 1 and p[1] != len(value["requests"]) - 1
    ]
    spoilt = replaced(value, data.draw(st.sampled_from(places_)), data.draw(JUNK))
    made = read(put(tmp_path, "chat.json", spoilt))
    assert any(m.typed == "still here" for t in made for m in t.messages)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wrong_types_anywhere_in_a_log(tmp_path: Path, data: st.DataObject) -> None:
    (path,) = sorted((INPUTS / "rounds_in_log" / "input").rglob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    number = data.draw(st.integers(1, len(lines) - 1))
    place = data.draw(st.sampled_from(paths_in(lines[number])))
    lines[number] = replaced(lines[number], place, data.draw(JUNK))
    lines.append({"kind": 2, "k": ["requests"], "v": [request(99, "still here")]})
    made = read(put(tmp_path, "log-1.jsonl", "\n".join(json.dumps(line) for line in lines)))
    assert any(m.typed == "still here" for t in made for m in t.messages)


class TestBadInput:
    def test_problems_are_counted(self) -> None:
        assert sorted(set(codes(INPUTS / "wrong_types" / "input"))) == [
            "missing-request-id", "repeated-request-id", "wrong-type",
        ]  # fmt: skip
        assert codes(INPUTS / "log_torn" / "input") == ["truncated-json"]
        assert "no-initial-state" in codes(INPUTS / "log_headless" / "input")
        assert codes(INPUTS / "cut_off" / "input") == ["recovered"]
        assert codes(INPUTS / "spoilt" / "input") == ["invalid-json"]
        assert codes(INPUTS / "repeated_calls" / "input") == ["repeated-call-id"]

    def test_a_torn_initial_state(self, tmp_path: Path) -> None:
        """Most logs begin with the whole chat: what stands before the tear is read."""
        line = json.dumps({"kind": 0, "v": chat(request(1), request(2), request(3))})
        path = put(tmp_path, "chatSessions/s.jsonl", line[: line.index("answer 3")])
        made = one(path)
        assert [w for _, w in words(made)][:5] == [
            "question 1", "answer 1", "question 2", "answer 2", "question 3",
        ]  # fmt: skip
        assert codes(path) == ["recovered"]

    def test_a_torn_state_takes_nothing_away(self, tmp_path: Path) -> None:
        lines = [json.dumps({"kind": 0, "v": chat(*(request(n) for n in (1, 2, 3)))})] * 2
        text = lines[0] + "\n" + lines[1][: lines[1].index("answer 2")]
        path = put(tmp_path, "chatSessions/s.jsonl", text)
        assert len(one(path).messages) == 6
        assert one(path).branches is None

    def test_repeated_answers_and_rounds(self, tmp_path: Path) -> None:
        """Answers of two requests are two, whatever their ids."""
        rounds = [{"id": "same", "response": f"round {n}", "toolCalls": []} for n in (1, 2)]
        made = [request(n, responseId="again") for n in (1, 2)]
        made.append(request(3, result={"metadata": {"toolCallRounds": rounds}}))
        path = put(tmp_path, "chatSessions/x.json", chat(*made))
        said = [m.content for m in one(path).messages if m.role == "assistant"]
        assert said == ["answer 1", "answer 2", "round 1", "round 2"]
        assert codes(path) == ["repeated-answer-id", "repeated-answer-id"]

    def test_unknown_kinds_are_counted_and_kept(self) -> None:
        tally = Tally()
        facts_of(origins_of(INPUTS / "part_kinds" / "input"), tally)
        assert tally.unknown == {"part hologram": 1}
        made = one(INPUTS / "part_kinds" / "input")
        kept = [part for m in made.messages for part in (m.extra or {}).get("parts", ())]
        assert {"kind": "hologram", "beam": 42} in kept

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            '{"requests": 5, "responderUsername": ""}',
            '{"kind":0,"v":3}',
            '{"kind":9}\n{"kind":1,"k":["a"]}',
        ],
    )
    def test_next_to_nothing(self, tmp_path: Path, text: str) -> None:
        assert read(put(tmp_path, "chatSessions/x.json", text)) == []

    def test_deeply_nested(self, tmp_path: Path) -> None:
        deep = '{"requests":' + "[" * 3000 + "]" * 3000 + ',"responderUsername":""}'
        path = put(tmp_path, "chatSessions/x.json", deep)
        assert read(path) == []
        assert codes(path)


MEASURE = (
    PEAK_KB
    + """
import sys
from unspool.io.origins import Origin, Tally
from unspool import sources
source = sources.load("vscode-chat")
before = peak_kb()
facts = source.read(Origin(sys.argv[1], "x"), Tally())
found = [a for f in facts for a in getattr(f, "attachments", ())]
after = peak_kb()
print(after - before, found[0].size_bytes, found[0].sha256, found[0].media_type, len(found[0].data))
"""
)


@pytest.mark.parametrize("form", ["flat", "log", "unknown-field", "wrong-type"])
def test_a_huge_line_with_an_image(tmp_path: Path, form: str) -> None:
    """The image becomes a reference; the whole process takes at most four times the line."""
    raw = b"\x89PNG" + bytes(range(256)) * 180_000
    image = {"kind": "image", "id": "i", "name": "big.png", "mimeType": "image/png",
             "value": {"$base64": base64.b64encode(raw).decode()}}  # fmt: skip
    more = {"unknown-field": {"unheardOf": 1}, "wrong-type": {"responseId": 5}}.get(form, {})
    value = chat(request(1, variableData={"variables": [image]}, **more))
    path = tmp_path / ("s.jsonl" if form == "log" else "s.json")
    line = {"kind": 0, "v": value} if form == "log" else value
    path.write_bytes(msgspec.json.encode(line) + b"\n")
    made = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    peak, size, sha256, media_type, kept = made.stdout.split()
    assert int(size) == len(raw)
    assert sha256 == hashlib.sha256(raw).hexdigest()
    assert (media_type, kept) == ("image/png", "0")
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(peak) * unit <= 4 * path.stat().st_size
