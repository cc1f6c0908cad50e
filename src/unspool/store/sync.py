"""Sync: the store brought up to date with the origins, a batch at a time.

1. read what changed and reduce the conversations that it touches (`batches`, in worker processes
   where there is much): facts and raw records go in, and what is new is written as well;
2. link over all conversations of the store;
3. write the others that changed, and those of which linking now says something else.

Step 1 ends in one transaction per batch, step 3 in one per some conversations, and a conversation
stays dirty until all links are known: a sync that was killed goes on where it was.
"""

import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from unspool.facts import Key, Problem
from unspool.io.packing import Packer
from unspool.io.temporary import scratch
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import rebuild
from unspool.pipeline.finish import finish
from unspool.pipeline.shuffle import Slot, Slots, Spool
from unspool.store.batches import Began, Conversation, Item, Reduced, reduce_key
from unspool.store.blocks import get_facts
from unspool.store.changes import drop_old_changes
from unspool.store.ids import row_id
from unspool.store.intake import Intake, Report, Taking, mark_gone, put_problems
from unspool.store.opening import transaction
from unspool.store.pieces import catch_up
from unspool.store.readers import iter_read
from unspool.store.rows import get_trajectory, make_rows, put_rows, put_trajectory, remove
from unspool.store.survey import Survey, survey
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

WRITE_BATCH = 100
MADE_WHOLE = "\0"
"""`facts_of` of conversations that came as trajectories: there are no facts of them."""

_pack = Packer().encode
_card = msgspec.msgpack.Decoder(Card).decode


