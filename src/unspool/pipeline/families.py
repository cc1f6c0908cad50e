"""Families: a conversation whose files are all read is reduced at once, and its facts are gone.

Only where one worker reads everything. What a path says of a file is believed: files of which it
says nothing are read first. Should a file hold more than its path says, the conversations that were
reduced too early are read once more.
"""

from collections.abc import Iterable

from unspool import sources
from unspool.facts import NOBODY, Key, Problem
from unspool.origins import Origin, Tally
from unspool.pipeline.collect import Place
from unspool.pipeline.worker import Outcome, Reduced, Report, Worker


class FamilyWorker(Worker):
    """A worker that has all origins for itself."""

    _early: dict[Key, tuple[list[Reduced], int, list[Origin]]]
    """Family → its trajectories, how many records they left out, and where they were read."""
    _failed: set[str]
    """Files of which it was told that they cannot be read."""

    def read(self, spans: Iterable[Origin]) -> Report:
        self._early = {}
        self._failed = set()
        families: dict[Key, list[Origin]] = {NOBODY: []}
        for span in spans:
            name = sources.family_of(span)
            family = (span.source, name) if name is not None else NOBODY
            families.setdefault(family, []).append(span)
        super().read(families.pop(NOBODY))
        for family, members in families.items():
            super().read(members)
            self._reduce_family(family, members)
        return Report({*self.collection.conversations, *self.spill.keys}, self.tally)

    def _reduce_family(self, family: Key, members: list[Origin]) -> None:
        conversations = self.collection.conversations
        if family in map(_family, self.spill.keys):
            return  # too large for the memory: a part of it is on disk
        made: list[Reduced] = []
        superseded = 0
        for key in [key for key in conversations if _family(key) == family]:
            superseded += self._reduce_one(key, conversations.pop(key), made)
        self._early[family] = (made, superseded, members)
        if not conversations:
            self.collection.weight = 0

    def reduce(self) -> Outcome:
        left = (*self.collection.conversations, *self.spill.keys)
        for family in sorted(set(map(_family, left)) & self._early.keys()):
            self._reopen(family)
        outcome = super().reduce()
        for made, superseded, _ in self._early.values():
            outcome.reduced += made
            outcome.superseded += superseded
        return outcome

    def _reopen(self, family: Key) -> None:
        """Some other file holds more of the family: its facts are needed again."""
        _, _, members = self._early.pop(family)
        for span in members:
            try:
                self._read_again(span)
            except OSError as error:  # it vanished since, or was damaged before
                if span.path not in self._failed:
                    self._unreadable(span, error)
            except Exception as error:
                if span.path not in self._failed:
                    self._fault(family, (span.path, span.start), error)
            if self.collection.weight > self.job.memory_bytes:
                self._spill()

    def _read_again(self, span: Origin) -> None:
        for fact in sources.read(span, Tally(), self.job.recover):
            if not isinstance(fact, Problem):  # told already
                self.collection.add(span.source, fact)

    def _unreadable(self, span: Origin, error: OSError) -> None:
        self._failed.add(span.path)
        super()._unreadable(span, error)

    def _fault(self, key: Key, place: Place, error: Exception) -> None:
        self._failed.add(place[0])
        super()._fault(key, place, error)


def _family(key: Key) -> Key:
    """The conversation that one is, or is a sub-agent of."""
    return (key[0], key[1].partition("/")[0])
