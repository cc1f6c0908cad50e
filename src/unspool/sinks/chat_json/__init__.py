"""chat.json: a conversation as a chat that VS Code imports (`Chat: Import Chat…`).

One `<id>.chat.json` per conversation. The importer drops a whole chat without a word if a single
request of it is not as it likes; everything here keeps to what it takes. `docs/chat-json.md`.
"""

from collections.abc import Iterator
from typing import Any

from unspool.io.packing import encode_json
from unspool.sinks import Family, Options, Piece, safe_name
from unspool.sinks.chat_json.requests import Writer, named, turns_of

__all__ = ["FAMILIES", "MANY_FILES", "NAME", "write"]

NAME = "chat-json"
MANY_FILES = True
FAMILIES = True

_HEAD = {
    "responder_icon": "responderAvatarIconUri",
    "requester": "requesterUsername",
    "requester_icon": "requesterAvatarIconUri",
}
"""In a chat's `metadata` → in an export of its time."""


def write(family: Family, options: Options) -> Iterator[Piece]:
    """One file; sub-agents are shown inside it, where they were called. Those that no call of it
    started, and sub-agents of sub-agents, get files of their own."""
    waiting = [family.root, *family.descendants]
    while waiting:
        root = waiting[0]
        writer = Writer(root, {child.conversation_id: child for child in waiting[1:]})
        location = root.metadata.get("initial_location")
        panel = location not in ("panel", "terminal", "notebook", "editor")
        chat: dict[str, Any] = {
            "responderUsername": root.agent or "GitHub Copilot",
            "initialLocation": "panel" if panel else location,
        }
        if writer.native:
            chat |= named(_HEAD, root.metadata)
        chat["requests"] = [writer.request(turn) for turn in turns_of(root)]
        if chat["requests"]:
            name = f"{safe_name(root.conversation_id)}.chat.json"
            yield Piece(name, encode_json(chat) + b"\n")
        waiting = [t for t in waiting[1:] if t.conversation_id not in writer.shown]
