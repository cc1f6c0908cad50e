"""The page: head, turns, calls, sub-agents, files."""

import json
import re
from collections.abc import Iterator
from urllib.parse import unquote

from unspool.sinks import Family
from unspool.sinks.markdown.parts import attached, given, pasted, remarks, returned
from unspool.sinks.markdown.prose import code, details, fenced, html, link, plain, prose, quoted
from unspool.trajectory import FileTouch, Message, Trajectory, text_of
from unspool.views import Aside, Call, Item, Reading, Rule, Said, read_family
from unspool.views.edits import Edit
from unspool.views.figures import count, duration, plural
from unspool.views.items import CHECKPOINT

_DEEPEST = 6
_LINK = re.compile(r"\[([^\[\]]*)\]\(<?([^()<>\s]+)>?\)")
_WHO = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_KINDS = {
    "injected": "Context",
    "summary": "Summary of what came before",
    "command": "Command",
    "shell": "Shell command",
    "output": "Output",
    "notification": "Notification",
    "interruption": "Interrupted",
    "steering": "User, while the model was at work",
    "error": "Error",
}
_FOLDED = frozenset(("injected", "summary", "output"))


def make_page(family: Family) -> str:
    reading = read_family(family.root, family.descendants)
    usage = family.root.usage
    workspace = family.root.workspace
    models = (family.root.model_usage or {}).get("models_used")
    rows = [
        ("Agent", " ".join(t for t in (family.root.agent, family.root.agent_version) if t)),
        ("Model", ", ".join(m for m in models if isinstance(m, str)) if models else ""),
        ("Started", family.root.started_at or ""),
        ("Ended", family.root.ended_at or ""),
    ]
    lines = [f"- {name}: {plain(value)}" for name, value in rows if value]
    if workspace is not None and workspace.path:
        lines.append(f"- Folder: {link(workspace.path, workspace.path)}")
    if usage is not None and (usage.prompt_tokens or usage.completion_tokens):
        tokens = [(usage.prompt_tokens, "in"), (usage.completion_tokens, "out")]
        figures = ", ".join(f"{count(number)} {word}" for number, word in tokens if number)
        lines.append(f"- Tokens: {figures}")
    lines.append(f"- Source: {plain(family.root.source)} {code(family.root.conversation_id)}")
    blocks = [f"# {plain(reading.title)}", "\n".join(lines), *_conversation(reading, 2)]
    files = _files(family.root)
    if files:
        blocks += ["## Files", files]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _conversation(reading: Reading, level: int) -> Iterator[str]:
    for turn in reading.turns:
        speaker = ""
        for item in turn.items:
            who = _speaker(item)
            if isinstance(item, Said) and item.message.kind in _FOLDED:
                yield _folded(item.message)
                continue
            if isinstance(item, Said):
                if who != speaker or item is turn.prompt:
                    yield _heading(item, who, level)
                yield from _said(item, level)
            elif isinstance(item, Rule):
                yield from _rule(item)
            else:
                yield _aside(item, level)
            speaker = who


def _speaker(item: Item) -> str:
    if not isinstance(item, Said):
        return ""
    message = item.message
    return _KINDS.get(message.kind or "", _WHO[message.role])


def _heading(item: Said, who: str, level: int) -> str:
    message = item.message
    notes = [
        note
        for note in (
            message.mode if message.role == "user" else message.model,
            message.status,
            message.timestamp,
        )
        if note
    ]
    mark = "#" * min(level, _DEEPEST)
    return f"{mark} {who}" + (f" <sub>{html(' · '.join(notes))}</sub>" if notes else "")


def _folded(message: Message) -> str:
    name = _KINDS[message.kind or ""]
    body = prose(message.content) if message.kind == "summary" else fenced(message.content)
    return details(html(name), body)


def _said(item: Said, level: int) -> Iterator[str]:
    message = item.message
    if message.thinking:
        yield details("Thinking", quoted(message.thinking))
    text = text_of(message)
    if message.role == "system":
        yield details("System prompt", fenced(text))
    elif message.role == "tool":
        yield details(f"Result of {html(message.name or 'a tool')}", returned(message))
    elif text:
        yield quoted(text) if message.role == "user" else prose(text)
    if message.role == "user" and message.typed is not None and message.content != message.typed:
        yield details("As the model got it", fenced(message.content))
    if message.attachments and message.role != "tool":
        yield attached(message.attachments)
        yield from pasted(message)
    for call in item.calls:
        yield _call(call, level)
    yield from remarks(message)


