"""Trajectories as nobody would wish them: every field may be odd, ties may run in circles."""

from typing import Any

from hypothesis import strategies as st

from unspool.facts import Attachment
from unspool.sinks import Family
from unspool.trajectory import (
    Branch,
    Link,
    Mark,
    Message,
    ToolCall,
    ToolFunction,
    Trajectory,
    Usage,
)

TEXTS = st.sampled_from(["", "words", "a\n\nb", "\ud800 half", "\u2028", "é" * 3, " "])
IDS = st.sampled_from(["", "c1", "c2", "c1#2", "a/b", "é", "x" * 200, "\udc00"])
NAMES = st.sampled_from(["kid", "Kid", "root", "a/b", "grand", ""])
MAYBE_TEXT = st.none() | TEXTS
TIMES = st.sampled_from(
    [None, "", "noon", "2026-01-01T00:00:00.000Z", "2025-01-01 10:00", "1735689600", "2026-02-30"]
)
NUMBERS = st.sampled_from([None, 0, 5, -3, 10**12])
COSTS = st.sampled_from([None, 0.0, 0.25, -1.0])
EXTRAS = st.sampled_from(
    [
        None,
        {},
        {"x": [1, {"y": None}]},
        {"unspool": {"kind": 3}},
        {"unspool": "text"},
        {"details": 1, "is_error": "no", "status": 4},
        {"context_management": True},
        {"reasoning_effort": "high", "stop": 1},
        {"reasoning_effort": True},
        {"atif": {"set": {"/nowhere/0": 1}, "unset": ["/message/x"], "layout": [3, "media"]}},
        {"\ud800": "\ud800"},
    ]
)
ARGUMENTS = st.sampled_from(
    ["", "{}", '{"a": 1}', "[1]", "plain text", '{"a', "null", '{"a": 1e999}']
)
PIXEL = "iVBORw0KGgo="

attachments = st.builds(
    Attachment,
    kind=st.sampled_from(["image", "file", "audio", ""]),
    name=TEXTS,
    uri=st.sampled_from(["", "https://x/y.png", "file:///x.png", f"data:image/png;base64,{PIXEL}"]),
    path=st.sampled_from(["", "/home/x.png", "../up.png"]),
    media_type=st.sampled_from(
        ["", "image/png", "IMAGE/JPG", "image/svg+xml", "audio/mp3", "text/plain", "image/png; x"]
    ),
    data=st.sampled_from(["", PIXEL, "not base64!", "AAAA"]),
    extra=EXTRAS,
)
usages = st.builds(
    Usage,
    prompt_tokens=NUMBERS,
    completion_tokens=NUMBERS,
    cached_tokens=NUMBERS,
    cache_write_tokens=NUMBERS,
    reasoning_tokens=NUMBERS,
    cost_usd=COSTS,
    requests=NUMBERS,
    extra=EXTRAS,
)
calls = st.builds(
    ToolCall,
    id=IDS,
    function=st.builds(ToolFunction, name=st.sampled_from(["", "run"]), arguments=ARGUMENTS),
    type=st.sampled_from(["function", "custom"]),
    status=st.sampled_from([None, "failed"]),
    duration_ms=st.sampled_from([None, 1.5]),
    started_at=TIMES,
    child_id=st.none() | NAMES,
    by_user=st.booleans(),
    extra=EXTRAS,
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS,
    model=MAYBE_TEXT,
    thinking=MAYBE_TEXT,
    tool_calls=st.none() | st.lists(calls, max_size=3),
    tool_call_id=st.none() | IDS,
    kind=st.sampled_from([None, None, "summary", "error", "injected"]),
    timestamp=TIMES,
    name=MAYBE_TEXT,
    is_error=st.sampled_from([None, True, False]),
    details=st.sampled_from([None, {"exitCode": 2}, [1], "text", {"exit_code": True}]),
    status=st.sampled_from([None, "undone"]),
    copied=st.booleans(),
    usage=st.none() | usages,
    attachments=st.none() | st.lists(attachments, max_size=2),
    extra=EXTRAS,
)
marks = st.builds(
    Mark,
    kind=st.sampled_from(["compaction", "truncation", "rewind"]),
    index=st.integers(-1, 9),
    timestamp=TIMES,
    data=st.sampled_from([None, {"pre_tokens": 5}]),
)
links = st.builds(
    Link,
    conversation_id=NAMES,
    kind=st.sampled_from(["subagent", "fork"]),
    tool_call_id=st.none() | IDS,
)
definitions: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"name": "f", "input_schema": {"type": "object"}},
        {"type": "function", "name": "f", "parameters": {}},
        {"type": "function", "function": {"name": "f"}},
        {"type": "web_search"},
        {},
    ]
)


def trajectories(ident: st.SearchStrategy[str]) -> st.SearchStrategy[Trajectory]:
    return st.builds(
        Trajectory,
        conversation_id=ident,
        messages=st.lists(messages, max_size=6),
        source=st.sampled_from(["claude-code", "cursor"]),
        agent=MAYBE_TEXT,
        agent_version=MAYBE_TEXT,
        session_id=MAYBE_TEXT,
        partial=st.none() | st.just(["no start"]),
        parent=st.none() | links,
        children=st.none() | st.lists(links, max_size=2),
        marks=st.none() | st.lists(marks, max_size=3),
        branches=st.none()
        | st.lists(
            st.builds(Branch, index=st.just(0), messages=st.lists(messages, max_size=2)), max_size=1
        ),
        usage=st.none() | usages,
        tool_definitions=st.none() | st.lists(definitions, max_size=2),
        model_usage=st.sampled_from([None, {"primary_model": 5}, {"primary_model": "m"}]),
        extra=EXTRAS,
    )


families = st.builds(
    Family,
    root=trajectories(st.sampled_from(["root", "", "a/b", "\ud800"])),
    descendants=st.lists(trajectories(NAMES), max_size=3).map(tuple),
)
