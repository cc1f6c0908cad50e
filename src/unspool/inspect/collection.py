"""Collections: conversations to choose from, whatever holds them.

`list`, `show` and `export` know only this protocol. One collection reads files directly; the store
is another.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from unspool.errors import AmbiguousId, UnknownConversation
from unspool.facts import Key
from unspool.io.times import parse_time
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job, Progress
from unspool.reduce.totals import is_turn
from unspool.sinks import Family
from unspool.trajectory import Trajectory, text_of
from unspool.views.characters import one_line
from unspool.views.figures import day_and_time

SHORTEST = 7
"""Ids are never shortened below this, as in git."""
SHORTEST_AGENT = 4
"""Nor is the part of a sub-agent's id behind its parent's."""
_TITLE_LENGTH = 200


# A factory, so that a count is written although it is zero.
_ZERO: int = msgspec.field(default_factory=int)


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a list shows of one conversation. Unknown is absent."""

    id: str
    source: str
    title: str | None = None
    """Its title, else the beginning of its first prompt."""
    project: str | None = None
    """The path of its workspace, else the name."""
    started_at: str | None = None
    ended_at: str | None = None
    messages: int = _ZERO
    turns: int = _ZERO
    tools: int = _ZERO
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str | None = None
    agent_version: str | None = None
    parent_id: str | None = None
    """The conversation that started it as a sub-agent."""
    children: int = _ZERO
    partial: bool = False


class Collection(Protocol):
    """Conversations that can be listed, found and taken down."""

    def entries(self) -> Sequence[Entry]:
        """All conversations, sub-agents included, newest first (see `newest_first`)."""

    def problems(self) -> Mapping[str, int]:
        """What could not be read of them: how many records, by code."""

    def find(self, ident: str) -> Entry:
        """The one that the id, or a beginning of it, means: see `match`."""

    def family(self, entry: Entry) -> Family:
        """The conversation, whole, with all its sub-agents."""


def make_entry(trajectory: Trajectory) -> Entry:
    usage = trajectory.usage
    workspace = trajectory.workspace
    used = trajectory.model_usage or {}
    model = used.get("primary_model")
    parent = trajectory.parent
    prompts = (text_of(m).strip() for m in trajectory.messages if is_turn(m))
    first = "" if trajectory.title else next(filter(None, prompts), "")[: 2 * _TITLE_LENGTH]
    return Entry(
        id=trajectory.conversation_id,
        source=trajectory.source,
        title=trajectory.title or " ".join(first.split())[:_TITLE_LENGTH] or None,
        project=(workspace.path or workspace.name or workspace.repository) if workspace else None,
        started_at=trajectory.started_at,
        ended_at=trajectory.ended_at,
        messages=len(trajectory.messages),
        turns=sum(map(is_turn, trajectory.messages)),
        tools=sum(len(m.tool_calls or ()) for m in trajectory.messages if not m.copied),
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        model=model if isinstance(model, str) else None,
        agent_version=trajectory.agent_version,
        parent_id=parent.conversation_id if parent and parent.kind == "subagent" else None,
        children=sum(link.kind == "subagent" for link in trajectory.children or ()),
        partial=bool(trajectory.partial),
    )


def subagents_of(trajectory: Trajectory) -> list[Key]:
    """Which may be of another source."""
    return [
        (link.source or trajectory.source, link.conversation_id)
        for link in trajectory.children or ()
        if link.kind == "subagent"
    ]


def with_subagents(key: Key, subagents: Callable[[Key], Iterable[Key]]) -> list[Key]:
    """A conversation, its sub-agents and theirs, each once."""
    keys = {key: None}
    waiting = [key]
    for one in waiting:  # which grows meanwhile
        waiting += [below for below in dict.fromkeys(subagents(one)) if below not in keys]
        keys |= dict.fromkeys(waiting)
    return list(keys)


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """By the last time known; those without any time come last, by source and id."""
    by_name = sorted(entries, key=lambda entry: (entry.source, entry.id))
    return sorted(by_name, key=last_time, reverse=True)


def last_time(entry: Entry) -> int:
    return parse_time(entry.ended_at) or parse_time(entry.started_at) or 0


def match(ident: str, entries: Iterable[Entry]) -> Entry:
    """The entry whose id is, or alone begins with, `ident`; `source/` may stand before it.

    The id of a sub-agent, `parent/agent`, may be shortened in both its parts.
    """
    source, _, rest = ident.partition("/")
    candidates: list[tuple[Entry, int]] = []
    for entry in entries:
        qualified = _spelt(entry.id, rest) if rest and entry.source == source else 0
        candidates.append((entry, max(qualified, _spelt(entry.id, ident))))
    closest = max((close for _, close in candidates), default=0)
    if not closest:
        raise UnknownConversation(f"no conversation {ident!r} here: `unspool list` shows them")
    chosen = [entry for entry, close in candidates if close == closest]
    if len(chosen) == 1:
        return chosen[0]
    roots = [entry for entry in chosen if entry.parent_id is None]
    if len(roots) == 1 and all(entry.id.startswith(roots[0].id) for entry in chosen):
        return roots[0]  # a sub-agent's id may begin with its parent's: the parent is meant
    raise AmbiguousId(with_candidates(f"{ident!r} may mean {len(chosen)} conversations:", chosen))


