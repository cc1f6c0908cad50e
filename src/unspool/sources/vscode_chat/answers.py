"""Answers: the messages that an answer is made of, and which of them every part belongs to.

The model answers in rounds; the person sees one row of parts. Three things may tell the messages:

    rounds that say all             {"toolCallRounds": [{"response": "I look.", "toolCalls": […]}, …]}
    rounds that end with a call     the parts behind the last one are the rest   (rounds_in_log)
    no rounds at all                the order of the parts: words, then the calls behind them, are a
                                    message, and words behind a call begin the next   (in_order)
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.sources.vscode_chat import tools
from unspool.sources.vscode_chat.edits import KINDS as EDITS
from unspool.sources.vscode_chat.fields import EDITORS, bare_call_id
from unspool.sources.vscode_chat.model import Round
from unspool.sources.vscode_chat.parts import Flow, Kept, Parts, Thought, Tool, Words
from unspool.sources.vscode_chat.prompts import thinking_text
from unspool.sources.vscode_chat.uris import name_of, uri_of

_WORD = re.compile(r"\w")
_ROUNDS_AHEAD = 8
"""So many rounds ahead of the current one words are looked for."""


class Answer(msgspec.Struct):
    """The messages of an answer, and which tool parts are whose calls."""

    rounds: list[Round]
    """One for every message: the model's, or made from the parts."""
    calls: list[list[tools.Joined]]
    """Those of every message."""
    homes: list[int]
    """The message of every tool part; -1 where it has none."""
    places: list[int] | None = None
    """The message of every part, where the parts alone tell the messages."""


def answer_of(parts: Parts, rounds: list[Round] | None, prefix: str, ident: str) -> Answer:
    """`prefix` is for the ids of calls that have none, `ident` is the id of the response."""
    if not rounds:
        steps = Steps(parts.flow)
        answer = Answer([], [], [-1] * len(parts.tools), steps.places)
        _append(answer, steps.steps, parts, prefix)
        answer.rounds[-1].id = ident
        return answer
    calls, homes = tools.join(rounds, parts.tools, prefix)
    answer = Answer(list(rounds), calls, homes)
    if not any(round_.response for round_ in answer.rounds):
        _give_words(answer, parts)
    if answer.rounds[-1].toolCalls:
        # The model went on after that: the rounds were not kept to the end.
        # What stands behind the part of the last call that has one, and no round tells.
        rest: list[Flow] = []
        run: list[Flow] = []
        numbered = [(n, call.tool) for n, group in enumerate(answer.calls) for call in group]
        at, last = next(((n, tool) for n, tool in reversed(numbered) if tool), (-1, None))
        later = [round_.response or "" for round_ in answer.rounds[at + 1 :]]
        behind = last is None
        for item in parts.flow:
            if behind and isinstance(item, Tool):
                rest += _unheard(run, answer.rounds, later)
                run = []
                if answer.homes[item.number] < 0 and not tools.is_announcement(item, answer.calls):
                    rest.append(item)
            elif behind:
                run.append(item)
            behind = behind or item is last
        steps = Steps(rest + _unheard(run, answer.rounds, later))
        _append(answer, [s for s in steps.steps if s.text or s.tools], parts, prefix)
        if len(answer.rounds) > len(rounds):
            answer.rounds[-1].id = ident
    return answer


def _append(answer: Answer, steps: "list[Step]", parts: Parts, prefix: str) -> None:
    """The steps as rounds of their own."""
    for step in steps:
        for number in step.tools:
            answer.homes[number] = len(answer.rounds)
        answer.rounds.append(Round(response=step.text))
        answer.calls.append(
            [tools.from_part(parts.tools[n], f"{prefix}/part.{n}") for n in step.tools]
        )


def _give_words(answer: Answer, parts: Parts) -> None:
    """Rounds that keep no words: what was shown before the calls of a round, it said."""
    texts: dict[int, list[str]] = {}
    waiting: list[Flow] = []
    for item in parts.flow:
        if not isinstance(item, Tool):
            waiting.append(item)
        elif answer.homes[item.number] >= 0:
            texts.setdefault(answer.homes[item.number], []).append(_text(waiting))
            waiting = []
    if not answer.rounds[-1].toolCalls:
        texts.setdefault(len(answer.rounds) - 1, []).append(_text(waiting))
    for number, shown in texts.items():
        response = "\n\n".join(text for text in shown if text)
        answer.rounds[number] = msgspec.structs.replace(answer.rounds[number], response=response)


def _text(flow: list[Flow]) -> str:
    """The words of a run of parts; links alone are none."""
    if not any(isinstance(item, Words) and _WORD.search(item.text) for item in flow):
        return ""
    return "\n\n".join(step.text for step in Steps(flow).steps)


