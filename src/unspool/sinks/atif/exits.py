"""Exit codes of commands, which ATIF has no field for but readers ask for."""

import re
from typing import Any

from unspool.trajectory import Message

_NAMES = ("exit_code", "exitCode", "returncode", "return_code")
_FIRST = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})(?:\n|$)")
"""How a failed command's result begins that Claude Code gives to the model."""
_LAST = re.compile(r"<exited with exit code (-?\d{1,10})>\s*$")
"""How Copilot's shell results end."""


def exit_code(message: Message) -> int | None:
    """As the tool's own result tells it, else as the text does that the model got."""
    found = _in_details(message.details)
    if found is not None:
        return found
    said = _FIRST.match(message.content) if message.is_error else None
    said = said or _LAST.search(message.content[-60:])
    return int(said[1]) if said else None


def _in_details(details: Any) -> int | None:
    for name in _NAMES if isinstance(details, dict) else ():
        value = details.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
