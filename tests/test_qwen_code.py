"""Qwen Code: a plain second reader agrees with the source; its files are nobody else's."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES
from unspool import extract
from unspool.io.origins import read_head
from unspool.sources import recognise


def told(path: Path) -> tuple[list[str], list[str], int, int]:
    """Prompts, calls and tokens of a file, in its order."""
    prompts: list[str] = []
    calls: list[str] = []
    tokens = [0, 0]
    for line in path.read_text(encoding="utf-8").splitlines():
        value: dict[str, Any] = json.loads(line)
        parts = (value.get("message") or {}).get("parts", [])
        if value["type"] == "user":
            prompts.append("".join(part["text"] for part in parts))
        calls += [part["functionCall"]["id"] for part in parts if "functionCall" in part]
        counts = value.get("usageMetadata") or {}
        tokens[0] += counts.get("promptTokenCount", 0)
        tokens[1] += counts.get("candidatesTokenCount", 0)
    return prompts, calls, tokens[0], tokens[1]


@pytest.mark.parametrize("case", ["tools", "subagent"])
def test_second_reader_agrees(case: str) -> None:
    folder = CASES / "qwen_code" / case / "input"
    made = {one.conversation_id: one for one in extract([str(folder)])}
    for path in folder.rglob("*.jsonl"):
        session = path.stem if path.parent.name == "chats" else path.parent.name
        agent = "" if path.parent.name == "chats" else "/" + path.stem.removeprefix("agent-")
        one = made[session + agent]
        calls = [call.id for m in one.messages for call in m.tool_calls or ()]
        prompts = [m.content for m in one.messages if m.role == "user"]
        usage = one.usage
        assert usage is not None
        mine = (prompts, calls, usage.prompt_tokens, usage.completion_tokens)
        assert mine == told(path)


def test_an_answer_of_a_sub_agent_is_one_message() -> None:
    made = list(extract([str(CASES / "qwen_code/subagent/input")]))
    (child,) = [one for one in made if one.parent is not None]
    answers = [m for m in child.messages if m.role == "assistant"]
    assert [(m.content, len(m.tool_calls or ())) for m in answers] == [
        ("Looking.", 2),
        ("Nothing.", 0),
    ]


def test_its_files_are_not_taken_for_another_agents() -> None:
    for path in (CASES / "qwen_code").rglob("*.json*"):
        if path.name != "expected.json":
            assert recognise(read_head(str(path))) == "qwen-code"
