"""Numbering: events number the turns of the whole conversation, a list may begin in its middle."""

from itertools import takewhile

import msgspec

from unspool.facts import Noted
from unspool.reduce.totals import is_turn
from unspool.trajectory import Message


def count_from_list(notes: list[Noted], messages: list[Message], gaps: bool) -> list[Noted]:
    """The notes, those on turns numbered as the messages are.

    Where all that is left begins from a summary, or messages are missing between others, events that
    name a request and a turn show how many turns went before, if they agree.
    """
    if not gaps and not _begins_late(messages):
        return notes
    turns = {
        request: turn for turn, requests in requests_told(notes).items() for request in requests
    }
    apart = {
        turns[message.request_id] - message.turn
        for message in messages
        if message.turn is not None and is_turn(message) and message.request_id in turns
    }
    if gaps and len(apart) != 1:
        # A turn may be missing anywhere: what is only known by its number is nobody's.
        return [note for note in notes if note.on != "turn"]
    if len(apart) != 1 or apart == {0}:
        return notes
    (shift,) = apart
    return [
        msgspec.structs.replace(note, subject=str(int(note.subject) - shift))
        if note.on == "turn"
        else note
        for note in notes
    ]


def _begins_late(messages: list[Message]) -> bool:
    before = takewhile(lambda message: not is_turn(message), messages)
    return any(message.kind == "summary" for message in before)


def requests_told(notes: list[Noted]) -> dict[int, list[str]]:
    """Turn → the requests that events about it name."""
    places = {(note.origin, note.offset): int(note.subject) for note in notes if note.on == "turn"}
    told: dict[int, list[str]] = {}
    for note in notes:
        turn = places.get((note.origin, note.offset))
        if note.on == "request" and turn is not None:
            told.setdefault(turn, []).append(note.subject)
    return told
