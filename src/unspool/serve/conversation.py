"""One conversation: in pieces, so that one of thousands of messages opens as fast as a short one."""

import hashlib
import io
import sqlite3
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from unspool import sinks
from unspool.errors import UnknownConversation, UsageError
from unspool.inspect.collection import Entry
from unspool.io.temporary import scratch
from unspool.pipeline.output import spool_families, write_output
from unspool.serve.answers import (
    Branched,
    Conversation,
    ItemPiece,
    Items,
    Messages,
    Place,
    RawRecords,
    Relative,
    TurnLine,
)
from unspool.serve.conversations import find, listed
from unspool.serve.queries import (
    BranchQuery,
    ExportQuery,
    ItemsQuery,
    MessagesQuery,
    OneQuery,
    PlaceQuery,
    RawQuery,
)
from unspool.serve.recent import Recent
from unspool.serve.records import Found, records_of
from unspool.sinks import Family
from unspool.sinks.html.markup import Markup, element, join, message_id
from unspool.sinks.html.page import masthead
from unspool.sinks.html.parts import aside_part, item_part, speaking_again, turn_id, turn_part
from unspool.store.collection import StoreCollection
from unspool.store.conversations import unpack
from unspool.store.ids import row_id, shown_id
from unspool.trajectory import Branch, Link, Message, Trajectory, encode_trajectory
from unspool.views import Aside, Call, Item, Reading, Said, Turn, read_family
from unspool.views.characters import one_line
from unspool.views.figures import plural

CACHED_BYTES = 6_000_000
"""Of conversations as they are stored (compressed); laid out they take some ten times as much."""


class Opened(NamedTuple):
    """A conversation laid out, and its items in one row."""

    row: str
    version: str
    reading: Reading
    items: list[tuple[Turn, Item, bool]]
    """Turn, item, whether its speaker has just been named."""
    item_of: dict[int, int]
    """Message → item."""


_opened: Recent[Opened] = Recent(CACHED_BYTES)


def open_conversation(connection: sqlite3.Connection, ident: str) -> Opened:
    row = find(connection, ident)
    found = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (row,)
    ).fetchone()
    if found is None:
        raise UnknownConversation(f"no conversation {ident!r} in the store")
    packed: bytes = found[0]
    version = hashlib.blake2b(packed, digest_size=12).hexdigest()
    return _opened.get(row, version, lambda: _lay_out(row, version, unpack(packed)), len(packed))


def _lay_out(row: str, version: str, trajectory: Trajectory) -> Opened:
    reading = read_family(trajectory)
    items = [
        (turn, item, again)
        for turn in reading.turns
        for item, again in zip(turn.items, speaking_again(turn), strict=True)
    ]
    item_of = {index: number for number, (_, item, _) in enumerate(items) for index in held(item)}
    return Opened(row, version, reading, items, item_of)


def held(item: Item) -> Iterator[int]:
    """The messages that an item shows: its own, and the results of its calls."""
    if isinstance(item, Said):
        yield item.index
        yield from (call.result_index for call in item.calls if call.result_index is not None)


def _failed(item: Item) -> bool:
    return isinstance(item, Said) and (item.error or any(call.failed for call in item.calls))


def conversation(connection: sqlite3.Connection, query: OneQuery) -> Conversation:
    opened = open_conversation(connection, query.id)
    reading = opened.reading
    trajectory = reading.trajectory
    first_item: dict[int, int] = {}
    for number, (turn, _, _) in enumerate(opened.items):
        first_item.setdefault(id(turn), number)
    turns = [
        TurnLine(
            first_item[id(turn)],
            turn.title,
            turn.number,
            turn_id(reading, turn),
        )
        for turn in reading.turns
        if turn.items
    ]
    paths = [trajectory.file_path, *(trajectory.origins or ())]
    up = trajectory.parent
    return Conversation(
        id=shown_id(opened.row),
        version=opened.version,
        title=reading.title,
        listed=listed(connection, opened.row),
        items=len(opened.items),
        messages=len(trajectory.messages),
        masthead=masthead(reading),
        turns=turns,
        errors=[number for number, (_, item, _) in enumerate(opened.items) if _failed(item)],
        children=_children(connection, trajectory),
        parent=_relative(connection, trajectory, up) if up is not None else None,
        branches=[branch.reason or "abandoned" for branch in trajectory.branches or ()],
        files=[path for path in paths if path],
        formats=[name for name in sinks.SINKS if sinks.is_installed(name)],
    )