class Sync:
    def __init__(
        self,
        connection: sqlite3.Connection,
        raw: bool = True,
        progress: Callable[[int], None] | None = None,
        pieces: bool = False,
    ) -> None:
        self.connection = connection
        self.raw = raw
        self.progress = progress
        self.pieces = pieces
        """Whether the index of pieces is brought up to date as well."""
        self.report = Report()
        self.intake = Intake(connection, self.report, self._keep_whole)
        self.bases: dict[Key, Slot | None] = {}
        """Reduced but not yet written conversations, by (source, id); most in a temporary file."""
        self.reduced: set[Key] = set()
        """What this sync has brought up to date so far."""
        self.written: set[Key] = set()
        self.had_card: set[Key] = set()
        """Conversations that the store knew before this sync."""
        self.origin_ids: dict[str, int] = {}

    def run(self, paths: Iterable[str], found: Survey | None = None) -> Report:
        found = found if found is not None else survey(self.connection, paths)
        self.report.origins = len(found.changed) + found.unchanged
        self.report.unchanged = found.unchanged
        for _ in found.unreadable:
            self.report.count("unreadable")
        self._mark_gone(found)
        self.had_card = set(self.connection.execute("SELECT platform, external_id FROM cards"))
        collecting = gc.isenabled()
        gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time
        try:
            with scratch() as folder:
                self.spool = Spool(Path(folder, "bases"))
                for items in iter_read(found.changed, self.raw, folder):
                    self._take_batch(items)
                    if self.pieces:
                        catch_up(self.connection)
                self._reduce_leftovers()
                self.spool.close()
                self._write()
                if self.pieces:
                    catch_up(self.connection)
        finally:
            if collecting:
                gc.enable()
        self.report.written = len(self.written)
        return self.report

    def _mark_gone(self, found: Survey) -> None:
        self.report.gone = len(found.gone)
        if found.gone or found.back:
            with transaction(self.connection):
                for ident in found.gone:
                    mark_gone(self.connection, ident)
                for ident in found.back:
                    self._execute("UPDATE origins SET gone_since = NULL WHERE id = ?", (ident,))

    def _execute(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        return self.connection.execute(statement, values)

    # 1. read, 2. reduce

    def _take_batch(self, items: Iterator[Item]) -> None:
        with transaction(self.connection):
            (last,) = self.connection.execute("SELECT ifnull(max(id), 0) FROM facts").fetchone()
            intake = self.intake
            intake.begin()
            kept: set[Key] = set()
            for item in items:
                if isinstance(item, Began):
                    intake.take(item, items)
                    if self.progress is not None:
                        self.progress(item.changed.size_bytes)
                elif isinstance(item, Conversation) and not self._has_more(item.key, last):
                    self._keep(item)
                    kept.add(item.key)
            self.connection.executemany(
                "INSERT OR IGNORE INTO dirty VALUES (?, ?)", sorted(intake.touched)
            )
            for key in sorted(intake.touched - kept):
                self._reduce(key)

    def _has_more(self, key: Key, last: int) -> bool:
        """Whether the store has facts of the conversation that its batch had not, or lacks some."""
        if key in self.intake.taken_back or key not in self.intake.touched:
            return True
        rows = self._execute(
            "SELECT 1 FROM facts WHERE platform = ? AND external_id = ? AND id <= ? LIMIT 1",
            (*key, last),
        )
        return rows.fetchone() is not None

    def _keep_whole(self, trajectory: Trajectory, taking: Taking) -> None:
        if self._owner((trajectory.source, trajectory.conversation_id)) is not None:
            return  # a copy that was taken away: the conversation itself knows better
        card = make_card(trajectory)
        self._put_base(Reduced(card.key, _pack(card), pack_trajectory(trajectory)), MADE_WHOLE)
        # There are no facts to make it from again, so it is written at once.
        put_trajectory(self.connection, trajectory, [taking.ident])
        key = (trajectory.source, trajectory.conversation_id)
        self._execute("INSERT OR IGNORE INTO dirty VALUES (?, ?)", key)
        self.reduced.add(key)

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

    def _reduce(self, key: Key) -> None:
        """A conversation again, from all facts that the store has of it."""
        gathered = get_facts(self.connection, key)
        self._keep(reduce_key(key, gathered) if gathered else Conversation(key, [], []))

    def _keep(self, conversation: Conversation) -> None:
        """What is new is written; the rest waits until everything is linked."""
        key = conversation.key
        self._renew_problems(conversation.problems)
        owner = "\n".join(key)
        kept = {reduced.key for reduced in conversation.reduced}
        for source, ident in self._execute(
            "SELECT platform, external_id FROM cards WHERE facts_of = ?", (owner,)
        ).fetchall():
            if (source, ident) not in kept:
                self._execute(
                    "DELETE FROM cards WHERE platform = ? AND external_id = ?", (source, ident)
                )
                remove(self.connection, row_id(source, ident))
                self.bases.pop((source, ident), None)
                self.report.removed += 1
        for reduced in conversation.reduced:
            is_new = reduced.base is None and reduced.key not in self.had_card
            self._put_base(reduced, owner, is_new)
        self.reduced.add(key)

    def _put_base(self, reduced: Reduced, owner: str, is_new: bool = False) -> None:
        key = reduced.key
        self._execute(
            "INSERT INTO cards (platform, external_id, facts_of, card) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET facts_of = excluded.facts_of, card = excluded.card",
            (*key, owner, reduced.card),
        )
        if is_new:
            if reduced.rows is not None:
                put_rows(self.connection, reduced.rows, self._ids_of(reduced.rows.origins))
                self.written.add(key)
            self._put_patch(key, reduced.patch)
        else:
            self.bases[key] = self.spool.put(reduced.base) if reduced.base is not None else None
        self.had_card.add(key)

    def _reduce_leftovers(self) -> None:
        """What an earlier sync read but did not live to write."""
        rows = self.connection.execute("SELECT platform, external_id FROM dirty").fetchall()
        for platform, ident in rows:
            if (platform, ident) not in self.reduced:
                with transaction(self.connection):
                    self._reduce_again((platform, ident))

    def _reduce_again(self, key: Key) -> None:
        made_whole = "SELECT 1 FROM cards WHERE platform = ? AND external_id = ? AND facts_of = ?"
        if self._execute(made_whole, (*key, MADE_WHOLE)).fetchone() is None:
            self._reduce(key)
        elif (trajectory := get_trajectory(self.connection, row_id(*key))) is not None:
            self.bases[key] = self.spool.put(pack_trajectory(trajectory))
            self.reduced.add(key)

    # 3. link, 4. write

    def _owner(self, key: Key) -> Key | None:
        row = self._execute(
            "SELECT facts_of FROM cards WHERE platform = ? AND external_id = ?", key
        ).fetchone()
        if row is None or row[0] == MADE_WHOLE:
            return None
        source, _, ident = str(row[0]).partition("\n")
        return (source, ident)

    def _write(self) -> None:
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
        slots.close()
        with transaction(self.connection):
            self.connection.execute("DELETE FROM dirty")
            drop_old_changes(self.connection)

    def _link(self) -> tuple[dict[Key, Patch], set[Key]]:
        """What linking says of every conversation, and for which it says something new."""
        cards: list[Card] = []
        before: dict[Key, bytes | None] = {}
        for card, patch in self.connection.execute("SELECT card, patch FROM cards"):
            cards.append(_card(card))
            before[cards[-1].key] = patch
        patches = dict(link(cards))
        changed: set[Key] = set()
        for key, old in before.items():
            made = patches.get(key)
            if (_pack(made) if made is not None else None) != old:
                changed.add(key)
        return patches, changed

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

    def _put_patch(self, key: Key, packed: bytes | None) -> None:
        self._execute(
            "UPDATE cards SET patch = ? WHERE platform = ? AND external_id = ?",
            (packed, *key),
        )

    def _base(self, key: Key, slots: Slots) -> Iterator[Trajectory]:
        slot = self.bases.get(key)
        if slot is not None:
            yield unpack_trajectory(slots.read(slot))
            return
        owner = self._owner(key)
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
            self.origin_ids = dict(self.connection.execute("SELECT path, id FROM origins"))
        return [self.origin_ids[path] for path in paths if path in self.origin_ids]
