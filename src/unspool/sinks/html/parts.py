"""Parts of the page: turns, messages, rules, sub-agents, abandoned branches."""

import re
from collections.abc import Callable, Iterator

import msgspec

from unspool.sinks.html.colours import highlight, language_of
from unspool.sinks.html.markup import CLIP, Markup, clipped, element, fold, join, link, message_id
from unspool.sinks.html.prose import render, typed
from unspool.sources import Shown
from unspool.trajectory import Attachment, Usage
from unspool.views import Aside, Call, Item, Reading, Rule, Said, Turn
from unspool.views.characters import one_line
from unspool.views.edits import Edit
from unspool.views.figures import clock, count, day_and_time, duration, plural
from unspool.views.items import output_of
from unspool.views.parts import Text, inputs_of, label_of, parts_of, speaker

Agents = Callable[[Reading, Call], list[Markup]]
"""Makes the sub-agents that a call started: whole, or where somebody may ask for them."""


def whole_agents(reading: Reading, call: Call) -> list[Markup]:
    return [agent_part(child, title) for child, title in call.agents()]


def turn_part(reading: Reading, turn: Turn) -> Markup:
    items = [
        item_part(reading, item, turn, again, whole_agents)
        for item, again in zip(turn.items, speaking_again(turn), strict=True)
    ]
    return element("section", {"class": "turn", "id": turn_id(reading, turn)}, items)


def speaking_again(turn: Turn) -> Iterator[bool]:
    """Of every item, whether the one before it is by the same speaker, who is named only once."""
    speaking = ""
    for item in turn.items:
        yield isinstance(item, Said) and _who(item) == speaking
        if not isinstance(item, Said) or item.category == "injected":
            continue
        if item.words.strip() or item.message.thinking or item.message.attachments:
            speaking = _who(item) if item.category == "assistant" else ""


def turn_id(reading: Reading, turn: Turn) -> str:
    return f"{reading.prefix}t{turn.number + 1 if turn.number is not None else 0}"


def item_part(reading: Reading, item: Item, turn: Turn, again: bool, agents: Agents) -> Markup:
    if isinstance(item, Rule):
        return rule_part(item)
    if isinstance(item, Aside):
        return aside_part(item)
    message = item.message
    body = list(_body(item))
    ident = message_id(reading, item.index)
    parts: list[Markup] = []
    if body:
        kind: str = "error" if item.error else item.category
        kind += " again" if again else ""
        kind += " only-reasoning" if message.thinking and not message.content.strip() else ""
        label = f"Message {item.index + 1}: {_who(item)}"
        own = {"class": f"unit message {kind}", "id": ident, "tabindex": "-1", "aria-label": label}
        header = _header(reading, item, turn if item is turn.prompt else None)
        parts.append(element("article", own, header, *body))
    elif not item.calls:
        parts.append(element("span", {"id": ident}))  # nothing to show, but links must lead there
    for number, call in enumerate(item.calls):
        # The message itself must have a place to link to, also where it is nothing but calls.
        place = ident if not body and not number else f"{ident}-{number + 1}"
        parts.append(call_part(reading, call, place, agents(reading, call)))
    return join(parts)


def _who(said: Said) -> str:
    """As everywhere, but an answer is its model's and a prompt yours."""
    name = speaker(said)
    if name == "Assistant":
        return one_line(said.message.model or name, 60)
    return "You" if name == "User" else name


def _header(reading: Reading, said: Said, turn: Turn | None) -> Markup:
    message, usage = said.message, said.message.usage or Usage()
    who: Markup = element("span", {"class": "who"}, _who(said))
    if turn is not None and turn.number is not None:
        turn_number = element("span", {"class": "number"}, f"Turn {turn.number + 1}")
        who = element("h2", None, who, " ", turn_number)
    told = {"mode": message.mode, "status": message.status}
    notes = [(name, value) for name, value in told.items() if value]
    notes += [("status", "copied")] if message.copied else []
    margin: list[Markup] = []
    if turn is not None and (lasted := duration(turn.duration_ms)):
        margin.append(element("span", {"title": "Time until the next prompt"}, lasted))
    figures = (
        (usage.prompt_tokens, "in"),
        (usage.cached_tokens, "of them from the cache"),
        (usage.completion_tokens, "out"),
    )
    title = ", ".join(f"{number:,} tokens {what}" for number, what in figures if number is not None)
    read, written = count(usage.prompt_tokens), count(usage.completion_tokens)
    if shown := " ".join(word for word in (read and f"↑{read}", written and f"↓{written}") if word):
        margin.append(element("span", {"title": title}, shown))
    if shown := clock(message.timestamp):
        stamp = {"datetime": message.timestamp, "title": day_and_time(message.timestamp)}
        margin.append(element("time", stamp, shown))
    return element(
        "header",
        None,
        who,
        [element("span", {"class": f"note {kind}"}, one_line(value, 40)) for kind, value in notes],
        element("span", {"class": "margin"}, margin, link(message_id(reading, said.index))),
    )


