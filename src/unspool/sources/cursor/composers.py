"""Composers: Cursor's name for a conversation; its head, its bubbles, and what lies beside them."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, Link, Noted, Problem
from unspool.io.dirty_json import clean, sample
from unspool.io.origins import Tally
from unspool.sources.cursor.agentkv import Sendings, root_of
from unspool.sources.cursor.bubbles import RANK, USER, Bubble, Chat, mode_name
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import LAST, rank_of
from unspool.sources.cursor.heads import (
    Composer,
    children_of,
    costs,
    folder_of,
    head_notes,
    model_of,
    workspace_id,
)
from unspool.sources.cursor.kv import Broken, Keys, parse_object
from unspool.sources.cursor.listing import Order
from unspool.sources.cursor.paths import clean_path, workspace_folder
from unspool.sources.cursor.tools import decoded, kind_of


class Reader:
    """Reads composers of one origin; every record gets the next offset."""

    def __init__(self, origin: str, tally: Tally, store: str, rows: Keys | None = None) -> None:
        self.origin = origin
        self.tally = tally
        self.store = store
        self.rows = rows
        self.offsets = count()
        self.sendings: Sendings | None = None
        self._folders: dict[str, str | None] = {}

    def problem(self, key: Key, code: str, data: bytes | str) -> Problem:
        self.tally.problems += 1
        return Problem(
            key=key, origin=self.origin, offset=next(self.offsets), number=99, code=code,
            sample=sample(data),
        )  # fmt: skip

    def head(
        self, ident: str, composer: Composer, workspace: str | None = None
    ) -> Iterator[AnyFact]:
        """Notes on a conversation; told by a record of this store's own."""
        common: dict[str, Any] = {
            "key": ("cursor", ident), "origin": self.origin, "offset": next(self.offsets),
            "entry": f"composer:{self.store}:{ident}",
        }  # fmt: skip
        notes = {"session_id": ident, **head_notes(composer)}
        for number, (name, value) in enumerate(notes.items()):
            rank = rank_of(("cursor", ident), name, value, RANK)
            yield Noted(**common, number=number, name=name, value=clean(value), rank=rank)
        workspace = workspace or self._folder(workspace_id(composer))
        model = model_of(composer)
        if model:
            yield Noted(
                **common, number=61, on="following", name="model", value=model, rank=RANK
            )  # fmt: skip
        if workspace:
            yield Noted(**common, number=60, name="workspace.path", value=workspace, rank=RANK + 1)
        for number, child in enumerate(children_of(composer)):
            value = {"conversation_id": child}
            yield Noted(**common, number=100 + 2 * number, name="children", value=value, rank=RANK)
            yield Noted(
                **common | {"key": ("cursor", child)}, number=101 + 2 * number, name="session_id",
                value=notes["session_id"], rank=RANK + 1,
            )  # fmt: skip
        yield from costs(composer, common)

    def _folder(self, ident: str) -> str | None:
        """The project of a workspace, by the folder of its own beside that of the global database."""
        if ident and ident not in self._folders:
            place = Path(self.origin).parent.parent / "workspaceStorage" / ident
            self._folders[ident] = workspace_folder(str(place / "state.vscdb"))
        return self._folders.get(ident)

    def read(
        self, ident: str, composer: Composer, workspace: str | None = None
    ) -> Iterator[AnyFact]:
        """The head and the bubbles of a composer."""
        self.tally.records += 1
        yield from self.head(ident, composer, workspace)
        mode = mode_name(composer.get("unifiedMode") or composer.get("forceMode"))
        fetch = self.rows.get if self.rows is not None else _nothing
        changes = Changes({"composerId": ident, **composer}, fetch)
        chat = Chat(("cursor", ident), self.origin, changes, mode)
        order = Order(self, ident, composer)
        yield from self._bubbles(chat, order)
        yield from order.problems
        if order.missing:
            self.tally.records += 1
            yield self.problem(chat.key, "missing-bubbles", f"{order.missing} that headers name")
        yield from self._place(chat)
        yield from self._sent(composer, chat)

    def _place(self, chat: Chat) -> Iterator[AnyFact]:
        """The folder that the bubbles were asked in; else what their files have in common, which
        anybody knows better."""
        files = sorted(path for path in chat.paths if path)
        shared = folder_of(files) if len(files) > 1 else None
        common: dict[str, Any] = {
            "key": chat.key, "origin": self.origin, "offset": next(self.offsets),
            "name": "workspace.path",
        }  # fmt: skip
        if chat.roots:
            yield Noted(**common, value=chat.roots[0], rank=RANK + 1)
        if shared:
            yield Noted(**common, number=1, value=shared, rank=LAST)
            yield Noted(**common | {"name": "common_folder"}, number=2, value=shared, rank=LAST)

    def _bubbles(self, chat: Chat, order: Order) -> Iterator[AnyFact]:
        after: str = ROOT
        if order.orphans:
            after = f"start:{chat.key[1]}"  # what even the first of them can be forked from
            yield Link(
                key=chat.key, origin=self.origin, offset=next(self.offsets), entry=after, after=ROOT
            )
        lost = after
        for ident, bubble, abandoned in order.bubbles(chat.key):
            if abandoned and bubble.get("type") in (USER, "user"):
                lost = after
            facts = chat.read(bubble, ident, next(self.offsets), lost if abandoned else after)
            if not facts:
                self.tally.noise += 1
                continue
            yield from facts
            yield from self._beside(chat, bubble, ident)
            lost = f"bubble:{ident}"
            if not abandoned:
                after = lost

    def _sent(self, composer: Composer, chat: Chat) -> Iterator[AnyFact]:
        """What was sent to the model; where no root tells it, it is looked for when all are read."""
        if self.sendings is None:
            return
        root = root_of(composer)
        if root:
            for facts in self.sendings.under(root, chat.key):
                self.tally.records += 1
                self.tally.noise += not facts
                yield from facts
            return
        for call in chat.calls:
            self.sendings.unanswered.setdefault(call, chat.key)
        for call in chat.all_calls:
            self.sendings.calls.setdefault(call, chat.key)
        for request in chat.requests - {""}:
            self.sendings.requests.setdefault(request, chat.key)

    def _beside(self, chat: Chat, bubble: Bubble, ident: str) -> Iterator[AnyFact]:
        """What other rows hold about a bubble."""
        yield from chat.files(bubble, ident, next(self.offsets))
        if self.rows is None:
            return
        tool = bubble.get("toolFormerData")
        if isinstance(tool, dict) and kind_of(str(tool.get("name"))) == "task":
            call = str(tool.get("toolCallId") or "")
            child = self._child(call, decoded(tool.get("result")))
            if child:
                yield Noted(
                    key=chat.key, origin=self.origin, offset=next(self.offsets), on="call",
                    entry=f"bubble:{ident}:child", subject=call, name="child_id", value=child,
                    rank=RANK,
                )  # fmt: skip
        data = self.rows.get(f"messageRequestContext:{chat.key[1]}:{ident}")
        if data is not None:
            self.tally.records += 1
            try:
                context = clean(parse_object(data))
                yield chat.context(context, ident, next(self.offsets))
                yield from self._layout(chat.key, context)
            except Broken as broken:
                yield self.problem(chat.key, broken.code, broken.data)

    def _child(self, call: str, result: Any) -> str:
        """The conversation that a task call started: named in its result, or after the call."""
        named = result.get("agentId") if isinstance(result, dict) else None
        if isinstance(named, str) and named:
            return named
        found = call and self.rows is not None and self.rows.has(f"bubbleId:task-{call}:")
        return f"task-{call}" if found else ""

    def _layout(self, key: Key, context: dict[str, Any]) -> Iterator[AnyFact]:
        """The root of the project as it was shown to the model."""
        listed = context.get("projectLayouts")
        layout = decoded(listed[0]) if isinstance(listed, list) and listed else None
        root = layout.get("rootPath") if isinstance(layout, dict) else None
        if isinstance(root, str) and root:
            yield Noted(
                key=key, origin=self.origin, offset=next(self.offsets), name="workspace.path",
                value=clean_path(root), rank=RANK + 1,
            )  # fmt: skip


def _nothing(key: str) -> bytes | None:
    return None
