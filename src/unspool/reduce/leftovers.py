"""Leftovers: what was said after the last list that was logged, or where none was.

Large records get lost on their way sooner than small ones: of a turn the answers may be left, and the
events that tell what the person typed and what was replied.
"""

from typing import NamedTuple

from unspool.facts import ECHO, AnyFact, MessageSeen, Noted, View
from unspool.io.times import format_time
from unspool.reduce.listing import Answer
from unspool.trajectory import Message

When = tuple[int, str, int]
Place = tuple[When, int]


class Known(NamedTuple):
    """What the lists hold."""

    messages: list[Message]
    views: list[View]
    last: When

    def has_words(self, text: str) -> bool:
        return any(text.strip() in message.content for message in self.messages)


def left_over(known: Known, answers: list[Answer], rest: list[AnyFact]) -> list[Message]:
    """The answers, among the words of other events that no list holds, in order."""
    asked = _asked(known.views, rest)
    placed: list[tuple[Place, Message]] = [((one.when, 1), one.message) for one in answers]
    first: dict[str, When] = {}
    for answer in reversed(answers):
        first[answer.view.request] = answer.when
    for fact in rest:
        if not isinstance(fact, MessageSeen) or fact.rank < ECHO:
            continue
        when = (fact.time if fact.time is not None else -1, fact.origin, fact.offset)
        # Without ids nobody can tell whether the turn is one that the lists show.
        tells = bool(asked and fact.request) and when > known.last
        if fact.request in asked or (known.messages and not tells) or known.has_words(fact.text):
            continue
        if fact.role == "user":  # sent when the turn is over, though said before it
            placed.append(((first.get(fact.request, when), 0), _message(fact)))
        elif fact.request not in first:
            placed.append(((when, 2), _message(fact)))
    return [message for _, message in sorted(placed, key=lambda item: item[0])]


def _asked(views: list[View], rest: list[AnyFact]) -> set[str]:
    """The requests whose calls were logged, by all the ids that events give to them."""
    asked = {ident for view in views for ident in (view.request, view.message) if ident}
    told: dict[tuple[str, int], set[str]] = {}
    for fact in rest:
        if isinstance(fact, Noted) and fact.on == "request":
            told.setdefault((fact.origin, fact.offset), set()).add(fact.subject)
    return asked.union(*(ids for ids in told.values() if ids & asked))


def _message(fact: MessageSeen) -> Message:
    return Message(
        fact.role,
        fact.text,
        request_id=fact.request or None,
        timestamp=format_time(fact.time),
        mode=fact.mode or None,
    )
