"""All formats tell the same conversation: turns, answers, calls, results and tokens are as many."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import case_id, cases, corpus, facts_of, origins_of, reduce_all
from unspool.pipeline.finish import enrich
from unspool.reduce.totals import is_turn
from unspool.sinks import Family, load
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

MARKDOWN_CALL = re.compile(r"^<details><summary><code>", re.MULTILINE)


def counts(trajectory: Trajectory) -> dict[str, int]:
    messages = trajectory.messages
    return {
        "turns": sum(map(is_turn, messages)),
        "answers": sum(m.role == "assistant" for m in messages),
        "calls": sum(len(m.tool_calls or ()) for m in messages),
        "results": sum(m.role == "tool" for m in messages),
    }


def written(trajectory: Trajectory, sink: str) -> Iterator[Any]:
    """What the sink makes of the conversation alone; sinks may change what they are given."""
    for piece in load(sink).write(Family(unpack_trajectory(pack_trajectory(trajectory))), {}):
        if "/" not in piece.name:
            yield piece.data.decode() if sink == "markdown" else json.loads(piece.data)


def by_user(trajectory: Trajectory) -> int:
    return sum(m.role == "user" for m in trajectory.messages for _ in m.tool_calls or ())


def atif(trajectory: Trajectory) -> dict[str, int]:
    (document,) = written(trajectory, "atif")
    steps = document["steps"]
    results = [
        result
        for step in steps
        if not (step.get("extra") or {}).get("context_management")  # a summary stands there too
        for result in (step.get("observation") or {}).get("results", ())
        if result.get("content") is not None or not result.get("subagent_trajectory_ref")
    ]
    return {
        "answers": sum(step["source"] == "agent" for step in steps),
        # Steps of a person have no calls: theirs are in `extra`.
        "calls": sum(len(step.get("tool_calls") or ()) for step in steps) + by_user(trajectory),
        "results": len(results),
    }


def chat(trajectory: Trajectory) -> dict[str, int]:
    """Rounds of calls, as Copilot would go on from them; those of a person are only shown."""
    totals: Counter[str] = Counter()
    for document in written(trajectory, "chat-json"):
        for request in document["requests"]:
            metadata = request["result"]["metadata"]
            rounds = metadata.get("toolCallRounds") or ()
            totals["calls"] += sum(len(one["toolCalls"]) for one in rounds)
    return {"calls": totals["calls"] + by_user(trajectory)}


def timeline(trajectory: Trajectory) -> dict[str, int]:
    (line,) = written(trajectory, "timeline")
    return {"turns": line["user_turns"], "calls": line["tools_executed"]}


def markdown(trajectory: Trajectory) -> dict[str, int]:
    """No fewer than there are: parts that nobody knows look the same on the page."""
    (page,) = written(trajectory, "markdown")
    return {"calls": min(len(MARKDOWN_CALL.findall(page)), counts(trajectory)["calls"])}


def assert_agreement(trajectories: list[Trajectory]) -> None:
    for trajectory in trajectories:
        if not trajectory.messages:
            continue
        enrich(trajectory)
        trajectory.branches = None  # some formats show them, some have no place for them
        expected = counts(trajectory)
        for made in (atif, timeline, chat, markdown):
            found = made(trajectory)
            assert found == {name: expected[name] for name in found}, made.__name__


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_every_case(case: Path) -> None:
    assert_agreement(reduce_all(facts_of(origins_of(case / "input"))))


@pytest.mark.parametrize("source", ["claude-code", "copilot-cli", "cursor", "vscode"])
def test_the_real_conversations(source: str) -> None:
    folder = corpus(source)
    if folder is None:
        pytest.skip("no corpus here")
    origins = [origin for origin in origins_of(folder) if origin.source != "atif"]
    assert_agreement(reduce_all(facts_of(origins)))