def _unheard(run: list[Flow], rounds: list[Round], later: list[str]) -> list[Flow]:
    """What of the run of parts between two calls no round says, and stands behind all that the `later`
    ones say. Links do not count: the model wrote them otherwise than they are shown."""
    start = at = 0
    while at < len(run):
        heard = max((_heard(run[at:], response) for response in later), default=0)
        at += heard or 1
        start = at if heard else start
    texts = [
        text for item in run[start:] if isinstance(item, Words) and (text := item.text.strip())
    ]
    if all(any(text in (round_.response or "") for round_ in rounds) for text in texts):
        start = len(run)
    return [*(item for item in run[:start] if isinstance(item, Thought)), *run[start:]]


def _heard(run: list[Flow], response: str) -> int:
    """How many parts, from the first on, a round says one after the other; none where that is but a
    little of what it says."""
    at = said = heard = 0
    for number, item in enumerate(run if response else ()):
        text = item.text.strip() if isinstance(item, Words) else ""
        position = response.find(text, at)
        if position < 0:
            break
        if text:
            at, said, heard = position + len(text), said + len(text), number + 1
    return heard if 2 * said >= len(response.strip()) else 0


class Step(msgspec.Struct):
    """One message: what it says, then what it calls."""

    blocks: list[str] = []
    """Its words, cut apart where a block of its own was shown."""
    tools: list[int] = []
    """The numbers of its tool parts."""

    @property
    def text(self) -> str:
        return "\n\n".join(block.strip("\n") for block in self.blocks)


class Steps:
    """Messages by the order of parts. Words or thinking behind a call are of the next time that the
    model spoke: they begin a message. Calls without a word between them stand together."""

    def __init__(self, flow: Iterable[Flow]) -> None:
        self.steps = [Step()]
        self.places: list[int] = []
        """For every item, the number of its step."""
        self._open = False
        """Whether the last block goes on."""
        self._aside = ""
        """What stands behind a call and begins nothing: a fence, the point of a list."""
        for item in flow:
            self._take(item)
            self.places.append(len(self.steps) - 1)
        self._settle()

    def _take(self, item: Flow) -> None:
        if isinstance(item, Tool):
            self._settle()
            self.steps[-1].tools.append(item.number)
            self._open = False
        elif isinstance(item, Thought):
            if item.text:
                self._begin()
        else:
            if isinstance(item, Kept) and item.apart:
                self._settle()
                self._open = False
            if not _WORD.search(item.text):
                if self.steps[-1].tools:
                    self._aside += item.text
                    return
            else:
                self._begin()
            self._write(self._aside + item.text)
            self._aside = ""

    def _begin(self) -> None:
        if self.steps[-1].tools:
            self.steps.append(Step())
            self._open = False

    def _settle(self) -> None:
        """What no words of the model followed goes with those before."""
        if self._aside.strip():
            self._write(self._aside)
        self._aside = ""

    def _write(self, text: str) -> None:
        blocks = self.steps[-1].blocks
        if self._open and blocks:
            blocks[-1] += text
        elif text:
            blocks.append(text)
            self._open = True


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

    def extra(self) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        if self.parts:
            # By their places: an undo stop may have led back to an earlier call.
            order = sorted(range(len(self.parts)), key=self.at.__getitem__)
            extra["parts"] = [self.parts[n] for n in order]
            if any(at != self.calls for at in self.at):
                extra["parts_at"] = [self.at[n] for n in order]
        if self.thoughts:
            extra["thoughts"] = self.thoughts
        if self.markdown:
            extra["markdown"] = self.markdown
        return extra


class Owner(msgspec.Struct):
    """Who made an edit."""

    number: int
    """The round."""
    call: str
    undone: bool
    """It stands behind the undo stop that the person went back to."""


