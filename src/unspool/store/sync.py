"""Sync: the store brought up to date with the origins, a batch at a time.

1. read what changed (`batches`, in worker processes where there is much): facts and raw records go in,
   and conversations of which a batch has all facts are written;
2. reduce and write the others that changed;
3. link over all conversations of the store, and write those anew of which linking says something else.

Step 1 ends in one transaction per batch, the others in one per conversation, and a conversation stays
dirty until all links are known: a sync that was killed goes on where it was.
"""

import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator

from unspool.facts import Key
from unspool.io.temporary import scratch
from unspool.store.batches import Began, Conversation, Item, iter_read
from unspool.store.blocks import last_fact
from unspool.store.conversations import WORDS, catch_up
from unspool.store.intake import Intake, Report, mark_dirty, mark_gone
from unspool.store.opening import transaction
from unspool.store.survey import Survey, survey
from unspool.store.update import Reducer, Update

HOT_BYTES = 16 * 1024 * 1024
"""Facts that stay in memory: a conversation may be made again when all are linked."""


class Sync:
    def __init__(
        self,
        connection: sqlite3.Connection,
        raw: bool = True,
        progress: Callable[[int], None] | None = None,
        indexes: Iterable[str] = (WORDS,),
    ) -> None:
        self.connection = connection
        self.raw = raw
        self.progress = progress
        self.indexes = indexes
        """Those that are brought up to date as well."""
        self.report = Report()
        self.update = Update(connection, self.report, Reducer(connection, HOT_BYTES))
        self.intake = Intake(connection, self.report, self.update.keep_whole)

    def run(self, paths: Iterable[str], found: Survey | None = None) -> Report:
        found = found if found is not None else survey(self.connection, paths)
        self.report.origins = len(found.changed) + found.unchanged
        self.report.unchanged = found.unchanged
        for _ in found.unreadable:
            self.report.count("unreadable")
        self.report.gone = len(found.gone)
        if found.gone or found.back:
            with transaction(self.connection):
                mark_gone(self.connection, found.gone, found.back)
        collecting = gc.isenabled()
        gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time
        try:
            with scratch() as folder:
                for items in iter_read(found.changed, self.raw, folder):
                    self._take_batch(items)
                    catch_up(self.connection, self.indexes)
            dirty = set(self.connection.execute("SELECT platform, external_id FROM dirty"))
            failed = self.update.reduce(dirty - self.update.reduced)
            failed += self.update.link()
            for _ in failed:
                self.report.count("internal-error")
            catch_up(self.connection, self.indexes)
        finally:
            if collecting:
                gc.enable()
        self.report.written = len(self.update.written)
        return self.report

    def _take_batch(self, items: Iterator[Item]) -> None:
        with transaction(self.connection):
            last = last_fact(self.connection)
            intake = self.intake
            intake.begin()
            kept: set[Key] = set()
            for item in items:
                if isinstance(item, Began):
                    intake.take(item, items)
                    if self.progress is not None:
                        self.progress(item.changed.size_bytes)
                elif isinstance(item, Conversation) and not self._has_more(item.key, last):
                    self.update.keep(item)
                    kept.add(item.key)
            mark_dirty(self.connection, intake.touched)
            self.update.reduced -= intake.touched - kept

    def _has_more(self, key: Key, last: int) -> bool:
        """Whether the store has facts of the conversation that its batch had not, or lacks some."""
        if key in self.intake.unlike or key not in self.intake.touched:
            return True
        rows = self.connection.execute(
            "SELECT 1 FROM facts WHERE platform = ? AND external_id = ? AND id <= ? LIMIT 1",
            (*key, last),
        )
        return rows.fetchone() is not None
