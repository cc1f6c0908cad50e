"""Sources: each knows one format and nothing else.

A source is a module with the names of the `Source` protocol. To add one: the module, a row in
SOURCES, `tests/cases/<source>/`, and `docs/formats/<source>.md`.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from unspool.facts import AnyFact, Key
from unspool.origins import Head, Origin, Tally

SOURCES: dict[str, str] = {
    "vscode-chat": "unspool.sources.vscode_chat",
    "cursor": "unspool.sources.cursor",
    "recorder": "unspool.sources.recorder",
    "claude-code": "unspool.sources.claude_code",
    "copilot-vscode": "unspool.sources.copilot_vscode",
    "copilot-cli": "unspool.sources.copilot_cli",
    "copilot-telemetry": "unspool.sources.copilot_telemetry",
}
"""Name → module, in the order in which they are asked whether a file is theirs."""


class Source(Protocol):
    """What a source module offers."""

    NAME: str
    RANGES: bool
    """Whether an origin may be cut into byte ranges at line ends."""
    CURRENT: Literal["last", "longest"]
    """Which branch of a conversation is the current one: the last written, or the longest."""

    def claims(self, head: Head) -> bool:
        """Whether the file is of this format, judged by its path and first bytes."""

    def places(self, home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
        """The usual places of such traces; `platform` as in sys.platform. They need not exist."""

    def read(self, origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
        """The facts that the records of the origin state, in order.

        Every record is counted in the tally: `records`, and there `noise`, `unrecognised` or
        `problems` where it states no fact but that. `recover`: repair cut-off JSON.
        """


def load(name: str) -> Source:
    return cast(Source, import_module(SOURCES[name]))


def current_of(key: Key, source: str) -> Literal["last", "longest"]:
    """Which branch of a conversation is the current one: the product's own source knows.

    Several sources may tell of one conversation; which of them was read first must not matter.
    """
    return load(key[0] if key[0] in SOURCES else source).CURRENT


def recognise(head: Head, only: str | None = None) -> str | None:
    """The name of the first source that claims the file (or of the one that was asked for)."""
    for name in SOURCES if only is None else (only,):
        if name in SOURCES and load(name).claims(head):
            return name
    return None
