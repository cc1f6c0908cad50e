"""Answers: the messages of an answer, by the model's rounds and, where those end, by its parts."""

import msgspec

from unspool.sources.vscode_chat import tools
from unspool.sources.vscode_chat.model import Round
from unspool.sources.vscode_chat.parts import Flow, Kept, Parts, Thought, Tool, Words
from unspool.sources.vscode_chat.steps import Step, begins, one_step, steps_of


class Answer(msgspec.Struct):
    """The messages of an answer, and which tool parts are whose calls."""

    rounds: list[Round] = []
    """One for every message; empty where the answer is a single one that no round tells."""
    calls: list[list[tools.Joined]] = []
    """Those of every message."""
    homes: list[int] = []
    """The message of every tool part; -1 where it has none."""
    inner: set[int] = set()
    """Numbers of tool parts that the model did not ask for."""
    text: str = ""
    """The words of a single message."""


def answer_of(parts: Parts, told: list[Round] | None, prefix: str, ident: str) -> Answer:
    """`prefix` is for the ids of calls that have none, `ident` is the id of the response."""
    if not told:
        return _by_parts(parts, prefix)
    calls, homes = tools.join(told, parts.tools, prefix)
    made = Answer(list(told), calls, homes)
    if not any(held.response for held in made.rounds):
        _give_words(made, parts)
    if made.rounds[-1].toolCalls:
        # The model went on after that: the rounds were not kept to the end.
        news = _news(made, parts)
        _append(made, [step for step in steps_of(news) if step.text or step.tools], parts, prefix)
        if len(made.rounds) > len(told):
            made.rounds[-1] = msgspec.structs.replace(made.rounds[-1], id=ident)
    made.inner = {
        number
        for number, part in enumerate(parts.tools)
        if made.homes[number] < 0 and not tools.is_announcement(part, calls[: len(told)])
    }
    return made


def _by_parts(parts: Parts, prefix: str) -> Answer:
    """One message: where the model spoke again, the parts do not tell for sure."""
    step = one_step(parts.flow)
    made = Answer(homes=[-1] * len(parts.tools), text=step.text)
    _append(made, [step], parts, prefix)
    made.rounds.clear()
    return made


def _append(made: Answer, steps: list[Step], parts: Parts, prefix: str) -> None:
    """The steps as rounds of their own."""
    for step in steps:
        for number in step.tools:
            made.homes[number] = len(made.rounds)
        made.rounds.append(Round(response=step.text))
        made.calls.append(
            [tools.from_part(parts.tools[n], f"{prefix}/part.{n}") for n in step.tools]
        )


def _give_words(made: Answer, parts: Parts) -> None:
    """Rounds that keep no words: what was shown before the calls of a round, it said."""
    texts: dict[int, list[str]] = {}
    waiting: list[Flow] = []
    for item in parts.flow:
        if not isinstance(item, Tool):
            if not (isinstance(item, Kept) and item.spoken):
                waiting.append(item)
        elif made.homes[item.number] >= 0:
            texts.setdefault(made.homes[item.number], []).append(_text(waiting))
            waiting = []
    if not made.rounds[-1].toolCalls:
        texts.setdefault(len(made.rounds) - 1, []).append(_text(waiting))
    for number, found in texts.items():
        response = "\n\n".join(text for text in found if text)
        made.rounds[number] = msgspec.structs.replace(made.rounds[number], response=response)


def _text(flow: list[Flow]) -> str:
    """The words of a run of parts; links alone are none."""
    if not any(isinstance(item, Words) and begins(item) for item in flow):
        return ""
    return "\n\n".join(step.text for step in steps_of(flow))


def _news(made: Answer, parts: Parts) -> list[Flow]:
    """What stands behind the part of the last call that has one, and no round tells; warnings and tasks
    are not the model's words."""
    found: list[Flow] = []
    run: list[Flow] = []
    numbered = [(n, call.part) for n, group in enumerate(made.calls) for call in group]
    at, last = next(((n, part) for n, part in reversed(numbered) if part), (-1, None))
    later = [held.response or "" for held in made.rounds[at + 1 :]]
    behind = last is None
    for item in parts.flow:
        if behind and isinstance(item, Tool):
            found += _unheard(run, made.rounds, later)
            run = []
            part = parts.tools[item.number]
            if made.homes[item.number] < 0 and not tools.is_announcement(part, made.calls):
                found.append(item)
        elif behind and not (isinstance(item, Kept) and item.spoken):
            run.append(item)
        behind = behind or (isinstance(item, Tool) and parts.tools[item.number] is last)
    return found + _unheard(run, made.rounds, later)


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
    if all(any(text in (held.response or "") for held in rounds) for text in texts):
        start = len(run)
    return [*(item for item in run[:start] if isinstance(item, Thought)), *run[start:]]


def _heard(run: list[Flow], response: str) -> int:
    """How many parts, from the first on, a round says one after the other; none where that is but a
    little of what it says."""
    at = said = heard = 0
    for number, item in enumerate(run if response else ()):
        text = item.text.strip() if isinstance(item, Words) else ""
        found = response.find(text, at)
        if found < 0:
            break
        if text:
            at, said, heard = found + len(text), said + len(text), number + 1
    return heard if 2 * said >= len(response.strip()) else 0
