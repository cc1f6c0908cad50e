"""Blocks: a conversation flattened to what is shown, one after the other."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from unspool.io.values import parse_object
from unspool.trajectory import Attachment, Trajectory
from unspool.views import Aside, Call, Item, Reading, Rule, Said, Turn
from unspool.views.calls import QUESTIONS
from unspool.views.characters import one_line, printable
from unspool.views.edits import Edit
from unspool.views.figures import between_ms, clock, count, day_and_time, duration, plural, size
from unspool.views.items import CHECKPOINT, failure_of, parts_of

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
_LAST_WORD = "task_complete"
"""A mark with the answer of an agent that was left alone with its task."""


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
        yield Block("facts", " · ".join(_facts(reading.trajectory)))
    for turn in reading.turns:
        if depth == 0 and options.turn and (turn.number is None or turn.number < options.turn - 1):
            continue
        for item in turn.items:
            yield from _item(item, turn, options, depth)


def _facts(trajectory: Trajectory) -> Iterator[str]:
    yield " ".join(one_line(w, 40) for w in (trajectory.source, trajectory.agent_version) if w)
    workspace = trajectory.workspace
    if workspace is not None:
        where = workspace.path or workspace.name or workspace.repository or ""
        branch = f" ({workspace.branch})" if workspace.branch else ""
        yield one_line(where + branch, 80)
    models = (trajectory.model_usage or {}).get("models_used")
    if isinstance(models, list) and models:
        yield one_line(", ".join(map(str, models)), 80)
    if began := day_and_time(trajectory.started_at):
        yield began
    if took := duration(between_ms(trajectory.started_at, trajectory.ended_at)):
        yield took
    calls = sum(len(message.tool_calls or ()) for message in trajectory.messages)
    yield plural(len({m.turn for m in trajectory.messages if m.turn is not None}), "turn")
    yield plural(calls, "tool call")
    usage = trajectory.usage
    if usage is not None and usage.prompt_tokens is not None:
        yield f"{count(usage.prompt_tokens)} tokens in"
    if usage is not None and usage.completion_tokens is not None:
        yield f"{count(usage.completion_tokens)} out"
    if trajectory.partial:
        yield "incomplete: " + one_line(", ".join(trajectory.partial), 80)


def _item(item: Item, turn: Turn, options: Options, depth: int) -> Iterator[Block]:
    if isinstance(item, Rule):
        if not item.quiet or options.context:
            yield Block("rule", one_line(item.text, 100), depth, margin=clock(item.timestamp))
        if (
            options.context
            or item.kind == _LAST_WORD
            or (item.kind == CHECKPOINT and not item.quiet)
        ):
            # What the model was given there: the summary that stands for its history, a skill's
            # text. Or what it says when it is done, which may be the only answer.
            for name in ("summary", "content"):
                text = (item.data or {}).get(name)
                if isinstance(text, str) and text.strip():
                    kind: Kind = "answer" if item.kind in (_LAST_WORD, CHECKPOINT) else "context"
                    yield Block(kind, text.strip(), depth, name)
    elif isinstance(item, Aside):
        yield from _aside(item, options, depth)
    else:
        yield from _said(item, turn, options, depth)


def _aside(aside: Aside, options: Options, depth: int) -> Iterator[Block]:
    if aside.agent:
        yield from _agent(aside.reading, aside.title, options, depth)
        return
    number = plural(len(aside.reading.trajectory.messages), "message")
    yield Block("rule", f"{one_line(aside.title, 80)}: {number} abandoned", depth)
    if options.full:
        yield from iter_blocks(aside.reading, options, depth + 1)


def _agent(reading: Reading, line: str, options: Options, depth: int) -> Iterator[Block]:
    name = one_line(line or reading.title, 80)
    number = plural(len(reading.trajectory.messages), "message")
    yield Block("agent", name, depth + 1, margin=number)
    yield from iter_blocks(reading, options, depth + 1)


def _said(said: Said, turn: Turn, options: Options, depth: int) -> Iterator[Block]:
    message = said.message
    if message.thinking and options.full:
        yield Block("thought", message.thinking.strip(), depth)
    words = said.words
    if said.category == "injected" and not options.context:
        return
    if words.strip():
        block = _words(said, words, turn, depth)
        if block.kind in ("prompt", "error") and not options.full:
            block.text = _beginning(block.text)
        yield block
    if options.context and message.typed is not None and message.typed != message.content:
        yield Block("context", message.content.strip(), depth, "as sent")
    for attachment in message.attachments or ():
        yield Block("attachment", attachment_line(attachment), depth)
    for call in said.calls:
        if call.intent and not call.failed:
            yield Block("intent", call.line, depth)
            continue
        line = call.line
        if call.changed:
            line += "  +{} −{}".format(*call.changed)
        name = one_line(call.call.name, 60) or "tool"
        kind: Kind = "failed" if call.failed else "call"
        yield Block(kind, line, depth, name, duration(call.duration_ms))
        result = call.result.content.strip() if call.result is not None else ""
        if options.full:
            if call.edits:
                for edit in call.edits:
                    yield Block("diff", one_line(edit.path, 200), depth, edit=edit)
            else:
                yield Block("input", _arguments(call), depth)
            lines = result.split("\n")
            if len(lines) > CLIP_LINES:
                left = len(lines) - CLIP_LINES
                lines = [*lines[:CLIP_LINES], f"… {plural(left, 'line')} more"]
            if result:
                yield Block("output", "\n".join(lines), depth)
        elif call.failed:
            reason = one_line(result, 160) or call.call.status or ""
            yield Block("failure", reason, depth)
        elif result and call.call.name in QUESTIONS:
            yield Block("output", _beginning(result), depth)
        for child, title in call.agents():
            yield from _agent(child, title, options, depth)
    if failure := failure_of(message):
        yield Block("error", failure, depth)
    for part in parts_of(message):
        shown = part.target or (part.text if options.full else one_line(part.text, 120))
        yield Block("attachment", f"{part.label}: {shown}", depth)
    if message.role == "assistant" and message.status == "cancelled":
        yield Block("rule", "cancelled", depth)


def _words(said: Said, words: str, turn: Turn, depth: int) -> Block:
    message = said.message
    text = words.strip()
    kind: Kind = "answer"
    if said.error:
        kind = "error"
    elif said.category == "injected":
        return Block("context", text, depth, message.kind or message.role)
    elif said.category == "tools":
        kind = "output"
    elif said.category == "user":
        kind = "prompt"
    usage = message.usage
    written = usage.completion_tokens if usage is not None else None
    margin = f"{count(written)} out" if written is not None else ""
    if said is turn.prompt:
        margin = "  ".join(w for w in (clock(message.timestamp), duration(turn.duration_ms)) if w)
    return Block(kind, text, depth, _label(said, turn, kind), margin)


def _beginning(text: str) -> str:
    """Of a long paste only the beginning."""
    lines = text.split("\n")
    if len(lines) <= 2 * PROMPT_LINES:
        return text
    left = len(lines) - PROMPT_LINES
    return "\n".join([*lines[:PROMPT_LINES], f"… {plural(left, 'more line')} (--full)"])


def _label(said: Said, turn: Turn, kind: Kind) -> str:
    if kind != "prompt":
        return one_line(said.message.model or "", 40)
    is_first = said is turn.prompt and turn.number is not None
    number = str((turn.number or 0) + 1) if is_first else ""
    words = (number, said.message.kind, one_line(said.message.status or "", 20))
    return " ".join(word for word in words if word)


def _arguments(call: Call) -> str:
    values = parse_object(call.call.arguments)
    if values is None:
        return call.call.arguments.strip()
    rows = []
    for name, value in values.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        rows.append(f"{name}: {shown}" if len(values) > 1 or name != "command" else shown)
    return "\n".join(rows)


def attachment_line(attachment: Attachment) -> str:
    name = attachment.path or attachment.name or attachment.uri or attachment.kind
    lines = f":{attachment.start_line}" if attachment.start_line is not None else ""
    facts = [attachment.kind, size(attachment.size_bytes)]
    return f"{one_line(name, 120)}{lines} ({', '.join(f for f in facts if f)})"
