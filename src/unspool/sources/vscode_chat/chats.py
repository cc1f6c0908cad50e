"""A whole chat as facts: its head, its requests in a chain, and the runs of its sub-agents."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Key, Noted, Problem
from unspool.io.dirty_json import sample
from unspool.io.origins import Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.sources.vscode_chat import edits, tools
from unspool.sources.vscode_chat.children import child_facts
from unspool.sources.vscode_chat.fields import NATIVE, OLD_VOTES, PARTICIPANT, VOTES
from unspool.sources.vscode_chat.folders import folder_of
from unspool.sources.vscode_chat.model import Chat, Request
from unspool.sources.vscode_chat.oddities import odd_fields
from unspool.sources.vscode_chat.prompts import typed_text
from unspool.sources.vscode_chat.requests import request_facts
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.turns import Turn
from unspool.sources.vscode_chat.uris import path_of

NAME = "vscode-chat"
_BEST = 1 << 62
_PROBLEMS = 1 << 40
"""Problems stand behind all requests."""
_OTHER_IDS = 1 << 41
FLAT, LOG = 0, 1
"""Editions: VS Code went over from flat files to logs, and where it finds both the log counts."""
WORST = _BEST + 1
"""The rank of what stands beside a chat: the index, the folder."""


class Abandoned(msgspec.Struct):
    """A request that the chat no longer holds, and the id of the one that it followed."""

    request: Request
    after: str


class Reading:
    """One chat of an origin on its way to facts."""

    def __init__(self, chat: Chat, origin: Origin, tally: Tally, session: str = "") -> None:
        self.chat = chat
        self.origin = origin
        self.tally = tally
        self.requests = chat.requests or []
        self.key: Key = (NAME, session or chat.sessionId or derived_id(self.requests))
        self.problems: list[tuple[str, str]] = []
        """(code, sample)."""
        self.bad_lines: list[tuple[int, str, str]] = []
        """Of a log: where it stands, what is wrong, and how it begins."""
        self.abandoned: list[Abandoned] = []
        self.edition = FLAT
        self._ancient = not any(request.requestId for request in self.requests)
        """Until 2024 no request had an id."""

    def facts(self) -> Iterator[AnyFact]:
        turns = self._turns()
        children: dict[str, None] = {}
        yield from self._head()
        for number, (turn, after) in enumerate(turns):
            self.tally.records += 1
            offset = 1 + 2 * number
            scribe = Scribe(self.key, self.origin.path, offset, turn.id, after)
            yield from request_facts(turn, scribe)
            for fact in child_facts(turn, self.key, self.origin.path, offset):
                children.setdefault(fact.key[1])
                yield fact
            yield from self._vote(turn, offset + 1)
        yield from self._other_ids(children)
        yield from self._problems()

    def _turns(self) -> list[tuple[Turn, str]]:
        """Every request with the id that it follows: the current ones form the chain."""
        seen: set[str] = set()
        calls: set[str] = set()
        answers: set[str] = set()
        turns: list[tuple[Turn, str]] = []
        after = ROOT
        for request in self.requests:
            turn = Turn(request, self._ident(request, seen), self.edition)
            turns.append((turn, after))
            after = turn.id
        if any(turn.request.editedFileEvents for turn, _ in turns):
            self._settle_edits([turn for turn, _ in turns])
        if self.abandoned:
            turns = self._with_abandoned(turns)
        for turn, _ in turns:
            for kind in turn.parts.unknown:
                self.tally.records += 1
                self.tally.unrecognise(f"part {kind}", self.origin.path, 0)
            if turn.parts.wrong:
                self.problems.append(("part-not-an-object", turn.id))
            self.problems += [("wrong-type", path) for path in odd_fields(turn.request)]
            if turn.tell_apart(answers):
                self.problems.append(("repeated-answer-id", turn.id))
            made = (call for group in turn.calls for call in group)
            if tools.unique(made, calls, turn.id):
                self.problems.append(("repeated-call-id", turn.id))
        return turns

    def _with_abandoned(self, turns: list[tuple[Turn, str]]) -> list[tuple[Turn, str]]:
        """Requests that were taken out stand behind the one that they followed, before the next."""
        known = {turn.id for turn, _ in turns}
        behind: dict[str, list[tuple[Turn, str]]] = {}
        for held in self.abandoned:
            ident = held.request.requestId
            if ident and ident not in known:
                known.add(ident)
                turn = Turn(held.request, ident, self.edition, withdrawn=True)
                behind.setdefault(held.after, []).append((turn, held.after))
        made: list[tuple[Turn, str]] = []
        waiting = [*reversed(turns), *reversed(behind.pop(ROOT, []))]
        while waiting:
            made.append(waiting.pop())
            waiting.extend(reversed(behind.pop(made[-1][0].id, [])))
        return made + [left for group in behind.values() for left in group]

    def _ident(self, request: Request, seen: set[str]) -> str:
        ident = request.requestId or request.providerRequestId or ""
        known = bool(ident)
        if not known:
            ident = f"request:{_digest(typed_text(request.message), request.timestamp)}"
            if not self._ancient:
                self.problems.append(("missing-request-id", typed_text(request.message)))
        made, number = ident, 2
        while made in seen:
            made, number = f"{ident}#{number}", number + 1
        if made != ident and known:
            self.problems.append(("repeated-request-id", ident))
        seen.add(made)
        return made

    def _settle_edits(self, turns: list[Turn]) -> None:
        edited = [{t["path"] for _, made in turn.touched for t in made} for turn in turns]
        events = [edits.file_events(turn.request.editedFileEvents) for turn in turns]
        for (number, path), outcome in edits.outcomes(edited, events).items():
            turns[number].outcomes[path] = outcome

    def _vote(self, turn: Turn, offset: int) -> Iterator[AnyFact]:
        """A record of its own: a vote is in the export of a chat, but not in its stored log."""
        held = turn.request.vote
        vote = (VOTES | OLD_VOTES).get(held, held) if isinstance(held, int) else held
        scribe = Scribe(self.key, self.origin.path, offset, f"{turn.id}/vote")
        for name, value in (("vote", vote), ("vote_down_reason", turn.request.voteDownReason)):
            if value is not None and value != "":
                yield scribe.write(
                    Noted, on="message", subject=turn.last_id, name=name, value=value
                )

    def _head(self) -> Iterator[AnyFact]:
        """What the chat says about itself. Of two copies, the one with more requests knows better,
        then the one with the latest, then a log."""
        scribe = Scribe(self.key, self.origin.path, 0)
        times = [t for r in self.requests if (t := parse_time(r.timestamp)) is not None]
        latest = max(times, default=0) // 1_000_000
        rank = _BEST - (min(len(self.requests), 1 << 19) << 42) - (min(latest, 1 << 39) << 2)
        rank -= 2 * self.edition  # an odd rank is that of the folder
        for name, value in _notes(self.chat, times):
            if value not in (None, "", [], {}):
                # The start is more than an echo of the first request's time.
                sure = name == "started_at"
                yield scribe.write(Noted, name=name, value=value, rank=0 if sure else rank)
        folder = folder_of(Path(self.origin.path))
        if folder:
            yield scribe.write(Noted, name="workspace.path", value=folder, rank=rank + 1)
        for request in reversed(self.requests):
            if request.agent is not None and request.agent.extensionVersion:
                value = request.agent.extensionVersion
                yield scribe.write(Noted, name="agent_version", value=value, rank=rank)
                break
        self.tally.records += scribe.written > 0

    def _other_ids(self, children: Iterable[str]) -> Iterator[AnyFact]:
        """An export names no session: Copilot Chat's own id, by which it goes then, is until 2026
        another than VS Code's, and an imported chat keeps that of where it came from."""
        ident, other = self.key[1], derived_id(self.requests)
        if not self.chat.sessionId or not self.requests or other == ident:
            return
        for number, own in enumerate([ident, *children]):
            self.tally.records += 1
            key = (NAME, other + own.removeprefix(ident))
            scribe = Scribe(key, self.origin.path, _OTHER_IDS + number)
            yield scribe.write(Noted, name="same_as", value=own, rank=WORST)

    def _problems(self) -> Iterator[AnyFact]:
        others = [(_PROBLEMS + n, *problem) for n, problem in enumerate(self.problems)]
        for offset, code, text in [*others, *self.bad_lines]:
            self.tally.records += 1
            self.tally.problems += 1
            yield Problem(
                key=self.key, origin=self.origin.path, offset=offset, code=code, sample=sample(text)
            )


