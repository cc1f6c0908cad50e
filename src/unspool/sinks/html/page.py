"""The page: head, sidebar, tools, conversation. One file that asks nobody for anything."""

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from unspool.sinks import Family
from unspool.sinks.html.markup import Markup, element, join, text
from unspool.sinks.html.parts import turn_id, turn_part
from unspool.views import Aside, Reading, Said, Turn, read_family
from unspool.views.characters import one_line
from unspool.views.parts import facts_of


@cache
def asset(name: str) -> str:
    return files("unspool.sinks.html").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _policy() -> str:
    """Nothing from anywhere: our own style and script by their hashes, pictures from the page."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash(asset('page.css'))}",
            f"script-src {_hash(_code())}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )


def make_page(family: Family) -> str:
    reading = read_family(family.root, family.descendants)
    source, ident = reading.trajectory.source, reading.trajectory.conversation_id
    code = [element("code", None, source), " · ", element("code", None, ident)]
    empty = element("p", {"class": "empty"}, "This conversation holds no messages.")
    turns = [turn_part(reading, turn) for turn in reading.turns]
    footer = element("footer", None, "Written by unspool from ", code)
    parts = {
        "policy": text(_policy()),
        "title": text(reading.title),
        "style": asset("page.css"),
        "turns": join([_entry(reading, turn) for turn in reading.turns]),
        "conversation": join([masthead(reading), turns or empty, footer]),
        "script": _code(),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _template())


_PLACE = re.compile(r"{{(\w+)}}")


@cache
def _template() -> str:
    """The page around a conversation; it is indented for us alone."""
    first, *lines = asset("page.html").splitlines()
    return first + "\n" + "".join(line.strip() for line in lines)


def _code() -> str:
    return asset("reader.js") + asset("page.js")


def _entry(reading: Reading, turn: Turn) -> Markup | None:
    agents = [_agent_entry(child, line) for child, line in _agents(turn)]
    if turn.prompt is None and not agents:
        return None
    number = element(
        "span", {"class": "number"}, str(turn.number + 1) if turn.number is not None else ""
    )
    link = element(
        "a", {"href": f"#{turn_id(reading, turn)}"}, number, element("span", None, turn.title)
    )
    return element("li", None, link, element("ul", None, agents) if agents else None)


def _agent_entry(child: Reading, line: str) -> Markup:
    name = one_line(line or child.title, 60)
    inner = [
        _agent_entry(grandchild, line) for turn in child.turns for grandchild, line in _agents(turn)
    ]
    link = element("a", {"href": f"#{child.prefix}agent"}, name)
    return element("li", None, link, element("ul", None, inner) if inner else None)


def _agents(turn: Turn) -> Iterator[tuple[Reading, str]]:
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
