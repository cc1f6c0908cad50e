"""Gemini CLI: a plain second reader of chats agrees with the source, on our cases and on real chats."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, cases, corpus, facts_of, origins_of
from unspool import extract
from unspool.io.origins import Tally

STRAIGHT = ("document", "resumed", "subagent", "tools")
"""Cases that nothing was taken out of."""


def richest(path: Path) -> list[dict[str, Any]]:
    """Every message once, in the order in which it was first written, with all that was said of it."""
    messages: dict[str, dict[str, Any]] = {}
    text = path.read_text(encoding="utf-8")
    values = [json.loads(text)] if path.suffix == ".json" else map(json.loads, text.splitlines())
    for value in values:
        for one in [value, *(value.get("$set") or value).get("messages", [])]:
            if "id" in one and one["type"] in ("user", "gemini"):
                known = messages.setdefault(one["id"], {"type": one["type"]})
                if one["type"] == known["type"]:
                    known.update(
                        {k: v for k, v in one.items() if (v and k not in known) or k == "toolCalls"}
                    )
    return list(messages.values())


def words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if "text" in part)


def agree(path: Path) -> None:
    (made,) = extract([str(path)])
    expected = richest(path)
    prompts = [words(one["content"]) for one in expected if one["type"] == "user"]
    typed = [text for text in prompts if text and not text.startswith("<")]
    assert [
        m.content for m in made.messages if m.role == "user" and m.kind in (None, "command")
    ] == typed
    answers = [one for one in expected if one["type"] == "gemini"]
    mine = [m for m in made.messages if m.role == "assistant" and m.kind != "error"]
    assert [m.content for m in mine] == [words(one.get("content")) for one in answers]
    calls = [call["id"] for one in answers for call in one.get("toolCalls") or ()]
    assert [call.id for m in mine for call in m.tool_calls or ()] == calls
    assert sorted(m.tool_call_id or "" for m in made.messages if m.role == "tool") == sorted(calls)
    tokens = [one["tokens"] for one in answers if one.get("tokens")]
    usage = made.usage
    counted = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
    assert counted == (
        sum(t["input"] + t["tool"] for t in tokens),
        sum(t["output"] + t["thoughts"] for t in tokens),
    )


@pytest.mark.parametrize("case", STRAIGHT)
def test_second_reader_agrees(case: str) -> None:
    for path in (CASES / "gemini_cli" / case / "input").rglob("chats/**/*.json*"):
        agree(path)


REAL = corpus("gemini")


@pytest.mark.parametrize("path", sorted(REAL.rglob("chats/**/*.json*")) if REAL else [], ids=str)
def test_real_chats_agree(path: Path) -> None:
    agree(path)


def test_a_file_counts_the_same_beside_others() -> None:
    """Whatever else the same worker has read before it."""
    origins = [o for case in cases("gemini_cli") for o in origins_of(case / "input")]
    together, apart = Tally(), 0
    for origin in origins:
        alone = Tally()
        facts_of([origin], alone)
        facts_of([origin], together)
        apart += alone.noise
    assert together.noise == apart
