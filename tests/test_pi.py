"""Pi: a plain second reader of session files agrees with the source on every case."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases
from unspool import extract


def entries_of(path: Path) -> list[dict[str, Any]]:
    entries = []
    for line in path.read_bytes().split(b"\n"):
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries


def words_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part["text"] for part in content if part.get("type") == "text")


def path_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From the last entry up to the root, in order."""
    by_id = {str(entry["id"]): entry for entry in entries if entry["type"] != "session"}
    entry: dict[str, Any] | None = entries[-1]
    path = []
    while entry is not None:
        path.insert(0, entry)
        entry = by_id.get(str(entry["parentId"]))
    return path


def told(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for entry in path_of(entries):
        message = entry.get("message") or {}
        role = message.get("role")
        if role in ("user", "assistant"):
            text = words_of(message["content"]) or message.get("errorMessage", "")
            lines.append((role, text))
            calls = [part for part in message["content"] if isinstance(part, dict)]
            lines += [("call", part["name"]) for part in calls if part["type"] == "toolCall"]
        elif role == "toolResult":
            lines.append(("result", words_of(message["content"])))
        elif entry["type"] in ("compaction", "branch_summary"):
            lines.append(("user", entry["summary"]))
    return lines


@pytest.mark.parametrize("case", cases("pi"), ids=case_id)
def test_second_reader_agrees(case: Path) -> None:
    files = {path.stem.split("_")[1]: path for path in (case / "input").rglob("*Z_*.jsonl")}
    made = {one.conversation_id: one for one in extract([str(case / "input")])}
    assert made.keys() == files.keys()
    for ident, path in files.items():
        mine: list[tuple[str, str]] = []
        for message in made[ident].messages:
            by_extension = (message.extra or {}).get("injected_by") == "reminder"
            by_person = message.tool_call_id == "o5" or (
                message.role == "user" and message.tool_calls
            )
            only_printed = message.stop_reason == "pending"
            if message.role == "system" or by_extension or by_person or only_printed:
                continue
            role = "result" if message.role == "tool" else message.role
            mine.append((role, message.content))
            mine += [("call", call.name) for call in message.tool_calls or ()]
        assert mine == told(entries_of(path))


def test_summaries_count() -> None:
    (made,) = extract([str(CASES / "pi/compaction/input")])
    assert made.usage is not None
    # Three answers of 100 + 20 + 5 tokens in and 10 out, and a summary of 300 in and 30 out.
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (675, 60)
