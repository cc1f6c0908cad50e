"""A whole chat as facts: its head, its requests in a chain, and the runs of its sub-agents."""

import hashlib
from collections.abc import Iterator
from typing import Any

from unspool.facts import ROOT, AnyFact, Key
from unspool.io.origins import Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.io.values import field_of, str_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat import edits
from unspool.sources.vscode_chat.fields import (
    BESIDE,
    HEAD,
    NAME,
    NATIVE,
    OLD_VOTES,
    PARTICIPANT,
    VOTES,
)
from unspool.sources.vscode_chat.folders import folder_of
from unspool.sources.vscode_chat.model import Chat, Metadata, Request
from unspool.sources.vscode_chat.prompts import rendered, typed_text, workspace_told
from unspool.sources.vscode_chat.requests import Turn, run_facts, write_request
from unspool.sources.vscode_chat.tools import unique
from unspool.sources.vscode_chat.uris import path_of

_OTHER_IDS = 1 << 41
"""Places behind all requests."""
FLAT, LOG = 0, 1
"""Editions: VS Code went over from flat files to logs, and where it finds both the log counts."""
_REPOSITORY = {
    "repository": "remoteUrl",
    "branch": "localBranch",
    "base_branch": "remoteBaseBranch",
    "commit": "localHeadCommit",
}


class Reading:
    """One chat of an origin on its way to facts."""

    def __init__(
        self, chat: Chat, origin: Origin, tally: Tally, session: str = "", edition: int = FLAT
    ) -> None:
        self.chat = chat
        self.origin = origin
        self.tally = tally
        self.requests = chat.requests or []
        self.key: Key = (NAME, session or chat.sessionId or derived_id(self.requests))
        self.abandoned: list[tuple[Request, str]] = []
        """Requests that the chat no longer holds, each with the id of the one that it followed."""
        self.edition = edition

    def facts(self) -> Iterator[AnyFact]:
        turns = self._turns()
        children: dict[str, None] = {}
        yield from self._head()
        for number, (turn, after) in enumerate(turns):
            self.tally.records += 1
            offset = 1 + 2 * number
            scribe = Scribe(self.key, self.origin.path, offset, entry=turn.id, after=after)
            write_request(turn, scribe)
            yield from scribe.facts
            if turn.parts.runs:
                for fact in run_facts(turn, self.key, self.origin.path, offset):
                    children.setdefault(fact.key[1])
                    yield fact
            if turn.request.vote is not None or turn.request.voteDownReason:
                yield from self._vote(turn, offset + 1)
        # An export names no session: Copilot Chat's own id, by which it goes then, is until 2026
        # another than VS Code's, and an imported chat keeps that of where it came from.
        ident, other = self.key[1], derived_id(self.requests)
        if self.chat.sessionId and self.requests and other != ident:
            for number, own in enumerate([ident, *children]):
                self.tally.records += 1
                key = (NAME, other + own.removeprefix(ident))
                scribe = Scribe(key, self.origin.path, _OTHER_IDS + number)
                scribe.note("same_as", own, BESIDE)
                yield from scribe.facts

    def _turns(self) -> list[tuple[Turn, str]]:
        """Every request with the id that it follows: the current ones form the chain, and those
        that were taken out stand behind the one that they followed, before the next."""
        requests: set[str] = set()
        answers: set[str] = set()
        calls: set[str] = set()
        turns: list[tuple[Turn, str]] = []
        named = any(request.requestId for request in self.requests)  # until 2024 none was
        after = ROOT
        for request in self.requests:
            ident = request.requestId or request.providerRequestId or ""
            codes: list[str] = []
            if not ident:
                ident = f"request:{_digest(typed_text(request.message), request.timestamp)}"
                codes += ["missing-request-id"] if named else []
            elif ident in requests:
                codes.append("repeated-request-id")
            turn = Turn(request, unique(ident, requests), self.edition)
            turns.append((turn, after))
            after = turn.id
            codes += turn.tell_apart(answers, calls)
            for code in codes:
                self.tally.records += 1
                self.tally.lose(code, self.origin.path, 2 * len(turns) - 1, turn.id, self.key)
            for kind in turn.parts.unknown:
                self.tally.records += 1
                self.tally.unrecognise(f"part {kind}", self.origin.path, 0)
        if any(turn.request.editedFileEvents for turn, _ in turns):
            edited = [{touch["path"] for touch in turn.touches} for turn, _ in turns]
            events = [turn.request.editedFileEvents for turn, _ in turns]
            for (number, path), outcome in edits.outcomes(edited, events).items():
                turns[number][0].outcomes[path] = outcome
        behind: dict[str, list[tuple[Turn, str]]] = {}
        for request, follows in self.abandoned:
            if request.requestId and request.requestId not in requests:
                turn = Turn(request, request.requestId, self.edition, withdrawn=True)
                turn.tell_apart(answers, calls)
                behind.setdefault(follows, []).append((turn, follows))
        turns[:0] = behind.pop(ROOT, [])
        for number, (turn, _) in enumerate(turns, 1):  # also over those that it puts in
            turns[number:number] = behind.pop(turn.id, [])
        return turns + [left for group in behind.values() for left in group]

    def _vote(self, turn: Turn, offset: int) -> list[AnyFact]:
        """A record of its own: a vote is in the export of a chat, but not in its stored log."""
        scribe = Scribe(self.key, self.origin.path, offset, entry=f"{turn.id}/vote")
        vote: Any = turn.request.vote
        if isinstance(vote, int):
            vote = (VOTES | OLD_VOTES).get(vote, vote)
        if vote is not None:
            scribe.note("vote", vote, on="message", subject=turn.last_id)
        if reason := turn.request.voteDownReason:
            scribe.note("vote_down_reason", reason, on="message", subject=turn.last_id)
        return scribe.facts

    def _head(self) -> list[AnyFact]:
        """What the chat says about itself. Of two copies, the one with more requests knows better,
        then the one with the latest, then a log."""
        scribe = Scribe(self.key, self.origin.path, 0)
        times = [t for r in self.requests if (t := parse_time(r.timestamp)) is not None]
        latest = max(times, default=0) // 1_000_000
        rank = HEAD - (min(len(self.requests), 1 << 19) << 42) - (min(latest, 1 << 39) << 2)
        rank -= 2 * self.edition  # an odd rank is that of the folder
        for name, value in _notes(self.chat):
            if value:
                scribe.note(name, value, rank)
        created = parse_time(self.chat.creationDate)
        # An imported chat is created after its own requests.
        if created is not None and created <= min(times, default=created):
            scribe.note("started_at", format_time(created))
        if folder := folder_of(self.origin.path):
            scribe.note("workspace.path", folder, rank + 1)
        elif folder := _folder_told(self.requests):
            scribe.note("workspace.path", folder, BESIDE)
        versions = (str_of(field_of(r.agent, "extensionVersion")) for r in reversed(self.requests))
        scribe.notes({"agent_version": next(filter(None, versions), "")}, rank)
        self.tally.records += bool(scribe.facts)
        return scribe.facts


