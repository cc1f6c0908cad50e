"""Link: the only step that sees several conversations: parents, children, forks, copied history.

It works on cards, small extracts of trajectories, so that it can see all conversations of a run at
once; what it finds goes back as a patch per conversation.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.copies import WIDTH, digest, digest_of, digests, find_copies, holds, opening_of, pieces
from unspool.reduce.naming import Naming
from unspool.reduce.totals import drop_calls, leave_out
from unspool.trajectory import Link, ToolCall, Trajectory, Workspace


class Card(msgspec.Struct):
    """What linking needs to know about one conversation."""

    source: str
    id: str
    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    """Tool call → the child that it says it started."""
    calls: list[str] = []
    strays: list[str] = []
    """Of these, the calls that only another channel ascribes to this conversation."""
    session_id: str | None = None
    workspace: Workspace | None = None
    started_at: str = ""
    ended_at: str = ""
    ids: bytes = b""
    """Digests of its message ids, to find history that another conversation copied."""
    forked: bool = False
    """Says itself that it goes on from a copy."""
    opening: bytes = b""
    """Digest of its first words, where it does not know the call that started it."""
    prompts: dict[str, bytes] = {}
    """Tool call that may have started a child nobody names → digest of the prompt it gave."""
    same_as: str = ""
    """The conversation that says this id is one of its own; only where the id is a made-up one."""
    origins: list[str] = []
    """Where it was read, if it may be another one seen again."""
    naming: Naming = msgspec.field(default_factory=Naming)
    hollow: bool = False
    """Holds nothing that was said, only what it has for others."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.source, self.id)

    @property
    def seniority(self) -> tuple[bool, bool, str, str]:
        """Who owns what two conversations hold: what is no fork and no child, then what ended
        first (a fork goes on from where the other stopped)."""
        child = self.parent is not None and self.parent.kind == "subagent"
        return (self.forked, child, self.ended_at, self.id)


class Patch(msgspec.Struct):
    """What linking found out about one conversation."""

    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    session_id: str | None = None
    workspace: Workspace | None = None
    """Where it ran, if only its parent says so."""
    dropped: list[str] = []
    """Calls that are another conversation's."""
    copied: bytes = b""
    """Digests of the ids of messages that belong to another conversation."""
    absorbed: bool = False
    """Nothing but another conversation seen again: it does not go out."""
    origins: list[str] = []
    """Where those were read that it stands for."""
    title: str | None = None
    """A better one, that stands in the files of another conversation."""


Patches = dict[tuple[str, str], Patch]


def make_card(trajectory: Trajectory, naming: Naming | None = None) -> Card:
    calls = [call for message in trajectory.messages for call in message.tool_calls or ()]
    same_as = _other_id(trajectory)
    return Card(
        source=trajectory.source,
        id=trajectory.conversation_id,
        parent=trajectory.parent,
        children=trajectory.children or [],
        spawned={call.id: call.child_id for call in calls if call.child_id},
        calls=[call.id for call in calls],
        strays=_strays(trajectory),
        session_id=trajectory.session_id,
        workspace=trajectory.workspace,
        started_at=trajectory.started_at or "",
        ended_at=trajectory.ended_at or "",
        ids=digests(trajectory.messages),
        forked=_is_fork(trajectory),
        opening=opening_of(trajectory) if _needs_call(trajectory.parent) else b"",
        prompts=dict(filter(None, map(_prompt, calls))),
        same_as=same_as,
        origins=_origins(trajectory) if same_as else [],
        naming=naming or Naming(),
        hollow=not trajectory.messages and not trajectory.checkpoints,
    )


def _other_id(trajectory: Trajectory) -> str:
    """Of a conversation whose own record names no session: the one that it may be a copy of."""
    found = trajectory.metadata.get("same_as")
    return found if isinstance(found, str) and trajectory.session_id is None else ""


def _origins(trajectory: Trajectory) -> list[str]:
    return [path for path in (trajectory.file_path, *(trajectory.origins or ())) if path]


def _is_fork(trajectory: Trajectory) -> bool:
    if trajectory.parent is not None and trajectory.parent.kind == "fork":
        return True
    return trajectory.metadata.get("forked") is True


def _strays(trajectory: Trajectory) -> list[str]:
    return [
        call.id
        for message in trajectory.messages
        if (message.extra or {}).get("echo_only") or trajectory.partial
        for call in message.tool_calls or ()
    ]


def _needs_call(parent: Link | None) -> bool:
    return parent is not None and parent.kind == "subagent" and parent.tool_call_id is None


