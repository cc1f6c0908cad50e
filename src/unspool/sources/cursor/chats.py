"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, ROOT, AnyFact, Key, MessageSeen, Noted, Problem
from unspool.io.databases import DAMAGE, MAGIC, Database, open_database
from unspool.io.dirty_json import clean, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.sources.cursor.blobs import DEEPEST, message_of, node_fields, subagents
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import rank_of
from unspool.sources.cursor.paths import clean_path, is_cursor_folder
from unspool.sources.cursor.rewound import Layout
from unspool.sources.cursor.sent import Sent
from unspool.sources.cursor.steps import Steps
from unspool.sources.cursor.stores import Blobs, read_meta
from unspool.sources.cursor.turns import Clock, Turned, turns

RANK = 0
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
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tally.problems += 1
        yield Problem(
            key=key, origin=origin.path, offset=0, code="invalid-json", sample=sample(data)
        )
        return
    cwd = value.get("cwd")
    notes = {
        "session_id": key[1],
        "workspace.path": clean_path(cwd) if isinstance(cwd, str) and cwd else None,
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    for number, (name, told) in enumerate(notes.items()):
        yield Noted(
            key=key, origin=origin.path, offset=0, number=number, entry=f"meta:{key[1]}", name=name,
            value=clean(told), rank=rank_of(key, name, told, RANK + 1),
        )  # fmt: skip


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
        yield from self._notes(meta)
        yield from self._said(blobs, root, blobs.layout(root))
        yield from self._children(blobs, root, 0)

    def _children(self, blobs: Blobs, root: bytes, depth: int) -> Iterator[AnyFact]:
        """The chats of sub-agents that are kept in the root of the one that started them."""
        for name, state in subagents(root) if depth < DEEPEST else ():
            child = Chat(self.origin, self.tally, self._offsets)
            child.key, child._session = ("cursor", name), self._session
            notes = {"parent": {"conversation_id": self.key[1]}, "session_id": self._session}
            for note, value in notes.items():
                yield Noted(
                    key=child.key, origin=self.origin, offset=next(self._offsets), name=note,
                    value=value, rank=RANK,
                )  # fmt: skip
            yield from child._said(blobs, state, blobs.narrow_layout(state))
            yield from child._children(blobs, state, depth + 1)

    def _said(self, blobs: Blobs, root: bytes, layout: Layout) -> Iterator[AnyFact]:
        """What the root of a chat tells."""
        self.tally.records += 1
        yield from self._state(root)
        clock = Clock(turns(root, blobs.get))
        sent = Sent(self.key, self.origin, RANK, self._offsets, self._mode, self._model, clock)
        if not layout.main:
            said = [fact for told in turns(root, blobs.get) for fact in self._turn(told)]
            yield from said
            layout.main = [] if said else layout.rest
        yield from self._messages(blobs, sent, layout)

    def _messages(self, blobs: Blobs, sent: Sent, layout: Layout) -> Iterator[AnyFact]:
        idents = [sent.ident(name) for name in layout.main]
        is_tree = bool(layout.branches)
        after = ROOT
        for place, (name, ident) in enumerate(zip(layout.main, idents, strict=True)):
            for fork, names in layout.before(place):
                above = after if fork <= place else sent.entry(ident)
                yield from self._branch(blobs, sent, names, above)
            made = self._message(blobs, sent, name, ident, after if is_tree else None)
            yield from made
            after = made[0].entry if made and made[0].entry else after

    def _branch(self, blobs: Blobs, sent: Sent, names: list[str], above: str) -> Iterator[AnyFact]:
        """What was taken back. Context that another stands for now was replaced, not taken back."""
        told: list[list[AnyFact]] = []
        for lost in names:
            made = self._message(blobs, sent, lost, sent.ident(lost, "~"), above)
            above = made[0].entry if made and made[0].entry else above
            told.append(made)
        if all(_is_context(made) for made in told):
            self.tally.noise += sum(1 for made in told if made)
        else:
            yield from (fact for made in told for fact in made)

    def _turn(self, said: Turned) -> Iterator[AnyFact]:
        """What was said, where no message tells it."""
        self.tally.records += 1
        ident = f"{self.key[1]}:{said.name[:20]}"
        if said.role == "user":
            self._steps.close()
            step = ident
        else:
            step = self._steps.part("text" if said.text else "thinking", ident)
        yield MessageSeen(
            key=self.key, origin=self.origin, offset=next(self._offsets), entry=f"turn:{ident}",
            id=step, time=said.time, role=said.role, text=said.text, thinking=said.thinking,
            mode=self._mode if said.role == "user" else "", rank=RANK,
        )  # fmt: skip

    def _message(
        self, blobs: Blobs, sent: Sent, name: str, ident: str, after: str | None
    ) -> list[AnyFact]:
        self.tally.records += 1
        data = blobs.get(name) or b""
        value = message_of(data)
        if value is None:
            return [self.problem("invalid-json", data)]
        made = list(sent.read(clean(value), ident, after))
        if not made:
            self.tally.noise += 1
        return made

    def _notes(self, meta: dict[str, Any]) -> Iterator[AnyFact]:
        self._mode = mode_name(meta.get("mode"))
        self._model = str(meta.get("lastUsedModel") or "")
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": next(self._offsets),
            "entry": f"chat:{self.key[1]}",
        }  # fmt: skip
        above = meta.get("subagentInfo")
        parent = above.get("parentAgentId") if isinstance(above, dict) else None
        self._session = parent if isinstance(parent, str) and parent else self.key[1]
        notes = {
            "session_id": self._session,
            "title": meta.get("name") if meta.get("name") != _UNNAMED else None,
            "composer_mode": self._mode or None,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
            "parent": {"conversation_id": parent} if parent == self._session else None,
        }
        for number, (name, value) in enumerate(notes.items()):
            rank = rank_of(self.key, name, value, RANK)
            if value is not None:
                yield Noted(**common, number=number, name=name, value=clean(value), rank=rank)

    def _state(self, root: bytes) -> Iterator[AnyFact]:
        """What the root knows of the chat as a whole: how full its context is, where it works."""
        known = dict(node_fields(root))
        notes: dict[str, Any] = {}
        tokens, place = known.get(_TOKENS), known.get(_CHECKOUT)
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
        offset = next(self._offsets)
        for number, (name, value) in enumerate(notes.items()):
            if value is not None:
                yield Noted(
                    key=self.key, origin=self.origin, offset=offset, number=number, name=name,
                    value=value, rank=RANK + 1,
                )  # fmt: skip


def _is_context(made: list[AnyFact]) -> bool:
    return all(
        isinstance(fact, MessageSeen) and (fact.role == "system" or fact.kind == "injected")
        for fact in made
    )


def _folder(value: bytes | int | None) -> str | None:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
    is_folder = text.startswith(("/", "file://")) or text[1:3] == ":\\"
    return clean_path(text) if is_folder else None
