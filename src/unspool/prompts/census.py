"""The tag scan: which prompt tags a run met, how often, in which roles, with examples.

    scan = TagScan()
    scan.add(trajectory)          # for every kept trajectory, once; after enrich or before
    scan.merge(other)             # what another worker counted (a msgspec struct: pickles, packs)
    path = write_summary(scan, folder)   # folder/<timestamp>/tag_scan_summary.json

Counts add up, and of the examples the first few by conversation id and place are kept, so that the
result does not depend on how the work was divided. The summary is made for a person or a model to
turn unknown tags into catalogue entries: every unknown tag comes with a draft of one.
"""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import OutputError
from unspool.io.door import clean_text
from unspool.prompts.catalogue import VARIABLE, Catalogue, active
from unspool.prompts.context import shorten
from unspool.prompts.tags import Block, blocks, iter_blocks
from unspool.trajectory import Message, Trajectory

SUMMARY_NAME = "tag_scan_summary.json"
EXAMPLES = 3
SNIPPET_CHARS = 200
UNKNOWN_SHOWN = 500


class Example(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a tag was met; the order of the fields is the order of the examples."""

    conversation_id: str
    index: int
    start: int
    role: str
    snippet: str


class TagCount(msgspec.Struct):
    """One tag: how often, where."""

    count: int = 0
    conversations: int = 0
    roles: dict[str, int] = {}
    inside: dict[str, int] = {}
    """The tags that it stood in; the empty name for those that stood by themselves."""
    attributes: dict[str, int] = {}
    examples: list[Example] = []

    def take(self, block: Block, parent: Block | None, role: str, place: tuple[str, int]) -> None:
        inside = parent.name if parent is not None else ""
        self.count += 1
        self.roles[role] = self.roles.get(role, 0) + 1
        self.inside[inside] = self.inside.get(inside, 0) + 1
        if block.raw_attributes:
            for attribute in block.attributes:
                self.attributes[attribute] = self.attributes.get(attribute, 0) + 1
        if len(self.examples) < EXAMPLES or (*place, block.start) < _place(self.examples[-1]):
            snippet = clean_text(shorten(block.inner, SNIPPET_CHARS))
            example = Example(*place, block.start, role, snippet)
            self.examples = sorted([*self.examples, example])[:EXAMPLES]

    def merge(self, other: "TagCount") -> None:
        self.count += other.count
        self.conversations += other.conversations
        for mine, theirs in (
            (self.roles, other.roles),
            (self.inside, other.inside),
            (self.attributes, other.attributes),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        self.examples = sorted({*self.examples, *other.examples})[:EXAMPLES]


class TagScan(msgspec.Struct):
    """The tags of a run."""

    conversations: int = 0
    messages: dict[str, int] = {}
    """Messages scanned, by role."""
    tags: dict[str, TagCount] = {}

    def add(self, trajectory: Trajectory, messages: Iterable[Message] | None = None) -> None:
        """Count the tags of a conversation; history copied from another one is left out.

        `messages`: its messages, where the trajectory itself does not hold them.
        """
        self.conversations += 1
        containers = active().containers
        met: set[str] = set()
        for index, message in enumerate(trajectory.messages if messages is None else messages):
            if message.copied:
                continue
            role = message.role
            self.messages[role] = self.messages.get(role, 0) + 1
            found = blocks(message.content)
            for block, parent in iter_blocks(found, containers) if found else ():
                met.add(block.name)
                count = self.tags.get(block.name)
                if count is None:
                    count = self.tags[block.name] = TagCount()
                count.take(block, parent, role, (trajectory.conversation_id, index))
        for name in met:
            self.tags[name].conversations += 1

    def merge(self, other: "TagScan") -> None:
        self.conversations += other.conversations
        for role, count in other.messages.items():
            self.messages[role] = self.messages.get(role, 0) + count
        for name, count_of in other.tags.items():
            self.tags.setdefault(name, TagCount()).merge(count_of)


def _place(example: Example) -> tuple[str, int, int]:
    return (example.conversation_id, example.index, example.start)


def summary(scan: TagScan, catalogue: Catalogue | None = None) -> dict[str, Any]:
    """The scan as plain data: known tags, unknown tags with drafts, catalogue entries not met."""
    catalogue = catalogue or active()
    by_count = sorted(scan.tags.items(), key=lambda item: (-item[1].count, item[0]))
    catalogued = [(name, count) for name, count in by_count if name in catalogue.by_name]
    unknown = [(name, count) for name, count in by_count if name not in catalogue.by_name]
    return {
        "version": 1,
        "catalogue": os.environ.get(VARIABLE) or "built in",
        "conversations": scan.conversations,
        "messages": dict(sorted(scan.messages.items())),
        "tags_known": len(catalogued),
        "tags_unknown": len(unknown),
        "known": [
            {
                "name": name,
                "route": catalogue.by_name[name].route,
                "placement": catalogue.by_name[name].placement,
                **_plain(count),
            }
            for name, count in catalogued
        ],
        "unknown": [
            {"name": name, **_plain(count), "draft": _draft(name, count)}
            for name, count in unknown[:UNKNOWN_SHOWN]
        ],
        "unknown_left_out": max(len(unknown) - UNKNOWN_SHOWN, 0),
        "not_met": sorted(set(catalogue.by_name) - set(scan.tags)),
    }


def _plain(count: TagCount) -> dict[str, Any]:
    return {
        "count": count.count,
        "conversations": count.conversations,
        "roles": dict(sorted(count.roles.items())),
        "inside": {name or "(top)": times for name, times in sorted(count.inside.items())},
        "attributes": dict(sorted(count.attributes.items())),
        "examples": [
            {
                "conversation_id": example.conversation_id,
                "message_index": example.index,
                "role": example.role,
                "snippet": example.snippet,
            }
            for example in count.examples
        ],
    }


def _draft(name: str, count: TagCount) -> dict[str, Any]:
    """A catalogue entry to complete: the route and the meaning are for a person to say."""
    inside = sorted(parent for parent in count.inside if parent)
    draft: dict[str, Any] = {
        "name": name,
        "placement": sorted(count.roles),
        "route": "",
        "meaning": "",
    }
    return {**draft, "inside": inside} if inside and "" not in count.inside else draft


def write_summary(
    scan: TagScan, folder: str | os.PathLike[str], now: datetime | None = None
) -> Path:
    """Write `<folder>/<timestamp>/tag_scan_summary.json`; the path that was written."""
    now = now or datetime.now(UTC)
    stem = now.strftime("%Y%m%dT%H%M%SZ")
    try:
        place, number = Path(folder) / stem, 2
        while place.exists():
            place = Path(folder) / f"{stem}-{number}"
            number += 1
        place.mkdir(parents=True)
        path = place / SUMMARY_NAME
        text = json.dumps(
            {"generated_at": now.isoformat(), **summary(scan)}, indent=1, ensure_ascii=False
        )
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"cannot write the tag scan summary under {folder}: {error.strerror}"
        ) from None
    return path


def to_markdown(summary: dict[str, Any], catalogue: Catalogue | None = None) -> str:
    """The inventory of a scan's summary, for a person to read and keep."""
    return "\n".join(_markdown_lines(summary, catalogue or active())) + "\n"


def _markdown_lines(summary: dict[str, Any], catalogue: Catalogue) -> Iterator[str]:
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
