"""The header of a rollout: whose thread it is, where it ran, and what it comes from.

{"type":"session_meta","payload":{"id":"01a1…","cwd":"/w","cli_version":"0.166.0","source":
{"subagent":{"thread_spawn":{"parent_thread_id":"01a0…","agent_path":"/root/scout"}}},…}}
"""

from typing import Any

from unspool.io.values import dict_of, str_of
from unspool.sources.codex.records import Payload
from unspool.sources.codex.threads import find_asker
from unspool.sources.scribe import Scribe


def state_header(payload: Payload, path: str, scribe: Scribe) -> None:
    git = dict_of(payload.git)
    scribe.notes(
        {
            "agent": "Codex",
            "agent_version": payload.cli_version,
            "workspace.path": payload.cwd,
            "originator": payload.originator,
            "agent_name": payload.agent_nickname,
            "workspace.branch": str_of(git.get("branch")),
            "workspace.commit": str_of(git.get("commit_hash")),
            "workspace.repository": str_of(git.get("repository_url")),
        }
    )
    source, spawn = _started_by(payload)
    thread = scribe.key[1]
    parent = payload.parent_thread_id or spawn.get("parent_thread_id")
    if source == "review" and not parent and scribe.time is not None:
        parent = find_asker(path, thread, payload.cwd or "", scribe.time)
    if isinstance(parent, str) and parent:
        scribe.parent(parent)
    elif payload.forked_from_id:
        scribe.parent(payload.forked_from_id, "fork")
    if source:
        kind = source if isinstance(source, str) else "subagent"
        scribe.note("agent_type", str(spawn.get("agent_role") or kind))
    instructions = instructions_of(payload)
    if instructions:
        scribe.message(id=f"{thread}:instructions", role="system", text=instructions)


def instructions_of(payload: Payload) -> str:
    told = payload.base_instructions or payload.instructions
    return str_of(told.get("text") if isinstance(told, dict) else told)


def path_of_agent(payload: Payload) -> str:
    """What the agents of a thread call this one: `/root`, `/root/scout`."""
    return payload.agent_path or str(_started_by(payload)[1].get("agent_path") or "") or "/root"


def _started_by(payload: Payload) -> tuple[Any, dict[str, Any]]:
    """The kind of sub-agent, if it is one ("review", or an object), and what is told of its start."""
    source = dict_of(payload.source).get("subagent")
    return source, dict_of(dict_of(source).get("thread_spawn"))
