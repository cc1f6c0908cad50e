"""Thread: which records are the conversation, in which order, and which were abandoned.

Records that name what they follow form trees. Every root starts a segment; in each, the current
leaf is the last one written that was not taken out again, and the way up from it is the chain:

    {"uuid": "2", "parentUuid": "1"}  first try        abandoned: a branch that forks at 1
    {"uuid": "3", "parentUuid": "1"}  second try       the chain (cases/claude_code/rewind)

A message is on the chain if any of its parts is; a result is where its call is. What is left is an
abandoned branch and keeps its fork point. Records that name nothing keep their place in the order.

A log without a tree is only ever added to, save by a rewind, which cuts its end off without a
trace. So where a copy of old has an end that the newest one does not have, though both have what
stands before it, and somebody's words begin it, that end was taken back (`split_forks`). A copy that
merely ends earlier has no such end; a file that holds the beginning, and another that holds the rest,
have none either.

What another channel repeats of an abandoned branch belongs to that branch (`settle_echoes`): a hook log
tells of the prompt that was taken back as of any other. A record that names nothing it follows, and
whose request, words or calls only a branch knows, goes there.
"""

from collections.abc import Iterable
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from unspool.facts import ECHO, Marked, MessageSeen, Noted, ToolCalled, ToolReturned
from unspool.reduce.notes import GUESS
from unspool.reduce.records import LIST, SPOKEN, THINGS, Evidence, Record, evidence_of

Branches = list[tuple[str, list[Record]]]
"""(the entry that a branch forks from, its records)."""


class Thread(NamedTuple):
    """Records of the conversation in order, and the abandoned branches."""

    records: list[Record]
    branches: Branches


def find_thread(records: list[Record]) -> Thread:
    nodes = {record.entry: record for record in records if record.after is not None}
    for entry in _asides(nodes):
        del nodes[entry]
    if not nodes:
        return split_forks(records)
    parents = find_parents(nodes)
    chain = _chains(records, nodes, parents)
    kept = _recover(nodes, chain)
    branches = _branches(nodes, parents, kept)
    abandoned = {record.entry for _, branch in branches for record in branch}
    return Thread(_lay_out(records, kept, abandoned), branches)


_LOCAL = frozenset(("command", "shell", "output", "injected", "notification"))


def _asides(nodes: dict[str, Record]) -> set[str]:
    """What hangs on the same injected record as something else and asks the model nothing: the
    commands that a person ran beside the conversation, and what they printed. They are no fork
    (programs hang them all on one warning, written once) and keep their place in the order."""
    if not [record for record in nodes.values() if record.spoken and not record.telling]:
        return set()  # nothing was injected
    children: dict[str, list[str]] = {}
    for entry, record in nodes.items():
        if record.after:
            children.setdefault(record.after, []).append(entry)
    asides: set[str] = set()
    for parent, below in children.items():
        if len(below) > 1 and parent in nodes and _kinds(nodes[parent]) == {"injected"}:
            for child in below:
                tree = _tree(child, children)
                if all(_kinds(nodes[entry]) <= _LOCAL for entry in tree):
                    asides |= tree
    return asides


def _tree(top: str, children: dict[str, list[str]]) -> set[str]:
    entries = {top}
    waiting = [top]
    while waiting:
        below: Iterable[str] = children.get(waiting.pop(), ())
        waiting += [entry for entry in below if entry not in entries]
        entries.update(below)
    return entries


def _kinds(record: Record) -> set[str]:
    """The kinds of what the record says to or for the person; an answer or a call is "model"."""
    return {
        fact.kind if isinstance(fact, MessageSeen) and fact.role != "assistant" else "model"
        for fact in record.facts
        if isinstance(fact, THINGS)
    }


def find_parents(nodes: dict[str, Record]) -> dict[str, str | None]:
    """The parent of every node; None for roots and where nobody has it."""
    return {
        entry: record.after if record.after in nodes else None for entry, record in nodes.items()
    }


def _is_turn(record: Record) -> bool:
    """Whether the record can be the leaf: somebody's words, a call or a result on the main line, or a
    rewind, behind which nobody may have gone on yet (cases/codex/rolled_back_last)."""
    return record.telling and not record.side


