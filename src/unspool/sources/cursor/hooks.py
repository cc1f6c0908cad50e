"""Cursor's hooks: payloads that scripts logged, of every generation of the hooks.

A conversation's turns are told by `generation_id`; the order of the log does the rest.
"""

from collections.abc import Iterator

import msgspec

from unspool.facts import NO_ZONE, NOBODY, ZONE, AnyFact, Key, Noted, Problem
from unspool.io.dirty_json import clean, sample
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.cursor.entries import Entries, Steps, rank_of
from unspool.sources.cursor.hook_events import NOISE, READERS
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.payloads import (
    PRODUCT,
    RANK,
    Payload,
    Said,
    event_name,
    is_payload,
    turn_id,
)
from unspool.sources.cursor.runs import Runs
from unspool.sources.hooklogs import Logged, Moment, head_payloads, read_log


def claims(head: Head) -> bool:
    """Payloads with a conversation and a generation, or with Cursor's version."""
    if b"conversation_id" not in head.data and b"cursor_version" not in head.data:
        return False  # without a look at any payload: every file of every agent is asked
    return any(is_payload(value) for value in head_payloads(head))


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    log = Log(origin.path)
    for logged in read_log(origin, recover):
        tally.records += logged.lost
        if logged.value is None:
            tally.problems += logged.lost
            yield Problem(
                key=NOBODY, origin=origin.path, offset=logged.offset, code=logged.code,
                sample=sample(logged.text),
            )  # fmt: skip
            continue
        yield from log.read(logged, tally)


class Log:
    """One log: what was said before decides which step a part belongs to."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._steps: dict[Key, tuple[Steps, Runs]] = {}
        self._told: set[tuple[Key, str, str]] = set()
        self._entries = Entries("hook")
        self._models: dict[tuple[str, str], str] = {}

    def read(self, logged: Logged, tally: Tally) -> Iterator[AnyFact]:
        payload = clean(logged.value)
        event = event_name(payload)
        ident = payload.get("conversation_id") or payload.get("session_id")
        reader = READERS.get(event)
        if event in NOISE:
            tally.noise += 1
        elif reader is None:
            tally.unrecognise(event or "no event name", self.origin, logged.offset)
        elif not isinstance(ident, str) or not ident:
            tally.problems += 1
            yield Problem(
                key=NOBODY, origin=self.origin, offset=logged.offset,
                code="missing-conversation-id", sample=event,
            )  # fmt: skip
        else:
            key = (PRODUCT, ident)
            place = {
                "origin": self.origin, "offset": logged.offset, "time": logged.time,
                "entry": self._entry(payload, event),
            }  # fmt: skip
            steps, runs = self._steps.setdefault(key, (Steps(), Runs()))
            said = Said(payload, event, key, place, steps, runs, self._model(payload))
            yield from self._base(said, logged.moment)
            yield from reader(said)

    def _model(self, payload: Payload) -> str:
        """The model of the turn: not every event of a turn names it."""
        turn = (str(payload.get("conversation_id")), turn_id(payload))
        for name in ("model", "model_id"):
            given = payload.get(name)
            if isinstance(given, str) and given:
                self._models[turn] = given
                break
        return self._models.get(turn, "")

    def _entry(self, payload: Payload, event: str) -> str:
        """The payload's own id: what it says, and which time it is said in this log."""
        turn = turn_id(payload)
        if event == "stop" and turn:  # An aborted turn is told twice (seen in October 2025's logs).
            return f"stop:{payload.get('conversation_id')}:{turn}"
        own = {k: v for k, v in payload.items() if k[:1] != "_" and k != "transcript_path"}
        return self._entries.of(msgspec.json.encode(own, order="sorted"))

    def _base(self, said: Said, moment: Moment | None) -> Iterator[AnyFact]:
        """What every payload tells about the conversation; told once, and when it changes."""
        payload = said.payload
        roots = payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots else payload.get("cwd")
        notes = {
            "session_id": payload.get("session_id") or said.key[1],
            "workspace.path": clean_path(root) if isinstance(root, str) and root else None,
            "agent_version": payload.get("cursor_version"),
            "transcript_path": payload.get("transcript_path"),
            "composer_mode": payload.get("composer_mode"),
            ZONE: NO_ZONE if moment is not None and not moment.zoned else None,
        }
        for number, (name, value) in enumerate(notes.items()):
            if isinstance(value, str) and (said.key, name, value) not in self._told:
                self._told.add((said.key, name, value))
                rank = rank_of(said.key, name, value, RANK)
                yield said.make(Noted, number, name=name, value=value, rank=rank)
