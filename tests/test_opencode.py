"""OpenCode: a plain second reader of its database agrees with the source."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.harness import CASES, corpus
from unspool import extract
from unspool.errors import NothingToRead
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job
from unspool.pipeline.shuffle import Slot, Spool

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


def test_the_database_says_what_was_taken_back_and_not_the_files_left_behind(
    tmp_path: Path,
) -> None:
    storage = tmp_path / "storage"
    messages = {
        name: {"id": name, "role": "user", "time": {"created": number}}
        for number, name in enumerate(("msg_1", "msg_2"), 1)
    }
    part = {"type": "text", "text": "words of "}
    _write(storage / "session/p/ses_1.json", {"id": "ses_1", "title": "A title"})
    for name, message in messages.items():
        _write(storage / f"message/ses_1/{name}.json", message)
        _write(storage / f"part/{name}/prt_{name}.json", {**part, "text": f"words of {name}"})
    base = tmp_path / "opencode.db"
    with closing(sqlite3.connect(base)) as database, database:
        columns = "id, parent_id, directory, title, version, revert, time_created"
        database.execute(f"CREATE TABLE session ({columns})")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, time_created, data)")
        revert = json.dumps({"messageID": "msg_2"})
        row = ("ses_1", None, "/w", "A title", "1.0", revert, 0)
        database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for name, message in messages.items():
            text = json.dumps({**part, "text": f"words of {name}"})
            known = (
                "INSERT INTO message VALUES (?, ?, ?, ?)",
                "INSERT INTO part VALUES (?, ?, ?, ?, ?)",
            )
            database.execute(known[0], (name, "ses_1", 0, json.dumps(message)))
            database.execute(known[1], (f"prt_{name}", name, "ses_1", 0, text))
    for paths in ([base, storage], [storage, base]):
        (made,) = extract(paths, source="opencode")
        assert [message.content for message in made.messages] == ["words of msg_1"]
        assert [branch.messages[0].content for branch in made.branches or ()] == ["words of msg_2"]


def test_one_worker_and_two_tell_the_same_of_several_databases_with_files_beside_them() -> None:
    """One worker reads the largest database last, session by session; two gather all facts first."""
    one, two = (
        [msgspec.to_builtins(made) for made in extract([str(CASES / "opencode")], workers=workers)]
        for workers in (1, 2)
    )
    assert one == two
    named = sorted(made["conversation_id"] for made in one)
    assert named == ["ses_1", "ses_2", "ses_6", "ses_7", "ses_8", "ses_9"]


def test_lines_of_somebody_elses_plugin_are_not_taken_for_an_export(tmp_path: Path) -> None:
    info = {"id": "ses_1", "title": "A title"}
    event = {"hook": "event", "input": {"type": "session.created", "properties": {"info": info}}}
    path = tmp_path / "events.jsonl"
    path.write_text(f"{json.dumps(event)}\n" * 3)
    with pytest.raises(NothingToRead, match="not a format that unspool knows"):
        list(extract([str(path)]))


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_a_session_of_two_generations_is_told_once() -> None:
    (made,) = extract([str(CASES / "opencode/second_generation/input")])
    assert made.title == "New title"
    assert "stale words" not in [m.content for m in made.messages]


def test_a_full_disk_is_no_problem_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts are put away while the database is still being read."""

    put = Spool.put
    failures = [OSError(28, "No space left on device")]

    def full_once(spool: Spool, data: bytes) -> Slot:
        if failures:
            raise failures.pop()
        return put(spool, data)

    monkeypatch.setattr(Spool, "put", full_once)
    job = Job(paths=[str(CASES / "opencode/subagent")], memory_bytes=1)
    with open_run(job) as run, pytest.raises(OSError, match="No space left"):
        run.write()