def tree_tops(parents: dict[str, str | None]) -> dict[str, str]:
    """Every node → the top of its tree. (Nodes that follow each other in a circle: it is cut.)"""
    tops: dict[str, str] = {}
    for entry, parent in parents.items():
        if parent is not None and parent in tops:  # as nearly always: a parent is written first
            tops[entry] = tops[parent]
            continue
        path = [entry]
        met = {entry}
        while parent is not None and parent not in tops and parent not in met:
            path.append(parent)
            met.add(parent)
            parent = parents[parent]
        if parent in met:
            parents[parent] = None
            root = parent
        else:
            root = path[-1] if parent is None else tops[parent]
        tops.update(dict.fromkeys(path, root))
    return tops


def _chains(
    records: list[Record], nodes: dict[str, Record], parents: dict[str, str | None]
) -> dict[str, int]:
    """Entries on the chain → place in it, segment after segment; all others have room between two."""
    # Where every request was taken out again, the chat is told as it was: else nothing is left of it
    # (cases/vscode_chat/two_folders).
    emptied = all(record.withdrawn for record in nodes.values() if _is_turn(record))
    tops = tree_tops(parents)
    leaves: dict[str, str | None] = {
        entry: None for entry, parent in parents.items() if parent is None
    }
    """Root → the last leaf above it."""
    leafless = len(leaves)
    for record in reversed(records):
        if not (record.telling and record.entry in nodes) or record.side:
            continue
        root = tops[record.entry]
        if leaves[root] is None and (emptied or not record.withdrawn):
            leaves[root] = record.entry
            leafless -= 1
            if not leafless:
                break
    chain: list[str] = []
    for leaf in leaves.values():
        path: list[str] = []
        while leaf is not None:
            path.append(leaf)
            leaf = parents[leaf]
        chain += reversed(path)
    return dict(zip(chain, count(0, 2 * len(nodes) + 1), strict=False))


def _recover(nodes: dict[str, Record], chain: dict[str, int]) -> dict[str, int]:
    """The chain with the off-chain parts of its messages and the results of its calls.

    Parallel tools fork the tree: one line per call, and each result hangs on its own call's line.
    """
    places = dict(chain)
    off = [record for entry, record in nodes.items() if entry not in chain]
    if not any(_is_turn(record) for record in off):
        return places
    wanted = {name for record in off for name in _messages(record)}
    first: dict[str, int] = {}
    so_far: dict[str, int] = {}
    call_at: dict[str, int] = {}
    parts: list[tuple[Record, str, int | None]] = []
    """Off-chain records, the message they are a part of, the place of the part written before."""
    for entry, record in nodes.items():
        place = chain.get(entry)
        if place is None:
            parts += [(record, name, so_far.get(name)) for name in _messages(record)[:1]]
            continue
        # Where the messages that have parts off the chain, and all calls, stand on it.
        for fact in record.facts:
            if type(fact) is MessageSeen:
                name = fact.id
            elif type(fact) is ToolCalled:
                name = fact.message
                call_at[fact.id] = place
            else:
                continue
            if name in wanted:
                first[name] = min(place, first.get(name, place))
                so_far[name] = place
    number = 0
    for record, name, before in parts:
        if name in first:
            # {"uuid": "5", "message": {"id": "m1"}} off the chain, while other parts of m1 are on it:
            # it goes behind the part of m1 that was written before it.
            number += 1
            place = first[name] if before is None else before
            places[record.entry] = place + number - (len(nodes) if before is None else 0)
            for fact in record.facts:
                if type(fact) is ToolCalled:
                    call_at[fact.id] = place
    for record in off:
        if record.entry in places:
            continue
        called = [
            call_at[fact.call]
            for fact in record.facts
            if type(fact) is ToolReturned and fact.call in call_at
        ]
        if called:
            number += 1
            places[record.entry] = max(called) + number
    return places


def _messages(record: Record) -> list[str]:
    """The messages that the record is a part of."""
    names: list[str] = []
    for fact in record.facts:
        if isinstance(fact, MessageSeen):
            name = fact.id
        elif type(fact) is ToolCalled:
            name = fact.message
        else:
            continue
        if name and name not in names:
            names.append(name)
    return names