def _body(said: Said) -> Iterator[Markup]:
    attached: list[Markup] = []
    for part in parts_of(said):
        match part:
            case Attachment():
                attached.append(attachment_part(part))
            case Shown():
                attached.append(_shown_part(part))
            case Text("reasoning", words, title):
                yield fold(title, element("div", {"class": "prose"}, render(words)), "reasoning")
            case Text("output", words):
                yield element("pre", {"class": "output", "tabindex": "0"}, clipped(words))
            case Text("prose", words):
                yield element("div", {"class": "prose", "dir": "auto"}, render(words))
            case Text("typed", words):
                yield element("div", {"dir": "auto"}, typed(words))
            case Text("context" | "sent" as kind, words, title):
                inner = element("div", {"class": "typed"}, clipped(words))
                yield fold(
                    title or one_line(words, 110), inner, "injected" if kind == "sent" else kind
                )
            case Text("error", words, title):
                yield element("p", {"class": "note status"}, f"{title}: {one_line(words, 2000)}")
            case Text("remark", words):
                attached.append(element("span", {"class": "attachment"}, one_line(words, 400)))
    if attached:
        yield element("div", {"class": "attachments"}, attached)


def _shown_part(part: Shown) -> Markup:
    """A link that goes nowhere from a page, so its target is named; else the part as it is."""
    if part.uri:
        where = {"class": "attachment", "title": one_line(part.uri, 400)}
        name = part.text if part.text != part.uri else part.target
        return element("span", where, one_line(name, 120))
    body = element("pre", {"class": "output", "tabindex": "0"}, clipped(part.text))
    return fold(one_line(part.label, 60), body, kind="attachment")


def rule_part(rule: Rule) -> Markup:
    if rule.is_answer:
        body = element("div", {"class": "prose", "dir": "auto"}, render(rule.body))
        kind = "context injected" if rule.quiet else "context"
        return fold(one_line(rule.text, 200), body, kind=kind, opened=not rule.quiet)
    when = clock(rule.timestamp)
    return element(
        "div",
        {"class": "rule injected" if rule.quiet else "rule", "role": "separator",
         "aria-label": rule.text},
        element("span", None, one_line(rule.text, 200), f" · {when}" if when else None),
    )  # fmt: skip


def aside_part(aside: Aside) -> Markup:
    if aside.agent:
        return agent_part(aside.reading, aside.title)
    number = plural(len(aside.reading.trajectory.messages), "message")
    title = [element("b", None, one_line(aside.title, 100)), f" · {number}"]
    body = [turn_part(aside.reading, turn) for turn in aside.reading.turns]
    return fold(title, element("div", {"class": "inner"}, body), kind="branch")


def agent_part(reading: Reading, line: str) -> Markup:
    trajectory = reading.trajectory
    name = one_line(line or reading.title, 100)
    facts = [plural(len(trajectory.messages), "message")]
    if trajectory.usage and trajectory.usage.completion_tokens:
        facts.append(f"{count(trajectory.usage.completion_tokens)} tokens out")
    title = [
        element("b", None, "Sub-agent"),
        f" {name} ",
        element("small", None, " · ".join(facts)),
    ]
    body = [turn_part(reading, turn) for turn in reading.turns]
    return element(
        "details",
        {"class": "agent", "id": f"{reading.prefix}agent"},
        element("summary", None, title),
        element("div", {"class": "inner"}, body),
    )


