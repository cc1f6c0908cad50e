"""Markdown: a conversation as a transcript to read, with what the tools were given and gave back.

One `<id>.md` per conversation, sub-agents where they were called. `docs/markdown.md`.
"""

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

from unspool.sinks import Family, Options, Piece, safe_name
from unspool.sources import Shown
from unspool.trajectory import Attachment, FileTouch, Trajectory
from unspool.views import Call, Reading, Rule, Said, read_family
from unspool.views.characters import printable
from unspool.views.figures import duration, plural
from unspool.views.items import output_of
from unspool.views.parts import Text, facts_of, inputs_of, label_of, parts_of, speaker
from unspool.views.plain import diff_lines

NAME = "markdown"
MANY_FILES = True
FAMILIES = True

_DEEPEST = 6


def write(family: Family, options: Options) -> Iterator[Piece]:
    name = safe_name(family.root.conversation_id) + ".md"
    yield Piece(name, make_page(family).encode("utf-8", "replace"))


def make_page(family: Family) -> str:
    reading = read_family(family.root, family.descendants)
    lines = []
    for name, value, full in facts_of(family.root):
        shown = link(full, full) if name == "Project" and full else plain(full or value)
        lines.append(f"- {name}: {shown}")
    lines.append(f"- Source: {plain(family.root.source)} {code(family.root.conversation_id)}")
    blocks = [f"# {plain(reading.title)}", "\n".join(lines), *_conversation(reading, 2)]
    files = _files(family.root)
    if files:
        blocks += ["## Files", files]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _conversation(reading: Reading, level: int) -> Iterator[str]:
    for turn in reading.turns:
        before = ""
        for item in turn.items:
            if isinstance(item, Said):
                who = speaker(item)
                if item.category in ("injected", "tools"):
                    yield details(html(who), "\n\n".join(_said(item, level)) or "*nothing*")
                    continue
                if who != before or item is turn.prompt:
                    message = item.message
                    described = message.mode if message.role == "user" else message.model
                    notes = (described, message.status, message.timestamp)
                    small = html(" · ".join(note for note in notes if note))
                    mark = "#" * min(level, _DEEPEST)
                    yield f"{mark} {who} <sub>{small}</sub>" if small else f"{mark} {who}"
                yield from _said(item, level)
                before = who
                continue
            before = ""
            if isinstance(item, Rule):
                yield from _rule(item)
            else:
                title = item.title or item.reading.title
                summary = f"Sub-agent: {title}" if item.agent else f"Abandoned ({item.title})"
                yield _inner(item.reading, summary, level)


def _said(item: Said, level: int) -> Iterator[str]:
    for part in parts_of(item):
        match part:
            case Call():
                yield _call(part, level)
            case Attachment(text=text):
                yield f"- {_attachment(part)}"
                if text.strip() and text not in item.message.content:  # else it is there already
                    yield details(f"📎 {html(label_of(part)[0])}", fenced(text))
            case Shown(uri=uri) if uri:
                yield f"- 🔗 {link(part.text, uri)}"
            case Shown(words=True, edit=True):
                yield details(html(part.label), fenced(part.text, "diff"))
            case Shown(words=True) if "\n" in part.text:
                yield f"*{plain(part.label)}:*\n\n{fenced(part.text)}"
            case Shown(words=True):
                yield f"*{plain(part.label)}:* {plain(part.text)}"
            case Shown():
                yield details(f"<code>{html(part.kind)}</code>", fenced(part.text, "json"))
            case Text("reasoning", words, title):
                yield details(title, quoted(words))
            case Text("typed", words):
                yield quoted(words)
            case Text("prose", words):
                yield prose(words)
            case Text("context", words) if item.message.kind == "summary":
                yield prose(words)
            case Text("output" | "context", words):
                yield fenced(words)
            case Text("sent", words, title):
                yield details(title, fenced(words))
            case Text("error", words, title):
                yield f"> **{title}:** {plain(words)}"
            case Text("remark", words):
                yield f"*{plain(words)}*"


def _call(call: Call, level: int) -> str:
    name = f"<code>{html(call.call.name or 'tool')}</code>"
    notes = [html(call.line)] if call.line else []
    if call.failed:
        notes.append(f"<b>{html(call.call.status or 'failed')}</b>")
    if call.duration_ms is not None:
        notes.append(html(duration(call.duration_ms)))
    blocks: list[str] = []
    for edit in call.edits:
        file = link(edit.path, edit.path) if edit.path else "Edit"
        blocks.append(f"{file} +{edit.added} −{edit.removed}")
        blocks.append(fenced("\n".join(diff_lines(edit)), "diff"))
    if not call.edits:
        text, language, values = inputs_of(call.call)
        given = [fenced(text, language)] if text else []
        if values:
            given.append(fenced(json.dumps(values, indent=2, ensure_ascii=False), "json"))
        blocks += ["Input:", *given] if given else []
    if call.result is not None:
        output = output_of(call.result)
        got = [fenced(output)] if output else []
        got += [f"- {_attachment(one)}" for one in call.result.attachments or ()]
        blocks += ["Output:", *got] if got else ["Output: none"]
    blocks += [_inner(child, f"Sub-agent: {child.title}", level) for child in call.children]
    body = "\n\n".join(block for block in blocks if block)
    return details(" — ".join([name, *notes]), body or "*no input, no output*")


def _inner(reading: Reading, summary: str, level: int) -> str:
    return details(html(summary), "\n\n".join(_conversation(reading, level + 1)))


def _rule(rule: Rule) -> Iterator[str]:
    if rule.kind == "answer" and rule.data:
        words = [t for name in ("title", "message") if isinstance(t := rule.data.get(name), str)]
        asked = " — ".join(dict.fromkeys(t for t in words if t)) or rule.data.get("asked_by")
        yield f"*The person was asked:* {plain(str(asked))}"
        answer = {k: v for k, v in rule.data.items() if k in ("answer", "result", "questions")}
        yield fenced(json.dumps(answer, indent=1, ensure_ascii=False), "json")
    elif rule.is_answer:
        yield details(html(rule.text), prose(rule.body), opened=not rule.quiet)
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


def _attachment(attachment: Attachment) -> str:
    name, facts = label_of(attachment)
    target = attachment.path or attachment.uri
    return f"📎 {link(name, target)}" + (f" ({plain(facts)})" if facts else "")


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
