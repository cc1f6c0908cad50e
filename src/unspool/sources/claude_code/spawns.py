"""Spawns: which sub-agent a headless stream means by the call that started it.

Lines of a sub-agent name the call only; its own file bears the agent's id. The stream tells which
is which when the agent starts (2.1.2xx), or with the result of the call, behind the agent's lines.
That is a fact about the whole origin, the same whichever part of it is read.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from unspool.sources.claude_code.files import search
from unspool.sources.claude_code.lines import lenient_content
from unspool.sources.claude_code.results import agent_in, flat_text


class Spawns:
    """The sub-agents of one stream; the file is searched only once something asks."""

    def __init__(self, path: str) -> None:
        self._path = path

    def agent(self, call: str) -> str:
        """The agent that a call started, else the call itself."""
        return self._agents.get(call, call)

    @cached_property
    def _agents(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for value in search(self._path, b"task_started", b"agentId"):
            for call, agent in started(value) or returned(value):
                found.setdefault(call, agent)
        return found


def started(value: dict[str, Any]) -> list[tuple[str, str]]:
    """(call, agent) of a line that tells that an agent starts; commands are tasks too."""
    if value.get("subtype") != "task_started" or value.get("task_type") != "local_agent":
        return []
    call, agent = value.get("tool_use_id"), value.get("task_id")
    return [(call, agent)] if isinstance(call, str) and isinstance(agent, str) else []


def returned(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(call, agent) of a result that names the agent it came from."""
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    details = value.get("tool_use_result")
    agent = details.get("agentId") if isinstance(details, dict) else None
    for block in content if isinstance(content, list) else ():
        call = block.get("tool_use_id") if isinstance(block, dict) else None
        if isinstance(call, str):
            named = agent if isinstance(agent, str) else agent_in(_text(block.get("content")))
            if named:
                yield call, named


def _text(content: Any) -> str:
    return flat_text(lenient_content(content))