def _prompt(call: ToolCall) -> tuple[str, bytes] | None:
    """The prompt in the arguments of a call that names no child."""
    if call.child_id or '"prompt"' not in call.arguments:
        return None
    try:
        value: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    prompt = value.get("prompt") if isinstance(value, dict) else None
    return (call.id, digest(prompt.strip())) if isinstance(prompt, str) else None


def link(cards: Iterable[Card]) -> Patches:
    """Every tie that one side knows, told to both."""
    by_key = {card.key: card for card in cards}
    patches: Patches = {}

    def patch(key: tuple[str, str]) -> Patch:
        return patches.setdefault(key, Patch())

    for key, title in _titles(by_key).items():
        patch(key).title = title
    for key, card in by_key.items():
        if card.hollow:
            patch(key).absorbed = True
    for key, whole in _absorbed(by_key).items():
        patch(key).absorbed = True
        patch(whole).origins += by_key.pop(key).origins
    ties: dict[tuple[tuple[str, str], tuple[str, str]], Link] = {}
    spawners: dict[tuple[str, str], tuple[str, str]] = {}
    for key, card in sorted(by_key.items()):
        for call, child in card.spawned.items():
            ties[(key, (card.source, child))] = Link(child, tool_call_id=call)
            spawners[(card.source, child)] = key
        for known in card.children:
            child_key = (known.source or card.source, known.conversation_id)
            ties[(key, child_key)] = _merged(known, ties.get((key, child_key)))
    callers = _callers(by_key)
    _tie_by_prompt(by_key, ties)
    for key, card in sorted(by_key.items()):
        if card.parent is not None:
            parent_key = (card.parent.source or card.source, card.parent.conversation_id)
            if card.parent.tool_call_id:
                parent_key = callers.get((parent_key[0], card.parent.tool_call_id), parent_key)
            elif card.parent.kind == "subagent":
                parent_key = spawners.get(key, parent_key)
            down = msgspec.structs.replace(card.parent, conversation_id=card.id, source=None)
            ties[(parent_key, key)] = _merged(down, ties.get((parent_key, key)))
    for (parent_key, child_key), tie in ties.items():
        if parent_key == child_key:
            continue
        foreign = parent_key[0] != child_key[0]
        if child_key in by_key:
            up = msgspec.structs.replace(
                tie, conversation_id=parent_key[1], source=parent_key[0] if foreign else None
            )
            patch(child_key).parent = up
        if parent_key in by_key:
            down = msgspec.structs.replace(
                tie, conversation_id=child_key[1], source=child_key[0] if foreign else None
            )
            patch(parent_key).children.append(down)
            if tie.tool_call_id:
                patch(parent_key).spawned[tie.tool_call_id] = child_key[1]
    for key, (owner, copied) in find_copies(by_key).items():
        patch(key).copied = b"".join(sorted(copied))
        if patch(key).parent is None and by_key[key].parent is None:
            patch(key).parent = Link(owner[1], kind="fork")
            patch(owner).children.append(Link(key[1], kind="fork"))
    _inherit(by_key, patches)
    for key, dropped in _misplaced(by_key).items():
        patch(key).dropped = dropped
    for key, made in patches.items():
        made.children.sort(key=lambda tie: _age(tie, key[0], by_key))
    return patches


def _absorbed(by_key: dict[tuple[str, str], Card]) -> dict[tuple[str, str], tuple[str, str]]:
    """Copies without an id of their own that hold nothing new → the conversation that they are."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for key, card in sorted(by_key.items()):
        whole = by_key.get((card.source, card.same_as)) if card.same_as else None
        if whole is None or whole.same_as or not holds(whole.ids, card.ids):
            continue
        above = (card.source, card.parent.conversation_id) if card.parent is not None else None
        if above not in by_key or above in found:  # a sub-agent goes the way of its parent
            found[key] = whole.key
    return found


def _titles(by_key: dict[tuple[str, str], Card]) -> dict[tuple[str, str], str]:
    """Conversation → the title that another one's file has for it, if it has no better one."""
    offered: dict[tuple[str, bytes], tuple[int, str]] = {}
    for key, card in sorted(by_key.items()):
        for entry, offer in card.naming.offered.items():
            known = offered.get((key[0], entry))
            if known is None or offer[0] <= known[0]:
                offered[(key[0], entry)] = offer
    found: dict[tuple[str, str], str] = {}
    for key, card in by_key.items() if offered else ():
        best = card.naming.rank
        for entry in pieces(card.naming.entries):
            rank, title = offered.get((key[0], entry), (best, ""))
            if title and (rank < best or (rank == best and key in found)):
                best, found[key] = rank, title
    return found


