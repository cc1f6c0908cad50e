"""Markdown: a conversation as a transcript to read, with what the tools were given and gave back.

One `<id>.md` per conversation, sub-agents where they were called. `docs/markdown.md`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote

from unspool.facts import Attachment
from unspool.io.values import field_of, list_of, parse_object, str_of
from unspool.sinks import Family, Options, Piece, safe_name
from unspool.trajectory import FileTouch, Message, ToolCall, Trajectory, text_of
from unspool.views import Call, Reading, Rule, Said, read_family
from unspool.views.characters import printable
from unspool.views.figures import count, duration, plural, size
from unspool.views.items import CHECKPOINT, failure_of, parts_of
from unspool.views.plain import diff_lines

NAME = "markdown"
MANY_FILES = True
FAMILIES = True

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


def write(family: Family, options: Options) -> Iterator[Piece]:
    name = safe_name(family.root.conversation_id) + ".md"
    yield Piece(name, make_page(family).encode("utf-8", "replace"))


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
            if isinstance(item, Said):
                message = item.message
                who = _KINDS.get(message.kind or "", _WHO[message.role])
                if message.kind in _FOLDED:
                    show = prose if message.kind == "summary" else fenced
                    yield details(html(who), show(message.content))
                    continue
                if who != speaker or item is turn.prompt:
                    described = message.mode if message.role == "user" else message.model
                    notes = (described, message.status, message.timestamp)
                    small = html(" · ".join(note for note in notes if note))
                    mark = "#" * min(level, _DEEPEST)
                    yield f"{mark} {who} <sub>{small}</sub>" if small else f"{mark} {who}"
                yield from _said(item, level)
                speaker = who
                continue
            speaker = ""
            if isinstance(item, Rule):
                yield from _rule(item)
            else:
                title = item.title or item.reading.title
                summary = f"Sub-agent: {title}" if item.agent else f"Abandoned ({item.title})"
                yield _inner(item.reading, summary, level)


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
    line = call.line
    if not line:
        # How the program itself put the call into words.
        extra = call.call.extra or {}
        words = extra.get("past_tense") or extra.get("invocation")
        line = _LINK.sub(_linked, words) if isinstance(words, str) else ""
    notes = [html(line)] if line else []
    status = call.call.status
    if call.failed:
        notes.append(f"<b>{html(status or 'failed')}</b>")
    if call.duration_ms is not None:
        notes.append(html(duration(call.duration_ms)))
    blocks: list[str] = []
    for edit in call.edits:
        file = link(edit.path, edit.path) if edit.path else "Edit"
        blocks.append(f"{file} +{edit.added} −{edit.removed}")
        blocks.append(fenced("\n".join(diff_lines(edit)), "diff"))
    if not call.edits:
        blocks.append(given(call.call))
    if call.result is not None:
        blocks.append(returned(call.result))
    blocks += [_inner(child, f"Sub-agent: {child.title}", level) for child in call.children]
    body = "\n\n".join(block for block in blocks if block)
    return details(" — ".join([name, *notes]), body or "*no input, no output*")


def _linked(match: re.Match[str]) -> str:
    """A link as words: VS Code leaves its text empty and shows the file's name."""
    return match[1] or unquote(match[2].partition("#")[0].rstrip("/").rpartition("/")[2])


def _inner(reading: Reading, summary: str, level: int) -> str:
    return details(html(summary), "\n\n".join(_conversation(reading, level + 1)))


def _rule(rule: Rule) -> Iterator[str]:
    if rule.kind == "answer" and rule.data:
        words = [t for name in ("title", "message") if isinstance(t := rule.data.get(name), str)]
        asked = " — ".join(dict.fromkeys(t for t in words if t)) or rule.data.get("asked_by")
        yield f"*The person was asked:* {plain(str(asked))}"
        answer = {k: v for k, v in rule.data.items() if k in ("answer", "result", "questions")}
        yield fenced(json.dumps(answer, indent=1, ensure_ascii=False), "json")
    elif rule.kind == CHECKPOINT and rule.data:
        yield details(html(rule.text), prose(str(rule.data["summary"])), opened=not rule.quiet)
    elif not rule.quiet:
        yield f"---\n\n*{plain(rule.text)}*"


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


def attached(attachments: Iterable[Attachment]) -> str:
    return "\n".join(f"- {_attachment(attachment)}" for attachment in attachments)


def pasted(message: Message) -> Iterator[str]:
    """The texts that were attached, where the message itself does not hold them."""
    for attachment in message.attachments or ():
        text = attachment.text or ""
        if text.strip() and text not in message.content:
            name = attachment.name or attachment.path or attachment.kind or "attachment"
            yield details(f"📎 {html(name)}", fenced(text))


def _attachment(attachment: Attachment) -> str:
    target = attachment.path or attachment.uri
    name = attachment.name or target or attachment.kind or "attachment"
    lines = ""
    if attachment.start_line is not None:
        end = attachment.end_line
        lines = f"#L{attachment.start_line}" + (f"-L{end}" if end else "")
    notes = [n for n in (attachment.kind, attachment.media_type, size(attachment.size_bytes)) if n]
    shown = link(name + lines, target) if target else plain(name + lines)
    return f"📎 {shown}" + (f" ({plain(', '.join(notes))})" if notes else "")


