"""The page: head, sidebar, tools, conversation. One file that asks nobody for anything."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from unspool.sinks import Family
from unspool.sinks.html.markup import Markup, element, join, text
from unspool.sinks.html.parts import turn_id, turn_part
from unspool.views import Aside, Reading, Said, Turn, read_family
from unspool.views.characters import one_line
from unspool.views.parts import facts_of

_PLACE = re.compile(r"{{(\w+)}}")
_POLICY = (
    "default-src 'none'; style-src {}; script-src {}; img-src data:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)


@cache
def asset(name: str) -> str:
    return files("unspool.sinks.html").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def make_page(family: Family) -> str:
    reading = read_family(family.root, family.descendants)
    source, ident = reading.trajectory.source, reading.trajectory.conversation_id
    told = [element("code", None, source), " · ", element("code", None, ident)]
    empty = element("p", {"class": "empty"}, "This conversation holds no messages.")
    turns = [turn_part(reading, turn) for turn in reading.turns]
    footer = element("footer", None, "Written by unspool from ", told)
    code = asset("reader.js") + asset("page.js")
    # The page around a conversation is indented for us alone.
    first, *lines = asset("page.html").splitlines()
    parts = {
        # Nothing from anywhere: our own style and script by their hashes, pictures from the page.
        "policy": text(_POLICY.format(_hash(asset("page.css")), _hash(code))),
        "title": text(reading.title),
        "style": asset("page.css"),
        "turns": join([_turn_entry(reading, turn) for turn in reading.turns]),
        "conversation": join([masthead(reading), turns or empty, footer]),
        "script": code,
    }
    template = first + "\n" + "".join(line.strip() for line in lines)
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _turn_entry(reading: Reading, turn: Turn) -> Markup | None:
    agents = list(_agents([turn]))
    if turn.prompt is None and not agents:
        return None
    number = str(turn.number + 1) if turn.number is not None else ""
    name = [element("span", {"class": "number"}, number), element("span", None, turn.title)]
    return _entry(turn_id(reading, turn), name, agents)


def _entry(ident: str, name: object, agents: Iterable[tuple[Reading, str]]) -> Markup:
    """A line of the sidebar, with those of its sub-agents below it."""
    inner = [
        _entry(f"{child.prefix}agent", one_line(line or child.title, 60), _agents(child.turns))
        for child, line in agents
    ]
    link = element("a", {"href": f"#{ident}"}, name)
    return element("li", None, link, element("ul", None, inner) if inner else None)


def _agents(turns: Iterable[Turn]) -> Iterator[tuple[Reading, str]]:
    for turn in turns:
        for item in turn.items:
            if isinstance(item, Said):
                for call in item.calls:
                    yield from call.agents()
            elif isinstance(item, Aside) and item.agent:
                yield item.reading, item.title


def masthead(reading: Reading) -> Markup:
    facts = facts_of(reading.trajectory)
    warnings = [fact for fact in facts if fact.name == "Incomplete"]
    return element(
        "header",
        {"class": "masthead"},
        element("h1", {"dir": "auto"}, reading.title),
        element(
            "dl",
            {"class": "facts"},
            [
                element(
                    "div", None, element("dt", None, name), element("dd", {"title": full}, value)
                )
                for name, value, full in facts
                if name != "Incomplete"
            ],
        ),
        [element("p", {"class": "warning"}, f"{name}: {value}") for name, value, _ in warnings],
    )
