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

from unspool.facts import Key
from unspool.io.temporary import scratch
from unspool.pipeline.shuffle import Spool
from unspool.store.batches import Began, Conversation, Item
from unspool.store.blocks import last_fact
from unspool.store.conversations import catch_up, catch_up_texts
from unspool.store.intake import Intake, Report, mark_gone
from unspool.store.opening import transaction
from unspool.store.readers import is_much, iter_read
from unspool.store.survey import Survey, survey
from unspool.store.update import Update


class Sync:
    def __init__(
        self,
        connection: sqlite3.Connection,
        raw: bool = True,
        progress: Callable[[int], None] | None = None,
        pieces: bool = False,
        later: bool = False,
    ) -> None:
        self.connection = connection
        self.raw = raw
        self.progress = progress
        self.pieces = pieces
        """Whether the index of pieces is brought up to date as well."""
        self.later = later
        """Whether new conversations may wait until they can be searched, where there are many."""
        self.report = Report()
        self.update = Update(connection, self.report)
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
                # Trajectories wait in a file: there may be many.
                spool = Spool(Path(folder, "bases"))
                self.update.put_away = spool.put
                # Only of a new store: one that has texts may be served, and a server, which only
                # reads, would not find the rest.
                new = self.connection.execute("SELECT 1 FROM texts LIMIT 1").fetchone() is None
                searchable = not (self.later and new and is_much(found.changed))
                for items in iter_read(found.changed, self.raw, searchable, folder):
                    self._take_batch(items)
                    if self.pieces:
                        catch_up(self.connection)
                self._reduce_leftovers()
                spool.close()
                self.update.write()
                if self.pieces:
                    catch_up(self.connection)
                elif not self.later:
                    catch_up_texts(self.connection)
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
            intake.mark_dirty()
            for key in sorted(intake.touched - kept):
                self.update.reduce(key)

    def _has_more(self, key: Key, last: int) -> bool:
        """Whether the store has facts of the conversation that its batch had not, or lacks some."""
        if key in self.intake.taken_back or key not in self.intake.touched:
            return True
        rows = self.connection.execute(
            "SELECT 1 FROM facts WHERE platform = ? AND external_id = ? AND id <= ? LIMIT 1",
            (*key, last),
        )
        return rows.fetchone() is not None

    def _reduce_leftovers(self) -> None:
        """What an earlier sync read but did not live to write."""
        rows = self.connection.execute("SELECT platform, external_id FROM dirty").fetchall()
        for platform, ident in rows:
            key = (platform, ident)
            if key not in self.update.reduced:
                with transaction(self.connection):
                    if not self.update.came_whole(key):
                        self.update.reduce(key)
