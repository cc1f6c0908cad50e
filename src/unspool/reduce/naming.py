"""Naming: titles that stand in the files of one conversation and name a record of another."""

import msgspec

from unspool.facts import Noted
from unspool.io.digests import digest
from unspool.reduce.order import Record

WORST = 1 << 62


class Naming(msgspec.Struct):
    """What a conversation offers others as their title, and what it needs to be offered one."""

    offered: dict[bytes, tuple[int, str]] = {}
    """Digest of a record that is not its own → how well the title knows, and the title."""
    entries: bytes = b""
    """Digests of its own records that bear an id, one after the other."""
    rank: int = WORST
    """How well its own title knows."""


def find_naming(records: list[Record]) -> Naming:
    made = Naming()
    own = {record.entry for record in records}
    for record in records:
        for fact in record.facts:
            if isinstance(fact, Noted) and fact.name == "title" and isinstance(fact.value, str):
                if fact.on == "conversation" or (fact.on == "entry" and fact.subject in own):
                    made.rank = min(made.rank, fact.rank)
                elif fact.on == "entry":
                    made.offered[digest(fact.subject)] = (fact.rank, fact.value)
    made.entries = b"".join(digest(r.entry) for r in records if r.after is not None)
    return made
