"""Sub-agents: the parts that were made in a run of one are a conversation of their own."""

from collections.abc import Iterator
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, MessageSeen, Noted
from unspool.sources.vscode_chat import tools
from unspool.sources.vscode_chat.calls import call_facts
from unspool.sources.vscode_chat.fields import CALL, bare_call_id
from unspool.sources.vscode_chat.parts import is_sub_agent
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.turns import Turn


def child_facts(turn: Turn, key: Key, origin: str, offset: int) -> Iterator[AnyFact]:
    for run, parts in turn.parts.side.items():
        child = (key[0], f"{key[1]}/{run}")
        starter = _starter(turn, run)
        specific: dict[str, Any] = {}
        parent: dict[str, Any] = {"conversation_id": key[1]}
        if starter is not None:
            held = (starter.part or {}).get("toolSpecificData")
            specific = held if isinstance(held, dict) else {}
            parent["tool_call_id"] = starter.id
        scribe = Scribe(child, origin, offset, f"{turn.id}/{run}", ROOT)
        name, prompt, result = (_text(specific, k) for k in ("agentName", "prompt", "result"))
        if name:
            parent["name"] = name
        yield scribe.write(Noted, name="parent", value=parent)
        yield scribe.write(Noted, name="title", value=_text(specific, "description") or None)
        if prompt:
            yield scribe.write(
                MessageSeen, id=f"{run}/prompt", role="user", text=prompt, time=turn.time,
                request=turn.id,
            )  # fmt: skip
        yield scribe.write(
            MessageSeen, id=f"{run}/answer", role="assistant", text=result, time=turn.ended,
            model=_text(specific, "modelName"), request=turn.id,
        )  # fmt: skip
        made = [tools.from_part(part, f"{run}/part.{n}") for n, part in enumerate(parts)]
        tools.unique(made, set(), run)
        yield from call_facts(turn, scribe, made, f"{run}/answer", inside=True)


def _starter(turn: Turn, run: str) -> tools.Joined | None:
    """The call that started the run: by its id, else the only one that there is."""
    calls = [call for group in turn.calls for call in group]
    started = [call for call in calls if call.part and is_sub_agent(call.part)]
    for call in started:
        named = (call.part or {}).get("subAgentInvocationId")
        if run == bare_call_id(str(named or "")):
            return call
    for call in [*started, *calls]:
        part = call.part or {}
        if run in (bare_call_id(call.native), tools.part_id(part), part.get(CALL["ui_call"])):
            return call
    return started[0] if len(started) == len(turn.parts.side) == 1 else None


def _text(values: dict[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""
