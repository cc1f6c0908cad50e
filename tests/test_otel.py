"""OpenTelemetry: a plain second reader of chat spans agrees with the source on every case."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases, facts_of, origins_of, reduce_all
from unspool import extract
from unspool.io.origins import Origin
from unspool.io.times import parse_time
from unspool.trajectory import Message, Trajectory

OTEL = CASES / "otel"


def values_of(path: Path) -> list[Any]:
    text, values, at = path.read_text(encoding="utf-8"), [], 0
    decoder = json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
        while text[at : at + 1].isspace():
            at += 1
    return values


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    if isinstance(span["attributes"], dict):
        return span["attributes"]
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


def calls_of(value: Any) -> list[dict[str, Any]]:
    """The attributes of all chat spans, wherever they stand."""
    if isinstance(value, list):
        return [found for one in value for found in calls_of(one)]
    if not isinstance(value, dict):
        return []
    found = [call for one in value.values() for call in calls_of(one)]
    if "attributes" in value and "name" in value:
        attributes = attributes_of(value)
        if attributes.get("gen_ai.operation.name") == "chat":
            found.append(attributes)
    return found


def words_of(attributes: dict[str, Any]) -> set[str]:
    """The texts of what was given and answered, where the list is whole."""
    words: set[str] = set()
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        try:
            messages = json.loads(attributes.get(name, "[]"))
        except (ValueError, TypeError):
            continue
        parts = [part for message in messages for part in message["parts"]]
        words.update(part["content"] for part in parts if part["type"] == "text")
    return words


def told_by(made: list[Trajectory]) -> list[Message]:
    branches = [branch for one in made for branch in one.branches or ()]
    return [m for one in (*made, *branches) for m in one.messages]


@pytest.mark.parametrize("case", cases("otel"), ids=case_id)
def test_second_reader_agrees(case: Path) -> None:
    calls = [
        call
        for path in sorted((case / "input").glob("*.json*"))
        for value in values_of(path)
        for call in calls_of(value)
    ]
    made = list(extract([str(case / "input")]))
    messages = told_by(made)
    told = [message.content for message in messages]
    for words in set().union(*map(words_of, calls)):
        assert told.count(words) == 1 or words == "It hangs in the hall."
    if calls:
        names = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
        tokens = sum(int(call.get(name, 0)) for call in calls for name in names)
        spoken = [m.usage.completion_tokens or 0 for m in messages if m.usage is not None]
        numbered = 2 if case.name == "old_conventions" else 0  # a span that names no operation
        assert sum(spoken) == tokens + numbered


@pytest.mark.parametrize("case", cases("otel"), ids=case_id)
def test_contents_that_lie_in_a_file_are_the_same(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = facts_of(origins_of(case))
    monkeypatch.setattr("unspool.sources.otel.spooled.MEMORY_CHARS", 0)
    assert facts_of(origins_of(case)) == kept


def test_head_and_tail_in_two_files(tmp_path: Path) -> None:
    lines = (OTEL / "tools/input/traces.jsonl").read_text(encoding="utf-8").splitlines(True)
    (whole,) = extract([str(OTEL / "tools/input")])
    for cut in range(1, len(lines)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "b.jsonl").write_text("".join(lines[:cut]), encoding="utf-8")
        (folder / "a.jsonl").write_text("".join(lines[cut:]), encoding="utf-8")
        made = [one for one in extract([str(folder)]) if one.conversation_id == "conv-1"]
        assert [(m.role, m.content) for m in made[0].messages] == [
            (m.role, m.content) for m in whole.messages
        ]
        assert made[0].usage == whole.usage


def test_logs_add_nothing_to_a_transcript() -> None:
    folder = OTEL / "claude_code_joined/input"
    (alone,) = extract([str(folder / "projects")])
    (joined,) = extract([str(folder)])
    assert [(m.role, m.content, m.usage) for m in joined.messages] == [
        (m.role, m.content, m.usage) for m in alone.messages
    ]
    assert joined.usage == alone.usage


SENDERS = {
    "claude-code": ("claude-code", "session.id"),
    "codex": ("codex_cli_rs", "conversation.id"),
    "copilot-cli": ("github-copilot", "gen_ai.conversation.id"),
    "gemini-cli": ("gemini-cli", "session.id"),
    "vscode-chat": ("copilot-chat", "copilot_chat.chat_session_id"),
}
"""Product → (service, what it calls the conversation)."""


def sent(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        result = {"id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [{"type": "tool_call_response", **result}]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.content}]
    for call in message.tool_calls or ():
        asked = {"id": call.id, "name": call.name, "arguments": call.arguments}
        parts.append({"type": "tool_call", **asked})
    return {"role": message.role, "parts": parts if message.content else parts[1:]}


def telemetry_of(made: Trajectory) -> dict[str, Any]:
    """A chat span for every answer, with the whole list before it."""
    service, name = SENDERS[made.source]
    spans = []
    for number, message in enumerate(made.messages):
        if message.role == "assistant":
            time = (parse_time(message.timestamp) or 1790000000000000 + number * 1000000) * 1000
            attributes = {
                "gen_ai.operation.name": "chat",
                name: made.conversation_id,
                "gen_ai.input.messages": json.dumps([sent(m) for m in made.messages[:number]]),
                "gen_ai.output.messages": json.dumps([sent(message)]),
            }
            if message.usage is not None:
                attributes["gen_ai.usage.output_tokens"] = message.usage.completion_tokens or 0
            times = {"startTimeUnixNano": str(time - 1000000), "endTimeUnixNano": str(time)}
            ids = {"traceId": "a" * 32, "spanId": f"{number + 1:016x}"}
            spans.append({"name": "chat", **ids, **times, "attributes": attributes})
    resource = {"attributes": {"service.name": service}}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}


@pytest.mark.parametrize("product", SENDERS)
def test_telemetry_of_a_known_agent_adds_nothing(product: str, tmp_path: Path) -> None:
    for case in cases(product.replace("-", "_"))[::5]:
        folder = tmp_path / case.name
        shutil.copytree(case / "input", folder, symlinks=True)
        alone = reduce_all(facts_of(origins_of(folder)))
        known = [one for one in alone if one.source == product and not one.parent]
        if not known:
            continue
        text = json.dumps(telemetry_of(known[0]))
        (folder / "zz-telemetry.jsonl").write_text(text, encoding="utf-8")
        joined = reduce_all(facts_of(origins_of(folder)))
        for made in (alone, joined):
            made.sort(key=lambda one: one.conversation_id)
        assert [[(m.role, m.content) for m in one.messages] for one in joined] == [
            [(m.role, m.content) for m in one.messages] for one in alone
        ]
        assert [one.usage and one.usage.completion_tokens for one in joined] == [
            one.usage and one.usage.completion_tokens for one in alone
        ]


def test_spans_that_hold_each_other(tmp_path: Path) -> None:
    names = {"1": "invoke_agent", "2": "execute_tool", "3": "invoke_agent", "4": "execute_tool"}
    spans = [
        {"traceId": "a" * 32, "spanId": i * 16, "parentSpanId": str(int(i) % 4 + 1) * 16,
         "name": name, "startTimeUnixNano": i, "attributes": []}
        for i, name in names.items()
    ]  # fmt: skip
    file = tmp_path / "circle.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    list(extract([str(file)]))


def _spoil(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.04:
        return chance.choice([None, 7, -1.5, "x", [], {}, [[]], {"a": 1}, True, "[{", "9" * 30])
    if isinstance(value, dict):
        return {key: _spoil(one, chance) for key, one in value.items()}
    return [_spoil(one, chance) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(12))
def test_wrong_types_raise_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for path in sorted(OTEL.glob("*/input/*.json*")):
        values = [_spoil(value, chance) for value in values_of(path)]
        (tmp_path / path.name).write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
        origin = Origin(str(tmp_path / path.name), path.name, "otel")
        reduce_all(facts_of([origin]))


_SPELLINGS = {
    "as it is": lambda line: line,
    "escaped": lambda line: line.replace("é".encode(), rb"\u00e9"),
    "escaped in the list, too": lambda line: line.replace("é".encode(), rb"\\u00e9"),
    "spaced": lambda line: line.replace(b'"value":{', b'"value": { '),
    "no UTF-8": lambda line: line.replace("é".encode(), b"\xe9"),
    "half a pair": lambda line: line.replace("é".encode(), rb"\ud83d"),
}


@pytest.mark.parametrize("spelling", _SPELLINGS)
def test_a_list_may_be_spelled_unlike_the_one_before(spelling: str, tmp_path: Path) -> None:
    history: list[dict[str, Any]] = []
    lines: list[bytes] = []
    for number in range(3):
        history.append(_said("user", f"café {number}"))
        answer = _said("assistant", f"thé {number}")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "c1",
            "gen_ai.input.messages": _compact(history),
            "gen_ai.output.messages": _compact([answer]),
        }
        pairs = [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]
        span = {"traceId": "a" * 32, "spanId": f"{number + 1:016x}", "name": "chat"}
        span |= {"startTimeUnixNano": str(1_790_000_000_000_000_000 + number * 10**9)}
        scopes = [{"spans": [{**span, "attributes": pairs}]}]
        line = _compact({"resourceSpans": [{"scopeSpans": scopes}]}).encode()
        lines.append(_SPELLINGS[spelling](line) if number == 1 else line)
        history.append(answer)
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    (made,) = extract([str(path)])
    told = [message.content for message in made.messages]
    whole = [f"{word} {number}" for number in range(3) for word in ("café", "thé")]
    if spelling in ("no UTF-8", "half a pair"):
        assert "th� 1" in told
        assert set(whole) <= set(told)
    else:
        assert told == whole


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