def _inherit(by_key: dict[tuple[str, str], Card], patches: Patches) -> None:
    """A sub-agent works in the session and the workspace of its parent, unless it says another."""
    for key, made in patches.items():
        if made.absorbed:
            continue
        card = by_key[key]
        above = made.parent
        seen = {key}
        while above is not None and above.kind == "subagent":
            parent_key = (above.source or key[0], above.conversation_id)
            parent = by_key.get(parent_key)
            if parent is None or parent_key in seen:
                break
            seen.add(parent_key)
            if card.workspace is None:
                made.workspace = made.workspace or parent.workspace
            if card.session_id is None:
                made.session_id = made.session_id or parent.session_id
            above = patches[parent_key].parent if parent_key in patches else None


def _age(tie: Link, source: str, by_key: dict[tuple[str, str], Card]) -> tuple[str, str]:
    card = by_key.get((source, tie.conversation_id))
    return (card.started_at if card is not None else "", tie.conversation_id)


def _misplaced(by_key: dict[tuple[str, str], Card]) -> dict[tuple[str, str], list[str]]:
    """Calls that a channel ascribed to a conversation though a child of its own made them: old
    hook payloads name the session only, not the sub-agent."""
    strays = {key: set(card.strays) for key, card in by_key.items() if card.strays}
    wanted = {(key[0], call) for key, calls in strays.items() for call in calls}
    owners: dict[tuple[str, str], tuple[str, str]] = {}
    for key, card in by_key.items() if wanted else ():
        for call in card.calls:
            if (key[0], call) in wanted and call not in strays.get(key, ()):
                owners[(key[0], call)] = key
    found = {
        key: [c for c in by_key[key].strays if owners.get((key[0], c), key) != key]
        for key in strays
    }
    return {key: calls for key, calls in found.items() if calls}


def _tie_by_prompt(
    by_key: dict[tuple[str, str], Card],
    ties: dict[tuple[tuple[str, str], tuple[str, str]], Link],
) -> None:
    """Children whose call nobody names: the first free call of their parent with their words."""
    told = {child: tie.tool_call_id for (_, child), tie in ties.items()}
    used: set[tuple[tuple[str, str], str]] = set()
    waiting = [card for card in by_key.values() if card.opening and not told.get(card.key)]
    for card in sorted(waiting, key=lambda c: (c.started_at, c.id)):
        if card.parent is None:
            continue
        parent = (card.parent.source or card.source, card.parent.conversation_id)
        above = by_key.get(parent)
        for call, prompt in above.prompts.items() if above is not None else ():
            if prompt == card.opening and (parent, call) not in used:
                used.add((parent, call))
                card.parent = msgspec.structs.replace(card.parent, tool_call_id=call)
                break


def _callers(by_key: dict[tuple[str, str], Card]) -> dict[tuple[str, str], tuple[str, str]]:
    """(source, call that a child names) → the one conversation that made the call.

    A log may name only the session that a sub-agent ran in, though another sub-agent started it.
    """
    named = {
        (card.parent.source or card.source, card.parent.tool_call_id)
        for card in by_key.values()
        if card.parent is not None and card.parent.tool_call_id
    }
    holders: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for key, card in by_key.items():
        for call in card.calls if named else ():
            if (card.source, call) in named:
                holders.setdefault((card.source, call), set()).add(key)
    return {call: found.pop() for call, found in holders.items() if len(found) == 1}


def _merged(first: Link, second: Link | None) -> Link:
    if second is None:
        return first
    return msgspec.structs.replace(
        first,
        tool_call_id=first.tool_call_id or second.tool_call_id,
        message_id=first.message_id or second.message_id,
        name=first.name or second.name,
    )


def apply_patch(trajectory: Trajectory, patch: Patch | None) -> None:
    if patch is None:
        return
    trajectory.parent = patch.parent or trajectory.parent
    trajectory.children = patch.children or trajectory.children
    trajectory.session_id = trajectory.session_id or patch.session_id
    trajectory.workspace = trajectory.workspace or patch.workspace
    trajectory.title = patch.title or trajectory.title
    if patch.origins:
        known_places = {trajectory.file_path, *(trajectory.origins or ())}
        more = sorted(path for path in set(patch.origins) if path not in known_places)
        trajectory.origins = [*(trajectory.origins or []), *more] or None
    if patch.dropped:
        drop_calls(trajectory, set(patch.dropped))
    if patch.copied:
        known = {patch.copied[at : at + WIDTH] for at in range(0, len(patch.copied), WIDTH)}
        leave_out(trajectory, lambda message: digest_of(message) in known)
    for message in trajectory.messages:
        for call in message.tool_calls or ():
            call.child_id = patch.spawned.get(call.id, call.child_id)
