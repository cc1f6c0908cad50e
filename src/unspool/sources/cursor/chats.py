"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it.

The root names the messages of the chat as it stands. What it does not name any more, history that a
summary stands for and what the person took back, the nodes that were roots before it still do.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, ROOT, AnyFact, Key, MessageSeen, Problem, Rank
from unspool.io.databases import DAMAGE, MAGIC, Database, open_database
from unspool.io.door import UNREADABLE, read_json, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import field_of
from unspool.sources.cursor.blobs import (
    DEEPEST,
    Clock,
    Turned,
    archives,
    message_of,
    node_fields,
    references,
    subagents,
    turns,
    walk,
)
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import Steps, rank_of
from unspool.sources.cursor.paths import clean_path, is_cursor_folder
from unspool.sources.cursor.sent import Sent, is_summary
from unspool.sources.scribe import Scribe

RANK = Rank.ITSELF
_UNNAMED = "New Agent"
"""What every chat is called until it has a name."""
_TOKENS, _FOLDERS, _CHECKOUT = 5, 9, 21
"""Fields of a root: tokens used and allowed, folders that it worked in, a checkout and its branch."""


def claims(head: Head) -> bool:
    if head.name == "meta.json":
        return "chats" in head.parts and b'"createdAtMs"' in head.data
    if not head.data.startswith(MAGIC) or head.name != "store.db":
        return False
    schema = head.data if b"blobs" in head.data else log_start(head.path)
    return (b"blobs" in schema and b"meta" in schema) or is_cursor_folder(head.parts)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    if origin.path.endswith(".json"):
        yield from _read_meta(origin, tally)
        return
    chat = Chat(origin.path, tally)
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                yield chat.problem("stale-database", "the log was too long to copy")
            yield from chat.read(database)
    except DAMAGE as error:
        tally.records += 1
        yield chat.problem("unreadable-database", str(error))


