"""Turns: the messages of a conversation cut into the requests of a chat."""

import msgspec

from unspool.trajectory import Message, Trajectory

_CONTEXT = frozenset(("injected", "summary", "output"))
"""Kinds of user message that came with the next words of the person."""


class Turn(msgspec.Struct):
    """What one request of a chat is made of."""

    number: int
    user: Message | None = None
    context: list[Message] = []
    answers: list[Message] = []
    results: dict[str, Message] = {}
    """By the id of the call."""
    stopped: bool = False
    """The person interrupted it."""


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """System prompts have no place in a chat; all other messages go to a turn."""
    turns: list[Turn] = []
    context: list[Message] = []

    def open_turn(user: Message | None) -> None:
        turns.append(Turn(len(turns), user, list(context)))
        context.clear()

    for message in trajectory.messages:
        if message.role == "user" and message.kind in _CONTEXT:
            context.append(message)
        elif message.role == "user" and message.kind == "interruption" and turns:
            turns[-1].stopped = True
        elif message.role == "user":
            open_turn(message)
        elif message.role != "system":
            if not turns:
                open_turn(None)
            _add(turns[-1], message)
    if context and not turns:
        open_turn(None)
    elif context:
        turns[-1].context += context
    return turns


def _add(turn: Turn, message: Message) -> None:
    if message.role == "assistant":
        turn.answers.append(message)
    else:
        turn.results.setdefault(message.tool_call_id or f"result-{len(turn.results)}", message)
