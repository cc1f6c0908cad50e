"""Hook payloads of Codex: in Claude Code's shape, with turn and model, and the rollout's path.

    {"session_id":"01a1…","turn_id":"01a1…","transcript_path":"…/rollout-…jsonl","model":"gpt-6",
     "hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"exec-d360…",…}

Where JavaScript calls the tools (`exec-…`), hooks see what it ran and not the model's call; the rollout
holds both, so that these count only where it is gone. A sub-agent is a thread of its own.
"""

import re

from unspool.facts import Rank
from unspool.sources import hook_payloads
from unspool.sources.hook_payloads import Dialect, Payload
from unspool.sources.scribe import Scribe

_ROLLOUT = re.compile(r"[/\\]rollout-[\dT-]+-[0-9a-f-]{36}")
_NAMESPACES = ("collaboration", "multi_agent_v1")
"""Hooks run them together with the tool's name; rollouts keep them apart."""


def _is_own(payload: Payload) -> bool:
    named = _ROLLOUT.search(str(payload.get("transcript_path") or "")) is not None
    turn = isinstance(payload.get("turn_id"), str) and isinstance(payload.get("model"), str)
    return named or turn


def _plain(payload: Payload) -> Payload:
    name = str(payload.get("tool_name") or "")
    for namespace in _NAMESPACES:
        name = name.removeprefix(namespace) or name
    return {**payload, "tool_name": name}


def _is_inner(payload: Payload) -> bool:
    return str(payload.get("tool_use_id") or "").startswith("exec-")


def _call(payload: Payload, scribe: Scribe) -> None:
    rank = Rank.STANDIN if _is_inner(payload) else Rank.ECHO
    hook_payloads.call(_plain(payload), scribe, rank=rank)


def _returned(payload: Payload, scribe: Scribe) -> None:
    rank = Rank.STANDIN if _is_inner(payload) else hook_payloads.LATER
    hook_payloads.returned(_plain(payload), scribe, failed=None, rank=rank)


DIALECT = Dialect(
    product="codex",
    is_own=_is_own,
    events={
        **hook_payloads.CLAUDE_EVENTS,
        "PreToolUse": _call,
        "PostToolUse": _returned,
    },
    child=lambda session, agent: agent,
)