def _children(connection: sqlite3.Connection, trajectory: Trajectory) -> list[Relative]:
    """The tree of sub-agents: its own children, and below them as the store's links tell it."""
    children = [_relative(connection, trajectory, link) for link in trajectory.children or ()]
    tree: list[Relative] = []
    waiting = [(tree, child) for child in children]
    seen: set[str] = set()
    for siblings, child in waiting:  # which grows meanwhile
        if child.id in seen:
            continue
        seen.add(child.id)
        siblings.append(child)
        rows = connection.execute(
            "SELECT child_id FROM links WHERE parent_id = ? AND kind = 'subagent'",
            (row_id(*child.id.split("/", 1)),),
        ).fetchall()
        waiting += [(child.children, _named(connection, row, "subagent", "")) for (row,) in rows]
    return tree


def _relative(connection: sqlite3.Connection, trajectory: Trajectory, link: Link) -> Relative:
    row = row_id(link.source or trajectory.source, link.conversation_id)
    return _named(connection, row, link.kind, link.name or "")


def _named(connection: sqlite3.Connection, row: str, kind: str, name: str) -> Relative:
    found = connection.execute(
        "SELECT title, messages FROM conversations WHERE id = ?", (row,)
    ).fetchone()
    title = one_line(name or (found[0] if found and found[0] else shown_id(row)), 100)
    return Relative(shown_id(row), kind, title, found is not None, [], found[1] if found else None)


def items(connection: sqlite3.Connection, query: ItemsQuery) -> Items:
    opened = open_conversation(connection, query.id)
    reading = msgspec.structs.replace(opened.reading, prefix=query.prefix)
    agents = _Agents(connection, opened)
    made: list[ItemPiece] = []
    for number in range(query.first, min(query.first + query.count, len(opened.items))):
        turn, item, again = opened.items[number]
        if isinstance(item, Aside):
            own = msgspec.structs.replace(item.reading, prefix=query.prefix + item.reading.prefix)
            aside = msgspec.structs.replace(item, reading=own)
            html = join([aside_part(aside), None if item.agent else _compare(opened, item)])
        else:
            html = item_part(reading, item, turn, again, agents.of_call)
        made.append(ItemPiece(number, turn_id(reading, turn), html, list(held(item))))
    if query.first + query.count >= len(opened.items):
        made += agents.left_over(len(opened.items))
    return Items(opened.version, len(opened.items), made)


def _compare(opened: Opened, aside: Aside) -> Markup:
    """Opens the branch beside what came in its place."""
    asides = [one for _, one, _ in opened.items if isinstance(one, Aside) and not one.agent]
    number = next(at for at, one in enumerate(asides) if one is aside)
    label = {"type": "button", "class": "compare", "data-branch": number}
    return element("button", label, "Side by side with what came instead")


class _Agents:
    """Sub-agents as folds that load what they hold when they are opened."""

    def __init__(self, connection: sqlite3.Connection, opened: Opened) -> None:
        self.connection = connection
        self.trajectory = opened.reading.trajectory
        self.by_call: dict[str, list[Link]] = {}
        for link in self.trajectory.children or ():
            self.by_call.setdefault(link.tool_call_id or "", []).append(link)
        self.called = {
            call.call.id
            for _, item, _ in opened.items
            if isinstance(item, Said)
            for call in item.calls
        }

    def of_call(self, reading: Reading, call: Call) -> list[Markup]:
        links = self.by_call.get(call.call.id, []) if call.call.id else []
        child = call.call.child_id
        if child and child not in {link.conversation_id for link in links}:
            links = [Link(child), *links]
        return [self._fold(link, call.line if len(links) == 1 else "") for link in links]

    def left_over(self, number: int) -> list[ItemPiece]:
        """Those that no call names: at the end."""
        rest = [
            link
            for ident, links in self.by_call.items()
            if ident not in self.called
            for link in links
            if link.kind == "subagent"
        ]
        return (
            [ItemPiece(number, "", join([self._fold(link, "") for link in rest]), [])]
            if rest
            else []
        )

    def _fold(self, link: Link, line: str) -> Markup:
        child = _relative(self.connection, self.trajectory, link)
        facts = "" if child.messages is None else plural(child.messages, "message")
        title = [
            element("b", None, "Sub-agent"),
            f" {one_line(line or child.title, 100)} ",
            element("small", None, facts or "not in the store"),
        ]
        attributes = {"class": "agent", "data-agent": child.id if child.here else None}
        inner = element("div", {"class": "inner"})
        return element("details", attributes, element("summary", None, title), inner)


def place(connection: sqlite3.Connection, query: PlaceQuery) -> Place:
    opened = open_conversation(connection, query.id)
    if query.message >= len(opened.reading.trajectory.messages):
        raise UnknownConversation(f"{query.id} has no message {query.message}")
    number = opened.item_of.get(query.message, 0)
    return Place(query.message, number, message_id(opened.reading, query.message))


class _OnlyMessages(msgspec.Struct):
    messages: list[msgspec.Raw]


