"""Hand-backs: the last answer of a sub-agent, as the call that started it returned it.

    {"status":"completed","agentId":"a1","harnessNoteCount":1,"content":[<note>,<text>],"usage":{…}}

A stream prints that answer nowhere else, and hooks tell its tokens nowhere else
(cases/claude_code/stream_handback, hooks_handback).
"""

from typing import Any

from unspool.io.values import list_of, str_of
from unspool.sources.claude_code.lines import NAME, child_id, convert_blocks, flat_text
from unspool.sources.scribe import Scribe

Value = dict[str, Any]


def read_handback(call: str, details: Any, scribe: Scribe, session: str, rank: int) -> None:
    """The agent's last answer, told in its own conversation."""
    if not isinstance(details, dict) or details.get("status") != "completed":
        return
    agent, content = str_of(details.get("agentId")), list_of(details.get("content"))
    # What the program put before and behind the agent's words.
    before, behind = (_count(details, f"harness{end}Count") for end in ("Note", "Tail"))
    text = flat_text(convert_blocks(content[before : len(content) - behind]))
    if not agent or not text.strip():
        return
    common: Value = {"rank": rank, "key": (NAME, child_id(session, agent))}
    common["model"] = str_of(details.get("resolvedModel"))
    ident = f"handback:{call}"
    scribe.message(id=ident, role="assistant", text=text, **common)
    usage = details.get("usage")
    if isinstance(usage, dict):
        read_usage(usage, scribe, subject=ident, **common)


def read_usage(usage: Value, scribe: Scribe, **of: Any) -> None:
    """Tokens of a whole answer, or of a whole run."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    fresh, read, written = (_count(usage, name) for name in names)
    scribe.usage(
        prompt=fresh + read + written,
        completion=_count(usage, "output_tokens"),
        cached=read,
        cache_write=written,
        **of,
    )


def _count(value: Value, name: str) -> int:
    count = value.get(name)
    return count if type(count) is int else 0
