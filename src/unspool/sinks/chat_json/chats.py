"""Chats: which chats a conversation and its sub-agents become."""

from collections.abc import Iterator
from typing import Any

from unspool.sinks import Family
from unspool.sinks.chat_json.requests import Writer
from unspool.sinks.chat_json.turns import turns_of
from unspool.sinks.chat_json.usage import named

_HEAD = {
    "responder_icon": "responderAvatarIconUri",
    "requester": "requesterUsername",
    "requester_icon": "requesterAvatarIconUri",
}
"""In a chat's `metadata` → in an export of its time."""


def chats_of(family: Family) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, chat) of the root, and of every sub-agent that has no place inside another chat: a chat
    shows those that a call of its own started, and not what they started in turn."""
    waiting = [family.root, *family.descendants]
    while waiting:
        writer = Writer(waiting[0], {child.conversation_id: child for child in waiting[1:]})
        yield waiting[0].conversation_id, _chat(writer)
        waiting = [t for t in waiting[1:] if t.conversation_id not in writer.shown]


def chat_of(family: Family) -> dict[str, Any]:
    """The whole chat, as plain values."""
    return next(chats_of(family))[1]


def _chat(writer: Writer) -> dict[str, Any]:
    root = writer.trajectory
    location = root.metadata.get("initial_location")
    known = location in ("panel", "terminal", "notebook", "editor")
    chat = {
        "responderUsername": root.agent or "GitHub Copilot",
        "initialLocation": location if known else "panel",
    }
    if writer.native:
        chat |= named(_HEAD, root.metadata)
    return {**chat, "requests": [writer.request(turn) for turn in turns_of(root)]}
