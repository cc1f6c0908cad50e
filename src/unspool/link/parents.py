"""Ties: which conversation started which, and by which call, out of what any of them says.

A child may name its call; a call may name its child; both may name a run of several children or a
task; or only the words that the child was given tell.
"""

import msgspec

from unspool.facts import Key
from unspool.link.cards import Card, iter_digests
from unspool.trajectory import Link

Cards = dict[Key, Card]
Caller = tuple[Key, str]
"""A conversation, and a call that it made."""
Ties = dict[tuple[Key, Key], Link]
"""(parent, child) → the tie, as seen from the parent."""


def find_ties(by_key: Cards) -> Ties:
    ties: Ties = {}
    spawners: dict[Key, Key] = {}
    for key, card in sorted(by_key.items()):
        for call, child in card.spawned.items():
            # The first call started it; a later one that names it has sent it on.
            ties.setdefault((key, (card.source, child)), Link(child, tool_call_id=call))
            spawners.setdefault((card.source, child), key)
        for link in card.children:
            child_key = (link.source or card.source, link.conversation_id)
            ties[(key, child_key)] = _merged(link, ties.get((key, child_key)), card)
    # (source, call that a child names) → the one conversation that made the call. A log may name
    # only the session that a sub-agent ran in, though another sub-agent started it.
    named = {
        (card.parent.source or card.source, card.parent.tool_call_id)
        for card in by_key.values()
        if card.parent is not None and card.parent.tool_call_id
    }
    holders: dict[tuple[str, str], set[Key]] = {}
    for key, card in by_key.items():
        for call in card.calls if named else ():
            if (card.source, call) in named:
                holders.setdefault((card.source, call), set()).add(key)
    callers = {call: keys.pop() for call, keys in holders.items() if len(keys) == 1}
    _give_calls(by_key, {child for (_, child), tie in ties.items() if tie.tool_call_id})
    for key, card in sorted(by_key.items()):
        if card.parent is not None:
            parent_key = _parent_key(card)
            if card.parent.tool_call_id:
                parent_key = callers.get((parent_key[0], card.parent.tool_call_id), parent_key)
            elif card.parent.kind == "subagent":
                parent_key = spawners.get(key, parent_key)
            down = msgspec.structs.replace(card.parent, conversation_id=card.id, source=None)
            parent = by_key.get(parent_key)
            ties[(parent_key, key)] = _merged(down, ties.get((parent_key, key)), parent)
    return ties


def find_twins(by_key: Cards) -> dict[Key, Key]:
    """Children that are named by nothing but their call → the child of that call with a name.

    A log that names only the call, and the sub-agent's own file: they are one where the file holds
    every answer that the log has.
    """
    named = {
        (card.source, call): (card.source, child)
        for card in by_key.values()
        for call, child in card.spawned.items()
        if not child.endswith(f"/{call}")
    }
    for key, card in by_key.items():
        call = card.parent.tool_call_id if card.parent is not None else None
        if call and not card.id.endswith(f"/{call}"):
            named.setdefault((card.source, call), key)
    twins: dict[Key, Key] = {}
    for key, card in by_key.items() if named else ():
        call = card.parent.tool_call_id if card.parent is not None else None
        twin = named.get((card.source, call)) if call and card.id.endswith(f"/{call}") else None
        whole = by_key.get(twin) if twin is not None else None
        if whole is not None and set(iter_digests(card.names)) <= set(iter_digests(whole.names)):
            twins[key] = whole.key
    return twins