def _notes(chat: Chat, times: list[int]) -> Iterator[tuple[str, Any]]:
    yield "title", chat.customTitle or chat.computedTitle
    yield "session_id", chat.sessionId
    if chat.sessionId and (own := _agents_own(chat.requests or [])) != chat.sessionId:
        yield "agent_session_id", own
    yield "agent", chat.responderUsername
    created = parse_time(chat.creationDate)
    # An imported chat is created after its own requests.
    if created is not None and created <= min(times, default=created):
        yield "started_at", format_time(created)
    yield "workspace.path", path_of(chat.workingDirectory)
    repo = chat.repoData or {}
    for ours, theirs in _REPOSITORY.items():
        if isinstance(repo.get(theirs), str):
            yield f"workspace.{ours}", repo[theirs]
    yield "repo", repo
    yield "repo_end", chat.repoDataEnd
    yield "initial_location", _LOCATIONS.get(chat.initialLocation or "", chat.initialLocation)
    yield "requester", chat.requesterUsername
    yield "requester_icon", chat.requesterAvatarIconUri
    yield "responder_icon", chat.responderAvatarIconUri
    yield "participants", _participants(chat.requests or [])
    yield "imported", chat.isImported or None
    yield "provider", chat.providerId
    yield "pending_edits", chat.hasPendingEdits or None
    yield NATIVE, chat.rest
    yield "draft", _draft(chat.inputState)
    yield "queued", [q for q in map(_queued, chat.pendingRequests or ()) if q]


