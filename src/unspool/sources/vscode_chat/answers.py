"""Answers: the messages that an answer is made of, and which of them every part belongs to.

The model answers in rounds; the person sees one row of parts. Three things may tell the messages:

    rounds that say all             {"toolCallRounds": [{"response": "I look.", "toolCalls": […]}, …]}
    rounds that end with a call     the parts behind the last one are the rest   (rounds_in_log)
    no rounds at all                the order of the parts: words, then the calls behind them, are a
                                    message, and words behind a call begin the next   (in_order)
"""

import re
from typing import Any

import msgspec

from unspool.sources.vscode_chat import edits, tools
from unspool.sources.vscode_chat.fields import EDITORS, bare_call_id
from unspool.sources.vscode_chat.model import Round
from unspool.sources.vscode_chat.parts import Flow, Kept, Parts, Thought, Tool, Words
from unspool.sources.vscode_chat.prompts import thinking_text
from unspool.sources.vscode_chat.uris import name_of, uri_of

_WORD = re.compile(r"\w")


class Edit(msgspec.Struct):
    """An edit part: the files that it changed, and who made it."""

    touches: list[dict[str, Any]]
    call: tools.Joined | None
    undone: bool
    """It stands behind the undo stop that the person went back to."""


class Step(msgspec.Struct):
    """One message of an answer."""

    id: str
    text: str
    calls: list[tools.Joined]
    round: Round = msgspec.field(default_factory=Round)
    """The model's own record of it; empty where only the parts tell it."""
    own_thinking: str = ""
    """What that keeps of its thinking."""
    parts: list[dict[str, Any]] = []
    """What was shown beside the words and the calls."""
    at: list[int] = []
    """For every part, how many of the message's calls stood before it."""
    thinking: list[str] = []
    thoughts: list[dict[str, Any]] = []
    """What the parts with the thinking say besides."""
    markdown: list[dict[str, Any]] = []
    """What the parts with the text say besides, each way once."""
    edits: list[Edit] = []

    def extra(self) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        if self.parts:
            # By their places: an undo stop may have led back to an earlier call.
            order = sorted(range(len(self.parts)), key=self.at.__getitem__)
            extra["parts"] = [self.parts[n] for n in order]
            if any(at != len(self.calls) for at in self.at):
                extra["parts_at"] = [self.at[n] for n in order]
        if self.thoughts:
            extra["thoughts"] = self.thoughts
        if self.markdown:
            extra["markdown"] = self.markdown
        return extra