class Placing:
    """The walk through one response: every part goes to the message that was under way.

    Tool parts are joined to the calls of rounds; the words between them are found in what the rounds
    say; the undo stop of an edit names the call that made it.
    """

    def __init__(self, answer: Answer, undone: Any = None) -> None:
        """`undone`: the undo stop that the person went back to."""
        self._answer = answer
        self._undone = undone
        self._rounds = answer.rounds if answer.places is None else []
        """What the model itself tells of its rounds."""
        calls = answer.calls
        self._places = {c.tool.number: n for group in calls for n, c in enumerate(group) if c.tool}
        self._calls = {c.id: (r, n) for r, group in enumerate(calls) for n, c in enumerate(group)}
        self.placed = [Placed(len(group)) for group in calls]
        self._now = 0
        """The round that is under way."""
        self._seen = 0
        """How many of its calls have gone by."""
        self._gone = [0] * len(calls)
        """The same for every round."""
        self._spoken: int | None = None
        """The round that spoke last."""
        self._passed = 0
        """How many tool parts have gone by."""
        self._following = [len(calls) - 1]
        """After so many tool parts: the round of the next one that has any."""
        for home in reversed(answer.homes):
            self._following.append(home if home >= 0 else self._following[-1])
        self._following.reverse()
        self._caller = ""
        """The call that the edits here say they are of."""
        self.tail: int | None = None
        """The round with the undo stop that all behind it was taken back to."""
        self.owners: dict[int, Owner] = {}
        """By the identity of an edit's part."""

    def walk(self, parts: Parts) -> None:
        places = self._answer.places
        links: list[Kept] = []
        item: Any
        for number, item in enumerate(parts.flow):
            if places is not None:
                self._go(places[number])
            kind = type(item)
            if kind is Kept and item.text:
                if self._rounds or not item.plain:
                    links.append(item)
                continue
            if kind is Words:
                # A link may be the first that a round says: only the words behind it tell of which.
                self._take_words(item)
            if links:
                self._keep_links(links)
                links = []
            if kind is Tool:
                self._take_tool(item)
            elif kind is Thought:
                self._take_thought(item)
            elif kind is Kept:
                self._keep(item.part)
        self._keep_links(links)

    def _keep_links(self, links: list[Kept]) -> None:
        for link in links:
            if self._rounds and self._seen:
                # No words behind it: the next round that names the file says it.
                name = link.text[1:].partition("](")[0]
                self._next_with(name, _response)
            self._keep(link.part)

    def _take_tool(self, tool: Tool) -> None:
        self._passed = tool.number + 1
        if self._answer.homes[tool.number] >= 0:
            self._now, self._seen = self._answer.homes[tool.number], self._places[tool.number] + 1
            self._gone[self._now] = self._seen
            self._caller = ""
        elif not tools.is_announcement(tool, self._answer.calls):
            self._keep(tool.part)  # the model did not ask for it

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
            call = self._caller or self._editor(part)
            self.owners[id(part)] = Owner(self._now, call, self.tail is not None)
        self.placed[self._now].parts.append(part)
        self.placed[self._now].at.append(self._seen)

    def _editor(self, part: dict[str, Any]) -> str:
        """The call that made an edit which names none: the last edit so far that is of the file, else
        the last one of the round (edits_of_calls)."""
        name = name_of(uri_of(part.get("uri")))
        before, now = self._answer.calls[: self._now], self._answer.calls[self._now]
        editors = [call for call in now[: self._seen] if call.name in EDITORS]
        earlier = [call for group in before for call in group if call.name in EDITORS]
        for call in reversed([*earlier, *editors]):
            if name and name in (call.arguments or str(call.part)):
                return call.id
        return editors[-1].id if editors else ""

    def _take_words(self, words: Words) -> None:
        text = words.text.strip()
        number = None
        if text and self._rounds:
            number = self._round_with(text, _response)
            if number is None and _WORD.search(text):
                # Shown by the program, and said by no round of the model.
                shown = {"kind": "markdownContent", "content": {"value": words.text}}
                self._keep({**shown, **words.about})
                return
        if text:
            self._spoken = self._now if number is None else number
        if words.about and self._spoken is not None:
            abouts = self.placed[self._spoken].markdown
            if words.about not in abouts:
                abouts.append(words.about)

    def _take_thought(self, thought: Thought) -> None:
        number = None
        if len(self._rounds) > 1:
            if thought.text:
                number = self._round_with(thought.text, own_thinking)
            if number is None and (thought.text or self._seen):
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

    def _next_with(self, text: str, said: Any) -> int | None:
        """The next round that says it, which is then under way. Once a round has called, another one
        speaks; and nothing before the next tool part is of a later round than that."""
        first = self._now + bool(self._seen)
        for number in range(first, min(self._bound(), first + _ROUNDS_AHEAD) + 1):
            words = said(self._rounds[number])
            if words == text or text in words:  # equal, most often
                self._go(number)
                return number
        return None

    def _round_with(self, text: str, said: Any) -> int | None:
        """The next round that says it, else the first one, wherever it stands."""
        number = self._next_with(text, said)
        if number is None:
            rounds = enumerate(self._rounds)
            number = next((n for n, round_ in rounds if text in said(round_)), None)
        return number

    def _go(self, number: int) -> None:
        if number != self._now:
            self._now, self._seen, self._caller = number, self._gone[number], ""

    def _bound(self) -> int:
        """The round of the next tool part: nothing before it is of a later one."""
        return max(self._now, self._following[self._passed])


def _response(round_: Round) -> str:
    return round_.response or ""


def own_thinking(round_: Round) -> str:
    """What the round itself keeps of its thinking."""
    return thinking_text(round_.thinking) if round_.thinking is not None else ""
