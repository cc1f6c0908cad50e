"""Placing: which message of an answer every part of its response belongs to, and where in it.

The parts are one row for the whole answer, while the model answered in rounds. Tool parts are joined
to the calls of rounds; the words between them are found in what the rounds say; the undo stop of an
edit names the call that made it. What stands between two of these belongs to the round that was under
way.
"""

from typing import Any

import msgspec

from unspool.sources.vscode_chat.answers import Answer
from unspool.sources.vscode_chat.edits import KINDS as EDITS
from unspool.sources.vscode_chat.fields import bare_call_id
from unspool.sources.vscode_chat.model import Round
from unspool.sources.vscode_chat.parts import Flow, Thought, Tool, Words
from unspool.sources.vscode_chat.steps import WORD

_AHEAD = 8
"""So many rounds ahead of the current one words are looked for."""


class Placed(msgspec.Struct):
    """What one message holds beside its words and calls."""

    calls: int = 0
    parts: list[dict[str, Any]] = []
    at: list[int] = []
    """For every part, how many of the message's calls stood before it."""
    thinking: list[str] = []
    thoughts: list[dict[str, Any]] = []
    """What the parts with the thinking say besides."""
    markdown: list[dict[str, Any]] = []
    """What the parts with the text say besides, each way once."""

    def settle(self) -> None:
        """The parts by their places: an undo stop may have led back to an earlier call."""
        order = sorted(range(len(self.parts)), key=self.at.__getitem__)
        self.parts = [self.parts[n] for n in order]
        self.at = [self.at[n] for n in order]

    def extra(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.parts:
            made["parts"] = self.parts
            if any(at != self.calls for at in self.at):
                made["parts_at"] = self.at
        if self.thoughts:
            made["thoughts"] = self.thoughts
        if self.markdown:
            made["markdown"] = self.markdown
        return made


class Owner(msgspec.Struct):
    """Who made an edit."""

    number: int
    """The round."""
    call: str
    undone: bool
    """It stands behind the undo stop that the person went back to."""


class Placing:
    """The walk through one response."""

    def __init__(self, answer: Answer, undone: Any = None) -> None:
        """`undone`: the undo stop that the person went back to."""
        self._undone = undone
        self._rounds = answer.rounds
        """What the model itself tells of its rounds."""
        self._homes = answer.homes
        self._inner = answer.inner
        calls = answer.calls
        self._places = {id(c.part): n for made in calls for n, c in enumerate(made)}
        self._calls = {c.id: (r, n) for r, made in enumerate(calls) for n, c in enumerate(made)}
        self.placed = [Placed(len(made)) for made in calls]
        self._now = 0
        """The round that is under way."""
        self._seen = 0
        """How many of its calls have gone by."""
        self._spoken: int | None = None
        """The round that spoke last."""
        self._passed = 0
        """How many tool parts have gone by."""
        self._caller = ""
        """The call that the edits here say they are of."""
        self.tail: int | None = None
        """The round with the undo stop that all behind it was taken back to."""
        self.owners: dict[int, Owner] = {}
        """By the identity of an edit's part."""

    def walk(self, flow: list[Flow], tools: list[dict[str, Any]]) -> list[Placed]:
        for held in flow:
            if isinstance(held, Tool):
                self._call(held.number, tools[held.number])
            elif isinstance(held, Words):
                self._read(held)
            elif isinstance(held, Thought):
                self._think(held)
            elif self._rounds or not held.link:
                self._keep(held.part)
        for placed in self.placed:
            placed.settle()
        return self.placed

    def _call(self, number: int, part: dict[str, Any]) -> None:
        self._passed = number + 1
        if self._homes[number] >= 0:
            self._now, self._seen = self._homes[number], self._places[id(part)] + 1
            self._caller = ""
        elif number in self._inner:
            self._keep(part)

    def _keep(self, part: dict[str, Any]) -> None:
        kind = part.get("kind")
        stop = part.get("id") if kind == "undoStop" else part.get("undoStopId")
        caller = bare_call_id(stop) if isinstance(stop, str) else ""
        if caller in self._calls:
            self._now, place = self._calls[caller]
            self._seen, self._caller = place + 1, caller
        if kind == "undoStop" and stop == self._undone and self._undone is not None:
            self.tail = self._now
        if isinstance(kind, str) and kind in EDITS:
            self.owners[id(part)] = Owner(self._now, self._caller, self.tail is not None)
        self.placed[self._now].parts.append(part)
        self.placed[self._now].at.append(self._seen)

    def _read(self, words: Words) -> None:
        text = words.text.strip()
        number = None
        if text and self._rounds:
            spoken = (n for n in self._ahead() if text in (self._rounds[n].response or ""))
            number = next(spoken, None)
            if number is not None:
                self._go(number)
            else:
                number = self._speaker(text)
            if number is None and WORD.search(text):
                # Shown by the program, and said by no round of the model.
                held = {"kind": "markdownContent", "content": {"value": words.text}}
                self._keep({**held, **words.about})
                return
        if text:
            self._spoken = self._now if number is None else number
        known = self.placed[self._spoken or 0].markdown
        if self._spoken is not None and words.about and words.about not in known:
            known.append(words.about)

    def _speaker(self, text: str) -> int | None:
        """The round that said it, wherever it stands."""
        spoken = (n for n, held in enumerate(self._rounds) if text in (held.response or ""))
        return next(spoken, None)

    def _think(self, thought: Thought) -> None:
        number = self._thinker(thought.text) if len(self._rounds) > 1 else None
        if number is None and len(self._rounds) > 1 and (thought.text or self._seen):
            # Rounds of older files do not tell it: it is what led to the next call.
            self._go(self._bound())
        placed = self.placed[self._now if number is None else number]
        about = thought.about
        own = own_thinking(self._rounds[self._now]) if self._rounds and number is None else ""
        if own and thought.text not in own:
            about = {**about, "value": thought.text}  # shown otherwise than the round has it
        elif thought.text:
            placed.thinking.append(thought.text)
        if about:
            placed.thoughts.append(about)

    def _thinker(self, text: str) -> int | None:
        """The round that tells the thought itself: the next one that does is under way then."""
        if not text:
            return None
        thinking = (n for n in self._ahead() if text in own_thinking(self._rounds[n]))
        number = next(thinking, None)
        if number is not None:
            self._go(number)
            return number
        others = (n for n, held in enumerate(self._rounds) if text in own_thinking(held))
        return next(others, None)

    def _go(self, number: int) -> None:
        if number != self._now:
            self._now, self._seen, self._caller = number, 0, ""

    def _bound(self) -> int:
        """The round of the next tool part: nothing before it is of a later one."""
        following = (home for home in self._homes[self._passed :] if home >= 0)
        return max(self._now, next(following, len(self.placed) - 1))

    def _ahead(self) -> range:
        """The rounds that may speak next: once a round has called, another one does."""
        first = self._now + bool(self._seen)
        return range(first, min(self._bound(), first + _AHEAD) + 1)


def own_thinking(held: Round) -> str:
    """What the round itself keeps of its thinking."""
    found = held.thinking.get("text") if isinstance(held.thinking, dict) else held.thinking
    if isinstance(found, list):
        found = "".join(piece for piece in found if isinstance(piece, str))
    return found if isinstance(found, str) else ""