class Answer:
    """The messages of one response, with every part at the message that was under way.

    Tool parts are joined to the calls of rounds; the words between them are found in what the rounds
    say; the undo stop of an edit names the call that made it.
    """

    def __init__(
        self, parts: Parts, rounds: list[Round] | None, prefix: str, ident: str, undone: Any = None
    ) -> None:
        """`prefix` is for the ids of calls that have none, `ident` is the id of the response, `undone`
        the undo stop that the person went back to."""
        self.steps: list[Step] = []
        self.tail: int | None = None
        """The message with the undo stop that all behind it was taken back to."""
        self.by_rounds = bool(rounds)
        """Whether the model itself tells its messages."""
        self._undone = undone
        self._homes = [-1] * len(parts.tools)
        """The message of every tool part; -1 where it has none."""
        places: list[int] = []
        """The message of every part, where the parts alone tell the messages."""
        if rounds:
            groups, self._homes = tools.join(rounds, parts.tools, prefix)
            for number, (round_, calls) in enumerate(zip(rounds, groups, strict=True)):
                step_id, text = round_.id or f"{ident}.{number}", round_.response or ""
                own = thinking_text(round_.thinking)
                self.steps.append(Step(step_id, text, calls, round_, own))
            if not any(round_.response for round_ in rounds):
                self._give_words(parts.flow)
            if rounds[-1].toolCalls:
                # The model went on after that: the rounds were not kept to the end.
                order = Order(self._rest(parts.flow))
                self._append(
                    [told for told in zip(order.texts, order.tools, strict=True) if any(told)],
                    parts.tools, prefix, ident,
                )  # fmt: skip
        else:
            order = Order(parts.flow)
            places = order.places
            self._append(
                list(zip(order.texts, order.tools, strict=True)), parts.tools, prefix, ident
            )
        self._walk(parts.flow, places)

    def _append(
        self, told: list[tuple[str, list[int]]], shown: list[Tool], prefix: str, ident: str
    ) -> None:
        """Messages that only parts tell: the words and the tool parts of each."""
        for text, numbers in told:
            for number in numbers:
                self._homes[number] = len(self.steps)
            calls = [tools.from_part(shown[n], f"{prefix}/part.{n}") for n in numbers]
            self.steps.append(Step(f"{ident}.{len(self.steps)}", text, calls))
        if told:
            self.steps[-1].id = ident

    def _give_words(self, flow: list[Flow]) -> None:
        """Rounds that keep no words: what was shown before the calls of a round, it said."""
        waiting: list[Flow] = []

        def give(number: int) -> None:
            # Links alone are no words.
            if any(isinstance(item, Words) and _WORD.search(item.text) for item in waiting):
                said = [self.steps[number].text, *Order(waiting).texts]
                self.steps[number].text = "\n\n".join(text for text in said if text)
            waiting.clear()

        for item in flow:
            if not isinstance(item, Tool):
                waiting.append(item)
            elif self._homes[item.number] >= 0:
                give(self._homes[item.number])
        if not self.steps[-1].calls:
            give(-1)

    def _rest(self, flow: list[Flow]) -> list[Flow]:
        """What stands behind the part of the last call that has one, and no round tells."""
        shown = [(n, c.tool) for n, step in enumerate(self.steps) for c in step.calls if c.tool]
        at, last = shown[-1] if shown else (-1, None)
        later = [step.text for step in self.steps[at + 1 :]]
        behind = last is None
        rest: list[Flow] = []
        run: list[Flow] = []
        """The parts since the last tool."""
        for item in flow:
            if behind and isinstance(item, Tool):
                rest += self._unheard(run, later)
                run = []
                if self._homes[item.number] < 0 and not self._is_announcement(item):
                    rest.append(item)
            elif behind:
                run.append(item)
            behind = behind or item is last
        return rest + self._unheard(run, later)

    def _unheard(self, run: list[Flow], later: list[str]) -> list[Flow]:
        """The thoughts, and what stands behind all words that the `later` rounds say; nothing where
        every word is some round's. Links do not count: the model wrote them otherwise than they are
        shown."""
        texts = [item.text.strip() if isinstance(item, Words) else "" for item in run]
        if all(any(text in step.text for step in self.steps) for text in texts):
            start = len(run)
        else:
            heard = (n for n, text in enumerate(texts) if text and any(text in t for t in later))
            start = max(heard, default=-1) + 1
        return [*(item for item in run[:start] if isinstance(item, Thought)), *run[start:]]

    def _is_announcement(self, tool: Tool) -> bool:
        return tools.is_announcement(tool, (call for step in self.steps for call in step.calls))

    def _walk(self, flow: list[Flow], places: list[int]) -> None:
        steps = self.steps
        self._calls = {
            c.id: (s, n) for s, step in enumerate(steps) for n, c in enumerate(step.calls)
        }
        self._now = 0
        """The message that is under way."""
        self._seen = 0
        """How many of its calls have gone by."""
        self._gone = [0] * len(steps)
        """The same for every message."""
        self._spoken: int | None = None
        """The one that spoke last."""
        self._passed = 0
        """How many tool parts have gone by."""
        self._following = [len(steps) - 1]
        """After so many tool parts: the message of the next one that has any."""
        for home in reversed(self._homes):
            self._following.append(home if home >= 0 else self._following[-1])
        self._following.reverse()
        self._texts = [step.text for step in steps]
        self._thoughts = [step.own_thinking for step in steps]
        self._caller: tools.Joined | None = None
        """The call that the edits here say they are of."""
        for number, item in enumerate(flow):
            if places:
                self._go(places[number])
            if isinstance(item, Tool):
                self._take_tool(item)
            elif isinstance(item, Thought):
                self._take_thought(item)
            elif isinstance(item, Words):
                self._take_words(item)
            elif not item.text:
                self._keep(item.part)
            elif self.by_rounds:
                self._go(min(self._first(), self._bound()))
                self._keep(item.part)
            elif not item.plain:
                self._keep(item.part)

    def _first(self) -> int:
        """The message that may speak now: once one has called, it is the next."""
        return self._now + (self.by_rounds and self._seen > 0)

    def _bound(self) -> int:
        """The message of the next tool part: nothing before it is of a later one."""
        return max(self._now, self._following[self._passed])

    def _find(self, text: str, told: list[str]) -> int | None:
        """The message that tells it, which is then under way, if it may speak; else the first."""
        for number in range(self._first(), self._bound() + 1):
            if text in told[number]:
                self._go(number)
                return number
        return next((number for number, whole in enumerate(told) if text in whole), None)

    def _take_tool(self, tool: Tool) -> None:
        self._passed = tool.number + 1
        home = self._homes[tool.number]
        if home >= 0:
            calls = self.steps[home].calls
            self._now, self._caller = home, None
            self._seen = next(n for n, call in enumerate(calls, 1) if call.tool is tool)
            self._gone[home] = self._seen
        elif not self._is_announcement(tool):
            self._keep(tool.part)  # the model did not ask for it

    def _keep(self, part: dict[str, Any]) -> None:
        kind = part.get("kind")
        stop = part.get("id") if kind == "undoStop" else part.get("undoStopId")
        caller = bare_call_id(stop) if isinstance(stop, str) else ""
        if caller in self._calls:
            self._now, place = self._calls[caller]
            self._seen, self._caller = place + 1, self.steps[self._now].calls[place]
        if kind == "undoStop" and stop == self._undone and self._undone is not None:
            self.tail = self._now
        step = self.steps[self._now]
        if isinstance(kind, str) and kind in edits.KINDS:
            call = self._caller or self._editor(part)
            step.edits.append(Edit(edits.touches(part), call, self.tail is not None))
        step.parts.append(part)
        step.at.append(self._seen)

    def _editor(self, part: dict[str, Any]) -> tools.Joined | None:
        """The call that made an edit which names none: the last edit so far that is of the file, else
        the last one of the message (edits_of_calls)."""
        name = name_of(uri_of(part.get("uri")))
        before, now = self.steps[: self._now], self.steps[self._now]
        editors = [call for call in now.calls[: self._seen] if call.name in EDITORS]
        earlier = [call for step in before for call in step.calls if call.name in EDITORS]
        for call in reversed([*earlier, *editors]):
            if name and name in (call.arguments or str(call.part)):
                return call
        return editors[-1] if editors else None

    def _take_words(self, words: Words) -> None:
        text = words.text.strip()
        number = None
        if text and self.by_rounds:
            number = self._find(text, self._texts)
            if number is None and _WORD.search(text):
                # Shown by the program, and said by no round of the model.
                shown = {"kind": "markdownContent", "content": {"value": words.text}}
                self._keep({**shown, **words.about})
                return
        if text:
            self._spoken = self._now if number is None else number
        if words.about and self._spoken is not None:
            abouts = self.steps[self._spoken].markdown
            if words.about not in abouts:
                abouts.append(words.about)

    def _take_thought(self, thought: Thought) -> None:
        text = thought.text
        number = self._find(text, self._thoughts) if text and self.by_rounds else None
        if number is None and self.by_rounds and (text or self._seen):
            # Rounds of older files do not tell it: it is what led to the next call.
            self._go(self._bound())
        step = self.steps[self._now if number is None else number]
        about, own = thought.about, step.own_thinking
        if own and text not in own:
            about = {**about, "value": text}  # shown otherwise than the round has it
        elif text:
            step.thinking.append(text)
        if about:
            step.thoughts.append(about)

    def _go(self, number: int) -> None:
        if number != self._now:
            self._now, self._seen, self._caller = number, self._gone[number], None


