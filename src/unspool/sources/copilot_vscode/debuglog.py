"""Debug logs: one line per span, values cut at 5,000 characters, off by default.

`debug-logs/<session>/main.jsonl`, and a file for every child session beside it:

    {"ts": 1760000000000, "sid": "<chat>", "spanId": "7", "type": "tool_call", "name": "read_file",
     "dur": 12, "status": "ok", "attrs": {"args": "{…}", "result": "…"}}
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.door import iter_json_lines, read_json
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.texts import plain, whole_number
from unspool.sources.otel.messages import messages_of
from unspool.sources.scribe import Scribe

_FIELDS = ("ts", "sid", "spanId", "attrs")
_FOLDER = "debug-logs"
_NOISE = frozenset(("discovery", "generic", "hook", "error", "subagent", "session_start"))


class Line(msgspec.Struct, gc=False):
    """One span of the log."""

    ts: Any = None
    sid: str = ""
    spanId: str = ""
    type: str = ""
    name: str = ""
    status: Any = None
    dur: Any = None
    attrs: dict[str, Any] = {}


_LINE = Shape(Line)


def is_log(head: Head) -> bool:
    if not head.name.endswith(".jsonl"):
        return False
    objects = head.objects[:5]
    shaped = any(all(name in value for name in _FIELDS) for value in objects)
    return shaped or (bool(objects) and _FOLDER in head.parts)


def read_log(origin: Origin, tally: Tally, product: str, recover: bool) -> Iterator[AnyFact]:
    for offset, _, line in iter_json_lines(origin, _LINE, tally, recover):
        reader = _READERS.get(line.type)
        if not line.sid:
            tally.unrecognise("no session", origin.path, offset)
        elif reader is not None:
            # Calls have no id, and values are cut: every other channel knows better.
            scribe = Scribe(
                (product, line.sid), origin.path, offset, time=parse_time(line.ts),
                entry=f"debug:{line.spanId or offset}:{line.type}", rank=Rank.INDEX + 1,
            )  # fmt: skip
            reader(line, scribe, f"debug:{line.spanId or offset}")
            yield from scribe.facts
        elif line.type in _NOISE:
            tally.noise += 1
        else:
            tally.unrecognise(line.type or "no type", origin.path, offset)


def _user(line: Line, scribe: Scribe, ident: str) -> None:
    text = plain(line.attrs.get("content"))
    scribe.message(id=ident, role="user", text=text, typed=text)


def _response(line: Line, scribe: Scribe, ident: str) -> None:
    response = plain(line.attrs.get("response"))
    cut = read_json(response.encode("utf-8", "replace"), recover=True).values
    said, _ = messages_of(cut[0] if cut else response, "assistant")
    text = "\n".join(one.text for one in said if one.text)
    thinking = "\n\n".join(one.thinking for one in said if one.thinking)
    scribe.message(id=f"{ident}:answer", role="assistant", text=text, thinking=thinking)


def _request(line: Line, scribe: Scribe, ident: str) -> None:
    ttft = line.attrs.get("ttft")
    scribe.usage(
        on="call",
        subject=ident.removeprefix("debug:"),
        model=plain(line.attrs.get("model")),
        prompt=whole_number(line.attrs.get("inputTokens")),
        completion=whole_number(line.attrs.get("outputTokens")),
        extra={"ttft_ms": ttft} if ttft is not None else None,
    )


def _call(line: Line, scribe: Scribe, ident: str) -> None:
    """Calls have no id here: they are known by their name and arguments."""
    arguments = plain(line.attrs.get("args"))
    error = line.attrs.get("error")
    scribe.call(name=line.name, arguments=arguments)
    scribe.returned(
        name=line.name,
        arguments=arguments,
        text=plain(error or line.attrs.get("result")),
        failed=line.status == "error" or bool(error) or None,
        duration_ms=float(line.dur) if isinstance(line.dur, int | float) else None,
    )


def _child(line: Line, scribe: Scribe, ident: str) -> None:
    child = plain(line.attrs.get("childSessionId"))
    if child:
        parent = {"conversation_id": line.sid, "name": plain(line.attrs.get("label")) or None}
        key = (scribe.key[0], child)
        scribe.note("parent", parent, Rank.INDEX + 1, key=key)


_READERS: dict[str, Callable[[Line, Scribe, str], None]] = {
    "user_message": _user,
    "agent_response": _response,
    "llm_request": _request,
    "tool_call": _call,
    "child_session_ref": _child,
}
