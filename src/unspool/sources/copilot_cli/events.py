"""Events to facts: one small reader per type, shared by the CLI's logs and VS Code's transcripts."""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.facts import AnyFact, Key, Marked, Problem
from unspool.io.origins import Origin, Tally
from unspool.sources.copilot_cli import agents, flat, legacy, session, speech, tools
from unspool.sources.copilot_cli.envelope import Event, iter_events, snake
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.noise import NOISE

Reader = Callable[[Event, Lookup], Iterator[AnyFact]]

READERS: dict[str, Reader] = {
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
    "session.error": speech.read_error,
    "session.mode_notice_delivered": speech.read_injected,
    "session.import_legacy": legacy.read_import,
    "user.message": speech.read_user,
    "assistant.message": speech.read_assistant,
    "assistant.message_delta": speech.read_delta,
    "assistant.reasoning": speech.read_reasoning,
    "assistant.turn_start": session.read_turn,
    "assistant.usage": session.read_usage,
    "session.usage_record": session.read_usage,
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
    "permission.requested": tools.read_permission,
    "permission.completed": tools.read_permission,
    "human_response.recorded": tools.read_human_response,
    "subagent.started": agents.read_started,
    "subagent.configured": agents.read_configured,
    "subagent.completed": agents.read_ended,
    "subagent.failed": agents.read_ended,
    "subagent.selected": agents.read_selected,
    "subagent.deselected": agents.read_selected,
    # names that a single version used
    "custom_agent.started": agents.read_started,
    "custom_agent.completed": agents.read_ended,
    "custom_agent.failed": agents.read_ended,
    "custom_agent.selected": agents.read_selected,
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

KNOWN = frozenset((*READERS, *MARKS, *NOISE))
_ROOT_ONLY = frozenset(("subagent.started", "subagent.completed", "subagent.failed",
                        "custom_agent.started", "custom_agent.completed",
                        "custom_agent.failed"))  # fmt: skip


def read_events(
    origin: Origin, tally: Tally, key: Key, lookup: Lookup, rank: int = 0, recover: bool = False
) -> Iterator[AnyFact]:
    """The facts of an event log about the conversation `key` and its sub-agents."""
    for event in iter_events(origin, tally, recover):
        if isinstance(event, Problem):
            yield event
            continue
        event.root, event.rank = key, rank
        event.key = _own_key(event, key, lookup)
        yield from read_event(event, tally, lookup)


def _own_key(event: Event, key: Key, lookup: Lookup) -> Key:
    call = event.data.get("parentToolCallId")
    if not event.agent and not call:
        return key
    if event.type in _ROOT_ONLY:
        return key  # about a child, by whoever; its reader names the child
    child = lookup.child(event.agent, call if isinstance(call, str) else "")
    return (key[0], f"{key[1]}/{child}") if child else key


def read_event(event: Event, tally: Tally, lookup: Lookup) -> Iterator[AnyFact]:
    reader = READERS.get(event.type) or flat.READERS.get(event.type)
    if reader is not None:
        yield from reader(event, lookup)
    elif event.type in MARKS:
        yield event.fact(Marked, kind=MARKS[event.type], data=_all(event.data) or None)
    elif event.type in NOISE or event.ephemeral:
        tally.noise += 1
    else:
        # Types grew from 27 to 163 in a year: what is not known yet is kept as it is, and counted.
        tally.unrecognise(event.type or "no type", event.origin, event.offset)
        yield event.fact(Marked, kind="event", data={"type": event.type, "data": event.data})


def _all(data: dict[str, Any]) -> dict[str, Any]:
    return {snake(name): value for name, value in data.items() if value not in (None, "", [], {})}
