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
from unspool.views.families import Node, plant
from unspool.views.items import CHECKPOINT, Aside, Call, Category, Reading, Rule, Said, Turn

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

    def __init__(self) -> None:
        self.agents = 0
        self.branches = 0

    def agent(self, node: Node) -> Reading:
        """The root or a sub-agent, with those that it started; at the end those that no call did."""
        prefix = f"a{self.agents}-" if self.agents else ""
        self.agents += 1
        children = node.by_call()
        reading = self.read(node.trajectory, prefix, children)
        for child in [child for left in children.values() for child in left]:
            inner = self.agent(child)
            reading.turns = reading.turns or [Turn()]
            aside = Aside(child.name or inner.title, inner, agent=True)
            reading.turns[-1].items.append(aside)
        return reading

    def read(self, trajectory: Trajectory, prefix: str, children: dict[str, list[Node]]) -> Reading:
        reading = Reading(trajectory, [Turn()], prefix)
        root = (trajectory.workspace.path if trajectory.workspace else None) or ""
        messages = trajectory.messages
        marks = _by_index(trajectory.marks or (), len(messages))
        branches = _by_index(trajectory.branches or (), len(messages))
        # Tool call → the number of the message that is its result.
        called = {call.id for one in messages for call in one.tool_calls or () if call.id}
        results: dict[str | None, int] = {}
        for index, got in enumerate(messages):
            if got.role == "tool" and got.tool_call_id in called:
                results.setdefault(got.tool_call_id, index)
        # Tool call → the lines that it added and removed, in all files that it touched.
        counted: dict[str, tuple[int, int]] = {}
        for touch in trajectory.files or ():
            if touch.tool_call_id and touch.operation != "read" and touch.lines_added is not None:
                added, removed = counted.get(touch.tool_call_id, (0, 0))
                removed += touch.lines_removed or 0
                counted[touch.tool_call_id] = added + touch.lines_added, removed
        shown = set(results.values())
        for index, message in enumerate([*messages, None]):
            for branch in branches.get(index, ()):
                self.branches += 1
                abandoned = Trajectory(trajectory.conversation_id, branch.messages)
                abandoned.workspace, abandoned.marks = trajectory.workspace, branch.marks
                inner = self.read(abandoned, f"b{self.branches}-", children)
                aside = Aside(branch.reason or "Abandoned branch", inner)
                reading.turns[-1].items.append(aside)
            for mark in marks.get(index, ()):
                quiet = mark.kind not in _RULES
                rule = Rule(_rule_text(mark), mark.kind, mark.timestamp, quiet, mark.data)
                reading.turns[-1].items.append(rule)
            if message is None or index in shown:
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
                if call.id:
                    made.children = [self.agent(child) for child in children.pop(call.id, ())]
                said.calls.append(made)
            if is_turn(message) and said.category == "user":
                reading.turns.append(Turn(message.turn, said))
            reading.turns[-1].items.append(said)
        reading.turns[-1].items += checkpoint_rules(trajectory)
        reading.turns = [turn for turn in reading.turns if turn.items]
        return reading


def read_family(root: Trajectory, descendants: Iterable[Trajectory] = ()) -> Reading:
    """The conversation with its sub-agents, laid out."""
    return _Layout().agent(plant(root, descendants))


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


def _by_index(things: Iterable[T], last: int) -> dict[int, list[T]]:
    by_index: dict[int, list[T]] = defaultdict(list)
    for thing in things:
        by_index[min(max(thing.index, 0), last)].append(thing)
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
