"""Made-up Copilot CLI sessions of any shape against tests/copilot_oracle.py."""

import json
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.copilot_check import differences
from tests.copilot_oracle import tell
from tests.copilot_sessions import Script, lines_of
from tests.harness import facts_of, origins_of, plain, reduce_all
from tests.test_copilot_store import TABLES
from unspool.io.origins import Tally


def write(folder: Path, session: str, data: bytes) -> None:
    log = folder / "session-state" / session / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(data)


def read(folder: Path, tally: Tally | None = None) -> list[dict[str, Any]]:
    return plain(reduce_all(facts_of(origins_of(folder), tally)), folder)


def made_up(seed: int, named_agents: bool = True) -> tuple[Script, list[bytes]]:
    script = Script(seed)
    script.named_agents = script.named_agents and named_agents
    return script, lines_of(script.play(2 + seed % 25))


@pytest.mark.parametrize("seed", range(200))
def test_any_session_agrees_with_the_oracle(seed: int, tmp_path: Path) -> None:
    script, lines = made_up(seed)
    write(tmp_path, script.session, b"".join(lines))
    assert differences(tell(b"".join(lines)), script.session, read(tmp_path)) == []


def test_no_word_in_a_log_makes_it_a_chat(tmp_path: Path) -> None:
    """A tool may return anything: also a VS Code chat, or the log of one."""
    _, lines = made_up(7)
    for number, words in enumerate(
        ({"requests": [{"requestId": "1"}]}, {"logCount": 1, "logs": [], "prompt": "x"})
    ):
        event = {
            "type": "tool.execution_complete",
            "data": {"result": {"structuredContent": words}},
        }
        log = tmp_path / str(number) / "log.jsonl"
        log.parent.mkdir()
        log.write_bytes(b"".join([*lines, *lines_of([event])]))
        assert [origin.source for origin in origins_of(log)] == ["copilot-cli"]


@pytest.mark.parametrize("seed", range(60))
def test_a_session_in_two_files_is_one(seed: int, tmp_path: Path) -> None:
    """Its head in one and its tail in the other, with or without something in common; or a state of
    old beside the whole. (Which call started an agent with a name of its own is told only once.)"""
    script, lines = made_up(1000 + seed, named_agents=False)
    dice = random.Random(seed)
    at, more = dice.randrange(len(lines) + 1), dice.choice((0, 0, 3, len(lines)))
    head, tail = b"".join(lines[: at + more]), b"".join(lines[0 if dice.random() < 0.3 else at :])
    first, second = dice.sample(("a", "b"), 2)
    write(tmp_path / first, script.session, head)
    write(tmp_path / second, script.session, tail)
    assert differences(tell(b"".join(lines)), script.session, read(tmp_path)) == []


@pytest.mark.parametrize("seed", range(60))
def test_what_a_rewind_took_back_is_a_branch(seed: int, tmp_path: Path) -> None:
    """Only a copy of old still has it. (Its sub-agents stay: who knows what was not taken back?)"""
    script = Script(4000 + seed)
    script.start()
    script.prompt()
    old = script.play(4 + seed % 20)
    asked = [at for at, event in enumerate(old) if event["type"] == "user.message"]
    kept = random.Random(seed).choice([*asked[1:], len(old)])
    script.rewind(kept)
    script.prompt()
    new = script.play(4)
    write(tmp_path / "old", script.session, b"".join(lines_of(old)))
    write(tmp_path / "new", script.session, b"".join(lines_of(new)))
    told = tell(b"".join(lines_of(new)))
    told.agents = {"": told.agents[""]}
    (root,) = (t for t in read(tmp_path) if t["conversation_id"] == script.session)
    assert differences(told, script.session, [root]) == []
    gone = {m.get("id") for branch in root.get("branches", ()) for m in branch["messages"]}
    assert {old[at]["id"] for at in asked if at >= kept} <= gone


@pytest.mark.parametrize("damage", ["cut", "nul", "glued"])
@pytest.mark.parametrize("seed", range(30))
def test_a_spoiled_log_gives_what_is_whole(seed: int, damage: str, tmp_path: Path) -> None:
    script, lines = made_up(2000 + seed)
    dice = random.Random(seed)
    at = dice.randrange(len(lines))
    torn = lines[at][: dice.randrange(1, len(lines[at]))].rstrip(b"\n")
    data = {
        "cut": b"".join(lines[:at]) + torn,
        "nul": b"".join(lines) + b"\0" * 3000,
        "glued": b"".join(lines[:at]) + torn + b"".join(lines[at:]),
    }[damage]
    write(tmp_path, script.session, data)
    assert differences(tell(data), script.session, read(tmp_path)) == []


def make_store(path: Path, session: str, events: list[dict[str, Any]]) -> None:
    """As the CLI fills it: a turn per message in the person's place, with the last answer to it that
    calls no tool."""
    turns: list[list[Any]] = []
    for event in events:
        data = event["data"]
        own = not event.get("agentId") and not data.get("parentToolCallId")
        if event["type"] == "user.message":
            turns.append([data["content"], None])
        elif event["type"] == "assistant.message" and turns and own and not data["toolRequests"]:
            turns[-1][1] = data["content"] or turns[-1][1]
    with closing(sqlite3.connect(path)) as store:
        store.executescript(TABLES.format(host=""))
        names = "session_id, turn_index, user_message, assistant_response, timestamp"
        for number, (asked, answer) in enumerate(turns):
            row = (session, number, asked, answer, f"2026-05-04T12:{number:02d}:00Z")
            store.execute(f"INSERT INTO turns ({names}) VALUES (?,?,?,?,?)", row)
        store.commit()


@pytest.mark.parametrize("seed", range(60))
def test_a_store_beside_the_whole_log_adds_nothing(seed: int, tmp_path: Path) -> None:
    script = Script(3000 + seed)
    script.version = "1.0.40"  # in chunks, the store has only the last
    events = script.play(2 + seed % 25)
    data = b"".join(lines_of(events))
    write(tmp_path, script.session, data)
    make_store(tmp_path / "session-store.db", script.session, events)
    assert differences(tell(data), script.session, read(tmp_path)) == []


def test_a_torn_line_with_a_long_list_is_read_once(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": str(number)} for number in range(20_000)]
    event = {"type": "tool.execution_complete", "data": {"result": {"contents": blocks}}}
    write(tmp_path, Script(0).session, json.dumps(event, separators=(",", ":")).encode()[:-3])
    tally, begun = Tally(), time.monotonic()
    assert read(tmp_path, tally) == []
    assert time.monotonic() - begun < 20  # minutes, were it read again for each of its elements
    assert (tally.records, tally.problems) == (1, 1)
