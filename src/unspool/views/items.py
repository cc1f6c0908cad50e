"""Items: what a conversation is made of for a reader."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from unspool.io.values import str_of
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


def output_of(result: Message) -> str:
    """What the model got; where that is nothing, what the tool returned."""
    if result.content.strip() or result.attachments or result.details is None:
        return result.content
    details = result.details
    return details if isinstance(details, str) else json.dumps(details, indent=1, default=str)


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
        if self.message.role == "tool":
            return output_of(self.message)
        words = text_of(self.message) or self.message.content
        if self.message.kind not in _UNWRAPPED:
            return words
        # Without `<local-command-stdout>` or the like around the whole of it.
        opening, ending = _OPENING.match(words), words.rstrip()
        closing = f"</{opening[1]}>" if opening else ""
        if opening is None or not ending.endswith(closing) or ending.count(closing) > 1:
            return words
        return ending[opening.end() : -len(closing)]

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

    @property
    def body(self) -> str:
        """What the model was given there, a summary or a skill's text, or what it said at the end."""
        texts = (str_of((self.data or {}).get(name)).strip() for name in ("summary", "content"))
        return next(filter(None, texts), "")

    @property
    def is_answer(self) -> bool:
        """Whether its body is for the reader: a checkpoint, or the last words of an agent that was left
        alone with its task."""
        return self.kind in (CHECKPOINT, "task_complete") and bool(self.body)


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
        ends = (item for item in self.items if isinstance(item, Rule) and item.kind == "turn_end")
        times: list[Any] = [(end.data or {}).get("duration_ms") for end in ends]
        if measured := [float(time) for time in times if type(time) in (int, float)]:
            return sum(measured)
        messages: list[Message | None] = []
        for item in self.items:
            if isinstance(item, Said):
                messages += [item.message, *(call.result for call in item.calls)]
        stamps = [one.timestamp for one in messages if one is not None and one.timestamp]
        # Nothing between is nothing known: records written together have one time.
        return (between_ms(stamps[0], stamps[-1]) or None) if len(stamps) > 1 else None

    @property
    def title(self) -> str:
        """Its prompt, for a list of turns."""
        if self.prompt is None:
            return "Before the first prompt"
        return one_line(self.prompt.words, 90) or "(nothing typed)"


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
