"""Items: what a conversation is made of for a reader."""

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from unspool.io.values import field_of
from unspool.sources import Shown, shown_parts
from unspool.trajectory import Message, ToolCall, Trajectory, text_of
from unspool.views.calls import INTENTS
from unspool.views.characters import one_line
from unspool.views.edits import Edit
from unspool.views.figures import between_ms

Category = Literal["user", "assistant", "tools", "injected"]

CHECKPOINT = "checkpoint"
"""The kind of a rule that holds a summary which the program kept of the conversation."""
_UNWRAPPED = frozenset(("output", "shell", "interruption", "notification"))
_OPENING = re.compile(r"\s*<([A-Za-z][\w-]*)>")
_BAD = frozenset(("failed", "denied", "interrupted", "cancelled"))


class Call(msgspec.Struct):
    """A tool call and what came of it."""

    call: ToolCall
    line: str
    result: Message | None = None
    result_index: int | None = None
    """The number of the message that is its result."""
    edits: list[Edit] = []
    counted: tuple[int, int] | None = None
    """Lines added and removed, as the trajectory's list of files has them; of its edits where its
    source makes no such list."""
    children: list["Reading"] = []
    """The sub-agents that it started."""

    @property
    def failed(self) -> bool:
        return self.call.status in _BAD or bool(self.result and self.result.is_error)

    @property
    def changed(self) -> tuple[int, int] | None:
        """Lines added and removed. A call that failed or was denied changed nothing."""
        return None if self.failed else self.counted

    def agents(self) -> Iterator[tuple["Reading", str]]:
        """Its sub-agents, each with a title: the call's own line where it started only one."""
        for child in self.children:
            yield child, self.line if len(self.children) == 1 else child.title

    @property
    def intent(self) -> bool:
        return self.call.name in INTENTS

    @property
    def duration_ms(self) -> float | None:
        if self.call.duration_ms is not None:
            return self.call.duration_ms
        return self.result.duration_ms if self.result is not None else None


class Said(msgspec.Struct):
    """A message, with the calls that it made."""

    message: Message
    index: int
    category: Category
    calls: list[Call] = []

    @property
    def words(self) -> str:
        """What it says to a reader: what was typed, without a tag around the whole of it."""
        words = text_of(self.message) or self.message.content
        return _unwrapped(words) if self.message.kind in _UNWRAPPED else words

    @property
    def error(self) -> bool:
        return self.message.kind == "error" or bool(self.message.is_error)


class Rule(msgspec.Struct):
    """A line across the page: something that happened between messages."""

    text: str
    kind: str
    timestamp: str | None = None
    quiet: bool = False
    data: dict[str, Any] | None = None


class Aside(msgspec.Struct):
    """Messages that were abandoned, or a sub-agent that no call names."""

    title: str
    reading: "Reading"
    agent: bool = False


Item = Said | Rule | Aside


class Turn(msgspec.Struct):
    """What a person said and all that followed; without a prompt, what came before the first."""

    number: int | None = None
    prompt: Said | None = None
    items: list[Item] = []
    """Everything, the prompt included, in order."""

    @property
    def duration_ms(self) -> float | None:
        """As the program measured it, else from the first time in it to the last."""
        measured = [time for item in self.items if (time := _measured(item)) is not None]
        if measured:
            return sum(measured)
        stamps = [stamp for item in self.items for stamp in _stamps(item)]
        # Nothing between is nothing known: records written together have one time.
        return (between_ms(stamps[0], stamps[-1]) or None) if len(stamps) > 1 else None

    @property
    def title(self) -> str:
        """Its prompt, for a list of turns."""
        if self.prompt is None:
            return "Before the first prompt"
        return one_line(self.prompt.words, 90) or "(nothing typed)"


def _measured(item: Item) -> float | None:
    if not isinstance(item, Rule) or item.kind != "turn_end":
        return None
    time = (item.data or {}).get("duration_ms")
    return time if isinstance(time, int | float) and not isinstance(time, bool) else None


class Reading(msgspec.Struct):
    trajectory: Trajectory
    turns: list[Turn]
    prefix: str = ""
    """What tells its messages apart from those of its family: empty, `a1-`, `b2-` …"""

    @property
    def title(self) -> str:
        """Its title, else what was said first, else its id."""
        if self.trajectory.title:
            return one_line(self.trajectory.title, 120)
        prompts = (turn.prompt for turn in self.turns if turn.prompt is not None)
        words = (one_line(prompt.words, 120) for prompt in prompts)
        return next(filter(None, words), self.trajectory.conversation_id)

    def items(self) -> Iterator[Item]:
        for turn in self.turns:
            yield from turn.items

    def said(self) -> Iterator[Said]:
        return (item for item in self.items() if isinstance(item, Said))


def _stamps(item: Item) -> Iterator[str]:
    if isinstance(item, Said):
        if item.message.timestamp:
            yield item.message.timestamp
        for call in item.calls:
            if call.result is not None and call.result.timestamp:
                yield call.result.timestamp


def _unwrapped(words: str) -> str:
    """Without `<local-command-stdout>` or the like around the whole of it."""
    opening = _OPENING.match(words)
    closing = f"</{opening[1]}>" if opening else ""
    ending = words.rstrip()
    if opening is None or not ending.endswith(closing) or ending.count(closing) > 1:
        return words
    return ending[opening.end() : -len(closing)]


def parts_of(message: Message) -> Iterator[Shown]:
    """What an answer showed beside its words and calls, as its source says it."""
    return shown_parts(message.extra or {}, message.content, bool(message.tool_calls))


def failure_of(message: Message) -> str:
    """Why an answer ended early, where its own words do not say it."""
    reason = field_of((message.extra or {}).get("error"), "message")
    return reason if isinstance(reason, str) and reason != message.content else ""
