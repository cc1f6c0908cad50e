"""Event logs: each line is an event, and one small reader per type tells what it states.

Shared by the CLI's logs, what it prints (`--output-format json`), and VS Code's transcripts.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, Problem
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.values import str_of
from unspool.sources.copilot_cli import flat, legacy, session, speech, tools
from unspool.sources.copilot_cli.envelope import Envelope, Event, made_id
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import snake

READERS: dict[str, Callable[[Event, Lookup], None]] = {
    "session.start": session.read_start,
    "session.resume": session.read_resume,
    "session.shutdown": session.read_shutdown,
    "session.model_change": session.read_model_change,
    "session.auto_mode_resolved": session.read_model_change,
    "session.mode_changed": session.read_mode_change,
    "session.title_changed": session.read_title,
    "session.context_changed": session.read_context_change,
    "session.compaction_start": session.read_compaction_start,
    "session.compaction_complete": session.read_compaction,
    "session.handoff": session.read_handoff,
    "session.usage_record": session.read_usage,
    "session.error": speech.read_error,
    "session.mode_notice_delivered": speech.read_injected,
    "session.import_legacy": legacy.read_import,
    "user.message": speech.read_user,
    "assistant.message": speech.read_assistant,
    "assistant.message_delta": speech.read_delta,
    "assistant.reasoning": speech.read_reasoning,
    "assistant.turn_start": session.read_turn,
    "assistant.usage": session.read_usage,
    "system.message": speech.read_system,
    "system.notification": speech.read_notification,
    "skill.invoked": session.read_skill,
    "skill.invoked_ref": session.read_skill,
    "skill.context_delivered": speech.read_injected,
    "skill.context_delivered_ref": speech.read_injected,
    "abort": session.read_abort,
    "tool.user_requested": tools.read_user_requested,
    "tool.execution_start": tools.read_start,
    "tool.execution_complete": tools.read_complete,
    "tool.execution_end": tools.read_complete,  # so others call it; no version is known to
    "permission.requested": tools.read_permission,
    "permission.completed": tools.read_permission,
    "human_response.recorded": tools.read_human_response,
    "subagent.started": session.read_agent_start,
    "subagent.configured": session.read_agent_configuration,
    "subagent.completed": session.read_agent_end,
    "subagent.failed": session.read_agent_end,
    "subagent.selected": session.read_agent_choice,
    "subagent.deselected": session.read_agent_choice,
    # names that a single version used
    "custom_agent.started": session.read_agent_start,
    "custom_agent.completed": session.read_agent_end,
    "custom_agent.failed": session.read_agent_end,
    "custom_agent.selected": session.read_agent_choice,
    **flat.READERS,
}

MARKS: dict[str, str] = {
    "session.info": "info",
    "session.warning": "warning",
    "session.truncation": "truncation",
    "session.context_cleared": "context_cleared",
    "session.task_complete": "task_complete",
    "session.plan_changed": "plan_change",
    "session.workspace_file_changed": "workspace_file",
    "session.schedule_created": "schedule",
    "session.permissions_changed": "permissions_change",
    "session.fusion_resolved": "fusion",
    "session.fusion_completed": "fusion",
    "session.snapshot_rewind": "rewind",
    "assistant.fusion_phase_completed": "fusion_phase",
    "assistant.fusion_phase_failed": "fusion_phase",
    "tool_search.activated": "tools_activated",
    "session.completion_receipt": "receipt",
    "model.call_failure": "call_failure",
}
"""Events that are kept as they are, between the messages."""

_NOISE = {
    "assistant": """turn_end turn_retry intent streaming_delta message_start reasoning_delta idle
        tool_call_delta server_tool_progress fusion_phase_started fusion_phase_activity""",
    "agent": "interrupted",
    "hook": "start progress end",
    "session": """idle indexed_search todos_changed memory_changed quota_observation usage_info
        autopilot_stopped auto_tier_recommendation auto_tier_switch_failed fusion_route_started
        fusion_route_failed fusion_handoff fusion_commit_started fusion_change_checkpoint
        permission_recovery remote_steerable_changed schedule_cancelled schedule_rearmed
        autopilot_objective_changed model_deselected session_limits_changed usage_checkpoint
        request_body_compression_disabled binary_asset canvas.recorded canvas.removed canvas.opened
        canvas.registry_changed canvas.closed canvas.unavailable custom_notification
        managed_plugin_progress managed_settings_resolved managed_settings_enforced tools_updated
        background_tasks_changed skills_loaded custom_agents_updated mcp_servers_loaded
        mcp_server_status_changed mcp_server_tools_loaded mcp_server_removed
        mcp_server_needs_reconnect extensions_loaded extensions.attachments_pushed""",
    "pending_messages": "modified",
    "model": "call_final_result call_finished call_start",
    "tool": "execution_partial_result shell_output execution_progress",
    "sandbox": "decision",
    "user_input": "requested completed",
    "elicitation": "requested completed",
    "sampling": "requested completed",
    "mcp": """oauth_required oauth_completed oauth_recovery_completed headers_refresh_required
        headers_refresh_completed tools.list_changed resources.list_changed prompts.list_changed""",
    "mcp_app": "tool_call_complete",
    "ui": "ephemeral_query",
    "external_tool": "requested completed",
    "command": "queued execute completed",
    "auto_mode_switch": "requested completed",
    "session_limits_exhausted": "requested completed",
    "commands": "changed",
    "capabilities": "changed",
    "exit_plan_mode": "requested completed",
    "workflow": "run_updated run_started run_settled",
    "factory": "run_updated run_started run_settled",
    "permission": """carriedForward messageAuthorization messageAuthorizationRead
        messageAuthorizationDegraded assentDetected contextualAuthorization""",
}
NOISE = frozenset(
    ("prompt_cache_break", *(f"{room}.{name}" for room in _NOISE for name in _NOISE[room].split()))
)
"""Known events that say nothing about the conversation, or repeat what another one says: hooks repeat
tool results, usage checkpoints the run's report; the rest is the program talking to its screen."""

