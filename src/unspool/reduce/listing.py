"""Listing: a message list that engine calls logged, the calls, and what answered them."""

from collections.abc import Iterable
from typing import Any

from unspool.facts import View
from unspool.io.longjson import decode
from unspool.prompts.shapes import list_to_messages
from unspool.reduce.width import narrow_message
from unspool.trajectory import Message


class Call:
    """One engine call: the list it saw (the first `count` messages) and what is known of it."""

    __slots__ = ("answer", "count", "view")

    def __init__(self, view: View, count: int) -> None:
        self.view = view
        self.count = count
        self.answer: Answer | None = None

    def take(self, answer: "Answer") -> None:
        self.answer = answer
        answer.used = True

    @property
    def place(self) -> tuple[str, int]:
        return (self.view.origin, self.view.offset)

    @property
    def when(self) -> tuple[int, str, int]:
        return _when(self.view)


class Answer:
    """The message that a call was answered with."""

    __slots__ = ("message", "used", "view")

    def __init__(self, view: View, message: Message) -> None:
        self.view = view
        self.message = message
        self.used = False

    @property
    def when(self) -> tuple[int, str, int]:
        return _when(self.view)


def _when(view: View) -> tuple[int, str, int]:
    return (view.time if view.time is not None else -1, view.origin, view.offset)


Gap = tuple[int, int]
"""Before which message of a list something is missing, and how many messages."""


class Listing:
    """A message list and the calls that saw a beginning of it."""

    __slots__ = ("calls", "chain", "gaps", "messages", "missing", "trouble")

    def __init__(
        self,
        messages: list[Message],
        calls: list[Call],
        missing: bool = False,
        gaps: tuple[Gap, ...] = (),
    ) -> None:
        self.messages = messages
        self.calls = calls
        self.missing = missing
        self.gaps = gaps
        """Messages are missing between others: their numbers are not those of other lists."""
        self.trouble = ""
        """The code of the problem that showed when the list was decoded."""
        self.chain = _chain(messages)

    def narrow(self) -> None:
        """Its texts as those of a list that is long."""
        for message in self.messages:
            narrow_message(message)
        self.chain = _chain(self.messages)

    @property
    def final(self) -> list[Call]:
        """The calls that saw the whole list, in order of time."""
        whole = [call for call in self.calls if call.count == len(self.messages)]
        return sorted(whole, key=lambda call: call.when)


def in_place(views: Iterable[View]) -> list[View]:
    """In an order that does not depend on who joined what when."""
    return sorted(views, key=lambda view: (view.origin, view.offset))


def _chain(messages: list[Message]) -> list[int]:
    """Per n the hash of the first n messages: whether two lists begin alike is one comparison."""
    made = [0]
    for message in messages:
        made.append(hash((made[-1], identity(message))))
    return made


def identity(message: Message) -> tuple[Any, ...]:
    """What makes two messages of a list the same one."""
    calls = tuple(call.id for call in message.tool_calls or ())
    return (message.role, message.content, calls, message.tool_call_id)


def is_empty(message: Message) -> bool:
    """Neither words nor calls: such a message says nothing (an empty tool result does)."""
    return (not message.content or message.content.isspace()) and not (
        message.tool_calls
        or message.attachments
        or message.thinking
        or message.extra
        or message.role == "tool"
    )


def elements(values: Iterable[Any]) -> list[Message]:
    return [message for message in list_to_messages(values) if not is_empty(message)]


def decode_array(text: bytes | bytearray) -> list[Any]:
    """The elements of `[…]`; raises ValueError (or RecursionError) where it is no clean array."""
    value = decode(text)
    if not isinstance(value, list):
        raise ValueError("not an array")
    return value