def _branches(
    nodes: dict[str, Record],
    parents: dict[str, str | None],
    kept: dict[str, int],
) -> Branches:
    """Off-chain trees that hold messages, each with the entry that it forks from."""
    off = {
        entry: parent if parent not in kept else None
        for entry, parent in parents.items()
        if entry not in kept
    }
    trees: dict[str, list[Record]] = {}
    tops = tree_tops(off)
    for entry in off:
        trees.setdefault(tops[entry], []).append(nodes[entry])
    return [
        (parents[top] or "", tree)
        for top, tree in trees.items()
        if any(_is_turn(record) for record in tree)
    ]


def _lay_out(records: list[Record], kept: dict[str, int], abandoned: set[str]) -> list[Record]:
    """Chain records by place; all others right behind the record that they stand behind."""
    placed: list[tuple[int, Record]] = []
    before = -len(records)
    for record in records:
        if record.entry not in abandoned:
            before = kept.get(record.entry, before)
            placed.append((before, record))
    placed.sort(key=itemgetter(0))  # which keeps those of one place in their order
    return [record for _, record in placed]


def split_forks(records: list[Record]) -> Thread:
    """The records of the copy that goes on last, and what only others have behind what they share."""
    if not any(record.others for record in records):
        return Thread(records, [])
    spoken = [record for record in records if _speaks(record)]
    current = _holders(spoken[-1]) if spoken else set()
    gone: dict[str, set[str]] = {}
    for origin in sorted({o for record in spoken for o in _holders(record)} - current):
        # The last record that two copies share, and what the first of them has behind it.
        own = [record for record in spoken if origin in _holders(record)]
        shared = [at for at, record in enumerate(own) if current & _holders(record)]
        fork, tail = (own[shared[-1]], own[shared[-1] + 1 :]) if shared else (None, [])
        if fork is not None and tail and _asks(tail[0]):
            behind = records[records.index(fork) + 1 :]
            gone.setdefault(fork.entry, set()).update(
                record.entry
                for record in behind
                if origin in _holders(record) and not current & _holders(record)
            )
    lost = {entry for entries in gone.values() for entry in entries}
    return Thread(
        [record for record in records if record.entry not in lost],
        [
            (fork, [record for record in records if record.entry in entries])
            for fork, entries in gone.items()
        ],
    )


def _holders(record: Record) -> set[str]:
    return {record.origin, *record.others}


def _asks(record: Record) -> bool:
    return any(isinstance(fact, MessageSeen) and fact.role == "user" for fact in record.facts)


def _speaks(record: Record) -> bool:
    """Whether something was said or called there: the thing itself, no echo of it."""
    return any(
        fact.rank == 0 and (isinstance(fact, ToolCalled) or bool(fact.text) or fact.role == "user")
        for fact in record.facts
        if isinstance(fact, SPOKEN)
    )


def still_told(notes: list[Noted], thread: Thread) -> list[Noted]:
    """Without titles that are the words of prompts that were taken back, whoever offers them."""
    gone = _guesses(record for _, records in thread.branches for record in records)
    gone -= _guesses(thread.records) if gone else set()
    return [n for n in notes if n.name != "title" or n.rank <= 0 or str(n.value) not in gone]


def _guesses(records: Iterable[Record]) -> set[str]:
    """Titles that were drawn from what the records say."""
    return {
        fact.value
        for record in records
        if record.noted
        for fact in record.facts
        if type(fact) is Noted
        and fact.name == "title"
        and fact.rank >= GUESS
        and isinstance(fact.value, str)
    }


def thing_times(thread: Thread) -> list[int]:
    """When what was taken back happened: the conversation was there already."""
    return [
        fact.time
        for _, records in thread.branches
        for record in records
        for fact in record.facts
        if fact.time is not None and isinstance(fact, THINGS) and fact.rank < ECHO
    ]


