"""Update: conversations of which something new is known, reduced, written and linked.

`sync` and live capture both end here. What they took in has marked conversations as dirty. Each is
reduced from all facts that the store has of it, made into rows with what linking said of it before (its
patch), and written. Then cards are linked, and those of which linking now says something else are made
again. A conversation stays dirty until then: whoever is killed, the next one goes on.

`sync` links all cards, live capture those that a changed one can concern (`related.py`).
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from unspool.facts import Key
from unspool.io.memory import give_back
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import Gathered, rebuild
from unspool.store.batches import Conversation, Reduced, pack_patch, unpack_patch
from unspool.store.blocks import get_facts
from unspool.store.changes import drop_old_changes
from unspool.store.conversations import get_trajectory, only_new, put_rows, remove
from unspool.store.ids import row_id
from unspool.store.intake import Report, mark_dirty, put_problems
from unspool.store.opening import transaction
from unspool.store.related import Related
from unspool.store.rows import Rows
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

LARGEST_SHARE = 0.25
"""Of the memory for facts: a conversation that is larger is read anew each time, and nothing else is
kept meanwhile. To make it takes three times as much as its facts."""
MADE_WHOLE = "\0"
"""`facts_of` of conversations that came as trajectories: there are no facts of them."""

_card = msgspec.msgpack.Decoder(Card).decode

Wanted = Mapping[Key, Mapping[Key, bytes | None]]
"""Conversations to reduce; for each, what linking says of what is made from its facts."""


class Reducer:
    """Makes rows out of the facts of conversations; it only reads the store.

    Facts of conversations that were reduced lately stay at hand, within `hot_bytes`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        hot_bytes: int,
        describe: Callable[[Trajectory], Any] = lambda trajectory: None,
    ) -> None:
        self.connection = connection
        self.hot_bytes = hot_bytes
        self.describe = describe
        """What is told to the writer of a conversation beside its rows."""
        self.was_large = False
        """Whether the last conversation was one whose facts are not kept."""
        self._hot: OrderedDict[Key, tuple[Gathered, int]] = OrderedDict()
        """With the number of the last block of facts that is in it."""
        self._weight = 0

    def reduce(self, wanted: Wanted) -> Iterator[tuple[Key, Conversation | str]]:
        for key, patches in wanted.items():
            yield key, self.make(key, patches)

    def forget(self, keys: Collection[Key] | None) -> None:
        """Facts of these were taken away, or (None) somebody else has written to the store."""
        for key in list(self._hot) if keys is None else keys:
            dropped, _ = self._hot.pop(key, (None, 0))
            self._weight -= dropped.weight if dropped is not None else 0

    def _facts(self, key: Key) -> Gathered | None:
        """All facts of the conversation: of a known one only the new blocks are read."""
        before, last = self._hot.pop(key, (None, 0))
        self._weight -= before.weight if before is not None else 0
        row = "SELECT ifnull(max(id), 0) FROM facts WHERE platform = ? AND external_id = ?"
        (newest,) = self.connection.execute(row, key).fetchone()
        gathered = get_facts(self.connection, key, last, before)
        if gathered is None:
            return None
        self.was_large = gathered.weight > self.hot_bytes * LARGEST_SHARE
        if self.was_large:
            self.forget(None)
            return gathered
        self._hot[key] = (gathered, newest)
        self._weight += gathered.weight
        while self._weight > self.hot_bytes:
            _, (dropped, _) = self._hot.popitem(last=False)
            self._weight -= dropped.weight
        return gathered

    def make(self, key: Key, patches: Mapping[Key, bytes | None]) -> Conversation | str:
        """The conversation, or why it cannot be made; trouble with the store itself is raised."""
        try:
            gathered = self._facts(key)
            if gathered is None:
                return Conversation(key, [], [])
            rebuilt = rebuild(key, gathered)
            del gathered
            made: list[Reduced] = []
            while rebuilt.conversations:
                trajectory, card = rebuilt.conversations.pop(0)
                # What is shared with the facts at hand must not be finished twice; in between the
                # bytes alone are in memory.
                packed = pack_trajectory(trajectory)
                del trajectory
                trajectory = unpack_trajectory(packed)
                del packed
                reduced = Reduced.of(trajectory, card, unpack_patch(patches.get(card.key)))
                if reduced.rows is not None:
                    rows = only_new(self.connection, reduced.rows)
                    reduced = reduced._replace(rows=rows, told=self.describe(trajectory))
                made.append(reduced)
                del trajectory
        except (sqlite3.Error, OSError):
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if self.was_large:
            give_back()
        return Conversation(key, made, rebuilt.problems)


