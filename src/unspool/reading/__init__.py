"""Reading: a conversation laid out as a person reads it, for the terminal and for the page.

Turns with their prompt, answers with the tool calls that they made and what came of each, sub-agents
at the call that started them, rules where history was compacted or rewound, abandoned branches.

characters.py  what is safe to look at        figures.py  numbers for people
calls.py       a tool call in a line          edits.py    a tool call as a diff
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar

import msgspec

from unspool.reading.calls import INTENTS, headline
from unspool.reading.characters import one_line
from unspool.reading.edits import Edit, edits_of
from unspool.reading.figures import between_ms
from unspool.reduce.totals import is_turn
from unspool.trajectory import Branch, Mark, Message, ToolCall, Trajectory, text_of

Category = Literal["user", "assistant", "tools", "injected"]

_UNWRAPPED = frozenset(("output", "shell", "interruption", "notification"))
_OPENING = re.compile(r"\s*<([A-Za-z][\w-]*)>")
_INJECTED = frozenset(("injected", "notification", "summary"))
_BAD = frozenset(("failed", "denied", "interrupted", "cancelled"))
_RULES = {
    "compaction": "History compacted",
    "rewind": "Rewound",
    "clear": "Context cleared",
    "fork": "Forked",
    "resume": "Resumed",
    "restart": "Restarted",
    "handoff": "Handed off",
    "abort": "Stopped",
    "truncation": "History truncated",
    "interruption": "Interrupted",
}
"""Marks that a reader must see, in words. All others are the program's own business."""


class Call(msgspec.Struct):
    """A tool call and what came of it."""

    call: ToolCall
    line: str
    result: Message | None = None
    result_index: int | None = None
    """The number of the message that is its result."""
    edits: list[Edit] = []
    child: "Reading | None" = None

    @property
    def failed(self) -> bool:
        return self.call.status in _BAD or bool(self.result and self.result.is_error)

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
        stamps = [stamp for item in self.items for stamp in _stamps(item)]
        # Nothing between is nothing known: records written together have one time.
        return (between_ms(stamps[0], stamps[-1]) or None) if len(stamps) > 1 else None

    @property
    def completion_tokens(self) -> int | None:
        known = [
            item.message.usage.completion_tokens
            for item in self.items
            if isinstance(item, Said) and item.message.usage
        ]
        numbers = [number for number in known if number is not None]
        return sum(numbers) if numbers else None


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


class _Layout:
    """Lays out a family: every sub-agent once, at the call that started it."""

    def __init__(self, descendants: Iterable[Trajectory]) -> None:
        self.waiting = {child.conversation_id: child for child in descendants}
        self.agents = 0
        self.branches = 0

    def read(self, trajectory: Trajectory, prefix: str = "") -> Reading:
        reading = Reading(trajectory, [Turn()], prefix)
        marks = _by_index(trajectory.marks or ())
        branches = _by_index(trajectory.branches or ())
        results = _results(trajectory.messages)
        shown = set(results.values())
        for index, message in enumerate(trajectory.messages):
            self._between(reading, marks.pop(index, []), branches.pop(index, []))
            if index in shown:
                continue
            said = self._said(trajectory, message, index, results)
            if is_turn(message) and said.category == "user":
                reading.turns.append(Turn(message.turn, said))
            reading.turns[-1].items.append(said)
        for left in sorted({*marks, *branches}):
            self._between(reading, marks.get(left, []), branches.get(left, []))
        for link in trajectory.children or ():
            child = self._child(link.conversation_id)
            if child is not None:
                title = link.name or child.title
                reading.turns[-1].items.append(Aside(title, child, agent=True))
        reading.turns = [turn for turn in reading.turns if turn.items]
        return reading

    def _between(self, reading: Reading, marks: list[Mark], branches: list[Branch]) -> None:
        items = reading.turns[-1].items
        for branch in branches:
            self.branches += 1
            trajectory = Trajectory(reading.trajectory.conversation_id, branch.messages)
            trajectory.workspace = reading.trajectory.workspace
            title = branch.reason or "Abandoned branch"
            items.append(Aside(title, self.read(trajectory, f"b{self.branches}-")))
        items += [
            Rule(_rule_text(mark), mark.kind, mark.timestamp, mark.kind not in _RULES, mark.data)
            for mark in marks
        ]

    def _said(
        self, trajectory: Trajectory, message: Message, index: int, results: dict[str, int]
    ) -> Said:
        root = (trajectory.workspace.path if trajectory.workspace else None) or ""
        calls: list[Call] = []
        for call in message.tool_calls or ():
            at = results.get(call.id)
            result = trajectory.messages[at] if at is not None else None
            made = Call(call, headline(call, root), result, at, edits_of(call, result))
            made.child = self._child(call.child_id) if call.child_id else None
            calls.append(made)
        return Said(message, index, category_of(message), calls)

    def _child(self, ident: str) -> Reading | None:
        # Popped, so that a ring of links cannot go round for ever.
        child = self.waiting.pop(ident, None)
        if child is None:
            return None
        self.agents += 1
        return self.read(child, f"a{self.agents}-")