def _notes(chat: Chat) -> Iterator[tuple[str, Any]]:
    requests = chat.requests or []
    yield "title", chat.customTitle or chat.computedTitle
    yield "session_id", chat.sessionId
    if chat.sessionId and (own := _agents_own(requests)) != chat.sessionId:
        yield "agent_session_id", own
    yield "agent", chat.responderUsername
    yield "workspace.path", path_of(chat.workingDirectory)
    repo = chat.repoData or {}
    for ours, theirs in _REPOSITORY.items():
        if isinstance(repo.get(theirs), str):
            yield f"workspace.{ours}", repo[theirs]
    yield "repo", repo
    yield "repo_end", chat.repoDataEnd
    location = chat.initialLocation
    yield "initial_location", "panel" if location == "editing-session" else location
    yield "requester", chat.requesterUsername
    yield "requester_icon", chat.requesterAvatarIconUri
    yield "responder_icon", chat.responderAvatarIconUri
    yield "participants", _participants(requests)
    yield "imported", chat.isImported or None
    yield "provider", chat.providerId
    yield "pending_edits", chat.hasPendingEdits or None
    yield NATIVE, chat.rest
    draft = chat.inputState
    if isinstance(draft, dict) and draft.get("inputText"):  # typed, and never sent
        names = ("inputText", "attachments", "mode", "permissionLevel")
        yield "draft", {name: draft[name] for name in names if draft.get(name)}
    queued = []
    for pending in chat.pendingRequests or ():
        text = typed_text(pending.request.message) if pending.request is not None else ""
        queued.append({"id": pending.id, "kind": pending.kind, "text": text})
    yield "queued", queued


def _participants(requests: list[Request]) -> dict[str, Any]:
    """What is the same for every request that a participant answered, by its id."""
    participants: dict[str, Any] = {}
    for agent in (request.agent or {} for request in requests):
        ident = str_of(agent.get("id"))
        fields = {name: agent[name] for name in PARTICIPANT if agent.get(name)}
        if ident and fields:
            participants.setdefault(ident, fields)
    return participants


def _folder_told(requests: list[Request]) -> str:
    """The folder that a prompt tells: newer ones in their context, older ones before the words."""
    for metadata in _metadata(requests):
        for parts in (metadata.renderedGlobalContext, metadata.renderedUserMessage):
            if folder := workspace_told(rendered(parts)[0]):
                return folder
    return ""


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
    return next((told.sessionId for told in _metadata(requests) if told.sessionId), "")


def _metadata(requests: list[Request]) -> Iterator[Metadata]:
    results = (request.result for request in requests)
    return (result.metadata for result in results if result is not None and result.metadata)


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "replace")).hexdigest()[:16]
