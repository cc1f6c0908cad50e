"""Claude Code: session transcripts, sub-agent files, hook payloads, headless streams.

lines.py       a line, decoded once
place.py       where it stands
words.py       what of a user line a person typed
results.py     what tools returned
transcript.py  user and assistant lines
context.py     all other lines of the chain
bare.py        lines without an id
hooks.py       hook payloads
hook_events.py what each event states
stream.py      headless streams
spawns.py      which sub-agent a stream means
companions.py  the files beside a transcript
files.py       whose a file is, and how its objects lie in it
reader.py      every object to the module that knows it
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.claude_code import companions, hooks, stream
from unspool.sources.claude_code.files import File, head_objects
from unspool.sources.claude_code.place import NAME
from unspool.sources.claude_code.reader import Reader

RANGES = True
CURRENT: Literal["last", "longest"] = "last"

_MARKERS = (b"sessionId", b"session_id", b"leafUuid", b"file-history-snapshot")
_CHAIN = ("user", "assistant", "system", "attachment", "progress")


def claims(head: Head) -> bool:
    """Any of the first objects is a line of a transcript, a hook payload or a headless stream."""
    if companions.is_meta(head.name, head.parts) or companions.is_output(head.parts):
        return True
    if companions.is_title(head.name, head.parts):
        return True
    if companions.is_run(head.name, head.parts) and companions.tells_run(head.data):
        return True
    if head.name in ("journal.jsonl", "history.jsonl") or not any(m in head.data for m in _MARKERS):
        return False
    if any(_is_ours(value) for value in head_objects(head)):
        return True
    # A first line longer than the head cannot be parsed; its beginning tells.
    start = head.data[:4096].lstrip()
    return (
        not head.whole
        and start[:1] == b"{"
        and b'"parentUuid":' in start
        and b'"sessionId":' in start
    )


def _is_ours(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    # Logs that other programs made over have no uuids; then a message must be there.
    told = "uuid" in value or "parentUuid" in value or isinstance(value.get("message"), dict)
    if kind in _CHAIN and "sessionId" in value and told:
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


def family(path: str) -> str | None:
    """The session that a file belongs to, by its path; hook logs and streams may be of many."""
    head = Head(path, b"", True)
    if companions.is_run(head.name, head.parts):
        return head.parts[-2]
    if companions.is_title(head.name, head.parts):
        return head.parts[-1]
    return File(path).session or None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    """Objects one after the other, each by itself."""
    head = Head(origin.path, b"", True)
    if companions.is_companion(head.name, head.parts):
        return companions.read_companion(origin, tally)
    return Reader(origin, tally, recover).read()


__all__ = ["CURRENT", "NAME", "RANGES", "claims", "family", "places", "read"]
