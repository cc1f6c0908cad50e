"""Update: conversations of which something new is known, reduced, linked and written.

`sync` and live capture both end here. What they took in has marked conversations as dirty; each is
reduced from all facts that the store has of it, cards are linked, and those that changed, or of
which linking now says something else, are written. A conversation stays dirty until then: whoever
is killed, the next one goes on.

`sync` links all cards. Live capture links those that a changed one can concern (`related.py`), and has
its conversations made by `Reducers`: as rows, with the patch that linking had for them before.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from unspool.facts import Key, Problem
from unspool.io.memory import give_back
from unspool.io.packing import Packer
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import Gathered, rebuild
from unspool.pipeline.finish import finish
from unspool.pipeline.shuffle import Slot, Slots
from unspool.store.batches import Conversation, Reduced, reduce_key
from unspool.store.blocks import get_facts
from unspool.store.changes import drop_old_changes
from unspool.store.conversations import (
    get_trajectory,
    only_new,
    put_rows,
    put_trajectory,
    remove,
)
from unspool.store.ids import row_id
from unspool.store.intake import Report, Taking, put_problems
from unspool.store.opening import transaction
from unspool.store.related import Related
from unspool.store.rows import Rows, make_rows
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

WRITE_BATCH = 100
LARGEST_SHARE = 0.25
"""Of the memory for facts: a conversation that is larger is read anew each time, and nothing else is
kept meanwhile. To make it takes three times as much as its facts."""
MADE_WHOLE = "\0"
"""`facts_of` of conversations that came as trajectories: there are no facts of them."""

_pack = Packer().encode
_card = msgspec.msgpack.Decoder(Card).decode
_patch = msgspec.msgpack.Decoder(Patch).decode

Wanted = Mapping[Key, Mapping[Key, bytes | None]]
"""Conversations to reduce; for each, what linking says of what is made from its facts."""


class HotFacts:
    """Facts of conversations that were reduced lately, within a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.largest_bytes = most_bytes * LARGEST_SHARE
        self.weight = 0
        self._kept: OrderedDict[Key, tuple[Gathered, int]] = OrderedDict()
        """With the number of the last block of facts that is in it."""

    def get(self, connection: sqlite3.Connection, key: Key) -> Gathered | None:
        """All facts of the conversation: of a known one only the new blocks are read."""
        before, last = self._kept.pop(key, (None, 0))
        weight = before.weight if before is not None else 0
        self.weight -= weight
        row = "SELECT ifnull(max(id), 0) FROM facts WHERE platform = ? AND external_id = ?"
        (newest,) = connection.execute(row, key).fetchone()
        gathered = get_facts(connection, key, last, before)
        if gathered is not None and gathered.weight > self.largest_bytes:
            self.forget()
        elif gathered is not None:
            self._kept[key] = (gathered, newest)
            self.weight += gathered.weight
            while self.weight > self.most_bytes:
                _, (dropped, _) = self._kept.popitem(last=False)
                self.weight -= dropped.weight
        return gathered

    def forget(self, keys: Collection[Key] | None = None) -> None:
        """Facts of these were taken away, or (None) somebody else has written to the store."""
        for key in list(self._kept) if keys is None else keys:
            dropped, _ = self._kept.pop(key, (None, 0))
            self.weight -= dropped.weight if dropped is not None else 0


class Reducer:
    """Makes rows out of the facts of conversations; it only reads the store."""

    def __init__(
        self, connection: sqlite3.Connection, hot_bytes: int, describe: Callable[[Trajectory], Any]
    ) -> None:
        self.connection = connection
        self.hot = HotFacts(hot_bytes)
        self.describe = describe
        self.was_large = False
        """Whether the last conversation was one whose facts are not kept."""

    def reduce(self, key: Key, patches: Mapping[Key, bytes | None]) -> Conversation:
        gathered = self.hot.get(self.connection, key)
        if gathered is None:
            return Conversation(key, [], [])
        rebuilt = rebuild(key, gathered)
        self.was_large = gathered.weight > self.hot.largest_bytes
        del gathered
        made: list[Reduced] = []
        while rebuilt.conversations:
            trajectory, card = rebuilt.conversations.pop(0)
            # What is shared with the facts at hand must not be finished twice; in between the bytes
            # alone are in memory.
            packed_trajectory = pack_trajectory(trajectory)
            del trajectory
            trajectory = unpack_trajectory(packed_trajectory)
            del packed_trajectory
            packed = patches.get(card.key)
            patch = _patch(packed) if packed is not None else None
            rows = told = None
            if patch is None or not patch.absorbed:
                finish(trajectory, patch)
                told = self.describe(trajectory)
                rows = only_new(self.connection, make_rows(trajectory))
            made.append(Reduced(card.key, _pack(card), None, packed, rows, told=told))
            del trajectory
        if self.was_large:
            give_back()
        return Conversation(key, made, rebuilt.problems)