def _read_meta(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """What stands beside the database: the folder that the chat was begun in, and its times."""
    tally.records += 1
    with open_origin(origin.path) as file:
        data = file.read()
    key: Key = ("cursor", Path(origin.path).parent.name)
    scribe = Scribe(key, origin.path, 0, entry=f"meta:{key[1]}")
    read = read_json(data)
    if len(read.values) != 1 or not isinstance(read.values[0], dict):
        tally.problems += 1
        scribe.problem(read.code or "invalid-json", data)
        yield from scribe.facts
        return
    value = read.values[0]
    cwd = value.get("cwd")
    notes = {
        "session_id": key[1],
        "workspace.path": clean_path(cwd) if isinstance(cwd, str) and cwd else None,
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    for name, note in notes.items():
        scribe.note(name, note, rank_of(key, name, note, RANK + 1))
    yield from scribe.facts


class Chat:
    """One conversation of a store: the chat itself, or that of a sub-agent which it holds."""

    def __init__(self, origin: str, tally: Tally, offsets: "count[int] | None" = None) -> None:
        self.origin = origin
        self.tally = tally
        self.key: Key = NOBODY
        self._offsets = offsets if offsets is not None else count()
        self._steps = Steps()
        self._mode = ""
        self._model = ""
        self._session = ""

    def problem(self, code: str, data: bytes | str) -> Problem:
        self.tally.problems += 1
        return Problem(
            key=self.key, origin=self.origin, offset=next(self._offsets), number=99, code=code,
            sample=sample(data),
        )  # fmt: skip

    def read(self, database: Database) -> Iterator[AnyFact]:
        database.connection.execute("BEGIN")  # one moment of it, though it is being written
        meta = read_meta(database.connection)
        ident = meta.get("agentId")
        self.key = ("cursor", str(ident or Path(self.origin).parent.name))
        blobs = Blobs(database.connection)
        root = blobs.root(meta.get("latestRootBlobId"))
        self._mode = mode_name(meta.get("mode"))
        self._model = str(meta.get("lastUsedModel") or "")
        parent = field_of(meta.get("subagentInfo"), "parentAgentId")
        self._session = parent if isinstance(parent, str) and parent else self.key[1]
        notes = {
            "session_id": self._session,
            "title": meta.get("name") if meta.get("name") != _UNNAMED else None,
            "composer_mode": self._mode or None,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
            "parent": {"conversation_id": parent} if parent == self._session else None,
        }
        scribe = Scribe(self.key, self.origin, next(self._offsets), entry=f"chat:{self.key[1]}")
        for name, value in notes.items():
            scribe.note(name, value, rank_of(self.key, name, value, RANK))
        yield from scribe.facts
        yield from self._said(blobs, root, blobs.layout(root))
        yield from self._children(blobs, root, 0)

    def _children(self, blobs: "Blobs", root: bytes, depth: int) -> Iterator[AnyFact]:
        """The chats of sub-agents that are kept in the root of the one that started them."""
        for name, state in subagents(root) if depth < DEEPEST else ():
            child = Chat(self.origin, self.tally, self._offsets)
            child.key, child._session = ("cursor", name), self._session
            scribe = Scribe(child.key, self.origin, next(self._offsets))
            scribe.note("parent", {"conversation_id": self.key[1]}, RANK)
            scribe.note("session_id", self._session, RANK)
            yield from scribe.facts
            yield from child._said(blobs, state, blobs.narrow_layout(state))
            yield from child._children(blobs, state, depth + 1)

    def _said(self, blobs: "Blobs", root: bytes, layout: "Layout") -> Iterator[AnyFact]:
        """What the root of a chat tells."""
        self.tally.records += 1
        # What the root knows of the chat as a whole: how full its context is, where it works.
        fields = dict(node_fields(root))
        notes: dict[str, Any] = {}
        tokens, place = fields.get(_TOKENS), fields.get(_CHECKOUT)
        used, most = map(dict(node_fields(tokens) if isinstance(tokens, bytes) else ()).get, (1, 2))
        if isinstance(used, int) and isinstance(most, int) and used and most:
            notes = {"context_tokens": used, "context_limit": most}
            notes["context_usage"] = round(100 * used / most, 1)
        folder, branch = map(
            dict(node_fields(place) if isinstance(place, bytes) else ()).get, (1, 2)
        )
        if _folder(folder) and isinstance(branch, bytes) and branch:
            notes["workspace.branch"] = branch.decode("utf-8", "replace")
        worked = next((value for number, value in node_fields(root) if number == _FOLDERS), None)
        notes["workspace.path"] = _folder(worked)
        scribe = Scribe(self.key, self.origin, next(self._offsets))
        for name, value in notes.items():
            scribe.note(name, value, RANK + 1)
        yield from scribe.facts
        clock = Clock(turns(root, blobs.get))
        sent = Sent(self.key, self.origin, RANK, self._offsets, self._mode, self._model, clock)
        if not layout.main:
            facts = [fact for turn in turns(root, blobs.get) for fact in self._turn(turn)]
            yield from facts
            layout.main = [] if facts else layout.rest
        yield from self._messages(blobs, sent, layout)

    def _messages(self, blobs: "Blobs", sent: Sent, layout: "Layout") -> Iterator[AnyFact]:
        idents = [sent.ident(name) for name in layout.main]
        is_tree = bool(layout.branches)
        after = ROOT
        for place, (name, ident) in enumerate(zip(layout.main, idents, strict=True)):
            for fork, names in layout.before(place):
                above = after if fork <= place else sent.entry(ident)
                yield from self._branch(blobs, sent, names, above)
            facts = self._message(blobs, sent, name, ident, after if is_tree else None)
            yield from facts
            after = facts[0].entry if facts and facts[0].entry else after

    def _branch(
        self, blobs: "Blobs", sent: Sent, names: list[str], above: str
    ) -> Iterator[AnyFact]:
        """What was taken back. Context that another stands for now was replaced, not taken back."""
        messages: list[list[AnyFact]] = []
        for lost in names:
            facts = self._message(blobs, sent, lost, sent.ident(lost, "~"), above)
            above = facts[0].entry if facts and facts[0].entry else above
            messages.append(facts)
        if all(_is_context(facts) for facts in messages):
            self.tally.noise += sum(1 for facts in messages if facts)
        else:
            yield from (fact for facts in messages for fact in facts)

    def _turn(self, said: Turned) -> Iterator[AnyFact]:
        """What was said, where no message tells it."""
        self.tally.records += 1
        ident = f"{self.key[1]}:{said.name[:20]}"
        if said.role == "user":
            self._steps.close()
            step = ident
        else:
            step = self._steps.part("text" if said.text else "thinking", ident)
        scribe = Scribe(
            self.key, self.origin, next(self._offsets), time=said.time, entry=f"turn:{ident}",
            rank=RANK,
        )  # fmt: skip
        mode = self._mode if said.role == "user" else ""
        scribe.message(id=step, role=said.role, text=said.text, thinking=said.thinking, mode=mode)
        yield from scribe.facts

    def _message(
        self, blobs: "Blobs", sent: Sent, name: str, ident: str, after: str | None
    ) -> list[AnyFact]:
        self.tally.records += 1
        data = blobs.get(name) or b""
        value = message_of(data)
        if value is None:
            return [self.problem("invalid-json", data)]
        facts = sent.read(value, ident, after)
        self.tally.noise += not facts
        return facts


def _is_context(facts: list[AnyFact]) -> bool:
    return all(
        isinstance(fact, MessageSeen) and (fact.role == "system" or fact.kind == "injected")
        for fact in facts
    )


def _folder(value: bytes | int | None) -> str | None:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
    is_folder = text.startswith(("/", "file://")) or text[1:3] == ":\\"
    return clean_path(text) if is_folder else None


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Row '0' of `meta`: the hexadecimal digits of a JSON object; or a row for each of its fields."""
    rows: dict[str, Any] = {}
    for key, value in connection.execute("SELECT key, value FROM meta ORDER BY key"):
        data = value if isinstance(value, bytes) else str(value or "").encode()
        for candidate in (data, _unhexed(data)):
            try:
                return msgspec.json.decode(candidate, type=dict[str, Any])
            except UNREADABLE:
                continue
        rows[str(key)] = value
    return rows


def _unhexed(data: bytes) -> bytes:
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        return b""


class Blobs:
    """The blobs of one store, by their names."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
        if row is None or row[0] is None:
            return None
        return row[0] if isinstance(row[0], bytes) else str(row[0]).encode()

    def root(self, named: Any) -> bytes:
        """The root that is named; where it is missing or empty (4 of 648 real stores), the node that
        names the most blobs; empty without any."""
        root = self.get(named) if isinstance(named, str) else None
        if root:
            return root
        names = {str(name) for (name,) in self._connection.execute("SELECT id FROM blobs")}
        best, most = b"", 0
        for _, data in self._nodes("ASC"):
            size = sum(reference.hex() in names for _, reference in references(data))
            if size > most:
                best, most = data, size
        return best

    def layout(self, root: bytes) -> "Layout":
        """The messages under the root; then what only its archives or the roots before it name, the
        latest first. Without a root's messages, all that there are, as they were written."""
        layout = self.narrow_layout(root)
        others = self._of_others(root, 0)
        lost = dict.fromkeys(name for name in self._messages() if name not in others)
        if not layout.main:
            layout.rest = list(lost)
            return layout
        names = set(lost)
        for name in layout.main:
            lost.pop(name, None)
        for _, data in self._nodes("DESC") if lost else ():
            listed = [
                name for _, reference in references(data) if (name := reference.hex()) in names
            ]
            if any(name in lost for name in listed):
                layout.add(listed)
                for name in listed:
                    lost.pop(name, None)
        if lost:
            layout.branches.append((len(layout.main), list(lost)))
        return layout

    def narrow_layout(self, root: bytes) -> "Layout":
        """The messages under a root and in its archives."""
        layout = Layout((name for name, _ in walk(root, self.get)), self._is_summary)
        for names, summary in archives(root, self.get):
            layout.recall(names, summary)
        return layout

    def _of_others(self, root: bytes, depth: int) -> set[str]:
        """The messages of the sub-agents whose chats the root holds."""
        names: set[str] = set()
        for _, state in subagents(root) if depth < DEEPEST else ():
            names.update(self.narrow_layout(state).main, self._of_others(state, depth + 1))
        return names

    def _nodes(self, order: str) -> Iterator[tuple[str, bytes]]:
        """What is no message, as it was written."""
        statement = f"SELECT id, data FROM blobs ORDER BY rowid {order}"
        for name, data in self._connection.execute(statement):
            if isinstance(data, bytes) and data[:1] != b"{":
                yield str(name), data

    def _messages(self) -> Iterator[str]:
        statement = "SELECT id, data FROM blobs ORDER BY rowid"
        for name, data in self._connection.execute(statement):
            if isinstance(data, bytes) and message_of(data) is not None:
                yield str(name)

    def _is_summary(self, name: str) -> bool:
        return is_summary(self.get(name) or b"")


Branch = tuple[int, list[str]]
"""(how many messages of the chat stand before its fork, the messages that were abandoned)."""


class Layout:
    """The messages of a chat in order, and its abandoned branches."""

    def __init__(self, current: Iterable[str], is_summary: Callable[[str], bool]) -> None:
        self.main = list(current)
        self.branches: list[Branch] = []
        self.rest: list[str] = []
        """What there is where nothing tells an order."""
        self._is_summary = is_summary

    def add(self, earlier: list[str]) -> None:
        """The messages that an earlier root names; the latest such root comes first."""
        listed = set(self.main)
        at = 0
        lost: list[str] = []
        for name in earlier:
            if name not in listed:
                lost.append(name)
                continue
            at = self._put(at, lost)
            lost = []
            at = self._behind(name, at)
        self._put(at, lost)

    def _behind(self, name: str, at: int) -> int:
        """The place behind a message, where it stands at this one or later."""
        if at < len(self.main) and self.main[at] == name:
            return at + 1
        try:
            return self.main.index(name, at) + 1
        except ValueError:
            return at

    def _put(self, at: int, lost: list[str]) -> int:
        """What stood at a place: before a summary it is history, else it was taken back."""
        if not lost:
            return at
        if at < len(self.main) and self._is_summary(self.main[at]):
            self._insert(at, lost)
            return at + len(lost)
        # A root in the middle of what was taken back names the beginning of it.
        self.branches = [
            (fork, names)
            for fork, names in self.branches
            if fork != at or lost[: len(names)] != names
        ]
        self.branches.append((at, lost))
        return at

    def recall(self, archived: list[str], summary: str) -> None:
        """The messages that a summary stands for, as the root's own archive names them; those of an
        earlier summary come first."""
        listed = set(self.main)
        rest = [name for name in archived if name not in listed]
        if summary in listed:
            at = self.main.index(summary)
        else:
            at = next((i for i, name in enumerate(self.main) if self._is_summary(name)), 0)
        self._insert(at, rest)

    def _insert(self, at: int, names: list[str]) -> None:
        self.main[at:at] = names
        self.branches = [
            (fork + len(names) if fork > at else fork, kept) for fork, kept in self.branches
        ]

    def before(self, place: int) -> list[Branch]:
        """The branches to be told before the message at a place: those that it came instead of.

        What was taken back without anything said since is told before the last message, though it
        follows it: the last message that is told is the end of the thread.
        """
        last = place == len(self.main) - 1
        return [
            branch for branch in self.branches if branch[0] == place or (last and branch[0] > place)
        ]
