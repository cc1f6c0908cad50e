"""Copilot CLI: the event log of a session, the files beside it, and the store of all sessions.

All of them are views of one session: the log is the conversation, the others fill what it lacks.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from unspool.facts import AnyFact, Key
from unspool.io.databases import MAGIC
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources.copilot_cli import flat, legacy
from unspool.sources.copilot_cli.companions import kind_of, read_companion
from unspool.sources.copilot_cli.events import KNOWN, read_events
from unspool.sources.copilot_cli.hooks import DIALECT
from unspool.sources.copilot_cli.lookup import STATE, UUID, Lookup, folder_session
from unspool.sources.copilot_cli.store import is_store, read_store
from unspool.sources.hook_events import CLAUDE_STATES, Hooks
from unspool.sources.hook_payloads import is_log, read_payloads
from unspool.sources.scribe import Scribe

NAME = "copilot-cli"
RANGES = True

_HISTORY = "history-session-state"
_EVENT_LOG = "events.jsonl"
HOOKS = Hooks(
    CLAUDE_STATES,
    (".copilot",),
    is_own=lambda fields: fields.timestamp is not None and not fields.transcript_path,
)
"""It writes the time into its payloads; Claude Code does not, and names its transcript always."""


def claims(head: Head) -> bool:
    return bool(shape_of(head))


def shape_of(head: Head) -> str:
    """Which of the CLI's files this is; empty for none."""
    if head.data.startswith(MAGIC):
        return "store" if is_store(head.data, head.name) else ""
    if kind_of(head):
        return "companion"
    if head.name.endswith(".json") and _is_legacy(head):
        return "legacy"
    if is_log(head, DIALECT):
        return "hooks"
    return "events" if _is_log(head) else ""


def _is_legacy(head: Head) -> bool:
    if _HISTORY in head.parts:
        return True
    start = head.data.lstrip()[:1]
    return start == b"{" and b'"chatMessages"' in head.data and b'"sessionId"' in head.data


def _is_log(head: Head) -> bool:
    """Lines with a type that the CLI writes; in the CLI's own folders, any lines."""
    if STATE in head.parts and (head.name == _EVENT_LOG or head.parts[-1:] == (STATE,)):
        return head.name.endswith(".jsonl")
    objects = [value for value in head.objects if value.get("ephemeral") is not True]
    types = [str(value.get("type")) for value in objects]  # in a JSON schema it is a list
    events = sum(1 for kind in types if kind in KNOWN)
    if events and any(isinstance(v.get("data"), dict) for v in objects):
        return events * 2 >= len(types) or head.name == _EVENT_LOG
    streamed = sum(1 for kind in types if kind in flat.READERS)
    return "copilot" in head.name and 0 < len(types) == streamed


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """COPILOT_HOME; else ~/.copilot, and where older versions kept their state."""
    folders = [Path(env["COPILOT_HOME"])] if env.get("COPILOT_HOME") else []
    if env.get("XDG_STATE_HOME"):
        folders.append(Path(env["XDG_STATE_HOME"], ".copilot"))
    if env.get("XDG_CONFIG_HOME"):
        folders.append(Path(env["XDG_CONFIG_HOME"], ".copilot"))
    folders += [home / ".copilot", home / ".local" / "state" / ".copilot"]
    inner = (STATE, _HISTORY, "session-store.db")
    return [base / name for base in dict.fromkeys(folders) for name in inner]


def session_of(path: str) -> str | None:
    """The session whose folder a file is in, or whose log it is; stores and oldest files tell it."""
    file = PurePath(path)
    if _HISTORY in file.parts or ".db" in file.suffixes:
        return None
    named = folder_session(path)
    return named if named is not None and UUID.fullmatch(named) else None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    head = read_head(origin.path)
    shape = shape_of(head)
    if shape == "hooks":
        yield from read_payloads(origin, tally, recover, DIALECT)
        return
    if shape != "events" and origin.start:
        return  # only logs are read in ranges; all else is read whole, with its beginning
    if shape == "store":
        yield from read_store(origin, tally, NAME)
    elif shape == "companion":
        yield from read_companion(origin, tally, kind_of(head), NAME)
    elif shape == "legacy":
        yield from legacy.read_file(origin, tally, NAME, recover)
    else:
        lookup = Lookup(origin.path, from_start=not origin.start)
        facts = read_events(origin, tally, (NAME, lookup.session), lookup, recover=recover)
        yield from facts if lookup.named else _unnamed(facts)


def _unnamed(facts: Iterator[AnyFact]) -> Iterator[AnyFact]:
    """What a killed process printed: linking gives it to its session, if that is here."""
    met: set[Key] = set()
    for fact in facts:
        if fact.key not in met:
            met.add(fact.key)
            scribe = Scribe(fact.key, fact.origin, fact.offset)
            scribe.note("partial", "unnamed-session", number=99)
            yield from scribe.facts
        yield fact
