"""Sub-agents: their events stand in the parent's log; each is a conversation of its own."""

from collections.abc import Iterator

from unspool.facts import AnyFact, Key, Marked, Noted
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup


def _child(event: Event, lookup: Lookup) -> Key:
    call = event.text("toolCallId")
    return (event.root[0], f"{event.root[1]}/{lookup.child(event.agent, call)}")


def read_started(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The parent is the session, or the sub-agent that the record names; linking finds the caller."""
    child = _child(event, lookup)
    call, spawner = event.text("toolCallId"), event.text("parentId")
    parent = event.root[1]
    if spawner:
        parent = f"{parent}/{lookup.child(spawner, '')}"
    name = event.text("agentDisplayName") or event.text("agentName")
    tie = {"conversation_id": parent, "tool_call_id": call or None, "name": name or None}
    yield event.fact(Noted, key=child, name="parent", value=tie)
    yield event.fact(Noted, key=child, name="session_id", value=event.root[1])
    if event.text("agentName"):
        yield event.fact(Noted, key=child, name="agent", value=event.text("agentName"))
    model = event.text("model")
    if model:
        yield event.fact(Noted, key=child, on="following", name="model", value=model)
    data = event.chosen("agentName", "agentDisplayName", "agentDescription", "agentType",
                        "executionMode")  # fmt: skip
    yield event.fact(Marked, key=child, kind="start", data=data or None)


def read_configured(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    model = event.text("model")
    if model:
        yield event.fact(Noted, on="following", name="model", value=model)
    data = event.chosen("model", "reasoningEffort", "contextTier", "multiTurn")
    yield event.fact(Marked, kind="agent_configured", data=data or None)


def read_ended(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    child = _child(event, lookup)
    data = event.chosen(
        "error", "model", "totalToolCalls", "totalTokens", "durationMs", "cancelled"
    )
    data["failed"] = event.type.endswith("failed")
    yield event.fact(Marked, key=child, kind="end", data=data)
    if event.text("agentName"):
        yield event.fact(Noted, key=child, name="agent", value=event.text("agentName"), rank=1)
    model = event.text("model")
    if model:
        yield event.fact(Noted, key=child, name="model", value=model)


def read_selected(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A custom agent takes over, or gives back, the conversation itself."""
    kind = "agent_deselected" if event.type.endswith("deselected") else "agent_selected"
    data = event.chosen("agentName", "agentDisplayName", "tools")
    yield event.fact(Marked, kind=kind, data=data or None)