KNOWN = frozenset((*READERS, *MARKS, *NOISE)) - flat.READERS.keys()

_ABOUT_A_CHILD = frozenset(
    f"{word}.{what}"
    for word in ("subagent", "custom_agent")
    for what in ("started", "completed", "failed")
)
"""By whoever; their readers name the child."""

_SHAPE = Shape(Envelope)
_BEGINS = tuple(
    f'{{{space}"{name}"'.encode()
    for name in ("type", "data", "id", "timestamp", "parentId", "agentId", "ephemeral", "model")
    for space in ("", " ")
)
"""How an event's line begins. Any other line goes on from the one before it, or is no event."""
_UNREAD = (b'{"type":"hook.', b'{"type":"assistant.turn_end"')
"""Not even looked into: the input of a hook repeats a whole tool result (37 % of all bytes in real
logs)."""


def read_events(
    origin: Origin, tally: Tally, root: Key, lookup: Lookup, rank: int = 0, recover: bool = False
) -> Iterator[AnyFact]:
    """The facts of an event log about the conversation `root` and its sub-agents."""
    records = iter_json_lines(origin, _SHAPE, tally, recover, _BEGINS, noise=_UNREAD, whole=True)
    event = Event(root, origin.path, 0, rank=rank, root=root)
    keys = {"": root}
    for record in records:
        if isinstance(record, Problem):
            yield record
            continue
        offset, line, envelope = record
        kind = envelope.type
        if kind in NOISE:
            tally.noise += 1
            continue
        data = envelope.data
        if data is None:
            data = msgspec.json.decode(line)  # fields that lie beside the type
        if not isinstance(data, dict):
            data = {"value": data}
        if envelope.id is None:
            envelope.id = made_id(offset, line)
        key, call = root, data.get("parentToolCallId")
        if (call or envelope.agentId) and kind not in _ABOUT_A_CHILD:
            child = lookup.child(envelope.agentId or "", str_of(call))
            if child not in keys:
                keys[child] = (root[0], f"{root[1]}/{child}")
            key = keys[child]
        event.begin(offset, envelope, data, key)
        reader = READERS.get(kind)
        if reader is not None:
            reader(event, lookup)
            tally.noise += not event.facts
        elif kind in MARKS:
            event.mark(MARKS[kind], _told(data))
        elif envelope.ephemeral:
            tally.noise += 1
        else:
            # Types grew from 27 to 163 in a year: what is not known yet is kept, and counted.
            tally.unrecognise(kind or "no type", origin.path, offset)
            event.mark("event", {"type": kind, "data": data})
        yield from event.facts


def _told(data: dict[str, Any]) -> dict[str, Any]:
    return {snake(name): value for name, value in data.items() if value not in (None, "", [], {})}