def settle_echoes(thread: Thread) -> Thread:
    """The thread with the echoes of its branches moved to them."""
    if not thread.branches:
        return thread
    chain = [record for record in thread.records if record.after is not None]
    chain = chain or [record for record in thread.records if not _is_echo(record)]
    kept = evidence_of(fact for record in chain for fact in record.facts)
    taken = [
        evidence_of(fact for record in records for fact in record.facts)
        for _, records in thread.branches
    ]
    only_kept = kept.difference(*taken)
    only_taken = [evidence - kept for evidence in taken]
    asked = _Asked(chain, thread.branches)
    listed = _listed(thread.records, only_taken)
    rest: list[Record] = []
    moved: list[list[Record]] = [[] for _ in thread.branches]
    last: dict[str, int | None] = {}
    """Origin → the branch that its records speak of, where what they say does not tell."""
    for record in thread.records:
        place = listed.get(record.entry)
        if record.after is None and not record.entry.startswith(LIST):
            told = _told(record)
            place = next((n for n, words in enumerate(only_taken) if told & words), None)
            if place is None and not told & only_kept and _asks(record):
                place = asked.find(record)
            if place is not None or told & only_kept or _asks(record):
                last[record.origin] = place
            elif told or _ends_turn(record):
                place = last.get(record.origin)
        (rest if place is None else moved[place]).append(record)
    branches = [
        (fork, [*records, *more])
        for (fork, records), more in zip(thread.branches, moved, strict=True)
    ]
    return Thread(rest, branches)


def _listed(records: list[Record], only_taken: list[set[Evidence]]) -> dict[str, int]:
    """Records of message lists → the branch that they are of. A list may hold any turn, and words are
    said more than once: a turn of it is a branch's if only that knows one of its calls."""
    places: dict[str, int] = {}
    turn: list[str] = []
    place: int | None = None
    for record in records:
        if record.entry.startswith(LIST):
            if _asks(record):
                turn, place = [], None
            turn.append(record.entry)
            calls = {e for e in evidence_of(record.facts) if e[0] == "call"}
            found = next((n for n, known in enumerate(only_taken) if calls & known), None)
            place = place if found is None else found
            if place is not None:
                places.update(dict.fromkeys(turn, place))
    return places


class _Asked:
    """The prompts of the chain and of the branches, which may be the same words (in
    cases/claude_code/rewind_same_words the second of two, by the time):

        {"uuid":"5","parentUuid":"1","timestamp":"…:05Z","message":{"content":"Again."}}    taken back
        {"uuid":"9","parentUuid":"1","timestamp":"…:40Z","message":{"content":"Again."}}
        {"type":"queue-operation","timestamp":"…:39Z","content":"Again."}
    """

    def __init__(self, chain: list[Record], branches: Branches) -> None:
        self._saids: dict[Evidence, list[tuple[int, int | None]]] = {}
        """Words → when they were said, and in which branch, in order."""
        for place, records in [(None, chain), *((n, r) for n, (_, r) in enumerate(branches))]:
            for record in records:
                for evidence in evidence_of(record.facts) if _asks(record) else ():
                    self._saids.setdefault(evidence, []).append((record.time or 0, place))
        for saids in self._saids.values():
            saids.sort(key=itemgetter(0))
        self._heard: dict[tuple[str, Evidence], int] = {}

    def find(self, record: Record) -> int | None:
        """The branch that the prompt is of: that of the nearest in time, else of the k-th."""
        for evidence in sorted(evidence_of(record.facts) & self._saids.keys()):
            saids, time = self._saids[evidence], record.time
            if time is not None:
                return min(saids, key=lambda said: abs(said[0] - time))[1]
            heard = self._heard.get((record.origin, evidence), 0)
            self._heard[(record.origin, evidence)] = heard + 1
            return saids[heard][1] if heard < len(saids) else None
        return None


def _told(record: Record) -> set[Evidence]:
    """What an echo, or the end of a turn, is recognised by."""
    ended = {("request", f.subject) for f in record.facts if type(f) is Marked and f.subject}
    return evidence_of(record.facts) if _is_echo(record) else ended if _ends_turn(record) else set()


def _ends_turn(record: Record) -> bool:
    return any(type(fact) is Marked and fact.kind == "turn_end" for fact in record.facts)


def _is_echo(record: Record) -> bool:
    things = [f for f in record.facts if isinstance(f, THINGS)]
    return record.after is None and bool(things) and all(fact.rank > 0 for fact in things)
