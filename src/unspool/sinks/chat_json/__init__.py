"""chat.json: a conversation as a chat that VS Code imports (`Chat: Import Chat…`).

One `<id>.chat.json` per conversation. The importer drops a whole chat without a word if a single
request of it is not as it likes; everything here keeps to what it takes. `docs/chat-json.md`.
"""

from collections.abc import Iterator

import msgspec

from unspool.io.dirty_json import clean
from unspool.sinks import Family, Options, Piece, safe_name
from unspool.sinks.chat_json.chats import chat_of, chats_of

__all__ = ["FAMILIES", "MANY_FILES", "NAME", "chat_of", "file_name", "write"]

NAME = "chat-json"
MANY_FILES = True
FAMILIES = True


def write(family: Family, options: Options) -> Iterator[Piece]:
    """One file; sub-agents are shown inside it, where they were called. Those that no call of it
    started, and sub-agents of sub-agents, get files of their own."""
    for ident, chat in chats_of(family):
        if not chat["requests"]:
            continue
        try:
            data = msgspec.json.encode(chat)
        except UnicodeEncodeError:
            data = msgspec.json.encode(clean(chat))
        yield Piece(file_name(ident), data + b"\n")


def file_name(ident: str) -> str:
    return f"{safe_name(ident)}.chat.json"
