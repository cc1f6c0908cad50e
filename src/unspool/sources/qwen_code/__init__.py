"""Qwen Code: chats, sub-agents, printed streams, hook payloads.

chats.py   chats and the files of sub-agents
stream.py  what `qwen --output-format stream-json` prints
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources import hook_payloads
from unspool.sources.hook_events import CLAUDE_STATES, Hooks, settle_notification
from unspool.sources.hook_payloads import Dialect, Payload, is_log, read_payloads
from unspool.sources.qwen_code.chats import NAME, is_chat, read_chat, session_of
from unspool.sources.qwen_code.stream import is_stream, read_stream
from unspool.sources.scribe import Scribe

RANGES = False  # in a printed stream the lines before tell what an answer is

_OWN_FIELDS = ("submitted_prompt", "tool_call_id", "context_usage", "crons")


def _is_own(payload: Payload) -> bool:
    """They look like Claude Code's:

    {"session_id":"s1","transcript_path":"/home/ann/.qwen/projects/…","tool_use_id":"toolu_1794821_bb",
     "tool_call_id":"call_1",…}
    """
    path = str(payload.get("transcript_path") or "").replace("\\", "/")
    return "/.qwen/" in path or any(name in payload for name in _OWN_FIELDS)


def _prompt(payload: Payload, scribe: Scribe) -> None:
    """The event comes before every call of the model; only the first one holds what was typed."""
    if "submitted_prompt" in payload:
        hook_payloads.prompt(payload, scribe)


_DIALECT = Dialect(
    product=NAME,
    is_own=_is_own,
    events={**hook_payloads.CLAUDE_EVENTS, "UserPromptSubmit": _prompt},
)


HOOKS = Hooks(CLAUDE_STATES, (".qwen",), settle=settle_notification)


def claims(head: Head) -> bool:
    return is_chat(head) or is_stream(head.objects) or is_log(head, _DIALECT)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    return [home / ".qwen" / "projects"]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    if not session_of(origin.path):
        head = read_head(origin.path)
        if is_stream(head.objects):
            return read_stream(origin, tally, recover)
        if not is_chat(head) and is_log(head, _DIALECT):
            return read_payloads(origin, tally, recover, _DIALECT)
    return read_chat(origin, tally, recover)


__all__ = ["NAME", "RANGES", "claims", "places", "read", "session_of"]
