"""Text that others wrote, put into a Markdown page without breaking out of its place."""

import re
from urllib.parse import quote

from unspool.views.characters import printable

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
