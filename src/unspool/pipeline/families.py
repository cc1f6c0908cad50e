"""Families: a conversation whose files are all read is reduced at once, and its facts are gone.

Only where one worker reads everything. What a path says of a file is believed: files of which it
says nothing are read first. Should a file hold more than its path says, the conversations that were
reduced too early are read once more.
"""

from collections.abc import Iterable

from unspool import sinks, sources
from unspool.facts import NOBODY, Key, Problem
from unspool.io.origins import Origin, Tally
from unspool.pipeline.collect import Gathered, Place
from unspool.pipeline.worker import Outcome, Reduced, Report, Worker


class FamilyWorker(Worker):
    """A worker that has all origins for itself."""

    _early: dict[Key, tuple[list[Reduced], int, list[Origin]]]
    """Family → its trajectories, how many records they left out, and where they were read."""
    _failed: set[str]
    """Files of which it was told that they cannot be read."""
    _strangers: list[Origin]
    """Files that may be of many families."""
    _aside: dict[Key, dict[Key, Gathered]]
    """Family → what those files told of it."""
    _aside_bytes = 0
    _spilled: tuple[int, set[Key]]
    """How many conversations went to disk, and the families that they are of."""

    def read(self, spans: Iterable[Origin]) -> Report:
        self._early, self._spilled = {}, (0, set())
        self._failed = set()
        families: dict[Key, list[Origin]] = {NOBODY: []}
        for span in spans:
            name = sources.family_of(span)
            family = (span.source, name) if name is not None else NOBODY
            families.setdefault(family, []).append(span)
        self._strangers = families.pop(NOBODY)
        self.read_spans(self._strangers)
        self._set_aside()
        for family, members in families.items():
            self._put_back(self._aside.pop(family, {}))
            self.read_spans(members)
            if family not in self._on_disk():
                self._reduce_family(family, members)
        for known in self._aside.values():
            self._put_back(known)
        return Report({*self.collection.conversations, *self.spill.keys}, self.tally)

    def _set_aside(self) -> None:
        """So that a family is found without a look at all others, and only its own facts weigh."""
        self._aside = {}
        if self.collection.weight > self.job.memory_bytes // 2:
            self._spill()
        for key, gathered in self.collection.conversations.items():
            self._aside.setdefault(_family(key), {})[key] = gathered
        self.collection.conversations.clear()
        self._aside_bytes = self.collection.weight

    def _put_back(self, known: dict[Key, Gathered]) -> None:
        conversations = self.collection.conversations
        for key, gathered in known.items():
            met = conversations.setdefault(key, gathered)
            if met is not gathered:
                for fact in gathered.hand_out():
                    met.add(fact)

    def _on_disk(self) -> set[Key]:
        """The families of which a part is on disk: too large for the memory."""
        number = len(self.spill.keys)
        if self._spilled[0] != number:
            self._spilled = (number, set(map(_family, self.spill.keys)))
        return self._spilled[1]

    def _reduce_family(self, family: Key, members: list[Origin]) -> None:
        conversations = self.collection.conversations
        made: list[Reduced] = []
        superseded = 0
        for key in [key for key in conversations if _family(key) == family]:
            superseded += self._reduce_one(key, conversations.pop(key), made)
        self._early[family] = (made, superseded, members)
        if not conversations:
            self.collection.weight = self._aside_bytes

    def reduce(self) -> Outcome:
        left = (*self.collection.conversations, *self.spill.keys)
        again = set(map(_family, left)) & self._early.keys()
        if again:
            self._reopen(again)
        outcome = super().reduce()
        for made, superseded, _ in self._early.values():
            outcome.reduced += made
            outcome.superseded += superseded
        return outcome

    def _reopen(self, families: set[Key]) -> None:
        """Some other file holds more of these: their facts are needed again."""
        members = [span for family in sorted(families) for span in self._early.pop(family)[2]]
        for span in (*self._strangers, *members):
            try:
                self._read_again(span, families)
            except OSError as error:  # it vanished since, or was damaged before
                if span.path not in self._failed:
                    self._unreadable(span, error)
            except Exception as error:
                if span.path not in self._failed:
                    self._fault(NOBODY, (span.path, span.start), error)
            if self.collection.weight > self.job.memory_bytes:
                self._spill()

    def _read_again(self, span: Origin, families: set[Key]) -> None:
        if span.source in sinks.READERS:
            return  # whole conversations, which belong to no family
        for fact in sources.read(span, Tally(), self.job.recover):
            if not isinstance(fact, Problem) and _family(fact.key) in families:  # else told already
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
