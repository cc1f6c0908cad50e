"""Witness: origins without times, in the order in which a third one tells what they tell.

Two stores may each hold another part of a conversation and share nothing; a log that repeats words
of both shows which part came first.
"""

from collections.abc import Iterator
from statistics import median

from unspool.facts import MessageSeen
from unspool.reduce.records import Record

Block = list[str]
Words = tuple[str, str]


def by_witness(
    untimed: list[Block], blocks: list[Block], records: dict[str, Record]
) -> list[Block]:
    """The blocks without times; in the order that they came in where nobody holds words of two."""
    if len(untimed) < 2 or len(blocks) < 3:
        return untimed
    said = {id(block): dict(_said(block, records)) for block in blocks}
    best: dict[int, float] = {}
    for witness in blocks:
        told = said[id(witness)]
        places = {
            id(block): median(shared)
            for block in untimed
            if block is not witness
            and (shared := [told[words] for words in said[id(block)] if words in told])
        }
        if len(places) > max(1, len(best)):
            best = places
    return sorted(untimed, key=lambda block: best.get(id(block), float("inf")))


def _said(block: Block, records: dict[str, Record]) -> Iterator[tuple[Words, int]]:
    """What was said → where in the block, for the last time."""
    for place, entry in enumerate(block):
        for fact in records[entry].facts:
            if isinstance(fact, MessageSeen):
                words = (fact.typed if fact.typed is not None else fact.text).strip()
                if words and fact.kind != "injected":
                    yield (fact.role, words), place
