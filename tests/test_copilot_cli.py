"""Copilot CLI logs against a plain second reading of their rules, on the cases and on real sessions."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases, corpus, facts_of, origins_of, reduce_all
from unspool import sources
from unspool.origins import Tally, read_head
from unspool.sources import copilot_cli, copilot_vscode
from unspool.trajectory import Trajectory

NAMES = {"copilot-cli", "copilot-vscode"}


class Oracle:
    """What the CLI itself would replay from a clean log, without forgetting: one agent's view."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.results: dict[str, str] = {}
        self.open: dict[str, Any] | None = None

    def say(self, role: str, text: str) -> None:
        self.open = None
        self.messages.append({"role": role, "texts": [text], "calls": []})

    def answer(self, data: dict[str, Any], is_root: bool) -> None:
        text = data.get("content")
        text = text if isinstance(text, str) else json.dumps(text)
        request = data.get("apiCallId") or data.get("interactionId") or ""
        known = self.open
        if known is None or (known["request"] and request and known["request"] != request):
            known = {"role": "assistant", "texts": [], "calls": [], "request": request}
            self.messages.append(known)
        known["request"] = known["request"] or request
        known["texts"].append(text)
        known["calls"] += [call["toolCallId"] for call in data.get("toolRequests") or ()]
        self.open = known if is_root else None

    def words(self) -> list[tuple[str, str]]:
        made: list[tuple[str, str]] = []
        for message in self.messages:
            made.append((message["role"], "\n\n".join(t for t in message["texts"] if t)))
            for call in message["calls"]:
                if call in self.results:
                    made.append(("tool", self.results[call]))
        return made


def replay(events: list[dict[str, Any]]) -> dict[str, Oracle]:
    """Every agent's messages, by the call that started it; the session's own under ''."""
    agents: dict[str, str] = {}
    prompts: dict[str, str] = {}
    views: dict[str, Oracle] = defaultdict(Oracle)
    prompted: set[str] = set()
    systems: set[tuple[str, str]] = set()
    for event in events:
        kind, data = event.get("type"), event.get("data") or {}
        if kind in ("subagent.started", "custom_agent.started"):
            agents[event.get("agentId") or data["toolCallId"]] = data["toolCallId"]
    for event in events:
        kind, data = event.get("type"), event.get("data") or {}
        child = event.get("agentId") or data.get("parentToolCallId") or ""
        child = agents.get(child, child)
        view = views[child]
        if kind == "user.message":
            view.say("user", data.get("transformedContent") or data["content"])
        elif kind == "system.notification":
            if data["kind"].get("type") != "instruction_discovered":
                view.say("user", data["content"])
        elif kind == "session.error":
            view.say("system", data["message"])
        elif kind == "system.message":
            if (data.get("role"), data["content"]) not in systems:
                view.say("system", data["content"])
            systems.add((data.get("role"), data["content"]))
        elif kind == "assistant.message":
            view.answer(data, not child)
            for call in data.get("toolRequests") or ():
                arguments = call.get("arguments")
                prompt = arguments.get("prompt") if isinstance(arguments, dict) else None
                if call["toolCallId"] in agents.values() and prompt:
                    prompts[call["toolCallId"]] = prompt
        elif kind == "assistant.turn_start":
            view.open = None
        elif kind == "tool.execution_complete":
            view.open = None
            text = _result(data)
            view.results.setdefault(data["toolCallId"], text)
        for call, prompt in prompts.items():
            if call not in prompted:
                prompted.add(call)
                views[call].say("user", prompt)
    return views


def _result(data: dict[str, Any]) -> str:
    if data.get("success") is False or ("success" not in data and data.get("error")):
        return (data.get("error") or {}).get("message") or "Tool execution failed"
    result = data.get("result")
    return result if isinstance(result, str) else (result or {}).get("content") or ""


def tokens(events: list[dict[str, Any]]) -> int | None:
    """Output tokens of all runs: as reported, else summed over the messages of the run."""
    total: int | None = None
    run: int | None = None
    for event in events:
        kind, data = event.get("type"), event.get("data") or {}
        if kind == "assistant.message" and data.get("outputTokens") is not None:
            run = (run or 0) + data["outputTokens"]
        elif kind == "session.resume" and run is not None:
            total, run = (total or 0) + run, None
        elif kind == "session.shutdown" and data.get("modelMetrics"):
            reported = [m["usage"]["outputTokens"] for m in data["modelMetrics"].values()]
            total, run = (total or 0) + sum(reported), None
    return total if run is None else (total or 0) + run


def read_events(path: Path) -> list[dict[str, Any]]:
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    return [json.loads(line) for line in lines]


def judge(path: Path, made: list[Trajectory]) -> None:
    events = read_events(path)
    by_child = {t.conversation_id.partition("/")[2]: t for t in made}
    expected = {child: view.words() for child, view in replay(events).items() if view.messages}
    found = {child: [(m.role, m.content) for m in t.messages] for child, t in by_child.items()}
    assert found == expected
    usage = by_child[""].usage
    assert (usage.completion_tokens if usage else None) == tokens(events)


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
