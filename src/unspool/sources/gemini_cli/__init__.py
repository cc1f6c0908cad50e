"""Gemini CLI: chats, the history of prompts, printed streams, hook payloads.

chats.py   a chat, as its lines leave it
stream.py  what `gemini --output-format stream-json` prints
hooks.py   hook payloads
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources.gemini_cli.chats import NAME, is_chat, read_chat, session_of
from unspool.sources.gemini_cli.hooks import DIALECT
from unspool.sources.gemini_cli.stream import is_stream, read_stream
from unspool.sources.hook_events import Hooks, settle_notification
from unspool.sources.hook_payloads import is_log, read_payloads

RANGES = False  # later lines say more of earlier messages


HOOKS = Hooks(
    {
        "sessionstart": "idle",
        "beforeagent": "working",
        "beforetool": "working",
        "aftertool": "working",
        "precompress": "working",
        "notification": "waiting",
        "afteragent": "idle",
        "sessionend": "ended",
    },
    (".gemini",),
    settle=settle_notification,
    calls="beforetool",
)


def claims(head: Head) -> bool:
    return is_chat(head) or is_stream(head.objects) or is_log(head, DIALECT)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    return [Path(env["GEMINI_CLI_HOME"]) if "GEMINI_CLI_HOME" in env else home / ".gemini" / "tmp"]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    head = read_head(origin.path)
    is_other = not is_chat(head)
    if is_other and is_stream(head.objects):
        return read_stream(origin, tally, recover)
    if is_other and is_log(head, DIALECT):
        return read_payloads(origin, tally, recover, DIALECT)
    return read_chat(origin, tally, recover)


__all__ = ["NAME", "RANGES", "claims", "places", "read", "session_of"]
