"""Event logs: each line is an event, and one small reader per type tells what it states.

Shared by the CLI's logs, what it prints (`--output-format json`), and VS Code's transcripts.
"""

import zlib
from collections.abc import Callable, Iterator

import msgspec

from unspool.facts import AnyFact, Key
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.values import str_of
from unspool.sources.copilot_cli import flat, legacy, session, speech, tools
from unspool.sources.copilot_cli.envelope import Envelope, Event
from unspool.sources.copilot_cli.lookup import Lookup

READERS: dict[str, Callable[[Event, Lookup], None]] = {
    "session.start": session.read_start,
    "session.resume": session.read_resume,
    "session.shutdown": session.read_shutdown,
    # only in streams; on disk the title stands in workspace.yaml
    "session.title_changed": lambda event, _: event.note_text("title", "title", 3),
    "session.context_changed": session.read_context_change,
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
    "assistant.reasoning_delta": speech.read_torn_reasoning,
    # only in streams: they say which model answers
    "model.call_start": lambda event, _: None,
    "session.tools_updated": lambda event, _: None,
    # a new engine call: what follows is no part of the answer before
    "assistant.turn_start": lambda event, _: event.link(),
    "assistant.usage": session.read_usage,
    "system.message": speech.read_system,
    "system.notification": speech.read_notification,
    "skill.invoked": session.read_skill,
    "skill.invoked_ref": session.read_skill,
    "skill.context_delivered": speech.read_injected,
    "skill.context_delivered_ref": speech.read_injected,
    "tool.user_requested": tools.read_user_requested,
    "tool.execution_start": tools.read_start,
    "tool.execution_complete": tools.read_complete,
    "tool.execution_end": tools.read_complete,  # so others call it; no version is known to
    "permission.requested": tools.read_permission,
    "permission.completed": tools.read_permission,
    "subagent.started": session.read_agent_start,
    "subagent.completed": session.read_agent_end,
    "subagent.failed": session.read_agent_end,
    # names that a single version used
    "custom_agent.started": session.read_agent_start,
    "custom_agent.completed": session.read_agent_end,
    "custom_agent.failed": session.read_agent_end,
    **flat.READERS,
}

FOLLOWING: dict[str, tuple[str, str]] = {
    "session.start": ("selectedModel", "model"),
    "session.resume": ("selectedModel", "model"),
    "session.model_change": ("newModel", "model"),
    "session.auto_mode_resolved": ("chosenModel", "model"),
    "session.tools_updated": ("model", "model"),
    "model.call_start": ("model", "model"),
    "session.mode_changed": ("newMode", "mode"),
    "subagent.configured": ("model", "model"),
    "subagent.started": ("model", "model"),
    "custom_agent.started": ("model", "model"),
}
"""Events that say which model, or which mode, the messages behind them have."""

_MODEL = ("previousModel", "newModel", "chosenModel", "cause", "source", "reasoningEffort",
          "previousReasoningEffort", "selectionReason")  # fmt: skip
_CHOICE = ("agentName", "agentDisplayName", "tools")

