"""Tool calls of a step, what their results tell of exit codes, and what they offered to the model."""

import re
from collections import defaultdict
from typing import Any

import msgspec

from unspool.sinks.atif.extras import NUMBER, Words, leftover, merged
from unspool.sinks.atif.family import Refs
from unspool.sinks.atif.model import ToolCall as AtifCall
from unspool.trajectory import Message, ToolCall

CALL_WORDS: Words = {"status": str, "duration_ms": NUMBER, "started_at": str, "ended_at": str}
_PLACED = {"id", "type", "function", "child_id", "extra", *CALL_WORDS}


class Called:
    """The calls of one message, each under an id of its own, and what answers to which."""

    def __init__(self, calls: list[ToolCall], refs: Refs) -> None:
        taken: set[str] = set()
        self.made: list[AtifCall] = []
        self._open: dict[str, list[str]] = defaultdict(list)
        for number, call in enumerate(calls, 1):
            ident = _unique(call.id or f"call-{number}", taken)
            taken.add(ident)
            self._open[call.id].append(ident)
            self.made.append(_build(call, ident, refs.tells(call.id, call.child_id or "")))

    def answered(self, ident: str | None) -> str | None:
        """The id that a result goes by: the k-th result with an id answers the k-th call with it.

        None for one too many: it stands in the step, and tells its call in `extra`.
        """
        waiting = self._open.get(ident) if ident is not None else None
        return waiting.pop(0) if waiting else None


def _unique(ident: str, taken: set[str]) -> str:
    unique, number = ident, 2
    while unique in taken:
        unique = f"{ident}#{number}"
        number += 1
    return unique


def _build(call: ToolCall, ident: str, linked: bool) -> AtifCall:
    words = {word: value for word in CALL_WORDS if (value := getattr(call, word)) not in (None, "")}
    rest = leftover(call, _PLACED)
    if call.type != "function":
        rest["type"] = call.type
    if ident != call.id:
        rest["id"] = call.id
    if not call.name:
        rest["name"] = ""
    if call.child_id and not linked:
        rest["child_id"] = call.child_id
    arguments = parse_arguments(call.arguments)
    if arguments is None:
        arguments = {"raw": call.arguments}
        rest["raw"] = True
    return AtifCall(ident, call.name or "unknown", arguments, merged(call.extra, words, rest))


def parse_arguments(text: str) -> dict[str, Any] | None:
    """The arguments as an object; None where the text is not one."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_NAMES = ("exit_code", "exitCode", "returncode", "return_code")
_FIRST = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})(?:\n|$)")
"""How a failed command's result begins that Claude Code gives to the model."""
_LAST = re.compile(r"<exited with exit code (-?\d{1,10})>\s*$")
"""How Copilot's shell results end."""


def exit_code(message: Message) -> int | None:
    """As the tool's own result tells it, else as the text does that the model got."""
    code = _in_details(message.details)
    if code is not None:
        return code
    match = _FIRST.match(message.content) if message.is_error else None
    match = match or _LAST.search(message.content[-60:])
    return int(match[1]) if match else None


def _in_details(details: Any) -> int | None:
    for name in _NAMES if isinstance(details, dict) else ():
        value = details.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def to_definitions(definitions: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [_definition(definition) for definition in definitions or ()]


def flat_schema_key(definitions: list[dict[str, Any]] | None) -> str | None:
    """The key of the schemas, where all definitions are `{name, parameters}`, all `{name,
    input_schema}` or all `{type, name, parameters}`, without a wrapper: such can be unwrapped again."""
    wrapped = to_definitions(definitions)
    for key in ("parameters", "input_schema", "type+parameters") if wrapped else ():
        if unwrap_definitions(wrapped, key) == definitions:
            return key
    return None


def unwrap_definitions(definitions: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    typed, _, key = key.rpartition("+")
    unwrapped = []
    for definition in definitions:
        function = definition.get("function")
        flat = function if isinstance(function, dict) else definition
        renamed = {key if name == "parameters" else name: flat[name] for name in flat}
        unwrapped.append({"type": "function", **renamed} if typed else renamed)
    return unwrapped


def _definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's `{name, input_schema}` and the flat `{type, name, parameters}` are wrapped."""
    if not isinstance(definition.get("name"), str) or "function" in definition:
        return definition
    if definition.get("type", "function") not in ("function", "custom"):
        return definition  # a tool that the provider runs itself has no schema to show
    function = {key: value for key, value in definition.items() if key != "type"}
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return {"type": "function", "function": function}