_REPOSITORY = {
    "repository": "remoteUrl",
    "branch": "localBranch",
    "base_branch": "remoteBaseBranch",
    "commit": "localHeadCommit",
}
_LOCATIONS = {"editing-session": "panel"}


def _participants(requests: list[Request]) -> dict[str, Any]:
    """What is the same for every request that a participant answered, by its id."""
    made: dict[str, Any] = {}
    for request in requests:
        agent = request.agent
        if agent is not None and agent.id and agent.id not in made:
            held = {name: getattr(agent, name) for name in PARTICIPANT if getattr(agent, name)}
            if held:
                made[agent.id] = held
    return made


def _draft(state: Any) -> dict[str, Any] | None:
    """What stood in the input box and was never sent."""
    if not isinstance(state, dict) or not state.get("inputText"):
        return None
    return {
        k: state[k] for k in ("inputText", "attachments", "mode", "permissionLevel") if state.get(k)
    }


def _queued(held: Any) -> dict[str, Any] | None:
    """A message that waits to be sent: no turn."""
    if not isinstance(held, dict):
        return None
    request = held.get("request")
    message = request.get("message") if isinstance(request, dict) else None
    return {"id": held.get("id"), "kind": held.get("kind"), "text": typed_text(message)}


def derived_id(requests: list[Request]) -> str:
    """An id for a chat that names none: what the agent called the session, else the first request.

    The first and not all of them, so that a chat exported again after it went on is the same chat.
    """
    if own := _agents_own(requests):
        return own
    if not requests:
        return "empty"
    first = requests[0]
    if first.requestId:
        return f"export-{_digest(first.requestId)}"
    return f"export-{_digest(typed_text(first.message), first.timestamp)}"


def _agents_own(requests: list[Request]) -> str:
    """What the agent that answered called the session."""
    for request in requests:
        result = request.result
        if result is not None and result.metadata is not None and result.metadata.sessionId:
            return result.metadata.sessionId
    return ""


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "replace")).hexdigest()[:16]
