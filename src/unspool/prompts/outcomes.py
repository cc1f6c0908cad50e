"""Outcomes: the exit code of a command, as its tool's own result or the words for the model tell it.

details {"exit_code": 1}                          the tool's own result
content "Exit code 1\\nno such file"               how Claude Code tells the model of a failure
content "…\\n<exited with exit code 1>"            how results of Copilot's shell end
"""

import re

from unspool.trajectory import Message

_NAMES = ("exit_code", "exitCode", "returncode", "return_code")
_FIRST = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})(?:\n|$)")
_LAST = re.compile(r"<exited with exit code (-?\d{1,10})>\s*$")


def exit_code(message: Message) -> int | None:
    for name in _NAMES if isinstance(message.details, dict) else ():
        value = message.details.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    match = _FIRST.match(message.content) if message.is_error else None
    match = match or _LAST.search(message.content[-60:])
    return int(match[1]) if match else None