class Order:
    """Messages by the order of parts. Words or thinking behind a call are of the next time that the
    model spoke: they begin a message. Calls without a word between them stand together."""

    def __init__(self, flow: list[Flow]) -> None:
        self._blocks: list[list[str]] = [[]]
        """The words of every message, cut apart where a block of its own was shown."""
        self.tools: list[list[int]] = [[]]
        """The numbers of its tool parts."""
        self.places: list[int] = []
        """For every item, the number of its message."""
        self._open = False
        """Whether the last block goes on."""
        self._aside = ""
        """What stands behind a call and begins nothing: a fence, the point of a list."""
        for item in flow:
            self._take(item)
            self.places.append(len(self.tools) - 1)
        self._settle()
        self.texts = ["\n\n".join(text.strip("\n") for text in blocks) for blocks in self._blocks]

    def _take(self, item: Flow) -> None:
        if isinstance(item, Tool):
            self._settle()
            self.tools[-1].append(item.number)
            self._open = False
        elif isinstance(item, Thought):
            if item.text:
                self._begin()
        else:
            if isinstance(item, Kept) and item.apart:
                self._settle()
                self._open = False
            if not _WORD.search(item.text):
                if self.tools[-1]:
                    self._aside += item.text
                    return
            else:
                self._begin()
            self._write(self._aside + item.text)
            self._aside = ""

    def _begin(self) -> None:
        if self.tools[-1]:
            self._blocks.append([])
            self.tools.append([])
            self._open = False

    def _settle(self) -> None:
        """What no words of the model followed goes with those before."""
        if self._aside.strip():
            self._write(self._aside)
        self._aside = ""

    def _write(self, text: str) -> None:
        blocks = self._blocks[-1]
        if self._open and blocks:
            blocks[-1] += text
        elif text:
            blocks.append(text)
            self._open = True
