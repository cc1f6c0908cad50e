"""Layout: a family of conversations put in the order in which a person reads it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from unspool.reduce.totals import is_turn
from unspool.trajectory import Branch, Mark, Message, Trajectory
from unspool.views.calls import headline
from unspool.views.characters import one_line
from unspool.views.edits import edits_of
from unspool.views.items import CHECKPOINT, Aside, Call, Category, Reading, Rule, Said, Turn

DEEPEST = 20
"""Sub-agents of sub-agents beyond this are shown at the end, not inside one another."""
_INJECTED = frozenset(("injected", "notification", "summary"))
_RULES = {
    "compaction": "History compacted",
    "rewind": "Rewound",
    "clear": "Context cleared",
    "context_cleared": "Context cleared",
    "fork": "Forked",
    "resume": "Resumed",
    "restart": "Restarted",
    "handoff": "Handed off",
    "abort": "Stopped",
    "truncation": "History truncated",
    "interruption": "Interrupted",
    "answer": "Asked",
    "task_complete": "Task complete",
}
"""Marks that a reader must see, in words. All others are the program's own business."""


class _Layout:
    """Lays out a family: every sub-agent once, at the call that started it."""

    def __init__(self, descendants: Iterable[Trajectory]) -> None:
        self.waiting = {child.conversation_id: child for child in descendants}
        self.agents = 0
        self.branches = 0
        self.depth = 0

    def read(self, trajectory: Trajectory, prefix: str = "") -> Reading:
        reading = Reading(trajectory, [Turn()], prefix)
        root = (trajectory.workspace.path if trajectory.workspace else None) or ""
        messages = trajectory.messages
        marks = _by_index(trajectory.marks or ())
        branches = _by_index(trajectory.branches or ())
        # Tool call → the number of the message that is its result.
        called = {call.id for message in messages for call in message.tool_calls or () if call.id}
        results: dict[str | None, int] = {}
        for index, message in enumerate(messages):
            if message.role == "tool" and message.tool_call_id in called:
                results.setdefault(message.tool_call_id, index)
        # Tool call → the sub-agents that it started; one may start many.
        started: dict[str, list[str]] = defaultdict(list)
        for link in trajectory.children or ():
            if link.tool_call_id:
                started[link.tool_call_id].append(link.conversation_id)
        # Tool call → the lines that it added and removed, in all files that it touched.
        counted: dict[str, tuple[int, int]] = {}
        for touch in trajectory.files or ():
            if touch.tool_call_id and touch.operation != "read" and touch.lines_added is not None:
                added, removed = counted.get(touch.tool_call_id, (0, 0))
                removed += touch.lines_removed or 0
                counted[touch.tool_call_id] = added + touch.lines_added, removed
        shown = set(results.values())
        for index, message in enumerate(messages):
            self._between(reading, marks.pop(index, []), branches.pop(index, []))
            if index in shown:
                continue
            said = Said(message, index, category_of(message), [])
            for call in message.tool_calls or ():
                at = results.get(call.id)
                result = messages[at] if at is not None else None
                made = Call(call, headline(call, root), result, at, edits_of(call, result))
                made.counted = counted.get(call.id)
                if made.edits and trajectory.files is None:
                    lines = [(edit.added, edit.removed) for edit in made.edits]
                    made.counted = sum(a for a, _ in lines), sum(r for _, r in lines)
                named = dict.fromkeys([call.child_id or "", *started.get(call.id, ())])
                children = map(self._child, named)
                made.children = [child for child in children if child is not None]
                said.calls.append(made)
            if is_turn(message) and said.category == "user":
                reading.turns.append(Turn(message.turn, said))
            reading.turns[-1].items.append(said)
        for left in sorted({*marks, *branches}):
            self._between(reading, marks.get(left, []), branches.get(left, []))
        reading.turns[-1].items += checkpoint_rules(trajectory)
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
            trajectory.marks = branch.marks
            title = branch.reason or "Abandoned branch"
            items.append(Aside(title, self.read(trajectory, f"b{self.branches}-")))
        items += [
            Rule(_rule_text(mark), mark.kind, mark.timestamp, mark.kind not in _RULES, mark.data)
            for mark in marks
        ]

    def _child(self, ident: str) -> Reading | None:
        if self.depth >= DEEPEST:
            return None
        # Popped, so that a ring of links cannot go round for ever.
        child = self.waiting.pop(ident, None)
        if child is None:
            return None
        self.agents += 1
        self.depth += 1
        reading = self.read(child, f"a{self.agents}-")
        self.depth -= 1
        return reading


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
    if message.kind == "error":
        return "assistant"  # in place of an answer, whoever says it: nobody may miss it
    if message.role == "system" or message.kind in _INJECTED:
        return "injected"
    if message.role == "user" and message.typed == "" and not message.attachments:
        return "injected"  # sent in the person's name, and nobody typed a word of it
    if message.role == "tool" or message.kind == "output":
        return "tools"
    return "assistant" if message.role == "assistant" else "user"


