"""No line of a session vanishes: each is found in what comes out, by a look at the bare JSON."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.claude_oracle import blocks, parsed
from tests.harness import cases, corpus, facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.io.times import format_time, parse_time
from unspool.sources.claude_code.words import kept_as
from unspool.trajectory import Message, Trajectory

CHAINED = ("user", "assistant", "system", "attachment", "progress")
Row = dict[str, Any]


def files() -> list[Path]:
    found = [p for case in cases("claude_code") for p in (case / "input").rglob("*.jsonl")]
    root = corpus("claude-code")
    return found + (sorted(root.rglob("*.jsonl")) if root is not None else [])


def rows_of(path: Path) -> list[Row]:
    lines = path.read_bytes().split(b"\n")
    values = [parsed(line.decode("utf-8", "replace")) for line in lines if line.strip()]
    return [value for value in values if isinstance(value, dict)]


class Output:
    """All that the trajectories of a file say, wherever it stands."""

    def __init__(self, made: list[Trajectory]) -> None:
        self.messages: list[Message] = []
        for trajectory in made:
            self.messages += trajectory.messages
            for branch in trajectory.branches or ():
                assert 0 <= branch.index <= len(trajectory.messages)
                assert branch.messages
                self.messages += branch.messages
        self.by_id: dict[str, list[Message]] = {}
        for message in self.messages:
            self.by_id.setdefault(message.id or "", []).append(message)
        self.calls = {c.id for m in self.messages for c in m.tool_calls or ()}
        self.results = {m.tool_call_id for m in self.messages if m.role == "tool"}
        self.marks = Counter(m.timestamp for t in made for m in t.marks or ())

    def said(self, ident: str, words: str) -> bool:
        known = self.by_id.get(ident, ())
        return any(words.strip() in (m.content + "\n" + (m.thinking or "")) for m in known)


def missing(row: Row, output: Output) -> Iterator[str]:
    """What the line says that is nowhere."""
    uuid = row.get("uuid") or ""
    kind = row["type"]
    if kind == "assistant":
        ident = row["message"].get("id") or row.get("requestId") or uuid
        for block in blocks(row):
            words = block.get("text") or block.get("thinking")
            if block.get("type") == "tool_use":
                if block["id"] not in output.calls:
                    yield f"call {block['id']}"
            elif isinstance(words, str) and words.strip() and not output.said(ident, words):
                yield f"words of {ident}"
    elif kind == "user":
        for block in blocks(row):
            if block.get("type") == "tool_result":
                if block.get("tool_use_id") not in output.results:
                    yield f"result {block.get('tool_use_id')}"
            elif isinstance(block.get("text"), str) and not output.said(uuid, block["text"]):
                yield f"prompt {uuid}"
    elif row.get("attachment", {}).get("type") == "prompt_snapshot":
        return  # the system prompt: by its words the same one is one message
    elif kind in ("system", "attachment") and uuid not in output.by_id:
        stamp = format_time(parse_time(row.get("timestamp")))
        if not output.marks[stamp]:
            yield f"{kind} {uuid}"
        output.marks[stamp] -= 1


@pytest.mark.parametrize("path", files(), ids=lambda p: f"{p.parent.name[:12]}-{p.stem[:20]}")
def test_every_line_is_somewhere_or_counted(path: Path) -> None:
    origins = origins_of(path)
    if not origins or origins[0].source != "claude-code":
        pytest.skip("not a transcript")
    tally = Tally()
    made = reduce_all(facts_of(origins, tally))
    rows = rows_of(path)
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    assert tally.records >= len(rows)
    assert len(lines) - len(rows) <= tally.problems + tally.unrecognised
    output = Output(made)
    ours = [
        row
        for row in rows
        if row.get("type") in CHAINED
        and row.get("uuid")
        and "session_id" not in row
        and isinstance(row.get("message", {}), dict)
    ]
    lost = [(row["uuid"], what) for row in ours for what in missing(row, output)]
    assert lost == []
    queued = [row for row in rows if row.get("operation") == "enqueue" and row.get("content")]
    said = {text for m in output.messages for text in (m.content, m.typed)}
    texts = [row["content"] for row in queued if isinstance(row["content"], str)]
    assert [text for text in texts if text not in said and kept_as(text) not in said] == []


def test_the_test_can_fail() -> None:
    row = json.loads('{"type": "user", "uuid": "u", "message": {"content": "hello"}}')
    assert list(missing(row, Output([Trajectory("s", [])]))) == ["prompt u"]
    made = Trajectory("s", [Message("user", "hello", id="u")])
    assert list(missing(row, Output([made]))) == []


def folders() -> list[Path]:
    found = [case / "input" for case in cases("claude_code")]
    names = ("edge_cases", "hooks_and_transcript", "projects", "sessions")
    return found + [p for name in names if (p := corpus("claude-code", name)) is not None]


@pytest.mark.parametrize("folder", folders(), ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_conversation_knows_its_session_and_its_place(folder: Path) -> None:
    """Wherever any of its files, or of its parent's, names a folder that it ran in."""
    made = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}
    for trajectory in made.values():
        assert trajectory.session_id
        paths = {trajectory.file_path or "", *(trajectory.origins or ())}
        above = trajectory.parent
        if above is not None and above.kind == "subagent" and above.conversation_id in made:
            parent = made[above.conversation_id]
            paths |= {parent.file_path or "", *(parent.origins or ())}
        if any(b'"cwd"' in Path(path).read_bytes() for path in paths if path):
            place = trajectory.workspace
            assert place is not None
            assert place.path
            assert place.name == place.path.replace("\\", "/").rstrip("/").rpartition("/")[2]
            assert place.hash == hashlib.sha256(place.path.encode()).hexdigest()[:16]
