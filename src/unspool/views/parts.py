"""Parts: what is shown of a message, in which order and under which name; and the facts above it all.

The terminal, the page and Markdown only render them. Each says for itself what it keeps closed.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from unspool.io.values import field_of, list_of, parse_object, str_of
from unspool.sources import Shown, shown_parts
from unspool.trajectory import Attachment, ToolCall, Trajectory
from unspool.views.characters import one_line
from unspool.views.figures import between_ms, count, day_and_time, duration, plural, size
from unspool.views.items import Call, Said


class Text(NamedTuple):
    """Words: `typed` by a person, `prose` of a model, `output` of a program, `context` that a program
    put in, the message as it was `sent`, and what is known of an answer besides."""

    kind: Literal["reasoning", "typed", "prose", "output", "context", "sent", "error", "remark"]
    text: str
    title: str = ""


Part = Text | Attachment | Call | Shown


def parts_of(said: Said) -> Iterator[Part]:
    message, words = said.message, said.words
    extra = message.extra or {}
    if message.thinking:
        yield Text("reasoning", message.thinking, "Reasoning")
    if words.strip() and (said.category == "tools" or message.kind in ("output", "shell")):
        yield Text("output", words)
    elif words.strip() and said.category == "assistant":
        yield Text("prose", words)
    elif words.strip():
        is_typed = said.category == "user" or message.kind == "notification"
        yield Text("typed" if is_typed else "context", words)
    if message.content and message.typed not in (None, message.content):
        yield Text("sent", message.content, "As sent to the model")
    yield from message.attachments or ()
    yield from said.calls
    # Why an answer ended early, where its own words do not say it.
    failure = str_of(field_of(extra.get("error"), "message"))
    if failure and failure != message.content:
        yield Text("error", failure, "Error")
    yield from shown_parts(extra, message.content, bool(message.tool_calls))
    if extra.get("vote") in ("up", "down"):
        vote = "Helpful 👍" if extra["vote"] == "up" else "Not helpful 👎"
        why = str_of(extra.get("vote_down_reason"))
        yield Text("remark", f"{vote}: {why}" if why else vote)
    followups = [str_of(field_of(one, "message")) for one in list_of(extra.get("followups"))]
    if any(followups):
        yield Text("remark", "Suggested next: " + " · ".join(filter(None, followups)))


_NAMES = {
    "injected": "Context",
    "notification": "Notification",
    "summary": "Summary of what came before",
    "command": "Command",
    "shell": "Shell command",
    "output": "Output",
    "interruption": "Interrupted",
    "steering": "User, while the model was at work",
    "error": "Error",
}


def speaker(said: Said) -> str:
    """Who says it, or what it is."""
    message = said.message
    if message.kind in _NAMES:
        return _NAMES[message.kind]
    if message.role == "tool":
        return f"Result of {message.name or 'a tool'}"
    if said.category == "injected":
        return "System prompt" if message.role == "system" else "Context"
    return message.role.capitalize()


def inputs_of(call: ToolCall) -> tuple[str, str, dict[str, Any]]:
    """The command of a call, or all of its input where that is no object; the language of that; and
    the other arguments."""
    values = parse_object(call.arguments)
    if values is None:
        return call.arguments.strip(), "", {}
    name = next((n for n in ("command", "cmd", "script") if isinstance(values.get(n), str)), "")
    return values.pop(name, ""), "sh", values


def label_of(attachment: Attachment) -> tuple[str, str]:
    """Where it comes from, with its lines; and what it is."""
    name = attachment.path or attachment.name or attachment.uri or attachment.kind or "attachment"
    start, end = attachment.start_line, attachment.end_line
    if start is not None:
        name += f":{start}" if end in (None, start) else f":{start}–{end}"
    kind, media_type = attachment.kind, attachment.media_type
    if media_type.startswith(f"{kind}/"):
        kind = ""  # image/png is an image
    facts = (kind, media_type, size(attachment.size_bytes))
    return one_line(name, 200), ", ".join(fact for fact in facts if fact)


class Fact(NamedTuple):
    name: str
    value: str
    full: str = ""
    """The same at length."""


def facts_of(trajectory: Trajectory) -> list[Fact]:
    """What is known of a conversation as a whole."""
    workspace, usage = trajectory.workspace, trajectory.usage
    path = (workspace.path or "") if workspace else ""
    project = (path or workspace.name or workspace.repository or "") if workspace else ""
    models = (trajectory.model_usage or {}).get("models_used")
    agent = (trajectory.agent or trajectory.source, trajectory.agent_version)
    lengths = {
        "turn": len({message.turn for message in trajectory.messages if message.turn is not None}),
        "tool call": sum(len(message.tool_calls or ()) for message in trajectory.messages),
    }
    changed = {touch.path for touch in trajectory.files or () if touch.operation != "read"}
    facts = [
        Fact("Agent", " ".join(word for word in agent if word)),
        Fact("Project", project, path),
        Fact("Branch", (workspace.branch or "") if workspace else ""),
        Fact("Model", ", ".join(map(str, models)) if isinstance(models, list) else ""),
        Fact("Began", day_and_time(trajectory.started_at), trajectory.started_at or ""),
        Fact("Took", duration(between_ms(trajectory.started_at, trajectory.ended_at))),
        Fact("Length", ", ".join(plural(n, what) for what, n in lengths.items() if n)),
    ]
    if usage is not None:
        given = (usage.prompt_tokens, "tokens in"), (usage.completion_tokens, "out")
        tokens = [f"{count(number)} {word}" for number, word in given if number is not None]
        facts.append(Fact("Usage", ", ".join(tokens)))
        facts.append(Fact("Cost", f"${usage.cost_usd:.2f}" if usage.cost_usd is not None else ""))
    facts.append(Fact("Files", f"{plural(len(changed), 'file')} changed" if changed else ""))
    facts.append(Fact("Incomplete", ", ".join(trajectory.partial or ())))
    return [Fact(name, one_line(value, 80), full) for name, value, full in facts if value]
