"""Characters: untrusted text made safe to look at, on a terminal as on a page.

Nothing in a conversation may move the cursor, colour the screen, turn the reading direction or hide:
terminal sequences are dropped, control characters get a visible sign, and characters that reorder or
hide text are named. What people write with (joiners in emoji, marks of Hebrew and Arabic) stays.
"""

import re

_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS …
    r"|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"  # the short ones
)
_LINE_ENDS = re.compile("\r\n?")
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u200b\u2060-\u2064\ufeff\u00ad"  # invisible
    "\u202a-\u202e\u2066-\u2069\u206a-\u206f"  # reorder what follows
    "\ud800-\udfff\ufff9-\ufffb"
    "\U000e0001\U000e0020-\U000e007f]"  # tags: whole hidden texts have been written with them
)
# The flags of England, Scotland and Wales are a black flag and tags.
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{3,6}\U000e007f")
_SILENT = frozenset("\u00ad\ufeff")
"""Soft hyphens and byte-order marks: common, harmless and not worth a sign."""


def printable(text: str) -> str:
    """The text without terminal sequences, every harmful character replaced by a visible sign."""
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
    if not _HARMFUL.search(text):
        return text
    text = _TERMINAL.sub("", text)
    if "\U0001f3f4" not in text:
        return _HARMFUL.sub(_sign, text)
    pieces, at = [], 0
    for flag in _FLAG.finditer(text):
        pieces += [_HARMFUL.sub(_sign, text[at : flag.start()]), flag[0]]
        at = flag.end()
    return "".join([*pieces, _HARMFUL.sub(_sign, text[at:])])


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if match[0] in _SILENT:
        return ""
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"⟦U+{code:04X}⟧"


def one_line(text: str, limit: int = 0) -> str:
    """The text on one line, cut to `limit` characters with an ellipsis."""
    # A prompt may be megabytes: only its beginning can be seen.
    head = text[: limit * 8 + 200] if limit else text
    line = " ".join(printable(head).split())
    if limit and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line


COLOURED_CHARS = 20_000
"""Longer code is shown plain: thousands of coloured words make a page slow."""
COLOURED_LINE = 1000
"""So is code with a longer line: some lexers take a time that grows with its square."""

COLOURED_LANGUAGES = frozenset(
    """
    bash sh shell zsh batch bat c clojure clj console shell-session cpp c++ csharp c# cs css dart
    diff udiff docker dockerfile elixir ex exs go golang graphql haskell hs hcl terraform tf html ini
    cfg java javascript js json jsx julia jl kotlin lua make makefile markdown md nginx nix
    objective-c objc ocaml php powershell pwsh ps1 protobuf proto python py python3 pycon r ruby rb
    rust rs scala scss sql swift toml tsx typescript ts vue xml yaml yml zig
    """.split()  # noqa: SIM905 - ninety words are easier to read without quotes
)
"""Languages whose lexers were tried with what lexers choke on. Perl's took 15 s on 20 kB."""


def colourable(code: str, language: str) -> bool:
    """Whether code is worth colouring, and safe to colour."""
    if language.lower() not in COLOURED_LANGUAGES or len(code) > COLOURED_CHARS:
        return False
    return max(map(len, code.split("\n"))) <= COLOURED_LINE
