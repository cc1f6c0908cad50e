"""Claude Code: session transcripts, sub-agent files, hook payloads, headless streams.

lines.py       a line, decoded once
words.py       what of a user line a person typed
results.py     what tools returned
transcript.py  user and assistant lines
context.py     all other lines of the chain
bare.py        lines without an id
hooks.py       hook payloads
stream.py      headless streams
companions.py  what a path says, and the small files beside a transcript
reader.py      every object to the module that knows it
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally
from unspool.sources import hooklogs
from unspool.sources.claude_code import companions, hooks, stream
from unspool.sources.claude_code.companions import session_of
from unspool.sources.claude_code.lines import NAME
from unspool.sources.claude_code.reader import CHAIN, Reader
from unspool.sources.hook_events import CLAUDE_STATES, Hooks, settle_notification

RANGES = True
PLATFORM = "claude"
"""What it is called in a timeline."""

_MARKERS = (b"sessionId", b"session_id", b"leafUuid", b"file-history-snapshot")


HOOKS = Hooks(
    CLAUDE_STATES,
    (".claude",),
    is_own=lambda fields: True,  # asked last: what is nobody else's has its shape
    settle=settle_notification,
)


def claims(head: Head) -> bool:
    """Any of the first objects is a line of a transcript, a hook payload or a headless stream. Qwen
    Code, which has the same lines with messages in the shape of Gemini's, is asked before."""
    if companions.claims(head):
        return True
    if head.name in ("journal.jsonl", "history.jsonl") or not any(m in head.data for m in _MARKERS):
        return False
    objects = head.objects or list(hooklogs.head_payloads(head))
    if any(_is_ours(value) for value in objects):
        return True
    # A first line longer than the head cannot be parsed; its beginning tells.
    start = head.data[:4096].lstrip()
    named = b'"parentUuid":' in start and b'"sessionId":' in start
    return not head.whole and start[:1] == b"{" and named


def _is_ours(value: dict[str, Any]) -> bool:
    kind = str(value.get("type"))
    # Logs that other programs made over have no uuids; then a message must be there.
    chained = "uuid" in value or "parentUuid" in value or isinstance(value.get("message"), dict)
    if kind in CHAIN and "sessionId" in value and chained:
        return True
    if kind == "summary" and "leafUuid" in value:
        return True
    if kind == "file-history-snapshot" and "snapshot" in value:
        return True
    if kind == "queue-operation" and "operation" in value and "sessionId" in value:
        return True
    return hooks.unwrap(value) is not None or stream.is_ours(value)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """The folders that hold sessions; the variable may list several."""
    listed = [part.strip() for part in env.get("CLAUDE_CONFIG_DIR", "").split(",") if part.strip()]
    roots = [Path(part) for part in listed] or [home / ".claude", home / ".config" / "claude"]
    return [root / "projects" for root in roots]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    """Objects one after the other, each by itself."""
    kind = companions.kind_of(origin.path)
    if kind:
        return companions.read(origin, kind, tally)
    return Reader(origin, tally, recover).read()


__all__ = ["NAME", "RANGES", "claims", "places", "read", "session_of"]