def remarks(message: Message) -> Iterator[str]:
    """What is known about an answer besides its words."""
    extra = message.extra or {}
    if failure := failure_of(message):
        yield f"> **Error:** {plain(failure)}"
    for part in parts_of(message):
        if part.uri:
            yield f"- 🔗 {link(part.text, part.uri)}"
        elif part.words and part.edit:
            yield details(html(part.label), fenced(part.text, "diff"))
        elif part.words and "\n" in part.text:
            yield f"*{plain(part.label)}:*\n\n{fenced(part.text)}"
        elif part.words:
            yield f"*{plain(part.label)}:* {plain(part.text)}"
        else:
            yield details(f"<code>{html(part.kind)}</code>", fenced(part.text, "json"))
    if extra.get("vote") in ("up", "down"):
        reason = extra.get("vote_down_reason")
        why = f": {plain(reason)}" if isinstance(reason, str) else ""
        yield f"*{'Helpful 👍' if extra['vote'] == 'up' else 'Not helpful 👎'}{why}*"
    followups = [str_of(field_of(one, "message")) for one in list_of(extra.get("followups"))]
    if any(followups):
        yield "*Suggested next:* " + " · ".join(map(plain, filter(None, followups)))


_COMMANDS = ("command", "cmd", "script")


def given(call: ToolCall) -> str:
    """The arguments: a command as such, other objects as JSON over lines, plain text as it is."""
    if not call.arguments:
        return ""
    values = parse_object(call.arguments)
    if values is None:
        return f"Input:\n\n{fenced(call.arguments)}"
    blocks: list[str] = []
    for name in _COMMANDS:
        if isinstance(values.get(name), str):
            blocks.append(fenced(str(values.pop(name)), "sh"))
            break
    if values:
        blocks.append(fenced(json.dumps(values, indent=2, ensure_ascii=False), "json"))
    return "Input:\n\n" + "\n\n".join(blocks) if blocks else ""


def returned(result: Message) -> str:
    """What the model got; what the tool returned besides, where the model got nothing."""
    blocks: list[str] = []
    if result.content:
        blocks.append(fenced(result.content))
    elif result.details is not None:
        shown = result.details
        if not isinstance(shown, str):
            shown = json.dumps(shown, indent=1, ensure_ascii=False, default=str)
        blocks.append(fenced(shown, "json"))
    if result.attachments:
        blocks.append(attached(result.attachments))
    if not blocks:
        return "Output: none"
    return "Output:\n\n" + "\n\n".join(blocks)


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_GLUED = re.compile(r"^( {0,3}(?:`{3,}|~{3,}))(\[[^\[\]\n]*\]\([^()\s]+\))", re.MULTILINE)
"""The end of a block with a link on it: a reference that stood behind the block in the chat. A block
that began so would have a link as its language."""
_TICKS = re.compile(r"(`+)")
_RUNS = re.compile(r"`{3,}")
_TAG = re.compile(r"<(?!https?://|mailto:)(?=[A-Za-z/!?])")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any inside."""
    text = printable(text)
    longest = max((len(run) for run in _RUNS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def prose(text: str) -> str:
    """Markdown that a model wrote: open fences are closed, HTML is shown instead of obeyed."""
    lines: list[str] = []
    fence = ""
    for line in _GLUED.sub(r"\1\n\n\2", printable(text)).split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        elif match and not ("`" in match[2] and match[1][0] == "`"):
            fence = match[1]
        else:
            line = _without_tags(line)
        lines.append(line)
    if fence:
        lines.append(fence)
    return "\n".join(lines).strip("\n")


def _without_tags(line: str) -> str:
    """Tags outside of inline code get an entity for their bracket."""
    if "<" not in line:
        return line
    pieces = _TICKS.split(line)
    safe: list[str] = []
    opened = ""
    for number, piece in enumerate(pieces):
        ticks = number % 2 == 1
        if ticks and opened == piece:
            opened = ""
        elif ticks and not opened and piece in pieces[number + 2 :: 2]:
            opened = piece
        elif not ticks and not opened:
            piece = _TAG.sub("&lt;", piece)
        safe.append(piece)
    return "".join(safe)


def quoted(text: str) -> str:
    """A block quote: nothing that is opened in it stays open behind it."""
    return "\n".join(f"> {line}".rstrip() for line in prose(text).split("\n"))


def plain(text: str) -> str:
    """Words on one line in which nothing is Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))


def code(text: str) -> str:
    """Inline code on one line, whatever it holds."""
    text = " ".join(printable(text).split()) or " "
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def html(text: str) -> str:
    """Text inside HTML, on one line: a summary is no Markdown."""
    text = " ".join(printable(text).split())
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def link(name: str, target: str) -> str:
    """A link to a file (with its lines) or an address."""
    if not target:
        return plain(name)
    return f"[{plain(name) or plain(target)}](<{address(target)}>)"


def address(target: str) -> str:
    """An address out of a path or a URI: no character of it can end the link."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", target):
        path = target.replace("\\", "/")
        if re.match(r"[A-Za-z]:/", path):
            path = f"/{path}"
        target = f"file://{quote(path)}" if path.startswith("/") else quote(path)
    return quote(printable(target), safe="%/:?#[]@!$&'()*+,;=-._~")


def details(summary: str, body: str, opened: bool = False) -> str:
    """A part that is folded until it is asked for. `summary` is HTML."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{summary}</summary>\n\n{body}\n\n</details>"