def messages(connection: sqlite3.Connection, query: MessagesQuery) -> Messages:
    opened = open_conversation(connection, query.id)
    everything = opened.reading.trajectory.messages
    end = query.cursor + query.limit
    # As they stand in the trajectory JSONL, which leaves the bytes of pictures out.
    line = encode_trajectory(Trajectory("", everything[query.cursor : end]))
    encoded = msgspec.json.decode(line, type=_OnlyMessages).messages
    after = end if end < len(everything) else None
    return Messages(opened.version, len(everything), encoded, after)


def branch(connection: sqlite3.Connection, query: BranchQuery) -> Branched:
    opened = open_conversation(connection, query.id)
    trajectory = opened.reading.trajectory
    left = _branch(opened, query.branch)
    rest = trajectory.messages[left.index : left.index + max(len(left.messages) * 2, 20)]
    sides = [
        _side(trajectory, part, prefix)
        for part, prefix in ((left.messages, "left-"), (rest, "right-"))
    ]
    return Branched(left.reason or "abandoned", left.index, *sides)


def _branch(opened: Opened, number: int) -> Branch:
    """As the page numbers them: in the order in which they stand in it."""
    branches = opened.reading.trajectory.branches or []
    if number >= len(branches):
        raise UnknownConversation(f"{shown_id(opened.row)} has no branch {number}")
    return sorted(branches, key=lambda one: one.index)[number]


def _side(trajectory: Trajectory, part: list[Message], prefix: str) -> str:
    alone = Trajectory(trajectory.conversation_id, part, source=trajectory.source)
    alone.workspace = trajectory.workspace
    reading = msgspec.structs.replace(read_family(alone), prefix=prefix)
    return join(turn_part(reading, turn) for turn in reading.turns)


def raw(connection: sqlite3.Connection, query: RawQuery) -> RawRecords:
    """The records that a message was made from."""
    opened = open_conversation(connection, query.id)
    trajectory = opened.reading.trajectory
    branches = trajectory.branches or []
    line = 0
    messages = trajectory.messages
    if query.branch is not None:
        left = _branch(opened, query.branch)
        line, messages = next(n for n, one in enumerate(branches, 1) if one is left), left.messages
    if query.message >= len(messages):
        raise UnknownConversation(f"{query.id} has no message {query.message}")
    found = records_of(connection, trajectory, opened.version, line, query.message)
    if found.note and messages[query.message].copied:
        found = _records_above(connection, opened, messages[query.message], set()) or found
    return RawRecords(query.message, *found)


def _records_above(
    connection: sqlite3.Connection, opened: Opened, message: Message, seen: set[str]
) -> Found | None:
    """Of a message that a fork was given: its record is in the file of what the fork goes on from."""
    trajectory = opened.reading.trajectory
    above = trajectory.parent
    if above is None or opened.row in seen:
        return None
    try:
        ident = shown_id(row_id(above.source or trajectory.source, above.conversation_id))
        opened = open_conversation(connection, ident)
    except UnknownConversation:
        return None
    names = ("role", "id", "tool_call_id", "content")
    for number, one in enumerate(opened.reading.trajectory.messages):
        if all(getattr(one, name) == getattr(message, name) for name in names):
            found = records_of(connection, opened.reading.trajectory, opened.version, 0, number)
            if found.note:
                return _records_above(connection, opened, one, {*seen, opened.row})
            return found
    return None


class Download(NamedTuple):
    name: str
    media_type: str
    data: bytes


_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".json": "application/json",
}


def download(connection: sqlite3.Connection, query: ExportQuery) -> Download:
    """The conversation with its sub-agents in any format; several files come as one archive."""
    if query.to not in sinks.SINKS or not sinks.is_installed(query.to):
        raise UsageError(f"cannot write {query.to!r} here")
    source, _, ident = shown_id(find(connection, query.id)).partition("/")
    family = StoreCollection(connection).family(Entry(id=ident, source=source))
    sink = sinks.load(query.to)
    members = (family.root, *family.descendants)
    families = [family] if sink.FAMILIES else [Family(one) for one in members]
    stem = sinks.safe_name(ident)
    combine = sinks.load_combine(query.to, {})
    with scratch() as folder:
        written = spool_families(families, query.to, {}, True, folder / "pieces")
        target = folder / f"{stem}.{query.to}"
        paths = write_output(written, query.to, combine, str(target))
        if combine is None and not sink.MANY_FILES:
            return Download(target.name, "application/x-ndjson", target.read_bytes())
        if len(paths) == 1:
            media = _MEDIA.get(paths[0].suffix, "application/octet-stream")
            return Download(paths[0].name, media, paths[0].read_bytes())
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in paths:
                name = zipfile.ZipInfo(str(path.relative_to(target)))
                packed.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return Download(f"{stem}-{query.to}.zip", "application/zip", archive.getvalue())
