"""Residue: what an ATIF document says that a trajectory has no field for.

The reader keeps it in `extra` under one key, as the difference between what the writer makes of the
trajectory and what the document was; the writer puts it back. So it never holds a conversation's
words, which the trajectory itself holds.
"""

from copy import deepcopy
from typing import Any

import msgspec

KEY = "atif"


def difference(made: Any, wanted: Any) -> dict[str, Any]:
    """`set` and `unset` that turn `made` into `wanted`; empty where they are equal."""
    found: dict[str, Any] = {}
    if _bytes(made) != _bytes(wanted):
        _compare(made, wanted, "", found)
    return found


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _compare(made: Any, wanted: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(made, dict) and isinstance(wanted, dict):
        for key in made.keys() - wanted.keys():
            found.setdefault("unset", []).append(f"{path}/{_escape(key)}")
        if "unset" in found:
            found["unset"].sort()
        for key, value in wanted.items():
            below = f"{path}/{_escape(key)}"
            if key in made:
                _compare(made[key], value, below, found)
            else:
                found.setdefault("set", {})[below] = value
    elif isinstance(made, list) and isinstance(wanted, list) and len(made) == len(wanted):
        for number, (one, other) in enumerate(zip(made, wanted, strict=True)):
            _compare(one, other, f"{path}/{number}", found)
    elif type(made) is not type(wanted) or made != wanted:
        found.setdefault("set", {})[path] = wanted


def restore(made: dict[str, Any], kept: Any) -> None:
    """Put the difference back, where the places that it names still stand."""
    if not isinstance(kept, dict):
        return
    for path in kept.get("unset") or ():
        holder, last = _holder(made, path)
        if isinstance(holder, dict):
            holder.pop(last, None)
    for path, value in (kept.get("set") or {}).items():
        holder, last = _holder(made, path)
        if isinstance(holder, dict):
            holder[last] = deepcopy(value)
        elif isinstance(holder, list) and last.isdigit() and int(last) < len(holder):
            holder[int(last)] = deepcopy(value)


def without_steps(kept: dict[str, Any]) -> dict[str, Any]:
    """The difference outside the steps."""
    return {
        "set": {p: v for p, v in (kept.get("set") or {}).items() if not p.startswith("/steps")},
        "unset": [path for path in kept.get("unset") or () if not path.startswith("/steps")],
    }


def _holder(value: Any, path: str) -> tuple[Any, str]:
    *above, last = [_unescape(word) for word in path.split("/")[1:]] or [""]
    for word in above:
        if isinstance(value, dict):
            value = value.get(word)
        elif isinstance(value, list) and word.isdigit() and int(word) < len(value):
            value = value[int(word)]
        else:
            return None, last
    return value, last


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescape(word: str) -> str:
    return word.replace("~1", "/").replace("~0", "~")