MARKS: dict[str, tuple[str, ...]] = {
    "session.info": ("info",),
    "session.warning": ("warning",),
    "session.truncation": ("truncation",),
    "session.context_cleared": ("context_cleared",),
    "session.task_complete": ("task_complete",),
    "session.plan_changed": ("plan_change",),
    "session.workspace_file_changed": ("workspace_file",),
    "session.schedule_created": ("schedule",),
    "session.permissions_changed": ("permissions_change",),
    "session.fusion_resolved": ("fusion",),
    "session.fusion_completed": ("fusion",),
    "session.snapshot_rewind": ("rewind",),
    "assistant.fusion_phase_completed": ("fusion_phase",),
    "assistant.fusion_phase_failed": ("fusion_phase",),
    "tool_search.activated": ("tools_activated",),
    "session.completion_receipt": ("receipt",),
    "model.call_failure": ("call_failure",),
    "session.compaction_start": (
        "compaction_start", "trigger", "model", "currentTokens", "conversationTokens",
        "systemTokens", "toolDefinitionsTokens", "tokenLimit",
    ),
    "session.model_change": ("model_change", *_MODEL),
    "session.auto_mode_resolved": ("model_change", *_MODEL),
    "session.mode_changed": ("mode_change", "previousMode", "newMode"),
    "subagent.configured": (
        "agent_configured", "model", "reasoningEffort", "contextTier", "multiTurn"
    ),
    "human_response.recorded": ("human_response", "actor", "response", "requestId"),
    "abort": ("interruption", "reason"),
    # a custom agent takes over, or gives back, the conversation itself
    "subagent.selected": ("agent_selected", *_CHOICE),
    "custom_agent.selected": ("agent_selected", *_CHOICE),
    "subagent.deselected": ("agent_deselected", *_CHOICE),
}  # fmt: skip
"""Events that are kept between the messages: as what, and which of their fields, or all."""

NOISE = frozenset(
    f"{room}.{name}"
    for room, names in (
        ("assistant", "turn_end"),
        ("hook", "start end"),
        ("session", """remote_steerable_changed schedule_cancelled schedule_rearmed
            autopilot_objective_changed model_deselected session_limits_changed usage_checkpoint
            fusion_change_checkpoint fusion_route_failed fusion_handoff fusion_commit_started
            request_body_compression_disabled permission_recovery binary_asset canvas.recorded
            canvas.removed"""),
        ("permission", """carriedForward messageAuthorization messageAuthorizationRead
            messageAuthorizationDegraded assentDetected contextualAuthorization"""),
        ("mcp", "oauth_recovery_completed"),
        ("external_tool", "requested"),
    )
    for name in names.split()
)  # fmt: skip
"""Events of logs that say nothing about the conversation, or repeat what another one says: hooks
repeat tool results, usage checkpoints the run's report. In streams the program also talks to its
screen: such events are `ephemeral`, and noise unless they have a reader."""

KNOWN = frozenset((*READERS, *MARKS, *NOISE)) - flat.READERS.keys()

_ABOUT_A_CHILD = frozenset(
    f"{word}.{what}"
    for word in ("subagent", "custom_agent")
    for what in ("started", "completed", "failed")
)
"""By whoever: they name the call that started the child, and are told in its conversation."""

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
    for offset, line, envelope in records:
        kind = envelope.type
        if kind in NOISE or (envelope.ephemeral and kind not in KNOWN):
            tally.noise += 1
            continue
        data = envelope.data
        if data is None:
            data = msgspec.json.decode(line)  # fields that lie beside the type
        if not isinstance(data, dict):
            data = {"value": data}
        if envelope.id is None:
            # In flat streams: the same line at the same place is the same event.
            envelope.id = f"{offset}-{zlib.crc32(line):08x}"
        call = data.get("toolCallId" if kind in _ABOUT_A_CHILD else "parentToolCallId")
        child = ""
        if call or envelope.agentId:
            child = lookup.child(envelope.agentId or "", str_of(call))
            if child not in keys:
                keys[child] = (root[0], f"{root[1]}/{child}")
        event.begin(offset, envelope, data, keys[child])
        if kind in FOLLOWING:
            event.note_text(*FOLLOWING[kind], on="following")
        reader = READERS.get(kind)
        if reader is not None:
            reader(event, lookup)
            if not event.facts:
                tally.noise += 1
        elif kind in MARKS:
            mark, *fields = MARKS[kind]
            event.mark(mark, event.chosen(*(fields or data)), event.text("toolCallId"))
        else:
            # Types grew from 27 to 163 in a year: what is not known yet is kept, and counted.
            tally.unrecognise(kind or "no type", origin.path, offset)
            event.mark("event", {"type": kind, "data": data})
        yield from event.facts
