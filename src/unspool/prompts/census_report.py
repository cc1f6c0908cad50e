"""The tag inventory: a tag scan as Markdown, for a person to read and keep."""

from collections.abc import Iterator
from typing import Any

from unspool.prompts.catalogue import Catalogue, active


def to_markdown(summary: dict[str, Any], catalogue: Catalogue | None = None) -> str:
    """An inventory of the tags in a tag scan's summary (`unspool.prompts.census.summary`)."""
    return "\n".join(_lines(summary, catalogue or active())) + "\n"


def _lines(summary: dict[str, Any], catalogue: Catalogue) -> Iterator[str]:
    messages = ", ".join(f"{count:,} {role}" for role, count in summary["messages"].items())
    yield "# Tags in conversations"
    yield ""
    yield f"Conversations: {summary['conversations']:,}. Messages: {messages or 'none'}."
    yield f"Catalogue: {_code(summary['catalogue'])}."
    yield ""
    yield f"## Known tags ({summary['tags_known']:,})"
    yield ""
    if summary["known"]:
        yield "| tag | route | count | conversations | roles | inside | meaning |"
        yield "|---|---|---:|---:|---|---|---|"
    for tag in summary["known"]:
        meaning = catalogue.by_name[tag["name"]].meaning
        yield f"| {_code(tag['name'])} | {tag['route']} | {_figures(tag)} | {_cell(meaning)} |"
    yield ""
    yield f"## Unknown tags ({summary['tags_unknown']:,})"
    yield ""
    for tag in summary["unknown"]:
        yield from _unknown(tag)
    if summary["unknown_left_out"]:
        yield f"… and {summary['unknown_left_out']:,} more."
    yield ""
    yield f"## Known but not met ({len(summary['not_met']):,})"
    yield ""
    yield ", ".join(map(_code, summary["not_met"])) or "None."


def _figures(tag: dict[str, Any]) -> str:
    roles = ", ".join(f"{role} {count:,}" for role, count in tag["roles"].items())
    inside = ", ".join(f"{_code(name)} {count:,}" for name, count in tag["inside"].items())
    return f"{tag['count']:,} | {tag['conversations']:,} | {roles} | {inside}"


def _unknown(tag: dict[str, Any]) -> Iterator[str]:
    yield f"### {_code(tag['name'])}"
    yield ""
    yield "| count | conversations | roles | inside |"
    yield "|---:|---:|---|---|"
    yield f"| {_figures(tag)} |"
    yield ""
    if tag["attributes"]:
        yield "Attributes: " + ", ".join(map(_code, tag["attributes"])) + "."
        yield ""
    for example in tag["examples"]:
        place = f"{example['conversation_id']}, message {example['message_index']}"
        yield f"- {_cell(place)} ({example['role']}): {_code(' '.join(example['snippet'].split()))}"
    yield ""


def _code(text: str) -> str:
    """Inline code that holds whatever it may, also backquotes and pipes."""
    text = text.replace("|", "\\|")
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text or ' '}{pad}{fence}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