class Calls:
    """The calls of a session that may have started a child, by what they say of it."""

    def __init__(self) -> None:
        self.runs: dict[str, Caller] = {}
        self.tasks: dict[str, Caller] = {}
        self.prompts: dict[bytes, list[Caller]] = {}
        self.children: set[Key] = set()

    def add(self, card: Card) -> None:
        for run, call in card.runs.items():
            self.runs.setdefault(run, (card.key, call))
        for task, call in card.tasks.items():
            self.tasks.setdefault(task, (card.key, call))
        for call, prompt in card.prompts.items():
            self.prompts.setdefault(prompt, []).append((card.key, call))
        if card.parent is not None and card.parent.kind == "subagent":
            self.children.add(card.key)

    def of_words(self, child: Card) -> Caller | None:
        """The first free call with its words: of whom it names as its parent, else of another
        sub-agent. (Some agents count many conversations as one session: these do not mix.)"""
        free = self.prompts.get(child.opening, []) if child.opening else []
        parent = _parent_key(child)
        own = (caller for caller in free if caller[0] == parent)
        nested = (caller for caller in free if caller[0] in self.children)
        match = next(own, None) or next(nested, None)
        if match is not None:
            free.remove(match)
        return match


def _give_calls(by_key: Cards, named: set[Key]) -> None:
    """Children whose call nobody names: what the calls of their session say of runs, of tasks, and
    the words that they gave."""
    waiting = [
        card
        for card in by_key.values()
        if card.parent is not None
        and card.parent.kind == "subagent"
        and not card.parent.tool_call_id
        and card.key not in named
    ]
    sessions: dict[Key, Calls] = {}
    oldest_first = sorted(by_key.values(), key=_age) if waiting else []
    for card in oldest_first:
        sessions.setdefault(_session_key(card), Calls()).add(card)
    for child in sorted(waiting, key=_age):
        caller = _caller(child, by_key, sessions)
        if caller is not None and child.parent is not None:
            (source, ident), call = caller
            parent = msgspec.structs.replace(
                child.parent,
                conversation_id=ident,
                source=source if source != child.source else None,
                tool_call_id=call,
            )
            by_key[child.key] = msgspec.structs.replace(child, parent=parent)


def _caller(child: Card, by_key: Cards, sessions: dict[Key, Calls]) -> Caller | None:
    parent = by_key.get(_parent_key(child))
    keys = [_session_key(child)] + ([_session_key(parent)] if parent is not None else [])
    for key in dict.fromkeys(keys):
        calls = sessions.get(key, Calls())
        caller = calls.runs.get(child.run) if child.run else None
        caller = caller or calls.tasks.get(child.id.removeprefix(f"{child.session_id}/"))
        caller = caller or calls.of_words(child)
        if caller is not None and caller[0] != child.key:
            return caller
    return None


def _parent_key(child: Card) -> Key:
    parent = child.parent
    return (parent.source or child.source, parent.conversation_id) if parent else ("", "")


def _session_key(card: Card) -> Key:
    return (card.source, card.session_id or card.id)


def _age(card: Card) -> tuple[str, str]:
    return (card.started_at, card.id)


def _merged(first: Link, second: Link | None, parent: Card | None) -> Link:
    if second is None:
        return first
    call = first.tool_call_id or second.tool_call_id
    if parent is not None and second.tool_call_id and call not in parent.calls:
        call = (
            second.tool_call_id
        )  # the other is the id of an echo (cases/recorder/runs_without_ids)
    return msgspec.structs.replace(
        first,
        tool_call_id=call,
        message_id=first.message_id or second.message_id,
        name=first.name or second.name,
    )


def find_misplaced(by_key: dict[Key, Card]) -> dict[Key, list[str]]:
    """Calls that a channel ascribed to a conversation though a child of its own made them: old
    hook payloads name the session only, not the sub-agent."""
    strays = {key: set(card.strays) for key, card in by_key.items() if card.strays}
    wanted = {(key[0], call) for key, calls in strays.items() for call in calls}
    owners: dict[Key, Key] = {}
    for key, card in by_key.items() if wanted else ():
        for call in card.calls:
            if (key[0], call) in wanted and call not in strays.get(key, ()):
                owners[(key[0], call)] = key
    misplaced = {
        key: [c for c in by_key[key].strays if owners.get((key[0], c), key) != key]
        for key in strays
    }
    return {key: calls for key, calls in misplaced.items() if calls}
