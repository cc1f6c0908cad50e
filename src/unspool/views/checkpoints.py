"""Checkpoints: summaries that the program kept of a conversation, as a person reads them."""

from collections.abc import Iterator
from typing import Any

from unspool.trajectory import Trajectory
from unspool.views.items import Rule

KIND = "checkpoint"
_NO_SECTIONS = frozenset(("number", "title", "file", "checkpoint_path", "created_at", "kind"))


def checkpoint_rules(trajectory: Trajectory) -> Iterator[Rule]:
    """Those that no mark tells already; where nothing was said they are all that there is to see."""
    told = [  # a list, because a number may be anything in somebody's file
        (mark.data or {}).get("checkpoint_number")
        for mark in trajectory.marks or ()
        if (mark.data or {}).get("summary")
    ]
    for made in trajectory.checkpoints or ():
        text = checkpoint_text(made)
        number = made.get("number")
        if text and (number is None or number not in told):
            title = " ".join(str(made[n]) for n in ("number", "title") if made.get(n) is not None)
            quiet = bool(trajectory.messages)
            kind = str(made.get("kind") or KIND).capitalize()
            yield Rule(f"{kind} {title}".strip(), KIND, None, quiet, {"summary": text})


def checkpoint_text(made: dict[str, Any]) -> str:
    """Its sections, each under its name; as Markdown, which they are written in."""
    sections = {name: text for name, text in made.items() if name not in _NO_SECTIONS and text}
    if sections.keys() == {"text"}:
        return str(sections["text"]).strip()
    return "\n\n".join(
        f"## {name.replace('_', ' ').capitalize()}\n\n{text.strip()}"
        for name, text in sections.items()
        if isinstance(text, str)
    )
