"""Tool calls: the model's rounds joined with the parts that a person saw of them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.prompts.shapes import arguments_text
from unspool.sources.vscode_chat.fields import CALL, NATIVE, bare_call_id
from unspool.sources.vscode_chat.model import Call, Round
from unspool.sources.vscode_chat.tool_names import NAMES
from unspool.sources.vscode_chat.uris import markdown

_MESSAGES = frozenset(("invocationMessage", "pastTenseMessage", "originMessage"))
_OURS = {theirs: ours for ours, theirs in CALL.items()}
_ELSEWHERE = frozenset(("kind", "toolCallId", "resultDetails"))
_TELLING = frozenset(("pastTenseMessage", "resultDetails", "toolSpecificData", "result"))
_DENIED, _SKIPPED = 0, 5


class Joined(msgspec.Struct):
    """A call with what is known of it from either side."""

    id: str
    name: str
    arguments: str
    part: dict[str, Any] | None = None
    native: str = ""
    """Its id as the results are kept by."""


def model_name(part: dict[str, Any]) -> str:
    """The name that the model knows the tool by."""
    ident = part.get("toolId")
    return NAMES.get(ident, ident) if isinstance(ident, str) else ""


def part_id(part: dict[str, Any]) -> str:
    found = part.get("toolCallId")
    return bare_call_id(found) if isinstance(found, str) else ""


def join(
    rounds: list[Round], parts: list[dict[str, Any]], prefix: str
) -> tuple[list[list[Joined]], list[int]]:
    """The calls of every round; and for every part the round that it went to.

    By id; where no part has the id of a call, by order and name (in files of 2025 parts have ids and
    names of their own). The model did not ask for a part that no call is left for: a tool called
    another (or the part merely announced a call), and its round is -1.
    """
    calls = [
        [_from_call(call, f"{prefix}/{number}.{n}") for n, call in enumerate(r.toolCalls or ())]
        for number, r in enumerate(rounds)
    ]
    flat = [(number, call) for number, made in enumerate(calls) for call in made]
    by_id = {call.id: (number, call) for number, call in reversed(flat)}
    homes: list[int] = [-1] * len(parts)
    left: list[int] = []
    for index, part in enumerate(parts):
        found = by_id.get(part_id(part))
        if found is not None and found[1].part is None:
            homes[index], found[1].part = found[0], part
        else:
            left.append(index)
    if len(left) == len(parts):
        _join_by_order(flat, parts, left, homes)
    return calls, homes


def _join_by_order(
    flat: list[tuple[int, Joined]], parts: list[dict[str, Any]], left: list[int], homes: list[int]
) -> None:
    at = 0
    # A hidden part announces a call that a later part shows: the one shown has the first choice.
    for hidden in (False, True):
        at = 0
        for index in left:
            part = parts[index]
            if homes[index] >= 0 or (part.get("presentation") == "hidden") is not hidden:
                continue
            for place in range(at, len(flat)):
                number, call = flat[place]
                if call.part is None and call.name == model_name(part):
                    homes[index], call.part = number, part
                    at = place + 1
                    break


def is_announcement(part: dict[str, Any], calls: list[list[Joined]]) -> bool:
    """A hidden part before the one that shows the call: it tells nothing of how that went."""
    if part.get("presentation") != "hidden" or part.keys() & _TELLING:
        return False
    return any(call.name == model_name(part) for group in calls for call in group)


def _from_call(call: Call, place: str) -> Joined:
    ident = call.id or ""
    return Joined(
        bare_call_id(ident) or place,
        call.name or "",
        arguments_text(call.arguments),
        native=ident,
    )


def from_part(part: dict[str, Any], place: str) -> Joined:
    ident = part.get("toolCallId")
    native = ident if isinstance(ident, str) else ""
    return Joined(bare_call_id(native) or place, model_name(part), "", part, native)


def call_extra(
    part: dict[str, Any] | None, ident: str, told: bool = False
) -> dict[str, Any] | None:
    """What the part tells that has no field of its own. `told`: its result is the call's text."""
    if part is None:
        return None
    made: dict[str, Any] = {}
    native: dict[str, Any] = {}
    for theirs, value in part.items():
        ours = _OURS.get(theirs)
        if theirs in _MESSAGES:
            value = markdown(value)
        if value is None or value == "" or theirs in _ELSEWHERE:
            continue
        if ours is not None:
            made[ours] = value
        elif not ((theirs == "result" and told) or (theirs == "isComplete" and value is True)):
            native[theirs] = value
    if part_id(part) not in ("", ident):
        made["ui_call"] = part["toolCallId"]
    if native:
        made[NATIVE] = native
    return made or None


def call_status(part: dict[str, Any] | None) -> str:
    """denied where the person (or the program) did not let the call be made."""
    confirmed = part.get("isConfirmed") if part is not None else None
    if isinstance(confirmed, dict):
        return "denied" if confirmed.get("type") in (_DENIED, _SKIPPED) else ""
    return "denied" if confirmed is False else ""


def unique(calls: Iterable[Joined], seen: set[str], prefix: str) -> int:
    """Ids that a chat repeats, told apart; how many there were."""
    repeated = 0
    for call in calls:
        ident, number = call.id, 1
        while call.id in seen:
            call.id = f"{prefix}/{ident}" if number == 1 else f"{prefix}/{ident}#{number}"
            number += 1
        seen.add(call.id)
        repeated += number > 1
    return repeated
