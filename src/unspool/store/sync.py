"""Sync: the store brought up to date with the origins, a batch at a time.

1. read what changed: facts and raw records go in, the conversations that they touch become dirty;
2. reduce the touched conversations, from kept and new facts together;
3. link over all conversations of the store;
4. write those that changed, or whose links did.

Steps 1 and 2 end in one transaction per batch, step 4 in one per some conversations, and a
conversation is clean only when it is written: a sync that was killed goes on where it was.
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
from unspool.pipeline.collect import Gathered, rebuild
from unspool.pipeline.finish import finish
from unspool.pipeline.shuffle import Slot, Slots, Spool
from unspool.store.ids import row_id
from unspool.store.intake import Intake, Report, Taking, mark_gone, put_problems
from unspool.store.keeping import Press, get_facts
from unspool.store.opening import transaction
from unspool.store.rows import get_trajectory, put_trajectory, remove
from unspool.store.survey import Changed, Survey, iter_batches, survey
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

BATCH_BYTES = 32 * 1024 * 1024
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
    ) -> None:
        self.connection = connection
        self.progress = progress
        self.report = Report()
        self.press = Press(connection)
        self.intake = Intake(self.press, self.report, self._keep_whole, raw)
        self.bases: dict[Key, Slot] = {}
        """Reduced but not yet linked conversations, by (source, id), in a temporary file."""
        self.reduced: set[Key] = set()
        """What this sync has brought up to date so far."""

    def run(self, paths: Iterable[str], found: Survey | None = None) -> Report:
        found = found if found is not None else survey(self.connection, paths)
        self.report.origins = len(found.changed) + found.unchanged
        self.report.unchanged = found.unchanged
        for _ in found.unreadable:
            self.report.count("unreadable")
        self._mark_gone(found)
        collecting = gc.isenabled()
        gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time
        try:
            self._bring_up_to_date(found)
        finally:
            self.press.close()
            if collecting:
                gc.enable()
        return self.report

    def _bring_up_to_date(self, found: Survey) -> None:
        with scratch() as folder:
            self.spool = Spool(Path(folder, "bases"))
            for batch in iter_batches(found.changed, BATCH_BYTES):
                self._read_batch(batch)
            self._reduce_leftovers()
            self.spool.close()
            self._write()

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

    def _read_batch(self, batch: list[Changed]) -> None:
        with transaction(self.connection):
            intake = self.intake
            intake.begin()
            for changed in batch:
                intake.take(changed)
                if self.progress is not None:
                    self.progress(changed.size_bytes)
            touched = sorted(intake.touched)
            self.connection.executemany("INSERT OR IGNORE INTO dirty VALUES (?, ?)", touched)
            for key in touched:
                self._reduce(key, intake.fresh.pop(key, None))

    def _keep_whole(self, trajectory: Trajectory, taking: Taking) -> None:
        if self._owner((trajectory.source, trajectory.conversation_id)) is not None:
            return  # a copy that was taken away: the conversation itself knows better
        self._put_base(trajectory, make_card(trajectory), MADE_WHOLE)
        # There are no facts to make it from again, so it is written at once.
        put_trajectory(self.connection, trajectory, [taking.ident], self.press)
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

    def _reduce(self, key: Key, gathered: Gathered | None) -> None:
        """The conversation and its side threads into the spool, their cards into the store."""
        if gathered is None:
            gathered = get_facts(self.connection, key)
        made: list[tuple[Trajectory, Card]] = []
        if gathered is not None:
            rebuilt = rebuild(key, gathered)
            made = rebuilt.conversations
            self._renew_problems(rebuilt.problems)
        owner = "\n".join(key)
        kept = {(t.source, t.conversation_id) for t, _ in made}
        for source, ident in self._execute(
            "SELECT platform, external_id FROM cards WHERE facts_of = ?", (owner,)
        ).fetchall():
            if (source, ident) not in kept:
                self._execute(
                    "DELETE FROM cards WHERE platform = ? AND external_id = ?", (source, ident)
                )
                remove(self.connection, row_id(source, ident))
                self.report.removed += 1
        for trajectory, card in made:
            self._put_base(trajectory, card, owner)
        self.reduced.add(key)

    def _put_base(self, trajectory: Trajectory, card: Card, owner: str) -> None:
        key = (trajectory.source, trajectory.conversation_id)
        self.bases[key] = self.spool.put(pack_trajectory(trajectory))
        self._execute(
            "INSERT INTO cards (platform, external_id, facts_of, card) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET facts_of = excluded.facts_of, card = excluded.card",
            (*key, owner, _pack(card)),
        )

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
            self._reduce(key, None)
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
                        self._put_patch(key, patches.get(key))
                self.press.flush()
        slots.close()
        with transaction(self.connection):
            self.connection.execute("DELETE FROM dirty")

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
                origins = self._origin_ids(trajectory)
                put_trajectory(self.connection, trajectory, origins, self.press)
                self.report.written += 1

    def _put_patch(self, key: Key, patch: Patch | None) -> None:
        self._execute(
            "UPDATE cards SET patch = ? WHERE platform = ? AND external_id = ?",
            (_pack(patch) if patch is not None else None, *key),
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

    def _origin_ids(self, trajectory: Trajectory) -> list[int]:
        paths = [path for path in (trajectory.file_path, *(trajectory.origins or ())) if path]
        found: list[int] = []
        for path in paths:
            row = self._execute("SELECT id FROM origins WHERE path = ?", (path,)).fetchone()
            if row is not None:
                found.append(int(row[0]))
        return found
