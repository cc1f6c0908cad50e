"""Debug logs: one line per span, values cut at 5,000 characters, off by default.

`debug-logs/<session>/main.jsonl`, and a file for every child session beside it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.facts import (
    INDEX,
    NOBODY,
    AnyFact,
    Fact,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.door import read_json, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.texts import plain, whole_number
from unspool.sources.copilot_vscode.spoken import answer

_FIELDS = ("ts", "sid", "spanId", "attrs")
_FOLDER = "debug-logs"
_NOISE = frozenset(("discovery", "generic", "hook", "error", "subagent", "session_start"))
RANK = INDEX + 1


def is_log(head: Head) -> bool:
    if not head.name.endswith(".jsonl"):
        return False
    found = head.objects[:5]
    shaped = [value for value in found if all(name in value for name in _FIELDS)]
    return bool(shaped) or (bool(found) and _FOLDER in head.parts)


class Line:
    """One span of the log."""

    def __init__(self, value: dict[str, Any], origin: str, offset: int, product: str) -> None:
        self.type = plain(value.get("type"))
        attributes = value.get("attrs")
        self.attributes: dict[str, Any] = attributes if isinstance(attributes, dict) else {}
        self.name = plain(value.get("name"))
        self.key = (product, plain(value.get("sid")))
        self.span = plain(value.get("spanId")) or f"{offset}"
        self.failed = value.get("status") == "error"
        self.duration = value.get("dur")
        self.time = parse_time(value.get("ts"))
        self.origin = origin
        self.offset = offset
        self.number = 0

    def fact(self, made: type[Fact], /, **fields: Any) -> Any:
        self.number += 1
        fields.setdefault("rank", RANK)
        fields.setdefault("key", self.key)
        return made(
            origin=self.origin, offset=self.offset, number=self.number, time=self.time,
            entry=f"debug:{self.span}:{self.type}", **fields,
        )  # fmt: skip


def read_log(origin: Origin, tally: Tally, product: str, recover: bool) -> Iterator[AnyFact]:
    for offset, data in iter_lines(origin):
        found = read_json(data, recover)
        for number, value in enumerate(found.values):
            tally.records += 1
            if isinstance(value, dict) and value.get("sid"):
                yield from _read(Line(value, origin.path, offset + number, product), tally)
            else:
                tally.unrecognise("no session", origin.path, offset)
        if found.code:
            tally.records += 1
            tally.problems += 1
            yield Problem(
                key=NOBODY, origin=origin.path, offset=offset, number=99, code=found.code,
                sample=sample(data),
            )  # fmt: skip


def _read(line: Line, tally: Tally) -> Iterator[AnyFact]:
    reader = READERS.get(line.type)
    if reader is not None:
        yield from reader(line)
    elif line.type in _NOISE:
        tally.noise += 1
    else:
        tally.unrecognise(line.type or "no type", line.origin, line.offset)


def _user(line: Line) -> Iterator[AnyFact]:
    text = plain(line.attributes.get("content"))
    yield line.fact(MessageSeen, id=f"debug:{line.span}", role="user", text=text, typed=text)


def _response(line: Line) -> Iterator[AnyFact]:
    said = answer(line.attributes.get("response"))
    yield line.fact(
        MessageSeen, id=f"debug:{line.span}:answer", role="assistant", text=said.text,
        thinking=said.thinking,
    )  # fmt: skip


def _request(line: Line) -> Iterator[AnyFact]:
    held = line.attributes
    yield line.fact(
        UsageReported,
        on="call",
        subject=line.span,
        model=plain(held.get("model")),
        prompt=whole_number(held.get("inputTokens")),
        completion=whole_number(held.get("outputTokens")),
        extra={"ttft_ms": held["ttft"]} if held.get("ttft") is not None else None,
    )


def _call(line: Line) -> Iterator[AnyFact]:
    """Calls have no id here: they are known by their name and arguments."""
    held = line.attributes
    arguments = plain(held.get("args"))
    failed = line.failed or bool(held.get("error"))
    yield line.fact(ToolCalled, name=line.name, arguments=arguments)
    yield line.fact(
        ToolReturned,
        name=line.name,
        arguments=arguments,
        text=plain(held.get("error") or held.get("result")),
        failed=failed or None,
        duration_ms=float(line.duration) if isinstance(line.duration, int | float) else None,
    )


def _child(line: Line) -> Iterator[AnyFact]:
    child = plain(line.attributes.get("childSessionId"))
    if child:
        tie = {"conversation_id": line.key[1], "name": plain(line.attributes.get("label")) or None}
        yield line.fact(Noted, key=(line.key[0], child), name="parent", value=tie)


READERS: dict[str, Callable[[Line], Iterator[AnyFact]]] = {
    "user_message": _user,
    "agent_response": _response,
    "llm_request": _request,
    "tool_call": _call,
    "child_session_ref": _child,
}
