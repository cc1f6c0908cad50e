"""Cline: a plain second reader of a task's two lists agrees with the source on every whole case."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases
from unspool import extract

TYPED = re.compile(r"<(task|feedback|user_message|answer)>\n(.*?)\n</", re.DOTALL)
HEADING = re.compile(r"\[(\w+).*\] Result:\n?")
WHOLE = [case for case in cases("cline") if case.name != "damaged"]


def words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part["text"] for part in content if part["type"] == "text")


def told(history: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(typed, words), (answer, words), (call, id), (result, id) in order."""
    lines: list[tuple[str, str]] = []
    waiting: list[dict[str, Any]] = []
    for message in history:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            waiting = [part for part in parts if part["type"] == "tool_use"]
            lines.append(("answer", words(content)))
            lines += [("call", call["id"]) for call in waiting]
            continue
        for part in parts:
            heading = HEADING.match(part.get("text", ""))
            if part["type"] == "tool_result":
                lines.append(("result", part["tool_use_id"]))
            elif heading:
                call = next(one for one in waiting if one["name"] == heading[1])
                waiting.remove(call)
                lines.append(("result", call["id"]))
        text = "\n".join(words(part.get("content") or [part]) for part in parts)
        lines += [("typed", found[1]) for found in TYPED.findall(text)]
    return lines


@pytest.mark.parametrize("case", WHOLE, ids=case_id)
def test_second_reader_agrees(case: Path) -> None:
    (path,) = case.rglob("api_conversation_history.json")
    (made,) = extract([str(case / "input")])
    mine: list[tuple[str, str]] = []
    for message in made.messages:
        if message.role == "tool":
            mine.append(("result", message.tool_call_id or ""))
        elif message.role == "assistant":
            mine.append(("answer", message.content))
            mine += [("call", call.id) for call in message.tool_calls or ()]
        elif message.kind is None:
            mine.append(("typed", message.typed or ""))
    assert made.conversation_id == path.parent.name
    assert mine == told(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", WHOLE, ids=case_id)
def test_tokens_are_those_on_the_screen(case: Path) -> None:
    requests = [
        json.loads(row["text"])
        for path in case.rglob("ui_messages.json")
        for row in json.loads(path.read_text(encoding="utf-8"))
        if row.get("say") == "api_req_started"
    ]
    into = ("tokensIn", "cacheReads", "cacheWrites")
    (made,) = extract([str(case / "input")])
    usage = made.usage
    counted = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    assert counted == (
        sum(one.get(name, 0) for one in requests for name in into),
        sum(one.get("tokensOut", 0) for one in requests),
    )


def test_a_task_is_known_by_its_folder_also_from_within(monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (CASES / "cline/tools").rglob("api_conversation_history.json")
    monkeypatch.chdir(path.parent)
    (made,) = extract([path.name])
    assert made.conversation_id == path.parent.name
