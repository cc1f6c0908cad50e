"""What the person typed: their own words, out of a message that a program wrapped.

Only blocks that the catalogue knows as context are taken away. A block that nobody knows stays: a
person may paste XML, and what was typed must not get lost. Names that people write too (`context`,
`instructions`) count only in a message that a program is known to have rendered: because the message
stands in a list as it was sent, or because it holds a tag that only programs write.
"""

from typing import Literal, NamedTuple

from unspool.prompts.catalogue import Catalogue, active
from unspool.prompts.tags import Block, blocks, without

_SAID = frozenset(("command",))
"""Routes that hold what the person did, so that a message is not mere context for them."""

_FILLERS = frozenset(("Please continue.",))
"""What a program puts at the end of a list that would not end in a user message."""

_ADJACENT = 4
"""Blocks in a row on one line that are looked for."""


class Wording(NamedTuple):
    """What a user message is, and what of it was typed."""

    kind: Literal["summary", "injected"] | None
    """None where a person speaks."""
    typed: str | None


def read_wording(text: str, blocks: list[Block], catalogue: Catalogue, rendered: bool) -> Wording:
    """The kind of a message and the person's words in it, from its blocks.

    `rendered`: the message is known to be as the program sent it.
    """
    if not blocks:
        return Wording(None, text)
    request = find_request(text, blocks, catalogue)
    if request is not None:
        return Wording(None, request.inner.strip())
    telling = any(block.name in catalogue.telling for block in blocks)
    if any(block.name in catalogue.summaries for block in blocks):
        return Wording("summary", None)
    context = [b for b in blocks if b.name in catalogue.standing and not _is_said(b, catalogue)]
    if not context:
        return Wording(None, text)
    rest = _strip_telling(without(text, context), catalogue)
    words = catalogue.lead.sub("", rest).strip() if rest and catalogue.lead else rest
    if telling or len(words) < len(rest) or (rendered and not rest):
        return Wording(None, words) if words else Wording("injected", None)
    return Wording(None, text)


def _strip_telling(rest: str, catalogue: Catalogue) -> str:
    """Without blocks that stand right behind others (`</bash-stdout><bash-stderr>`)."""
    for _ in range(_ADJACENT):
        telling = [
            block
            for block in blocks(rest)
            if block.name in catalogue.telling
            and block.name not in catalogue.requests
            and not _is_said(block, catalogue)
        ]
        if not telling:
            break
        rest = without(rest, telling)
    return rest


def typed_text(text: str, rendered: bool = True) -> str | None:
    """What the person typed; None where the message holds nothing of theirs."""
    tagged = blocks(text)
    return read_wording(text, tagged, active(), rendered).typed if tagged else text


def context_kind(text: str, rendered: bool = True) -> Literal["summary", "injected"] | None:
    """What a user message is that a program wrote: a summary, or context; None where a person did."""
    if "<" not in text:
        return "injected" if rendered and text in _FILLERS else None
    tagged = blocks(text)
    return read_wording(text, tagged, active(), rendered).kind if tagged else None


def opens_from(
    text: str, catalogue: Catalogue
) -> tuple[Literal["summary", "injected"] | None, str | None]:
    """What a user message of a list is (`context_kind`), and the summary in it (`summary_of`)."""
    tagged = blocks(text)
    if not tagged:
        return ("injected" if text in _FILLERS else None), None
    return read_wording(text, tagged, catalogue, True).kind, _summary(tagged, catalogue)


def find_request(text: str, tagged: list[Block], catalogue: Catalogue) -> Block | None:
    """The last block with the person's words.

    One by a name that people write too counts only in a message that a program rendered, or where
    all else is context.
    """
    requests = [block for block in tagged if block.name in catalogue.requests]
    for block in reversed(requests):
        if block.name in catalogue.telling:
            return block
    if not requests:
        return None
    if any(block.name in catalogue.telling for block in tagged):
        return requests[-1]
    catalogued = [b for b in tagged if b.name in catalogue.standing or b.name in catalogue.requests]
    return None if without(text, catalogued) else requests[-1]


def _is_said(block: Block, catalogue: Catalogue) -> bool:
    return catalogue.route(block.name) in _SAID


def summary_of(text: str) -> str | None:
    """The conversation summary that a message begins from, where it holds one."""
    tagged = blocks(text)
    return _summary(tagged, active()) if tagged else None


def _summary(tagged: list[Block], catalogue: Catalogue) -> str | None:
    summaries = [block for block in tagged if block.name in catalogue.summaries]
    return summaries[-1].inner if summaries else None