class Reducers(Protocol):
    """Who reduces for live capture (`live/reducers.py`)."""

    def reduce(self, wanted: Wanted) -> Iterable[tuple[Key, Conversation | str]]:
        """Each conversation, or why it cannot be made."""

    def forget(self, keys: Collection[Key] | None) -> None:
        """As `HotFacts.forget`."""


class Update:
    """Brings conversations up to date."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        report: Report,
        put_away: Callable[[bytes], Slot | bytes] = bytes,
        reducers: Reducers | None = None,
        told: Callable[[Any], None] = lambda told: None,
        related_path: Path | None = None,
    ) -> None:
        self.connection = connection
        self.report = report
        self.put_away = put_away
        """Where a reduced trajectory waits until everything is linked."""
        self.reducers = reducers
        """Of live capture; without them this process reduces, and all cards are linked."""
        self.told = told
        """Gets what reducers tell of every conversation that is written, in the transaction that
        writes it."""
        self.bases: dict[Key, Slot | bytes | Reduced | None] = {}
        """Reduced but not yet written conversations, by (source, id)."""
        self.reduced: set[Key] = set()
        """What is up to date and waits to be linked and written."""
        self.written: set[Key] = set()
        self.related: Related | None = None
        self.related_path = related_path
        self.unlinked = False
        """Whether cards may be in the store that nobody lived to link: all are linked then, once."""
        self.origin_ids: dict[str, int] = {}

    def forget(self) -> None:
        """Somebody else has written to the store, or a step failed half-way."""
        self.bases.clear()
        self.reduced.clear()
        self.origin_ids.clear()
        if self.reducers is not None:
            self.reducers.forget(None)
        if self.related is not None and self.related.refresh():
            self._ask_whether_all_is_linked()

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, values)

    # reduce

    def reduce(self, key: Key) -> None:
        """A conversation again, from all facts that the store has of it."""
        gathered = get_facts(self.connection, key)
        self.keep(reduce_key(key, gathered) if gathered else Conversation(key, [], []))

    def came_whole(self, key: Key) -> bool:
        """Whether there are no facts of it: then it is only linked and written anew."""
        made_whole = "SELECT 1 FROM cards WHERE platform = ? AND external_id = ? AND facts_of = ?"
        if self._execute(made_whole, (*key, MADE_WHOLE)).fetchone() is None:
            return False
        if (trajectory := get_trajectory(self.connection, row_id(*key))) is not None:
            self.bases[key] = self.put_away(pack_trajectory(trajectory))
            self.reduced.add(key)
        return True

    def relate(self) -> None:
        """Know which cards concern each other."""
        if self.related is None:
            self.related = Related(self.connection, self.related_path)
            self._ask_whether_all_is_linked()

    def _ask_whether_all_is_linked(self) -> None:
        self.unlinked = self._execute("SELECT 1 FROM dirty LIMIT 1").fetchone() is not None

    def reduce_all(self, keys: Iterable[Key], reducers: Reducers) -> Iterator[tuple[Key, str]]:
        """These conversations by the reducers; those that cannot be made, and why."""
        self.relate()
        wanted = {
            key: {
                (platform, ident): patch
                for platform, ident, patch in self._execute(
                    "SELECT platform, external_id, patch FROM cards WHERE facts_of = ?",
                    ("\n".join(key),),
                )
            }
            for key in sorted(keys)
            if not self.came_whole(key)
        }
        for key, made in reducers.reduce(wanted):
            if isinstance(made, str):
                yield key, made
            else:
                with transaction(self.connection):
                    self.keep(made)

    def keep_whole(self, trajectory: Trajectory, taking: Taking) -> None:
        """What came as a trajectory, not as facts."""
        key = (trajectory.source, trajectory.conversation_id)
        if owner_of(self.connection, key) is not None:
            return  # a copy that was taken away: the conversation itself knows better
        card = make_card(trajectory)
        self._put_base(Reduced(card.key, _pack(card), pack_trajectory(trajectory)), MADE_WHOLE)
        # There are no facts to make it from again, so it is written at once.
        put_trajectory(self.connection, trajectory, [taking.ident])
        self._execute("INSERT OR IGNORE INTO dirty VALUES (?, ?)", key)
        self.reduced.add(key)

    def keep(self, conversation: Conversation) -> None:
        """What is new is written; the rest waits until everything is linked."""
        key = conversation.key
        self._renew_problems(conversation.problems)
        owner = "\n".join(key)
        kept = {reduced.key for reduced in conversation.reduced}
        for source, ident in self._execute(
            "SELECT platform, external_id FROM cards WHERE facts_of = ?", (owner,)
        ).fetchall():
            if (source, ident) not in kept:
                self._remove((source, ident))
        for reduced in conversation.reduced:
            self._put_base(reduced, owner)
        self.reduced.add(key)

    def _remove(self, key: Key) -> None:
        (old,) = self._execute(
            "DELETE FROM cards WHERE platform = ? AND external_id = ? RETURNING card", key
        ).fetchone()
        remove(self.connection, row_id(*key))
        self.bases.pop(key, None)
        if self.related is not None:
            self.related.change(key, old, None)
        self.report.removed += 1

    def _renew_problems(self, problems: list[Problem]) -> None:
        """What shows only when a conversation is put together, each once."""
        for problem in problems:
            row = self._execute(
                "SELECT id FROM origins WHERE path = ?", (problem.origin,)
            ).fetchone()
            if row is not None:
                self._execute(
                    "DELETE FROM problems WHERE origin_id = ? AND offset = ? AND code = ?",
                    (row[0], problem.offset, problem.code),
                )
                self.report.count(problem.code)
                put_problems(self.connection, int(row[0]), [problem])

    def _put_base(self, reduced: Reduced, owner: str) -> None:
        key = reduced.key
        row = self._execute(
            "SELECT card, facts_of FROM cards WHERE platform = ? AND external_id = ?", key
        ).fetchone()
        if row != (reduced.card, owner):
            self._execute(
                "INSERT INTO cards (platform, external_id, facts_of, card) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET facts_of = excluded.facts_of, card = excluded.card",
                (*key, owner, reduced.card),
            )
            if self.related is not None and (row is None or row[0] != reduced.card):
                self.related.change(key, row[0] if row is not None else None, reduced.card)
        if self.reducers is not None and owner != MADE_WHOLE:
            self.bases[key] = reduced
        elif reduced.base is None and row is None:
            if reduced.rows is not None:
                put_rows(self.connection, reduced.rows, self._ids_of(reduced.rows.origins))
                self.written.add(key)
            self._put_patch(key, reduced.patch)
        else:
            self.bases[key] = self.put_away(reduced.base) if reduced.base is not None else None

    # link and write

    def write(self) -> list[tuple[Key, str]]:
        """What was reduced, linked with the others; it is no longer dirty then. Those that linking
        says something else of, and that cannot be made anew, and why."""
        if not self.reduced:
            return []
        linked, changed = self._link()
        failed = self._make_again(linked, changed)
        targets = sorted({*self.bases, *changed} - failed.keys())
        slots = Slots()
        for start in range(0, max(1, len(targets)), WRITE_BATCH):
            with transaction(self.connection):
                for key in targets[start : start + WRITE_BATCH]:
                    self._write_one(key, linked, slots)
                    if key in changed:
                        self._put_patch(key, _packed(linked[key]))
                if start + WRITE_BATCH >= len(targets):
                    clean = "DELETE FROM dirty WHERE platform = ? AND external_id = ?"
                    self.connection.executemany(clean, sorted(self.reduced))
                    drop_old_changes(self.connection)
        slots.close()
        self.bases.clear()
        self.reduced.clear()
        return sorted(set(failed.values()))

    def _link(self) -> tuple[dict[Key, Patch | None], set[Key]]:
        """What linking says of the conversations that may concern each other, and for which it says
        something new."""
        if self.related is not None and not self.unlinked:
            known = self.related.family()
        else:
            self.unlinked = False
            known = {}
            for packed, patch in self._execute("SELECT card, patch FROM cards"):
                card = _card(packed)
                known[card.key] = (card, patch)
        patches = link([known[key][0] for key in sorted(known)])
        linked = {key: patches.get(key) for key in known}
        return linked, {key for key, (_, old) in known.items() if _packed(linked[key]) != old}

    def _make_again(
        self, linked: Mapping[Key, Patch | None], changed: set[Key]
    ) -> dict[Key, tuple[Key, str]]:
        """The reducers made rows with the patches of the last time: where one is another now, again.
        Those that cannot be made: from whose facts, and why."""
        wanted: dict[Key, dict[Key, bytes | None]] = {}
        for key in changed if self.reducers is not None else ():
            patch = linked[key]
            owner = owner_of(self.connection, key)
            if owner is not None and (patch is None or not patch.absorbed):
                wanted.setdefault(owner, {})[key] = _packed(patch)
        failed: dict[Key, tuple[Key, str]] = {}
        for owner, made in self.reducers.reduce(wanted) if self.reducers is not None else ():
            if isinstance(made, str):
                # What linking says of them is not written: the next try, or the next start, links
                # them anew.
                with transaction(self.connection):
                    self._execute("INSERT OR IGNORE INTO dirty VALUES (?, ?)", owner)
                    for key in wanted[owner]:
                        failed[key] = owner, made
                        if self.related is not None:
                            of_card = (
                                "SELECT card FROM cards WHERE platform = ? AND external_id = ?"
                            )
                            (card,) = self._execute(of_card, key).fetchone()
                            self.related.change(key, card, card)
                self.reduced.discard(owner)
                continue
            for reduced in made.reduced:
                if reduced.key in wanted[owner]:
                    self.bases[reduced.key] = reduced
        return failed

    def _write_one(self, key: Key, linked: Mapping[Key, Patch | None], slots: Slots) -> None:
        base = self.bases.get(key)
        patch = linked.get(key)
        if key not in linked:
            kept = "SELECT patch FROM cards WHERE platform = ? AND external_id = ?"
            (packed,) = self._execute(kept, key).fetchone()
            patch = _patch(packed) if packed is not None else None
        if patch is not None and patch.absorbed:
            remove(self.connection, row_id(*key))
            return
        if isinstance(base, Reduced) and base.rows is not None:
            self._put_rows(key, base.rows)
            self.told(base.told)
            return
        for trajectory in self._base(key, slots):
            if (trajectory.source, trajectory.conversation_id) == key:
                finish(trajectory, patch)
                self._put_rows(key, make_rows(trajectory))

    def _put_rows(self, key: Key, rows: Rows) -> None:
        known = "SELECT origin_id FROM conversation_origins WHERE conversation_id = ?"
        # (A file that is a trajectory names the files that it was once made from, not itself.)
        ids = self._ids_of(rows.origins) or [one for (one,) in self._execute(known, (rows.ident,))]
        put_rows(self.connection, rows, ids)
        self.written.add(key)

    def _put_patch(self, key: Key, packed: bytes | None) -> None:
        self._execute(
            "UPDATE cards SET patch = ? WHERE platform = ? AND external_id = ?", (packed, *key)
        )

    def _base(self, key: Key, slots: Slots) -> Iterator[Trajectory]:
        base = self.bases.get(key)
        if base is not None and not isinstance(base, Reduced):
            yield unpack_trajectory(base if isinstance(base, bytes) else slots.read(base))
            return
        owner = owner_of(self.connection, key)
        if owner is None:
            whole = get_trajectory(self.connection, row_id(*key))
            if whole is not None:
                yield whole
            return
        gathered = get_facts(self.connection, owner)
        if gathered is not None:
            for made, _ in rebuild(owner, gathered).conversations:
                yield unpack_trajectory(pack_trajectory(made))  # as it would come out of the spool

    def _ids_of(self, paths: list[str]) -> list[int]:
        """The origins at these paths, as far as there are such."""
        if any(path not in self.origin_ids for path in paths):
            self.origin_ids = dict(self._execute("SELECT path, id FROM origins"))
        return [self.origin_ids[path] for path in paths if path in self.origin_ids]


def _packed(patch: Patch | None) -> bytes | None:
    return _pack(patch) if patch is not None else None


def owner_of(connection: sqlite3.Connection, key: Key) -> Key | None:
    """The conversation whose facts this one was made from; None where it came as a trajectory."""
    row = connection.execute(
        "SELECT facts_of FROM cards WHERE platform = ? AND external_id = ?", key
    ).fetchone()
    if row is None or row[0] == MADE_WHOLE:
        return None
    source, _, ident = str(row[0]).partition("\n")
    return (source, ident)
