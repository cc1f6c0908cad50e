"""The older text form of agent transcripts: `user:` and `assistant:`, tools in square brackets."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, MessageSeen, ToolCalled, ToolReturned
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.sources.cursor.entries import Entries, sent_time, typed_words
from unspool.sources.cursor.tools import decoded, likeness, touches
from unspool.sources.cursor.transcripts import (
    FOLDER,
    RANK,
    answer,
    conversation,
    notes,
    without_marks,
)

_SPEAKER = re.compile(rb"^(user|assistant):[ \t]*\r?$", re.MULTILINE)
_SECTION = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]?(.*)$", re.MULTILINE)
_FIELD = re.compile(r"^[ \t]+([A-Za-z_][\w.]*)[=:][ \t]?(.*)$")


def claims(head: Head) -> bool:
    """Begins with somebody speaking, and is in Cursor's folder or somebody else speaks too."""
    if not head.name.endswith(".txt"):
        return False
    found = [match[1] for match in _SPEAKER.finditer(head.data)]
    if not found or _SPEAKER.match(head.data.lstrip(b"\xef\xbb\xbf \r\n")) is None:
        return False
    return FOLDER in head.parts or len(set(found)) == 2


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    key = conversation(origin.path)[0]
    entries = Entries(f"transcript:{key[1]}")
    yield from notes(origin, RANK)
    found = list(_SPEAKER.finditer(data))
    ends = [match.start() for match in found[1:]] + [len(data)]
    for match, end in zip(found, ends, strict=False):
        tally.records += 1
        body = data[match.end() : end]
        common: dict[str, Any] = {
            "key": key, "origin": origin.path, "offset": match.start(),
            "entry": entries.of(match[1] + b"\0" + body.strip()),
        }  # fmt: skip
        text = body.decode("utf-8", "replace").replace("\r\n", "\n").strip()
        made = list(_user(common, text) if match[1] == b"user" else _assistant(common, text))
        if not made:
            tally.noise += 1
        yield from made


def _user(common: dict[str, Any], text: str) -> Iterator[AnyFact]:
    typed = typed_words(text)
    if text and typed != "":
        yield MessageSeen(
            **common, id=common["entry"], role="user", text=text, typed=typed, rank=RANK,
            time=sent_time(text),
        )  # fmt: skip


def _assistant(common: dict[str, Any], text: str) -> Iterator[AnyFact]:
    """What stands before the first bracket is said; then thoughts, calls and results."""
    sections = list(_SECTION.finditer(text))
    said = [text[: sections[0].start()] if sections else text]
    thoughts: list[str] = []
    calls: list[ToolCalled] = []
    results: list[ToolReturned] = []
    ends = [match.start() for match in sections[1:]] + [len(text)]
    for match, end in zip(sections, ends, strict=False):
        body = text[match.end() : end]
        if match[1] == "Thinking":
            thought, _, rest = f"{match[2]}{body}".strip().partition("\n\n")
            thoughts.append(thought)
            said.append(rest)
        elif match[1] == "Tool call":
            call, rest = _call(common, len(calls), match[2].strip(), body)
            calls.append(call)
            said.append(rest)
        else:
            results += _result(common, len(results), match[2].strip(), body.strip("\n"), calls)
    words, titles, hidden = without_marks("\n\n".join(s.strip() for s in said if s.strip()))
    thinking = "\n\n".join(t for t in (*thoughts, titles) if t)
    if words or thinking or calls or hidden:
        yield answer(common, words, thinking, hidden, alone=not calls, rank=RANK)
    yield from calls
    yield from results


def _call(common: dict[str, Any], number: int, name: str, body: str) -> tuple[ToolCalled, str]:
    """The call with its indented arguments; what is not indented behind them is said again."""
    lines = body.strip("\n").split("\n")
    end = next((i for i, line in enumerate(lines) if line and line[:1] not in " \t"), len(lines))
    given = parse_arguments("\n".join(lines[:end]))
    arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    call = ToolCalled(
        **common, number=number, id=f"{common['entry']}:{number}", message=common["entry"],
        name=name, arguments=arguments, index=number, rank=RANK, like=likeness(name, given),
        files=touches(name, given),
    )  # fmt: skip
    return call, "\n".join(lines[end:])


def _result(
    common: dict[str, Any], number: int, name: str, body: str, calls: list[ToolCalled]
) -> list[ToolReturned]:
    """The result of the k-th call of its tool in this message."""
    made = ToolReturned(
        **common, number=number, call=calls[min(number, len(calls) - 1)].id if calls else "",
        name=name, text=body.strip() or None, rank=RANK,
    )  # fmt: skip
    return [made]


def parse_arguments(text: str) -> Any:
    """Indented `k=v` lines as an object; JSON as its value; a patch or anything else as text."""
    plain = text.strip()
    value = decoded(plain)
    if not isinstance(value, str):
        return value
    made: dict[str, Any] = {}
    name = ""
    for line in text.split("\n"):
        match = _FIELD.match(line)
        if match:
            name = match[1]
            made[name] = match[2]
        elif name:
            made[name] += "\n" + line.strip()
        elif line.strip():
            return plain
    return {field: decoded(value) for field, value in made.items()} if made else plain
