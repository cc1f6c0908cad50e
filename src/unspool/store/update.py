"""Update: conversations of which something new is known, reduced, linked and written.

`sync` and live capture both end here. What they took in has marked conversations as dirty; each is
reduced from all facts that the store has of it, all cards are linked, and those that changed, or of
which linking now says something else, are written. A conversation stays dirty until then: whoever
is killed, the next one goes on.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

import msgspec

from unspool.facts import Key, Problem
from unspool.io.packing import Packer
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import Gathered, rebuild
from unspool.pipeline.finish import finish
from unspool.pipeline.shuffle import Slot, Slots
from unspool.store.batches import Conversation, Reduced, reduce_key
from unspool.store.blocks import get_facts
from unspool.store.changes import drop_old_changes
from unspool.store.ids import row_id
from unspool.store.intake import Report, put_problems
from unspool.store.opening import transaction
from unspool.store.rows import get_trajectory, make_rows, put_rows, put_trajectory, remove
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

WRITE_BATCH = 100
MADE_WHOLE = "\0"
"""`facts_of` of conversations that came as trajectories: there are no facts of them."""

_pack = Packer().encode
_card = msgspec.msgpack.Decoder(Card).decode


class HotFacts:
    """Facts of conversations that were reduced lately, within a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
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
        if gathered is not None and gathered.weight <= self.most_bytes:
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


