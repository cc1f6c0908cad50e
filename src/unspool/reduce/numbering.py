"""Numbering: events number the turns of the whole conversation, a list may begin in its middle."""

import msgspec

from unspool.facts import Noted
from unspool.reduce.totals import is_turn
from unspool.trajectory import Message


def count_from_list(notes: list[Noted], messages: list[Message]) -> list[Noted]:
    """The notes, those on turns numbered as the messages are.

    Events that name a request and a turn show how far the two are apart, where they all agree.
    """
    told = {(n.origin, n.offset): int(n.subject) for n in notes if n.on == "turn"}
    by_request = {
        n.subject: told[n.origin, n.offset]
        for n in notes
        if n.on == "request" and (n.origin, n.offset) in told
    }
    apart = {
        by_request[message.request_id] - message.turn
        for message in messages
        if message.turn is not None and is_turn(message) and message.request_id in by_request
    }
    if len(apart) != 1 or apart == {0}:
        return notes
    (shift,) = apart
    return [
        msgspec.structs.replace(note, subject=str(int(note.subject) - shift))
        if note.on == "turn"
        else note
        for note in notes
    ]
