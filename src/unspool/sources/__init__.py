"""Sources: each knows one format and nothing else.

A source is a module, or a package, with the names of the `Source` protocol. CONTRIBUTING.md walks
through adding one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import unquote

import msgspec

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally, Touched, read_head
from unspool.sources.hook_events import Hooks

SOURCES: dict[str, str] = {
    "vscode-chat": "unspool.sources.vscode_chat",
    "cursor": "unspool.sources.cursor",
    "recorder": "unspool.sources.recorder",
    "codex": "unspool.sources.codex",
    "opencode": "unspool.sources.opencode",
    "gemini-cli": "unspool.sources.gemini_cli",
    "qwen-code": "unspool.sources.qwen_code",
    "copilot-vscode": "unspool.sources.copilot_vscode",
    "copilot-cli": "unspool.sources.copilot_cli",
    "claude-code": "unspool.sources.claude_code",
    "pi": "unspool.sources.pi",
    "cline": "unspool.sources.cline",
    "copilot-telemetry": "unspool.sources.copilot_telemetry",
    "otel": "unspool.sources.otel",
}
"""Name → module, in the order in which they are asked whether a file is theirs."""

GUESTS: dict[str, tuple[str, ...]] = {"cursor": ("vscode-chat",)}
"""Source → those that may keep records of their own in its files: Cursor is a fork of VS Code, whose
chats stand in the same database."""

SHOWN_BY: dict[str, str] = {"parts": "vscode-chat"}
"""What a message's `extra` holds in an agent's own shape → the source that lays it out for a reader
(its `shown_parts`)."""


class Shown(msgspec.Struct):
    """A part of an answer that is neither words nor a call: a link, what it says in words, or anything
    else as it is."""

    kind: str
    label: str
    text: str
    uri: str = ""
    words: bool = False
    edit: bool = False

    @property
    def target(self) -> str:
        """Where a link leads, as a person writes it: `/home/ann/a.py` for `file:///home/ann/a.py`."""
        if self.uri.startswith("file:///"):
            return unquote(self.uri.removeprefix("file://"))
        return self.uri


HOOKED = (
    "cursor",
    "codex",
    "gemini-cli",
    "qwen-code",
    "opencode",
    "copilot-vscode",
    "copilot-cli",
    "claude-code",
)
"""Sources that declare `HOOKS`, in the order in which they are asked whether a payload is theirs."""


class Source(Protocol):
    """What a source module offers. It may also have `session_of(path)`,
    `touched(path, position)` (see `touched_since`), RENDERED_PROMPTS (see `has_rendered_prompts`),
    REWRITES (see `rewrites`), IN_TURN (see `tells_in_turn`), HOOKS (see `hooks_of`),
    and for the timeline PLATFORM and TIMELINE (see `declared`)."""

    NAME: str
    RANGES: bool
    """Whether an origin may be cut into byte ranges at line ends."""

    def claims(self, head: Head) -> bool:
        """Whether the file is of this format, judged by its path and first bytes."""

    def places(self, home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
        """The usual places of such traces; `platform` as in sys.platform. They need not exist."""

    def read(self, origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
        """The facts that the records of the origin state, in order.

        Every record is counted in the tally: `records`, and there `noise`, `unrecognised` or
        `problems` where it states no fact; what is wrong with one may go to `flaws` there.
        `recover`: repair cut-off JSON.
        """


class Guest(Source, Protocol):
    """A source that also looks into the files of another."""

    def visits(self, head: Head) -> bool:
        """Whether the file, which is another source's, may hold records of this one."""

    def visit(self, origin: Origin, tally: Tally) -> Iterator[AnyFact]:
        """The facts of its own records. What is wrong with the file is told by the host."""


@cache
def load(name: str) -> Source:
    return cast(Source, import_module(SOURCES[name]))


def declared(name: str, what: str, default: str) -> str:
    """What a source says of itself beyond the protocol, if anything: `TIMELINE`, `PLATFORM`."""
    return cast(str, getattr(load(name), what, default)) if name in SOURCES else default


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    """The facts of an origin: of its source, with what was wrong between them, then of the source's
    guests."""
    try:
        for fact in load(origin.source).read(origin, tally, recover):
            if tally.flaws:
                yield from tally.take_flaws()
            yield fact
    except OSError:
        yield from tally.take_flaws()
        raise
    yield from tally.take_flaws()
    if origin.only:
        return
    for name in GUESTS.get(origin.source, ()):
        guest = cast(Guest, load(name))
        if guest.visits(read_head(origin.path)):
            yield from guest.visit(origin, tally)
    yield from tally.take_flaws()


def shown_parts(extra: dict[str, Any], words: str, has_calls: bool) -> Iterator[Shown]:
    """What a message with this `extra` showed beside its words and calls."""
    for name, source in SHOWN_BY.items():
        if extra.get(name):
            lay_out = load(source).shown_parts  # type: ignore[attr-defined]
            yield from lay_out(extra[name], words, has_calls)


def touched_since(source: str, path: str, position: str) -> Touched | None:
    """What was written to a database since a position; None where its source cannot tell.

    Where a guest of the source has something new, all must be read.
    """
    found = getattr(load(source), "touched", None) if source in SOURCES else None
    own, *others = position.split("\n") if position else ("",)
    made: Touched | None = found(path, own) if found is not None else None
    for number, name in enumerate(GUESTS.get(source, ()) if made is not None else ()):
        before = others[number] if number < len(others) else ""
        guests: Touched | None = load(name).touched(path, before)  # type: ignore[attr-defined]
        if made is not None and guests is not None:
            told = made.conversations if guests.conversations == () else None
            made = Touched(f"{made.position}\n{guests.position}", told, made.rows)
    return made


@cache
def hooks_of(name: str) -> Hooks | None:
    """What the source says of its agent's hooks."""
    return getattr(load(name), "HOOKS", None) if name in HOOKED else None


def session_of(origin: Origin) -> str | None:
    """The conversation that, with its sub-agents, is all that a file holds, if its path tells."""
    found = getattr(load(origin.source), "session_of", None) if origin.source in SOURCES else None
    return found(origin.path) if found is not None and origin.source not in GUESTS else None


def rewrites(name: str) -> bool:
    """Whether the agent itself rewrites its files and drops what it no longer needs (`REWRITES` in the
    source's module): a store keeps what it saw of them."""
    return name in SOURCES and getattr(load(name), "REWRITES", False)


def tells_in_turn(name: str) -> bool:
    """Whether an origin of the source tells all of one conversation before the next (`IN_TURN` in the
    source's module)."""
    return name in SOURCES and getattr(load(name), "IN_TURN", False)


def has_rendered_prompts(name: str) -> bool:
    """Whether the source's messages are whole prompts, as they were sent to a model: with a system
    message first, and with tags around what the program added (`RENDERED_PROMPTS` in its module)."""
    return name in SOURCES and getattr(load(name), "RENDERED_PROMPTS", False)


def recognise(head: Head, only: str | None = None) -> str | None:
    """The name of the first source that claims the file (or of the one that was asked for)."""
    for name in SOURCES if only is None else (only,):
        if name in SOURCES and load(name).claims(head):
            return name
    if any(only in guests for guests in GUESTS.values()):
        return only if cast(Guest, load(cast(str, only))).visits(head) else None
    return None
