"""Files that the reader of another file looks into: they state nothing by themselves, but without
them a kept copy of that one could not be read anew."""

from collections.abc import Iterator

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.cursor.paths import DESCRIPTION, is_cursor_folder
from unspool.sources.cursor.workspace import is_value


def claims(head: Head) -> bool:
    """Which project a workspace's storage belongs to, or one more value of an unpacked table."""
    if head.name == DESCRIPTION:
        return "workspaceStorage" in head.parts[-2:] and is_cursor_folder(head.parts)
    return is_value(head.name)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    tally.records += 1
    tally.noise += 1
    yield from ()