def read_family(root: Trajectory, descendants: Iterable[Trajectory] = ()) -> Reading:
    """The conversation with its sub-agents, laid out."""
    layout = _Layout(descendants)
    layout.waiting.pop(root.conversation_id, None)
    reading = layout.read(root)
    while layout.waiting:
        # A child that nothing in the family names (its parent is missing): at the end.
        child = layout._child(next(iter(layout.waiting)))
        if child is not None:
            reading.turns = reading.turns or [Turn()]
            reading.turns[-1].items.append(Aside(child.title, child, agent=True))
    return reading


def category_of(message: Message) -> Category:
    if message.role == "system" or message.kind in _INJECTED:
        return "injected"
    if message.role == "user" and message.typed == "" and not message.attachments:
        return "injected"  # sent in the person's name, and nobody typed a word of it
    if message.role == "tool" or message.kind == "output":
        return "tools"
    return "assistant" if message.role == "assistant" else "user"


def _unwrapped(words: str) -> str:
    """Without `<local-command-stdout>` or the like around the whole of it."""
    opening = _OPENING.match(words)
    closing = f"</{opening[1]}>" if opening else ""
    ending = words.rstrip()
    if opening is None or not ending.endswith(closing) or ending.count(closing) > 1:
        return words
    return ending[opening.end() : -len(closing)]


def _results(messages: list[Message]) -> dict[str, int]:
    """Tool call → the number of the message that is its result."""
    called = {call.id for message in messages for call in message.tool_calls or () if call.id}
    found: dict[str, int] = {}
    for index, message in enumerate(messages):
        ident = message.tool_call_id
        if message.role == "tool" and ident in called:
            found.setdefault(str(ident), index)
    return found


T = TypeVar("T", Mark, Branch)


def _by_index(things: Iterable[T]) -> dict[int, list[T]]:
    made: dict[int, list[T]] = {}
    for thing in things:
        made.setdefault(thing.index, []).append(thing)
    return made


def _rule_text(mark: Mark) -> str:
    text = _RULES.get(mark.kind, mark.kind.replace("_", " ").replace("-", " ").capitalize())
    data = mark.data or {}
    before, after = _number(data, _BEFORE), _number(data, _AFTER)
    trigger = data.get("trigger")
    notes = [str(trigger)] if isinstance(trigger, str) and trigger else []
    if before is not None:
        notes.append(
            f"{before:,} → {after:,} tokens" if after is not None else f"{before:,} tokens"
        )
    return f"{text} ({', '.join(notes)})" if notes else text


_BEFORE = ("pre_tokens", "preTokens", "tokens_before", "preCompactionTokens")
_AFTER = ("post_tokens", "postTokens", "tokens_after", "postCompactionTokens")


def _number(data: dict[str, object], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if isinstance(value := data.get(name), int)), None)
