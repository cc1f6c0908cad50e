"""OpenCode: a plain second reader of its database agrees with the source."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness import CASES, corpus
from unspool import extract

RECORDED = corpus("lab")
DATABASES = [
    CASES / "opencode/tools/input/.local/share/opencode/opencode.db",
    CASES / "opencode/compaction/input/.local/share/opencode/opencode.db",
    CASES / "opencode/subagent/input/.local/share/opencode/opencode.db",
    *(sorted(RECORDED.rglob("opencode.db")) if RECORDED else []),
]


@pytest.mark.parametrize("path", DATABASES, ids=lambda path: path.parents[4].name)
def test_second_reader_agrees(path: Path) -> None:
    made = {one.conversation_id: one for one in extract([str(path)])}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        sessions = base.execute("SELECT id, time_created FROM session").fetchall()
        assert made.keys() == {ident for ident, _ in sessions}
        for session, began in sessions:
            texts: list[str] = []
            calls: list[str] = []
            tokens = 0
            statement = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
            for ident, data in base.execute(statement, (session,)):
                message = json.loads(data)
                parts = [
                    json.loads(part)
                    for (part,) in base.execute(
                        "SELECT data FROM part WHERE message_id = ? ORDER BY id", (ident,)
                    )
                ]
                words = [p["text"] for p in parts if p["type"] == "text" and not p.get("synthetic")]
                texts += ["\n\n".join(words)] if any(words) else []
                calls += [part["callID"] for part in parts if part["type"] == "tool"]
                if message["role"] == "assistant" and message["time"]["created"] >= began:
                    counts = message["tokens"]
                    tokens += counts["input"] + sum(counts["cache"].values())
            one = made[session]
            spoken = [m for m in one.messages if m.role != "tool" and m.kind != "injected"]
            # A subtask has a prompt and no words, a cut answer has none.
            assert [m.content for m in spoken if m.content in texts] == texts
            assert [call.id for m in one.messages for call in m.tool_calls or ()] == calls
            assert (one.usage.prompt_tokens if one.usage else 0) == tokens


def test_a_session_of_two_generations_is_told_once() -> None:
    (made,) = extract([str(CASES / "opencode/second_generation/input")])
    assert made.title == "New title"
    assert "stale words" not in [m.content for m in made.messages]
