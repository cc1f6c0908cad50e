"""Width: a conversation in which anything is long is narrow throughout, so that its texts can be
compared with each other."""

from collections.abc import Iterable

import msgspec

from unspool.facts import AnyFact, MessageSeen, Noted, ToolCalled, ToolReturned, long_text
from unspool.io.narrowtext import narrow
from unspool.trajectory import Message

_TEXTS: dict[type, tuple[str, ...]] = {
    MessageSeen: ("text", "thinking", "typed", "shown"),
    ToolReturned: ("text",),
    ToolCalled: ("arguments",),
    Noted: ("value",),
}


def is_narrow(facts: Iterable[AnyFact]) -> bool:
    return any(long_text(fact) for fact in facts)


def narrowed(fact: AnyFact) -> AnyFact:
    changed = {}
    for name in _TEXTS.get(type(fact), ()):
        text = getattr(fact, name)
        if isinstance(text, str) and (made := narrow(text)) is not text:
            changed[name] = made
    return msgspec.structs.replace(fact, **changed) if changed else fact


def narrow_message(message: Message) -> None:
    """One that was decoded from a list that is not long itself."""
    message.content = narrow(message.content)
    if message.thinking:
        message.thinking = narrow(message.thinking)
    for call in message.tool_calls or ():
        call.function.arguments = narrow(call.function.arguments)
