"""Names of sessions and files, as Copilot Chat's trajectory logger made them."""

import os
import random
import re
import time

_OTHER = re.compile(r"[^a-z0-9]+")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL_CHARS = 30
_NAME_CHARS = 50


# A generator of our own: uuid4 asks the system every time, which is most of its cost.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def now() -> int:
    return time.time_ns() // 1000


def new_id() -> str:
    return f"{_random.getrandbits(128):032x}"


def slug(text: str) -> str:
    """Lower-case letters and digits, everything else one dash."""
    return _OTHER.sub("-", text.lower()).strip("-")


def short_hash(text: str) -> str:
    """The 32-bit string hash of JavaScript programs, over UTF-16 units, in base 36."""
    number = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (number * 31 + units[at] + (units[at + 1] << 8)) & 0xFFFFFFFF
    number, digits = abs(number - (1 << 32) if number & 0x80000000 else number), ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def generated_id(label: str, moment: int | None) -> str:
    """A readable session id out of the label and the moment (microseconds) that it was first used."""
    name = f"{slug(label)[:_LABEL_CHARS]}-{short_hash(label)}"
    return name if moment is None else f"{name}-{moment // 1000}"


def subagent_file(name: str, session_id: str) -> str:
    return f"{(slug(name) or 'subagent')[:_NAME_CHARS]}-{session_id}.trajectory.json"