class Stored(NamedTuple):
    """What the store has of a card."""

    facts_of: str = ""
    card: bytes | None = None
    patch: bytes | None = None

    @property
    def owner(self) -> Key | None:
        """The conversation whose facts it was made from; None where it came as a trajectory."""
        source, is_made, ident = self.facts_of.partition("\n")
        return (source, ident) if is_made else None


def stored_card(connection: sqlite3.Connection, key: Key) -> Stored:
    statement = "SELECT facts_of, card, patch FROM cards WHERE platform = ? AND external_id = ?"
    return Stored(*connection.execute(statement, key).fetchone() or ())


class Reducers(Protocol):
    """Who reduces: a `Reducer`, or processes that have one each (`live/reducers.py`)."""

    def reduce(self, wanted: Wanted) -> Iterable[tuple[Key, Conversation | str]]:
        """Each conversation, or why it cannot be made."""

    def forget(self, keys: Collection[Key] | None) -> None:
        """As `Reducer.forget`."""


class Update:
    """Brings conversations up to date."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        report: Report,
        reducers: Reducers,
        told: Callable[[Any], None] = lambda told: None,
        related_path: Path | None = None,
    ) -> None:
        self.connection = connection
        self._execute = connection.execute
        self.report = report
        self.reducers = reducers
        self.told = told
        """Gets what reducers tell of every conversation that is written, in the transaction that
        writes it."""
        self.reduced: set[Key] = set()
        """What is written and waits to be linked."""
        self.written: set[Key] = set()
        self.related: Related | None = None
        """Of live capture; without it all cards are linked."""
        self.related_path = related_path
        self.unlinked = False
        """Whether cards may be in the store that nobody lived to link: all are linked then, once."""

    def forget(self) -> None:
        """Somebody else has written to the store, or a step failed half-way."""
        self.reduced.clear()
        self.reducers.forget(None)
        if self.related is not None and self.related.refresh():
            self._ask_whether_all_is_linked()

    def relate(self) -> None:
        """Know which cards concern each other."""
        if self.related is None:
            self.related = Related(self.connection, self.related_path)
            self._ask_whether_all_is_linked()

    def _ask_whether_all_is_linked(self) -> None:
        self.unlinked = self._execute("SELECT 1 FROM dirty LIMIT 1").fetchone() is not None

    # reduce and write

    def reduce(self, keys: Iterable[Key]) -> list[tuple[Key, str]]:
        """These conversations anew, from all facts that the store has of them; those that cannot be
        made, and why."""
        wanted: dict[Key, dict[Key, bytes | None]] = {}
        for key in sorted(keys):
            if (
                stored_card(self.connection, key).facts_of == MADE_WHOLE
            ):  # written as it came: it needs only be linked
                self.reduced.add(key)
            else:
                wanted[key] = self._patches(key)
        failed: list[tuple[Key, str]] = []
        for key, made in self.reducers.reduce(wanted):
            if isinstance(made, str):
                failed.append((key, made))
            else:
                with transaction(self.connection):
                    self.keep(made)
        return failed

    def _patches(self, key: Key) -> dict[Key, bytes | None]:
        """What linking said of all that was made from the facts of this conversation."""
        statement = "SELECT platform, external_id, patch FROM cards WHERE facts_of = ?"
        rows = self._execute(statement, ("\n".join(key),))
        return {(platform, ident): patch for platform, ident, patch in rows}

    def keep(self, conversation: Conversation) -> None:
        """Write what was made from the facts of one key."""
        # What shows only when a conversation is put together, each once.
        for problem in conversation.problems:
            at = self._execute("SELECT id FROM origins WHERE path = ?", (problem.origin,))
            for (origin_id,) in at.fetchall():
                self._execute(
                    "DELETE FROM problems WHERE origin_id = ? AND offset = ? AND code = ?",
                    (origin_id, problem.offset, problem.code),
                )
                self.report.count(problem.code)
                put_problems(self.connection, origin_id, [problem])
        made = {reduced.key for reduced in conversation.reduced}
        for key in self._patches(conversation.key).keys() - made:
            self._remove(key)
        for reduced in conversation.reduced:
            self._put(reduced, "\n".join(conversation.key))
        self.reduced.add(conversation.key)

    def keep_whole(self, trajectory: Trajectory, origin_id: int) -> None:
        """What came as a trajectory, not as facts."""
        key = (trajectory.source, trajectory.conversation_id)
        stored = stored_card(self.connection, key)
        if stored.owner is not None:
            return  # a copy that was taken away: the conversation itself knows better
        reduced = Reduced.of(trajectory, make_card(trajectory), unpack_patch(stored.patch))
        self._put(reduced, MADE_WHOLE, [origin_id])
        mark_dirty(self.connection, [key])
        self.reduced.add(key)

    def _remove(self, key: Key) -> None:
        (old,) = self._execute(
            "DELETE FROM cards WHERE platform = ? AND external_id = ? RETURNING card", key
        ).fetchone()
        remove(self.connection, row_id(*key))
        self.written.discard(key)
        if self.related is not None:
            self.related.change(key, old, None)
        self.report.removed += 1

    def _put(self, reduced: Reduced, owner: str, origin_ids: Iterable[int] = ()) -> None:
        """The card, and the rows that were made with its patch: none where it is a mere copy."""
        key = reduced.key
        old = stored_card(self.connection, key).card
        self._execute(
            "INSERT INTO cards VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " facts_of = excluded.facts_of, card = excluded.card, patch = excluded.patch",
            (*key, owner, reduced.card, reduced.patch),
        )
        if self.related is not None and old != reduced.card:
            self.related.change(key, old, reduced.card)
        if reduced.rows is None:
            remove(self.connection, row_id(*key))
            self.written.discard(key)
            return
        put_rows(self.connection, reduced.rows, self._origins_of(reduced.rows) or origin_ids)
        self.told(reduced.told)
        self.written.add(key)

    def _origins_of(self, rows: Rows) -> list[int]:
        """Where it was read; as the store has it, where none of the paths is known there: a file that
        is a trajectory names the files that it was once made from, not itself."""
        at = "SELECT id FROM origins WHERE path = ?"
        known = "SELECT origin_id FROM conversation_origins WHERE conversation_id = ?"
        found = [ident for path in rows.origins for (ident,) in self._execute(at, (path,))]
        return found or [ident for (ident,) in self._execute(known, (rows.ident,))]

    # link

    def link(self) -> list[tuple[Key, str]]:
        """What was written, linked with the others; it is no longer dirty then. Those of which linking
        says something else are made again; those that cannot be, and why."""
        if not self.reduced:
            return []
        changed = self._link()
        failed: list[tuple[Key, str]] = []
        wanted: dict[Key, dict[Key, bytes | None]] = {}
        for key, patch in changed.items():
            owner = stored_card(self.connection, key).owner
            if owner is None or (patch is not None and patch.absorbed):
                with transaction(self.connection):
                    self._patch_alone(key, patch)
            else:
                wanted.setdefault(owner, self._patches(owner))[key] = pack_patch(patch)
        for owner, made in self.reducers.reduce(wanted):
            with transaction(self.connection):
                if isinstance(made, str):
                    failed.append((owner, made))
                    self._link_later(owner)
                else:
                    for reduced in made.reduced:
                        if reduced.key in changed:
                            self._put(reduced, "\n".join(owner))
        with transaction(self.connection):
            clean = "DELETE FROM dirty WHERE platform = ? AND external_id = ?"
            self.connection.executemany(clean, sorted(self.reduced))
            drop_old_changes(self.connection)
        self.reduced.clear()
        return failed

    def _link(self) -> dict[Key, Patch | None]:
        """The conversations for which linking says something new."""
        if self.related is not None and not self.unlinked:
            known = self.related.family()
        else:
            self.unlinked = False
            known = {}
            for packed, patch in self._execute("SELECT card, patch FROM cards"):
                card = _card(packed)
                known[card.key] = (card, patch)
        patches = link([known[key][0] for key in sorted(known)])
        return {
            key: patches.get(key)
            for key, (_, old) in known.items()
            if pack_patch(patches.get(key)) != old
        }

    def _patch_alone(self, key: Key, patch: Patch | None) -> None:
        """Of one that came as a trajectory, or that is a mere copy: nothing is reduced for it."""
        stored = stored_card(self.connection, key)
        trajectory = get_trajectory(self.connection, row_id(*key))
        reduced = Reduced(key, stored.card or b"", pack_patch(patch), None)
        if trajectory is not None and stored.card is not None:
            reduced = Reduced.of(trajectory, _card(stored.card), patch)
        self._put(reduced, stored.facts_of)

    def _link_later(self, owner: Key) -> None:
        """It could not be made again: the next try, or the next start, links it anew."""
        mark_dirty(self.connection, [owner])
        self.reduced.discard(owner)
        if self.related is not None:
            cards = "SELECT platform, external_id, card FROM cards WHERE facts_of = ?"
            for platform, ident, card in self._execute(cards, ("\n".join(owner),)).fetchall():
                self.related.change((platform, ident), card, card)