T = TypeVar("T", Mark, Branch)


def _by_index(things: Iterable[T]) -> dict[int, list[T]]:
    by_index: dict[int, list[T]] = defaultdict(list)
    for thing in things:
        by_index[thing.index].append(thing)
    return by_index


def _rule_text(mark: Mark) -> str:
    text = _RULES.get(mark.kind, mark.kind.replace("_", " ").replace("-", " ").capitalize())
    data = mark.data or {}
    if mark.kind == "answer":
        # What a person was asked, and what they answered.
        asked = data.get("title") or data.get("message") or data.get("asked_by")
        answers = [data[name] for name in ("answer", "result") if name in data]
        words = [
            one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in answers
        ]
        return one_line(f"{text}: {asked} → {', '.join(words)}", 200)
    before, after = _number(data, _BEFORE), _number(data, _AFTER)
    subjects = (data.get(name) for name in _TOLD)
    notes = [one_line(one, 80) for one in subjects if isinstance(one, str) and one.strip()][:1]
    if before is not None:
        notes.append(
            f"{before:,} → {after:,} tokens" if after is not None else f"{before:,} tokens"
        )
    return f"{text} ({', '.join(notes)})" if notes else text


_TOLD = ("trigger", "name", "new_model", "chosen_model", "new_mode", "agent_name", "message")
"""What a mark is about, in a word: a skill, the model or mode that it went over to."""
_BEFORE = ("pre_tokens", "tokens_before", "pre_compaction_tokens")
_AFTER = ("post_tokens", "tokens_after", "post_compaction_tokens")


def _number(data: dict[str, object], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if isinstance(value := data.get(name), int)), None)


_NO_SECTIONS = frozenset(("number", "title", "file", "checkpoint_path", "created_at", "kind"))


def checkpoint_rules(trajectory: Trajectory) -> Iterator[Rule]:
    """Those that no mark tells already; where nothing was said they are all that there is to see."""
    shown = [  # a list, because a number may be anything in somebody's file
        (mark.data or {}).get("checkpoint_number")
        for mark in trajectory.marks or ()
        if (mark.data or {}).get("summary")
    ]
    for checkpoint in trajectory.checkpoints or ():
        sections = {
            name: text.strip()
            for name, text in checkpoint.items()
            if name not in _NO_SECTIONS and isinstance(text, str) and text
        }
        # Each section under its name; as Markdown, which they are written in.
        words = (
            sections.get("text", "")
            if sections.keys() == {"text"}
            else "\n\n".join(
                f"## {name.replace('_', ' ').capitalize()}\n\n{text}"
                for name, text in sections.items()
            )
        )
        number = checkpoint.get("number")
        if (words or checkpoint.get("title")) and (number is None or number not in shown):
            names = (checkpoint.get(name) for name in ("number", "title"))
            title = " ".join(str(name) for name in names if name is not None)
            kind = str(checkpoint.get("kind") or CHECKPOINT).capitalize()
            quiet = bool(trajectory.messages)
            yield Rule(f"{kind} {title}".strip(), CHECKPOINT, None, quiet, {"summary": words})
