"""A turn: what is worked out once about a request, before it is told as facts."""

from typing import Any

import msgspec

from unspool.io.times import parse_time
from unspool.sources.vscode_chat import edits
from unspool.sources.vscode_chat.answers import answer_of
from unspool.sources.vscode_chat.model import Metadata, Request, Result
from unspool.sources.vscode_chat.parts import Parts
from unspool.sources.vscode_chat.placing import Placing

_AGENT_MODES = {
    "github.copilot.default": "ask",
    "github.copilot.editsAgent": "agent",
    "github.copilot.editingSession": "edit",
    "github.copilot.editingSession2": "edit",
}
"""The mode by the participant, for the time before modes were stored."""

_HOUR = 3600 * 1000


class Turn:
    """What is worked out once about a request."""

    def __init__(
        self, request: Request, ident: str, edition: int = 0, withdrawn: bool = False
    ) -> None:
        self.request = request
        self.id = ident
        self.edition = edition
        self.withdrawn = withdrawn
        """The chat no longer holds it."""
        self.result = request.result or Result()
        self.metadata = self.result.metadata or Metadata()
        self.parts = Parts(request.response)
        self.response_id = request.responseId or f"{ident}/response"
        self.time = parse_time(request.timestamp)
        self.error = self.result.errorDetails or request.responseErrorDetails
        self.ended, self.duration_ms = self._end()
        self.answer = answer_of(self.parts, self.metadata.toolCallRounds, ident, self.response_id)
        self.rounds = self.answer.rounds
        self.calls = self.answer.calls
        removed = request.shouldBeRemovedOnSend
        undone = removed.get("afterUndoStop") if isinstance(removed, dict) else None
        placing = Placing(self.answer, undone)
        self.placed = placing.walk(self.parts.flow, self.parts.tools)
        """What every message holds beside its words and calls."""
        self.owners = placing.owners
        self.tail = placing.tail
        """The round behind which all was undone, where the request stays."""
        self.touched = [(part, edits.touches(part)) for part in self.parts.edits]
        """Every edit part with the files that it changed."""
        self.outcomes: dict[str, str] = {}
        """Path → what became of this request's edit of it."""

    def _end(self) -> tuple[int | None, float | None]:
        """When the answer was complete, and how long it took.

        A chat that was imported or restored is stamped as complete at that moment: where the time
        that the agent measured is shorter by more than an hour, the stamp is not believed.
        """
        state = self.request.modelState
        end = parse_time(state.completedAt) if state is not None else None
        measured = (self.result.timings or {}).get("totalElapsed")
        measured = float(measured) if isinstance(measured, int | float) and measured >= 0 else None
        if self.time is None:
            return end, measured
        if end is not None and end >= self.time:
            took = (end - self.time) / 1000
            if measured is None or took - measured < _HOUR:
                return end, took
        if measured is not None:
            return self.time + int(measured * 1000), measured
        return None, None

    @property
    def other_end(self) -> Any:
        """A stamp of completion that is not believed, or not needed: as it is."""
        state = self.request.modelState
        stamp = state.completedAt if state is not None else None
        return stamp if stamp is not None and parse_time(stamp) != self.ended else None

    def tell_apart(self, seen: set[str]) -> int:
        """Ids of answers and rounds that the chat repeats, told apart; how many there were."""
        repeated = 0
        if self.response_id in seen:
            self.response_id = f"{self.id}/{self.response_id}"
            repeated = 1
        own: set[str] = set()
        for number, held in enumerate(self.rounds):
            if held.id and held.id != self.response_id and held.id in seen | own:
                ident = f"{self.id}/{held.id}.{number}"
                self.rounds[number] = msgspec.structs.replace(held, id=ident)
                repeated += 1
            own.add(self.round_id(number))
        seen.update(own, (self.response_id,))
        return repeated

    def round_id(self, number: int) -> str:
        return self.rounds[number].id or f"{self.response_id}.{number}"

    @property
    def last_id(self) -> str:
        """The id of the last assistant message."""
        return self.round_id(len(self.rounds) - 1) if self.rounds else self.response_id

    @property
    def model(self) -> str:
        named = (self.request.modelId or "").removeprefix("copilot/")
        return self.metadata.resolvedModel or self.parts.model or named

    def status_of(self, number: int) -> str:
        """Whether a round was hidden or undone."""
        undone = self.tail is not None and number > self.tail
        return "undone" if undone else self.removed

    @property
    def removed(self) -> str:
        """Whether the request was hidden or undone."""
        held = self.request.shouldBeRemovedOnSend
        if held is not None and not (isinstance(held, dict) and held.get("afterUndoStop")):
            return "undone"
        hidden = (
            self.request.isHidden,
            self.request.hiddenFromTranscript,
            self.request.requestHiddenFromTranscript,
        )
        return "hidden" if True in hidden else ""

    @property
    def state(self) -> int | None:
        held = self.request.modelState
        if held is not None and isinstance(held.value, int):
            return held.value
        return 2 if self.request.isCanceled else None

    @property
    def mode(self) -> str:
        info = self.request.modeInfo
        if info is not None and isinstance(info.get("kind"), str):
            return str(info["kind"])
        agent = self.request.agent
        if agent is None:
            return ""
        known = _AGENT_MODES.get(agent.id or "")
        if known is None and agent.modes and len(agent.modes) == 1:
            known = agent.modes[0] if isinstance(agent.modes[0], str) else None
        return known or ""