def _call(call: Call, level: int) -> str:
    name = f"<code>{html(call.call.name or 'tool')}</code>"
    line = call.line or _invocation(call)
    notes = [html(line)] if line else []
    status = call.call.status
    if call.failed:
        notes.append(f"<b>{html(status or 'failed')}</b>")
    if call.duration_ms is not None:
        notes.append(html(duration(call.duration_ms)))
    blocks = [_diff(edit) for edit in call.edits] or [given(call.call)]
    if call.result is not None:
        blocks.append(returned(call.result))
    blocks += [_child(child, child.title, level) for child in call.children]
    body = "\n\n".join(block for block in blocks if block)
    return details(" — ".join([name, *notes]), body or "*no input, no output*")


def _invocation(call: Call) -> str:
    """How the program itself put the call into words."""
    extra = call.call.extra or {}
    words = extra.get("past_tense") or extra.get("invocation")
    return _LINK.sub(_linked, words) if isinstance(words, str) else ""


def _linked(match: re.Match[str]) -> str:
    """A link as words: VS Code leaves its text empty and shows the file's name."""
    return match[1] or unquote(match[2].partition("#")[0].rstrip("/").rpartition("/")[2])


def _diff(edit: Edit) -> str:
    lines = "\n".join(
        line.text if line.sign == "@" else line.sign + line.text for line in edit.lines
    )
    name = link(edit.path, edit.path) if edit.path else "Edit"
    return f"{name} +{edit.added} −{edit.removed}\n\n{fenced(lines, 'diff')}"


def _child(child: Reading, title: str, level: int) -> str:
    inner = "\n\n".join(_conversation(child, level + 1))
    return details(f"Sub-agent: {html(title)}", inner)


def _aside(item: Aside, level: int) -> str:
    if item.agent:
        return _child(item.reading, item.title or item.reading.title, level)
    inner = "\n\n".join(_conversation(item.reading, level + 1))
    return details(f"Abandoned ({html(item.title)})", inner)


def _rule(rule: Rule) -> Iterator[str]:
    if rule.kind == "answer" and rule.data:
        words = [t for name in ("title", "message") if isinstance(t := rule.data.get(name), str)]
        asked = " — ".join(dict.fromkeys(t for t in words if t)) or rule.data.get("asked_by")
        yield f"*The person was asked:* {plain(str(asked))}"
        yield fenced(_answer(rule.data), "json")
    elif rule.kind == CHECKPOINT and rule.data:
        yield details(html(rule.text), prose(str(rule.data["summary"])), opened=not rule.quiet)
    elif not rule.quiet:
        yield f"---\n\n*{plain(rule.text)}*"


def _answer(data: dict[str, object]) -> str:
    kept = {k: v for k, v in data.items() if k in ("answer", "result", "questions")}
    return json.dumps(kept, indent=1, ensure_ascii=False)


def _files(trajectory: Trajectory) -> str:
    """What was done to files, by file."""
    touched: dict[str, list[FileTouch]] = {}
    for touch in trajectory.files or ():
        if touch.operation != "read" and touch.path:
            touched.setdefault(touch.path, []).append(touch)
    if not touched:
        return ""
    rows = ["| file | what | lines | outcome |", "|---|---|---|---|"]
    for path, touches in touched.items():
        what = ", ".join(dict.fromkeys(t.operation for t in touches))
        added = sum(t.lines_added or 0 for t in touches)
        removed = sum(t.lines_removed or 0 for t in touches)
        counted = any(t.lines_added is not None for t in touches)
        lines = f"+{added} −{removed}" if counted else ""
        outcome = ", ".join(dict.fromkeys(t.outcome for t in touches if t.outcome))
        times = f" ({plural(len(touches), 'time')})" if len(touches) > 1 else ""
        rows.append(f"| {link(path, path)} | {plain(what)}{times} | {lines} | {plain(outcome)} |")
    return "\n".join(rows)