def _spelt(full: str, ident: str) -> int:
    """0: not meant; more where a part of the id, or all of it, is spelt out."""
    if full == ident:
        return 5
    parent, inside, agent = full.partition("/")
    above, slash, below = ident.partition("/")
    if not (slash and inside):
        return 1 if full.startswith(ident) else 0
    if not (parent.startswith(above) and agent.startswith(below)):
        return 0
    return 1 + 2 * (parent == above) + (agent == below)


def with_candidates(told: str, entries: list[Entry]) -> str:
    """What is told of several conversations, and below it which they are."""
    lines = [told]
    for entry in newest_first(entries)[:20]:
        when = day_and_time(entry.ended_at or entry.started_at) or "no time"
        title = one_line(entry.title or "", 50)
        lines.append(f"  {entry.source}/{one_line(entry.id)}  {when}  {title}".rstrip())
    if len(entries) > 20:
        lines.append(f"  … and {len(entries) - 20} more")
    return "\n".join(lines)


def short_ids(entries: Iterable[Entry]) -> Callable[[Entry], str]:
    """The shortest beginning of each id that means it alone among these, in both its parts."""
    entries = list(entries)
    parts = [entry.id.partition("/") for entry in entries]
    inner = {entry.id for entry in entries if entry.parent_id is not None}
    parents = _shortest((parent for parent, _, _ in parts), SHORTEST, inner)
    below: dict[str, list[str]] = {}
    for parent, slash, agent in parts:
        if slash:
            below.setdefault(parent, []).append(agent)
    agents = {parent: _shortest(names, SHORTEST_AGENT, set()) for parent, names in below.items()}

    def short(entry: Entry) -> str:
        parent, slash, agent = entry.id.partition("/")
        shortened = parent[: parents.get(parent)]
        return f"{shortened}/{agent[: agents[parent].get(agent)]}" if slash else shortened

    return short


def _shortest(names: Iterable[str], least: int, inner: set[str]) -> dict[str, int]:
    """How much of each name tells it from the others."""
    ids = sorted(set(names))
    lengths: dict[str, int] = {}
    for number, ident in enumerate(ids):
        # Sub-agents whose ids begin with their parent's do not make the parent's id unclear.
        at = number + 1
        while at < len(ids) and ids[at] in inner and ids[at].startswith(ident):
            at += 1
        after = ids[at] if at < len(ids) else ""
        before = ids[number - 1] if number else ""
        shared = (os.path.commonprefix([ident, other]) for other in (before, after))  # noqa: RUF071 - letters
        lengths[ident] = max(least, *(len(beginning) + 1 for beginning in shared))
    return lengths


KEEP_MESSAGES = 50_000
"""Conversations are kept in memory up to this many messages; beyond it they are read again."""


class FileCollection:
    """The conversations under some paths, read when first asked for."""

    def __init__(
        self,
        paths: Iterable[str],
        progress: Callable[[int], Progress] | None = None,
    ) -> None:
        self._paths = list(paths)
        self._progress = progress
        self._entries: list[Entry] | None = None
        self._kept: list[Trajectory] | None = []
        self._problems: dict[str, int] = {}
        self._children: dict[Key, list[Key]] = {}
        """Conversation → its sub-agents."""

    def entries(self) -> Sequence[Entry]:
        if self._entries is None:
            entries: list[Entry] = []
            messages = 0
            for trajectory in self._read():
                entries.append(make_entry(trajectory))
                key = (trajectory.source, trajectory.conversation_id)
                self._children[key] = subagents_of(trajectory)
                messages += len(trajectory.messages)
                if messages > KEEP_MESSAGES:
                    self._kept = None
                if self._kept is not None:
                    self._kept.append(trajectory)
            self._entries = newest_first(entries)
        return self._entries

    def problems(self) -> Mapping[str, int]:
        self.entries()
        return self._problems

    def find(self, ident: str) -> Entry:
        return match(ident, self.entries())

    def family(self, entry: Entry) -> Family:
        self.entries()
        wanted = set(
            with_subagents((entry.source, entry.id), lambda key: self._children.get(key, ()))
        )
        everything = self._read() if self._kept is None else iter(self._kept)
        members = {key: t for t in everything if (key := (t.source, t.conversation_id)) in wanted}
        root = members.pop((entry.source, entry.id))
        return Family(root, tuple(members.values()))

    def _read(self) -> Iterator[Trajectory]:
        if not self._paths:
            return
        job = Job(paths=self._paths, workers=os.cpu_count() or 1)
        with open_run(job, self._progress) as run:
            trajectories = run.trajectories()
            self._problems = dict(run.problem_codes)
            yield from trajectories
