"""Copilot CLI logs against a plain second reading of their rules, on the cases and on real sessions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.copilot_check import differences
from tests.copilot_oracle import tell
from tests.harness import CASES, case_id, cases, corpus, facts_of, origins_of, plain, reduce_all
from unspool import sources
from unspool.io.origins import Tally, read_head
from unspool.sources import copilot_cli, copilot_vscode
from unspool.trajectory import Trajectory

NAMES = {"copilot-cli", "copilot-vscode"}


def judge(path: Path, made: list[Trajectory]) -> None:
    key = made[0].conversation_id.partition("/")[0]
    assert differences(tell(path.read_bytes()), key, plain(made, path.parent)) == []


CLEAN = ("plain_session", "subagent_by_call", "subagent_by_registry", "three_runs", "pending_work",
         "compaction", "models", "chunks_of_old_logs", "system_prompts")  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_cases_agree_with_the_oracle(name: str) -> None:
    folder = CASES / "copilot_cli" / name / "input"
    (path,) = folder.rglob("*.jsonl")
    judge(path, reduce_all(facts_of(origins_of(folder))))


def real_logs() -> list[Path]:
    found = corpus("copilot-cli")
    if found is None:
        return []
    folders = (found / "softwaresalt_agent-engram", found / "miniaspsali_testClaw")
    return sorted(path for folder in folders for path in folder.rglob("events.jsonl"))


@pytest.mark.parametrize("path", real_logs(), ids=lambda path: path.parent.name)
def test_real_sessions_agree_with_the_oracle(path: Path) -> None:
    tally = Tally()
    made = reduce_all(facts_of(origins_of(path.parent), tally))
    judge(path, made)
    assert (tally.unrecognised, tally.problems) == (0, 0)
    asked = [c for t in made for m in t.messages for c in m.tool_calls or ()]
    models = [m.model for t in made for m in t.messages if m.role == "assistant"]
    assert all(models)
    assert len({call.id for call in asked}) == len(asked)


def made_logs() -> list[Path]:
    """Logs that others made up for their own tests, as far as they look like real ones."""
    found = corpus("copilot-cli")
    if found is None:
        return []
    folders = (found / "microsasa_cli-tools", found / "kryvoff_cocopilot")
    return sorted(path for folder in folders for path in folder.rglob("*.jsonl"))


@pytest.mark.parametrize("path", made_logs(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sessions_that_others_made_up_agree_with_the_oracle(path: Path) -> None:
    made = reduce_all(facts_of(origins_of(path)))
    if made:
        judge(path, made)


@pytest.mark.skipif(corpus("copilot-cli") is None, reason="needs the real corpus")
def test_a_session_of_which_only_checkpoints_are_left_is_given() -> None:
    folder = corpus("copilot-cli", "softwaresalt_agent-engram")
    assert folder is not None
    made = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}
    left = made["212435a2-8d62-4467-bb24-64bdcc8dbd59"]
    assert left.partial == ["no-messages"]
    assert left.checkpoints is not None
    assert {"number", "title", "overview", "history", "next_steps"} <= set(left.checkpoints[0])


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_no_source_takes_the_files_of_another(case: Path) -> None:
    """Files under the cases of other sources are never ours, and ours never theirs."""
    ours = case.parent.name in ("copilot_cli", "copilot_vscode")
    for origin in origins_of(case / "input"):
        head = read_head(origin.path)
        claimed = {name for name in sources.SOURCES if sources.load(name).claims(head)} & NAMES
        if not ours:
            assert not claimed, origin.path
        elif origin.source in NAMES:
            others = set(sources.SOURCES) - NAMES
            if Path(origin.path).name.startswith("hooks"):
                others -= {"claude-code"}  # whose shape these payloads have: it is asked last
                assert sources.recognise(head, None) == origin.source
            assert not [n for n in others if sources.load(n).claims(head)], origin.path


def test_places_on_every_platform() -> None:
    home = Path("/home/ana")
    usual = copilot_cli.places(home, {}, "linux")
    assert home / ".copilot" / "session-state" in usual
    assert home / ".copilot" / "session-store.db" in usual
    moved = copilot_cli.places(home, {"COPILOT_HOME": "/data/cop", "XDG_STATE_HOME": "/s"}, "linux")
    assert moved[0] == Path("/data/cop/session-state")
    assert Path("/s/.copilot/session-state") in moved
    for platform, env, base in (
        ("linux", {}, home / ".config"),
        ("darwin", {}, home / "Library" / "Application Support"),
        ("win32", {"APPDATA": "/c/Roaming"}, Path("/c/Roaming")),
    ):
        found = copilot_vscode.places(home, env, platform)
        for product in ("Code", "Code - Insiders", "VSCodium"):
            assert base / product / "User" / "workspaceStorage" in found
            assert base / product / "User" / "globalStorage" / "github.copilot-chat" in found


def test_a_long_log_with_very_long_lines_is_read_whole(tmp_path: Path) -> None:
    session = "00000000-0000-4000-8000-0000000000bb"
    log = tmp_path / "session-state" / session / "events.jsonl"
    log.parent.mkdir(parents=True)
    with open(log, "w", encoding="utf-8") as file:
        for number in range(20):
            data = {"messageId": f"m{number}", "content": f"{number} " + "x" * 1_700_000}
            file.write(json.dumps({"type": "assistant.message", "data": data, "id": str(number)}))
            file.write("\n")
            turn = {"type": "assistant.turn_start", "data": {}, "id": f"t{number}"}
            file.write(json.dumps(turn) + "\n")
    (made,) = reduce_all(facts_of(origins_of(tmp_path)))
    assert [m.content.partition(" ")[0] for m in made.messages] == [str(n) for n in range(20)]
    assert {len(m.content) for m in made.messages} == {1_700_002, 1_700_003}


def test_reasoning_is_left_out_on_request() -> None:
    case = CASES / "copilot_cli" / "reasoning" / "input"
    command = [sys.executable, "-m", "unspool", "extract", str(case), "--no-reasoning"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert "Three." in made.stdout
    assert "thought" not in made.stdout


def test_problems_of_a_damaged_log_are_counted_with_their_place() -> None:
    tally = Tally()
    folder = CASES / "copilot_cli" / "damage_torn_last_line" / "input"
    facts = facts_of(origins_of(folder), tally)
    (problem,) = [fact for _, fact in facts if type(fact).__name__ == "Problem"]
    assert tally.problems == 1
    assert problem.code == "truncated-json"
    assert problem.sample.startswith('{"type":"assistant.message"')
    recovered = Tally()
    origin = origins_of(folder)[0]
    again = list(sources.load("copilot-cli").read(origin, recovered, recover=True))
    assert any(getattr(fact, "text", "") == "second answer" for fact in again)


@pytest.mark.parametrize(("second", "total"), [(2, 1100), (3, 1000)])
def test_accounts_that_run_on(tmp_path: Path, second: int, total: int) -> None:
    """Up to 1.0.64 the end of a run counts the run, from 1.0.66 on the session up to there."""
    counts = {1: 100, second: 1000}

    def end(count: int) -> dict[str, Any]:
        usage = {"inputTokens": counts[count], "outputTokens": 10}
        return {"modelMetrics": {"m": {"requests": {"count": count}, "usage": usage}}}

    events = [
        ("session.start", {"sessionId": RUNS}),
        ("user.message", {"content": "One?"}),
        ("assistant.message", {"messageId": "a", "content": "One."}),
        ("session.shutdown", end(1)),
        ("session.resume", {}),
        ("user.message", {"content": "Two?"}),
        ("assistant.message", {"messageId": "b", "content": "Two."}),
        ("assistant.message", {"messageId": "c", "content": "And three."}),
        ("session.shutdown", end(second)),
    ]
    lines = [
        {
            "type": kind,
            "data": data,
            "id": f"e{number}",
            "timestamp": f"2026-05-04T08:00:0{number}Z",
        }
        for number, (kind, data) in enumerate(events)
    ]
    log = tmp_path / "session-state" / RUNS / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    (made,) = reduce_all(facts_of(origins_of(tmp_path)))
    assert made.usage is not None
    assert made.usage.prompt_tokens == total


RUNS = "00000000-0000-4000-8000-0000000000aa"
