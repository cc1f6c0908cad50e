"""Codex: a plain second reader of rollouts agrees with the source, on our cases and on real files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, corpus
from tests.store.test_sync import stored, sync
from unspool import extract

INJECTED = ("<", "# AGENTS.md")
STRAIGHT = ("bare", "code_mode", "legacy", "tokens_first")
"""Cases of one file that nothing was taken out of."""


def payloads(path: Path) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if "payload" in value:
            found.append((value["type"], value["payload"]))
        elif "type" in value:
            found.append(("response_item", value))
    return found


def words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def told(path: Path) -> list[tuple[str, str]]:
    """What was typed, said, called and returned, in the order of the file."""
    lines: list[tuple[str, str]] = []
    for kind, item in payloads(path):
        if kind != "response_item":
            continue
        if item["type"] == "message" and item["role"] == "assistant":
            lines.append(("said", words(item["content"])))
        elif item["type"] == "message" and item["role"] == "user":
            text = words(item["content"])
            if not text.startswith(INJECTED):
                lines.append(("typed", text))
        elif item["type"] in ("function_call", "custom_tool_call"):
            lines.append(("called", item["call_id"]))
        elif item["type"].endswith("_output"):
            lines.append(("returned", item["call_id"] + words(item["output"])))
    return lines


def tokens(path: Path) -> tuple[int, int]:
    """Of every response once: by its record, else by the counts that change the total."""
    items = payloads(path)
    records = [item["usage"] for kind, item in items if kind == "token_usage_record"]
    if not records:
        total = None
        reviewing = False
        for kind, item in items:
            # The tokens of a review are its own thread's, though they are shown here.
            if item.get("type") in ("entered_review_mode", "exited_review_mode"):
                reviewing = item["type"] == "entered_review_mode"
            info = item.get("info") if kind == "event_msg" and not reviewing else None
            if info and info["total_token_usage"]["total_tokens"] != total:
                total = info["total_token_usage"]["total_tokens"]
                records.append(info["last_token_usage"])
    return sum(u["input_tokens"] for u in records), sum(u["output_tokens"] for u in records)


def agree(path: Path) -> None:
    (made,) = extract([str(path)])
    mine: list[tuple[str, str]] = []
    for message in made.messages:
        if message.role == "assistant" and message.content:
            mine.append(("said", message.content))
        elif message.role == "user" and message.kind is None:
            mine.append(("typed", message.content))
        elif message.role == "tool":
            mine.append(("returned", f"{message.tool_call_id}{message.content}"))
        mine += [("called", call.id) for call in message.tool_calls or ()]
    # An answer is one message: its calls stand behind its words, the results behind all calls.
    expected = told(path)
    for kind in ("typed", "said", "called", "returned"):
        assert [one for one in mine if one[0] == kind] == [
            one for one in expected if one[0] == kind
        ]
    usage = made.usage
    counted = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
    assert counted == tokens(path)


@pytest.mark.parametrize("case", STRAIGHT)
def test_second_reader_agrees(case: str) -> None:
    (path,) = (CASES / "codex" / case / "input").rglob("rollout-*.jsonl")
    agree(path)


REAL = corpus("codex")


@pytest.mark.parametrize("path", sorted(REAL.rglob("rollout-*.jsonl")) if REAL else [], ids=str)
def test_real_rollouts_agree(path: Path) -> None:
    agree(path)


def test_what_javascript_ran_is_told_with_its_call() -> None:
    (made,) = extract([str(CASES / "codex/code_mode/input")])
    details = {m.tool_call_id: m.details for m in made.messages if m.role == "tool"}
    assert [one["command"] for one in details["c1"]["commands"]] == ["cat limiter.py"]
    assert [one["exit_code"] for one in details["c2"]["commands"]] == [1]
    assert [(f.path, f.tool_call_id) for f in made.files or ()] == [
        ("/home/ann/shop/limiter.py", "c3")
    ]


def test_a_review_is_linked_to_the_thread_that_asked_for_it() -> None:
    """Newer files name it, or the thread's items name the review; of older ones the moment tells."""
    for case in ("review", "review_unnamed"):
        made = {t.conversation_id[-1]: t for t in extract([str(CASES / "codex" / case / "input")])}
        named = {n: t.parent.conversation_id[-1] for n, t in made.items() if t.parent}
        assert named == dict.fromkeys(sorted(made.keys() - {"0", "1"}), "1")
        for path in sorted((CASES / "codex" / case / "input").rglob("rollout-*.jsonl")):
            usage = made[path.stem[-1]].usage
            assert usage is not None
            assert (usage.prompt_tokens, usage.completion_tokens) == tokens(path)


def test_a_review_that_two_threads_may_have_asked_for_is_linked_to_none(tmp_path: Path) -> None:
    shutil.copytree(CASES / "codex/review_unnamed/input", tmp_path / "home")
    (other,) = (tmp_path / "home").rglob("rollout-*00.jsonl")
    other.write_text(other.read_text().replace("T10:00:40.000Z", "T10:00:10.500Z"))
    assert not [t for t in extract([str(tmp_path / "home")]) if t.parent or t.children]


def test_a_fork_has_what_stands_only_in_its_base() -> None:
    made = {t.conversation_id[-1]: t for t in extract([str(CASES / "codex/fork/input")])}
    assert [m.content for m in made["2"].messages if m.copied] == [
        "Write a haiku.",
        "Rain on the server.",
    ]
    (alone,) = extract([str(CASES / "codex/base_gone/input")])
    assert alone.partial == ["beginning-missing"]


def test_a_store_keeps_what_codex_dropped_when_it_rewrote_a_file(tmp_path: Path) -> None:
    """`codex migrate-rollouts` drops turns that were rolled back; they stay a branch, and nothing is
    told twice."""
    shutil.copytree(CASES / "codex/rolled_back/input", tmp_path / "home")
    (path,) = (tmp_path / "home").rglob("rollout-*.jsonl")
    sync(tmp_path / "s.db", tmp_path / "home")
    (before,) = stored(tmp_path / "s.db")
    (branch,) = before["branches"]
    dropped = {message["content"] for message in branch["messages"]} - {""}
    lines = path.read_bytes().splitlines(True)
    kept = [
        line
        for line in lines
        if b"thread_rolled_back" not in line
        and not any(json.dumps(words)[1:-1].encode() in line for words in dropped)
    ]
    assert len(kept) < len(lines)
    path.write_bytes(b"".join(kept))
    sync(tmp_path / "s.db", tmp_path / "home")
    (after,) = stored(tmp_path / "s.db")
    told = [(m["role"], m["content"]) for m in after["messages"]]
    assert told == [(m["role"], m["content"]) for m in before["messages"]]
    assert dropped <= {m["content"] for one in after["branches"] for m in one["messages"]}