_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def attachment_part(attachment: Attachment) -> Markup:
    name, facts = label_of(attachment)
    if attachment.media_type in _PICTURES and _BASE64.fullmatch(attachment.data or ""):
        data = "".join(attachment.data.split())
        source = f"data:{attachment.media_type};base64,{data}"
        picture = element("img", {"src": source, "alt": name, "loading": "lazy"})
        return element("figure", {"class": "picture"}, picture, element("figcaption", None, name))
    title = [element("b", None, name), " ", element("small", None, facts)]
    if attachment.text.strip():
        code = highlight(attachment.text[:CLIP], language_of(attachment.path or attachment.name))
        return fold(title, element("pre", {"class": "output"}, code), kind="attachment")
    return element("span", {"class": "attachment"}, title)


def call_part(reading: Reading, call: Call, ident: str, agents: list[Markup]) -> Markup:
    """A call folded to its line, what it did inside, and the sub-agents that it started."""
    if call.intent and not call.failed:
        own = {"class": "unit tools said-intent", "id": ident, "tabindex": "-1"}
        line = element("p", {"class": "intent"}, call.line)
        result = None  # which is not shown, but links to it must lead there
        if call.result_index is not None:
            result = element("span", {"id": message_id(reading, call.result_index)})
        return element("div", own, line, result)
    state = "failed" if call.failed else "done" if call.result is not None else "open"
    words = {"failed": call.call.status or "failed", "done": "done", "open": "no result"}[state]
    margin = element("span", {"class": "margin"}, duration(call.duration_ms), link(ident))
    summary = [
        element("span", {"class": f"state {state}", "role": "img", "aria-label": words}),
        element("span", {"class": "tool"}, one_line(call.call.name, 80) or "tool"),
        element("span", {"class": "line"}, call.line),
        _changed(call),
        margin,
    ]
    kind = "error" if call.failed else "tools"
    details = element(
        "details", {"class": "run"}, element("summary", None, summary), list(_inside(reading, call))
    )
    label = f"Tool call: {one_line(call.call.name, 80)}"
    return element(
        "article",
        {"class": f"unit call {kind}", "id": ident, "tabindex": "-1", "aria-label": label},
        details,
        agents,
    )


def _changed(call: Call) -> Markup | None:
    if call.changed is None:
        return None
    added, removed = call.changed
    return element(
        "span",
        {"class": "changed", "aria-label": f"{added} lines added, {removed} removed"},
        element("ins", None, f"+{added}"),
        " ",
        element("del", None, f"−{removed}"),
    )


def _inside(reading: Reading, call: Call) -> Iterator[Markup]:
    if call.edits:
        yield from map(diff_part, call.edits)
    else:
        yield from _arguments(call)
    result = call.result
    if result is None:
        return
    at = message_id(reading, call.result_index or 0)
    shown: list[object] = []
    if (output := output_of(result)).strip():
        shown.append(element("pre", {"class": "output", "tabindex": "0"}, clipped(output)))
    shown += [attachment_part(attachment) for attachment in result.attachments or ()]
    yield element("div", {"class": "result", "id": at, "tabindex": "-1"}, shown or "(nothing)")


def _arguments(call: Call) -> Iterator[Markup]:
    text, language, values = inputs_of(call.call)
    if text:
        yield element("pre", {"class": "input"}, highlight(text[:CLIP], language))
    rows: list[Markup] = []
    for name, value in values.items():
        if isinstance(value, str):
            shown = value
        else:
            data = msgspec.json.encode(value)
            shown = (msgspec.json.format(data, indent=2) if len(data) > 100 else data).decode()
        long = "\n" in shown or len(shown) > 200
        inner = element("pre", None, clipped(shown)) if long else shown
        rows += [element("dt", None, name), element("dd", None, inner)]
    if rows:
        yield element("dl", {"class": "arguments"}, rows)


def diff_part(edit: Edit) -> Markup:
    language = language_of(edit.path) if sum(len(line.text) for line in edit.lines) < 20_000 else ""
    rows: list[Markup] = []
    shown = edit.lines[:2000]
    for line in shown:
        names = {"+": "added", "-": "removed", "@": "place", " ": "same"}
        tag = {"+": "ins", "-": "del"}.get(line.sign, "span")
        code = highlight(line.text, language) if line.sign != "@" else line.text
        rows.append(element(tag, {"class": names[line.sign]}, code, "\n"))
    if len(shown) < len(edit.lines):
        rows.append(element("em", {"class": "clip"}, f"… {len(edit.lines) - 2000} more lines"))
    path = element("figcaption", None, edit.path or "patch")
    return element("figure", {"class": "diff"}, path, element("pre", {"tabindex": "0"}, rows))
