"""Codex CLI: rollouts of every generation, and the history of prompts.

records.py  the shapes of lines, and what the parts of a message say
rollout.py  a rollout, line by line: what each states, and which answer tokens are of
threads.py  whose thread it is, and the files of others
tools.py    calls, what ran for them and which files it touched, and their output
stream.py   what `codex exec --json` prints
hooks.py    hook payloads
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally, plain_name, read_head
from unspool.sources.codex.hooks import DIALECT
from unspool.sources.codex.rollout import NAME, Rollout
from unspool.sources.codex.stream import is_stream, read_stream
from unspool.sources.codex.threads import session_of
from unspool.sources.histories import read_history
from unspool.sources.hook_events import CLAUDE_STATES, Hooks
from unspool.sources.hook_payloads import is_log, read_payloads

RANGES = False  # what an item belongs to is told by the lines before it
REWRITES = True  # `codex migrate-rollouts` drops turns that were rolled back

HOOKS = Hooks(CLAUDE_STATES, (".codex",))
_ITEMS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")


def claims(head: Head) -> bool:
    objects = head.objects
    if head.name == "history.jsonl":
        return bool(objects) and {"session_id", "ts", "text"} <= objects[0].keys()
    if any(value.get("type") in _ITEMS and "payload" in value for value in objects):
        return True
    if is_stream(objects) or is_log(head, DIALECT):
        return True
    # Before 0.32: {"id":…,"timestamp":…,"instructions":…,"git":…}, then bare items of the model.
    first = objects[0] if objects else {}
    bare = {"id", "timestamp", "instructions"} <= first.keys() and "type" not in first
    # The first line holds all instructions and may be longer than the head.
    return bare or (head.is_one_line and b'"type":"session_meta"' in head.data[:200])


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """`CODEX_HOME` may list several folders."""
    listed = [part for part in env.get("CODEX_HOME", "").split(",") if part.strip()]
    roots = [Path(part.strip()) for part in listed] or [home / ".codex"]
    return [
        root / name for root in roots for name in ("sessions", "archived_sessions", "history.jsonl")
    ]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    if plain_name(origin.path) == "history.jsonl":
        return read_history(origin, tally, recover, NAME)
    if not session_of(origin.path):
        head = read_head(origin.path)
        if is_stream(head.objects):
            return read_stream(origin, tally, recover)
        if is_log(head, DIALECT):
            return read_payloads(origin, tally, recover, DIALECT)
    return Rollout(origin, tally, recover, session_of(origin.path) or "").read()


__all__ = ["NAME", "RANGES", "claims", "places", "read", "session_of"]