class Update:
    """Brings conversations up to date; reused, it remembers cards and facts of the last time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        report: Report,
        put_away: Callable[[bytes], Slot | bytes] = bytes,
        hot_bytes: int = 0,
        told: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> None:
        self.connection = connection
        self.report = report
        self.put_away = put_away
        """Where a reduced trajectory waits until everything is linked."""
        self.told = told
        """Gets every conversation that is written, in the transaction that writes it."""
        self.hot = HotFacts(hot_bytes)
        self.bases: dict[Key, Slot | bytes | None] = {}
        """Reduced but not yet written conversations, by (source, id)."""
        self.reduced: set[Key] = set()
        """What is up to date and waits to be linked and written."""
        self.written: set[Key] = set()
        self.cards: dict[Key, Card] | None = None
        """All of the store, decoded; None until they are needed."""
        self.patches: dict[Key, bytes | None] = {}
        """What linking said of them when they were last written."""
        self.linked: dict[Key, Patch] | None = None
        """What it says now; None where a card changed since."""
        self.had_card: set[Key] | None = None
        """Conversations that the store knows."""
        self.origin_ids: dict[str, int] = {}

    def forget(self) -> None:
        """Somebody else has written to the store, or a step failed half-way."""
        self.bases.clear()
        self.reduced.clear()
        self.hot.forget()
        self.cards, self.linked, self.had_card = None, None, None
        self.patches.clear()
        self.origin_ids.clear()

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        return self.connection.execute(statement, values)

    def _knows(self, key: Key) -> bool:
        if self.had_card is None:
            self.had_card = set(self._execute("SELECT platform, external_id FROM cards"))
        return key in self.had_card

    # reduce

    def reduce(self, key: Key) -> None:
        """A conversation again, from all facts that the store has of it."""
        gathered = self.hot.get(self.connection, key)
        self.keep(reduce_key(key, gathered) if gathered else Conversation(key, [], []))

    def reduce_again(self, key: Key) -> None:
        """One that was left dirty; there may be no facts of it."""
        made_whole = "SELECT 1 FROM cards WHERE platform = ? AND external_id = ? AND facts_of = ?"
        if self._execute(made_whole, (*key, MADE_WHOLE)).fetchone() is None:
            self.reduce(key)
        elif (trajectory := get_trajectory(self.connection, row_id(*key))) is not None:
            self.bases[key] = self.put_away(pack_trajectory(trajectory))
            self.reduced.add(key)

    def keep_whole(self, trajectory: Trajectory, origin_id: int) -> None:
        """What came as a trajectory, not as facts."""
        key = (trajectory.source, trajectory.conversation_id)
        if owner_of(self.connection, key) is not None:
            return  # a copy that was taken away: the conversation itself knows better
        card = make_card(trajectory)
        self._put_base(Reduced(card.key, _pack(card), pack_trajectory(trajectory)), MADE_WHOLE)
        # There are no facts to make it from again, so it is written at once.
        put_trajectory(self.connection, trajectory, [origin_id])
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
            is_new = reduced.base is None and not self._knows(reduced.key)
            self._put_base(reduced, owner, is_new)
        self.reduced.add(key)

    def _remove(self, key: Key) -> None:
        self._execute("DELETE FROM cards WHERE platform = ? AND external_id = ?", key)
        remove(self.connection, row_id(*key))
        self.bases.pop(key, None)
        self.patches.pop(key, None)
        if self.cards is not None:
            self.cards.pop(key, None)
        self.linked = None
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

    def _put_base(self, reduced: Reduced, owner: str, is_new: bool = False) -> None:
        key = reduced.key
        row = self._execute(
            "SELECT card FROM cards WHERE platform = ? AND external_id = ? AND facts_of = ?",
            (*key, owner),
        ).fetchone()
        if row is None or row[0] != reduced.card:
            self.linked = None
            self._execute(
                "INSERT INTO cards (platform, external_id, facts_of, card) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET facts_of = excluded.facts_of, card = excluded.card",
                (*key, owner, reduced.card),
            )
            if self.cards is not None:
                self.cards[key] = _card(reduced.card)
                self.patches.setdefault(key, None)
        if is_new:
            if reduced.rows is not None:
                put_rows(self.connection, reduced.rows, self._ids_of(reduced.rows.origins))
                self.written.add(key)
            self._put_patch(key, reduced.patch)
        else:
            self.bases[key] = self.put_away(reduced.base) if reduced.base is not None else None
        if self.had_card is not None:
            self.had_card.add(key)

    # link and write

    def write(self) -> None:
        """What was reduced, linked with all others; it is no longer dirty then."""
        if not self.reduced:
            return
        patches, changed = self._link()
        targets = sorted({*self.bases, *changed})
        slots = Slots()
        for start in range(0, len(targets), WRITE_BATCH):
            with transaction(self.connection):
                for key in targets[start : start + WRITE_BATCH]:
                    self._write_one(key, patches.get(key), slots)
                    if key in changed:
                        patch = patches.get(key)
                        self._put_patch(key, _pack(patch) if patch is not None else None)
                if start + WRITE_BATCH >= len(targets):
                    self._clean()
        slots.close()
        if not targets:
            with transaction(self.connection):
                self._clean()
        self.bases.clear()
        self.reduced.clear()

    def _clean(self) -> None:
        self.connection.executemany(
            "DELETE FROM dirty WHERE platform = ? AND external_id = ?", sorted(self.reduced)
        )
        drop_old_changes(self.connection)

    def _link(self) -> tuple[dict[Key, Patch], set[Key]]:
        """What linking says of every conversation, and for which it says something new."""
        if self.cards is None:
            self.cards = {}
            for packed, patch in self._execute("SELECT card, patch FROM cards"):
                card = _card(packed)
                self.cards[card.key] = card
                self.patches[card.key] = patch
        elif self.linked is not None:
            return self.linked, set()
        self.linked = dict(link([self.cards[key] for key in sorted(self.cards)]))
        changed: set[Key] = set()
        for key, old in self.patches.items():
            made = self.linked.get(key)
            if (_pack(made) if made is not None else None) != old:
                changed.add(key)
        return self.linked, changed

    def _write_one(self, key: Key, patch: Patch | None, slots: Slots) -> None:
        for trajectory in self._base(key, slots):
            own = (trajectory.source, trajectory.conversation_id)
            if own != key:
                continue
            if patch is not None and patch.absorbed:
                remove(self.connection, row_id(*key))
            else:
                finish(trajectory, patch)
                rows = make_rows(trajectory)
                put_rows(self.connection, rows, self._ids_of(rows.origins))
                self.written.add(key)
                self.told(trajectory)

    def _put_patch(self, key: Key, packed: bytes | None) -> None:
        self._execute(
            "UPDATE cards SET patch = ? WHERE platform = ? AND external_id = ?", (packed, *key)
        )
        self.patches[key] = packed

    def _base(self, key: Key, slots: Slots) -> Iterator[Trajectory]:
        base = self.bases.get(key)
        if base is not None:
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


def owner_of(connection: sqlite3.Connection, key: Key) -> Key | None:
    """The conversation whose facts this one was made from; None where it came as a trajectory."""
    row = connection.execute(
        "SELECT facts_of FROM cards WHERE platform = ? AND external_id = ?", key
    ).fetchone()
    if row is None or row[0] == MADE_WHOLE:
        return None
    source, _, ident = str(row[0]).partition("\n")
    return (source, ident)
