"""Blocks: a conversation flattened to what is shown, one after the other."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from unspool.sources import Shown
from unspool.trajectory import Attachment
from unspool.views import Call, Item, Reading, Rule, Said, Turn
from unspool.views.calls import QUESTIONS
from unspool.views.characters import one_line, printable
from unspool.views.edits import Edit
from unspool.views.figures import clock, count, duration, plural
from unspool.views.items import output_of
from unspool.views.parts import Text, facts_of, inputs_of, label_of, parts_of

Kind = Literal[
    "title",
    "facts",
    "prompt",
    "answer",
    "thought",
    "intent",
    "call",
    "failed",
    "failure",
    "input",
    "output",
    "diff",
    "rule",
    "agent",
    "context",
    "error",
    "attachment",
]
CLIP_LINES = 400
"""Of a longer output `--full` shows this many lines and says how many there are."""

PROMPT_LINES = 20


class Block(msgspec.Struct):
    """Something to show. Whatever it was made from, its words are safe to print."""

    kind: Kind
    text: str
    depth: int = 0
    """How many sub-agents deep."""
    label: str = ""
    margin: str = ""
    edit: Edit | None = None

    def __post_init__(self) -> None:
        self.text = printable(self.text)
        self.label = one_line(self.label)
        self.margin = printable(self.margin)


class Options(msgspec.Struct):
    full: bool = False
    """Tool calls opened, reasoning and abandoned branches shown."""
    context: bool = False
    """What the program put into the conversation, too."""
    turn: int = 0
    """Where to begin, counted from 1."""


def iter_blocks(reading: Reading, options: Options, depth: int = 0) -> Iterator[Block]:
    if depth == 0:
        yield Block("title", reading.title)
        facts = {fact.name: fact.value for fact in facts_of(reading.trajectory)}
        if "Incomplete" in facts:
            facts["Incomplete"] = f"incomplete: {facts['Incomplete']}"
        yield Block("facts", " · ".join(facts.values()))
    for turn in reading.turns:
        if depth == 0 and options.turn and (turn.number is None or turn.number < options.turn - 1):
            continue
        for item in turn.items:
            yield from _item(item, turn, options, depth)


def _item(item: Item, turn: Turn, options: Options, depth: int) -> Iterator[Block]:
    if isinstance(item, Said):
        yield from _said(item, turn, options, depth)
    elif isinstance(item, Rule):
        if not item.quiet or options.context:
            yield Block("rule", one_line(item.text, 100), depth, margin=clock(item.timestamp))
        if item.body and (options.context or (item.is_answer and not item.quiet)):
            yield Block("answer" if item.is_answer else "context", item.body, depth)
    elif item.agent:
        yield from _agent(item.reading, item.title, options, depth)
    else:
        number = plural(len(item.reading.trajectory.messages), "message")
        yield Block("rule", f"{one_line(item.title, 80)}: {number} abandoned", depth)
        if options.full:
            yield from iter_blocks(item.reading, options, depth + 1)


def _agent(reading: Reading, line: str, options: Options, depth: int) -> Iterator[Block]:
    name = one_line(line or reading.title, 80)
    number = plural(len(reading.trajectory.messages), "message")
    yield Block("agent", name, depth + 1, margin=number)
    yield from iter_blocks(reading, options, depth + 1)


def _said(said: Said, turn: Turn, options: Options, depth: int) -> Iterator[Block]:
    message = said.message
    for part in parts_of(said):
        if isinstance(part, Text) and part.kind == "reasoning":
            if options.full:
                yield Block("thought", part.text.strip(), depth)
        elif said.category == "injected" and not options.context:
            return
        elif isinstance(part, Call):
            yield from _call(part, options, depth)
        elif isinstance(part, Attachment):
            name, facts = label_of(part)
            yield Block("attachment", f"{name} ({facts})", depth)
        elif isinstance(part, Shown):
            shown = part.target or (part.text if options.full else one_line(part.text, 120))
            yield Block("attachment", f"{part.label}: {shown}", depth)
        elif part.kind in ("error", "remark"):
            yield Block("error" if part.kind == "error" else "attachment", part.text, depth)
        elif part.kind == "sent":
            if options.context:
                yield Block("context", part.text.strip(), depth, "as sent")
        else:
            block = _words(said, part.text.strip(), turn, depth)
            if block.kind in ("prompt", "error") and not options.full:
                block.text = _beginning(block.text)
            yield block
    if message.role == "assistant" and message.status == "cancelled":
        yield Block("rule", "cancelled", depth)


def _call(call: Call, options: Options, depth: int) -> Iterator[Block]:
    if call.intent and not call.failed:
        yield Block("intent", call.line, depth)
        return
    line = call.line
    if call.changed:
        line += "  +{} −{}".format(*call.changed)
    name = one_line(call.call.name, 60) or "tool"
    yield Block("failed" if call.failed else "call", line, depth, name, duration(call.duration_ms))
    result = output_of(call.result).strip() if call.result is not None else ""
    if options.full:
        for edit in call.edits:
            yield Block("diff", one_line(edit.path, 200), depth, edit=edit)
        if not call.edits:
            text, _, values = inputs_of(call.call)
            rows = [text] if text else []
            for name, value in values.items():
                shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                rows.append(f"{name}: {shown}")
            yield Block("input", "\n".join(rows), depth)
        lines = result.split("\n")
        if len(lines) > CLIP_LINES:
            left = len(lines) - CLIP_LINES
            lines = [*lines[:CLIP_LINES], f"… {plural(left, 'line')} more"]
        if result:
            yield Block("output", "\n".join(lines), depth)
    elif call.failed:
        yield Block("failure", one_line(result, 160) or call.call.status or "", depth)
    elif result and call.call.name in QUESTIONS:
        yield Block("output", _beginning(result), depth)
    for child, title in call.agents():
        yield from _agent(child, title, options, depth)


def _words(said: Said, text: str, turn: Turn, depth: int) -> Block:
    message = said.message
    if said.category == "injected":
        return Block("context", text, depth, message.kind or message.role)
    kind: Kind = "answer"
    if said.error:
        kind = "error"
    elif said.category != "assistant":
        kind = "output" if said.category == "tools" else "prompt"
    written = message.usage.completion_tokens if message.usage is not None else None
    margin = f"{count(written)} out" if written is not None else ""
    label = one_line(message.model or "", 40)
    if kind == "prompt":
        is_first = said is turn.prompt and turn.number is not None
        number = str((turn.number or 0) + 1) if is_first else ""
        words = (number, message.kind, one_line(message.status or "", 20))
        label = " ".join(word for word in words if word)
    if said is turn.prompt:
        margin = "  ".join(w for w in (clock(message.timestamp), duration(turn.duration_ms)) if w)
    return Block(kind, text, depth, label, margin)


def _beginning(text: str) -> str:
    """Of a long paste only the beginning."""
    lines = text.split("\n")
    if len(lines) <= 2 * PROMPT_LINES:
        return text
    left = len(lines) - PROMPT_LINES
    return "\n".join([*lines[:PROMPT_LINES], f"… {plural(left, 'more line')} (--full)"])
