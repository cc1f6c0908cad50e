"""What VS Code's chat importer takes, as far as running it has shown: one bad request empties all."""

from typing import Any

PART_KINDS = frozenset(
    ("text", "agent", "subcommand", "tool", "toolset", "dynamic", "var", "slash", "prompt")
)


def refusals(chat: Any) -> list[str]:
    """Why the importer would refuse the chat, or silently show an empty one."""
    if not isinstance(chat, dict):
        return ["root: not an object"]
    found: list[str] = []
    if not isinstance(chat.get("responderUsername"), str):
        found.append("responderUsername: not a string")
    requests = chat.get("requests")
    if not isinstance(requests, list):
        return [*found, "requests: not an array"]
    for number, request in enumerate(requests):
        found += [f"requests[{number}].{why}" for why in _request(request)]
    return found


def _request(request: Any) -> list[str]:
    if not isinstance(request, dict):
        return ["not an object"]
    return [*_message(request), *_response(request), *_variables(request)]


def _message(request: dict[str, Any]) -> list[str]:
    message = request.get("message")
    if isinstance(message, str):
        return []
    if not isinstance(message, dict):
        return ["message: missing"]
    parts = message.get("parts")
    if not isinstance(parts, list):
        return ["message.parts: not an array"]
    return [why for part in parts for why in _part(part)]


def _part(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return ["message.parts: not an object"]
    if part.get("kind") not in PART_KINDS:
        return [f"message.parts: unknown kind {part.get('kind')!r}"]
    held = part.get("range")
    if not isinstance(held, dict):
        return ["message.parts: no range"]
    start, end = held.get("start"), held.get("endExclusive")
    if not isinstance(start, int) or not isinstance(end, int) or start > end:
        return [f"message.parts: range {start}..{end}"]
    return []


def _response(request: dict[str, Any]) -> list[str]:
    response = request.get("response")
    if response is None:
        return []
    if not isinstance(response, list):
        return ["response: not an array"]
    return ["response: a part is no object" for part in response if not isinstance(part, dict)]


def _variables(request: dict[str, Any]) -> list[str]:
    held = request.get("variableData")
    variables = held.get("variables") if isinstance(held, dict) else None
    if not isinstance(variables, list):
        return []
    return ["variables: no object" for entry in variables if not isinstance(entry, dict)]
