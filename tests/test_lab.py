"""Recordings of real agents whose whole truth is known, each compared with what comes out of its files.

A recording holds the agent's home, the hook log and what its processes printed, and `truth.json`: what
was typed and what the model answered, thread by thread. A value that unspool does not give is
excused only where it stands nowhere in the files that were read.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness import corpus, facts_of, origins_of, reduce_all
from unspool.trajectory import Message, Trajectory, Usage

Value = dict[str, Any]


def _text(content: Any, between: str) -> str:
    """Text as the model got it: a string, or blocks of which the text counts."""
    if isinstance(content, list):
        texts = [block["text"] for block in content if block.get("type") in ("text", "input_text")]
        return between.join(text.rstrip("\n") if between else text for text in texts)
    if isinstance(content, dict):  # Gemini's {"output": …} or {"error": …}
        content = content.get("output", content.get("error"))
    return content or ""


def _with_reminders(message: Message) -> str:
    """Claude Code puts reminders behind a result when it sends it; they stand apart from it."""
    reminders = (message.extra or {}).get("reminders", [])
    return "\n\n".join(part for part in (message.content, *reminders) if part)


INPUTS = (("home",), ("home", "hooks"), ("home", "stream"), ("home", "hooks", "stream"))
ALONE = (*INPUTS, ("stream",))


class Agent(NamedTuple):
    """How one agent's recordings are read."""

    source: str
    result: Callable[[Message], str] = lambda message: message.content
    """What the model got of a call."""
    between: str = "\n\n"
    """What stands between the text blocks of a result."""
    counts_summaries: bool = False
    """Whether a conversation's tokens are those of its summaries too: the agent counts each one."""
    counts_apart: bool = False
    """Whether its service counts the reasoning beside the output: completion tokens are both."""
    inputs: tuple[tuple[str, ...], ...] = INPUTS
    """What is read: the printed streams and hooks of some agents are not."""

    def output(self, step: Value) -> int:
        usage: dict[str, int] = step["usage"]
        return usage["output"] + (usage["reasoning"] or 0 if self.counts_apart else 0)


AGENTS = {
    "claude-code": Agent("claude-code", result=_with_reminders, inputs=ALONE),
    "codex": Agent("codex", between="", counts_summaries=True),
    "copilot-cli": Agent("copilot-cli", between="\n", inputs=ALONE),
    "gemini": Agent("gemini-cli", counts_summaries=True, counts_apart=True),
    "opencode": Agent("opencode", counts_summaries=True),
    "pi": Agent("pi", counts_summaries=True),
    "qwen": Agent("qwen-code", between="", counts_summaries=True),
}
"""Agent of the lab → how its recordings are read."""


class Recording(NamedTuple):
    agent: Agent
    folder: Path
    inputs: tuple[str, ...]


def _recordings() -> Iterator[Any]:
    lab = corpus("lab")
    for truth in sorted(lab.glob("*/*/truth.json")) if lab is not None else ():
        folder = truth.parent
        agent = AGENTS.get(folder.parent.name.rpartition("-")[0])
        for inputs in agent.inputs if agent is not None else ():
            if agent is not None and all((folder / name).is_dir() for name in inputs):
                name = f"{folder.parent.name}/{folder.name}:{'+'.join(inputs)}"
                yield pytest.param(Recording(agent, folder, inputs), id=name)


COUNTS = re.compile("(?i)token|usage|cache")
"""Names under which tokens are counted: a number elsewhere is none, though it may be equal."""


class Words:
    """Every text and count in the files that were read, to tell whether a value is among them."""

    def __init__(self, folder: Path, inputs: tuple[str, ...], session: str) -> None:
        self.texts: list[str] = []
        self.numbers: set[int | float] = set()
        self.objects: set[str] = set()
        """Every object in them, also as a text within another."""
        self.session = session
        """Where it is named, only its own lines are read: what another one says is not told of it."""
        for name in inputs:
            for path in sorted((folder / name).rglob("*")):
                if path.suffix in (".jsonl", ".json", ".log"):
                    self._read(path)
                elif path.suffix == ".db":
                    self._read_database(path)
        self.text = "\0".join(self.texts)

    def _read(self, path: Path) -> None:
        data = path.read_text(encoding="utf-8", errors="replace")
        for line in [data] if path.suffix == ".json" else data.split("\n"):
            at = line.find("{")
            if at >= 0 and (self.session in line or self.session in path.name):
                try:
                    self._take(json.loads(line[at:]))
                except ValueError:
                    self.texts.append(line)

    def _read_database(self, path: Path) -> None:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
            for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                for row in base.execute(f'SELECT * FROM "{table}"'):
                    for value in row:
                        try:
                            self._take(json.loads(value))
                        except (TypeError, ValueError):
                            self._take(value)

    def _take(self, value: Any, counts: bool = False) -> None:
        if isinstance(value, str):
            self.texts.append(value)
            if value[:1] == "{":
                with suppress(ValueError):
                    self._take(json.loads(value))
        elif isinstance(value, dict):
            self.objects.add(json.dumps(value, sort_keys=True))
            for name, inner in value.items():
                self._take(inner, counts or bool(COUNTS.search(name)))
        elif isinstance(value, list):
            texts = [item.get("text") for item in value if isinstance(item, dict)]
            if len(texts) > 1 and all(isinstance(text, str) for text in texts):
                self.texts.append("\n\n".join(map(str, texts)))
            for inner in value:
                self._take(inner, counts)
        elif counts and isinstance(value, int | float):
            self.numbers.add(value)

    def hold(self, value: Any) -> bool:
        if isinstance(value, dict):
            return json.dumps(value, sort_keys=True) in self.objects
        if isinstance(value, int | float):
            return value in self.numbers
        return isinstance(value, str) and value in self.text


@cache
def _words(folder: Path, inputs: tuple[str, ...], session: str) -> Words:
    return Words(folder, inputs, session)


def _arguments(call: Any) -> Any:
    try:
        return json.loads(call.function.arguments or "{}")
    except ValueError:
        return call.function.arguments


def _counted(usage: Usage | None) -> Value:
    """All input, what of it was read from a cache and written to one, and the output."""
    usage = usage or Usage()
    return {
        "prompt": usage.prompt_tokens,
        "cache_read": usage.cached_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.completion_tokens,
    }


def _steps(messages: list[Message], agent: Agent) -> list[Value]:
    """What a trajectory says, in the words of a truth."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    steps: list[Value] = []
    for message in messages:
        if message.role == "user" and message.typed is not None:
            steps.append({"type": "prompt", "text": message.typed})
        elif message.role == "assistant" and message.kind is None and not _is_empty(message):
            steps.append(
                {
                    "type": "answer",
                    "text": message.content or None,
                    "reasoning": message.thinking,
                    "model": message.model,
                    "usage": _counted(message.usage),
                    "calls": [
                        {
                            # Gemini CLI puts the tool's name before the model's id.
                            "id": call.id.removeprefix(f"{call.name}__"),
                            "name": call.name,
                            "arguments": _arguments(call),
                            "result": agent.result(results[call.id])
                            if call.id in results
                            else None,
                            "child": call.child_id,
                        }
                        for call in message.tool_calls or ()
                    ],
                }
            )
    return steps


def _is_empty(message: Message) -> bool:
    """An answer that was begun, of which nothing came."""
    return not (message.content or message.thinking or message.tool_calls or message.usage)


def _differences(
    expected: list[Value], messages: list[Message], agent: Agent, words: Words
) -> Iterator[str]:
    actual = _steps(messages, agent)
    # An answer of which no word was written down is nowhere to be had.
    expected = [step for step in expected if _is_anywhere(step, words)]
    for number, step in enumerate(expected):
        if number >= len(actual):
            yield f"step {number} is missing: {str(step)[:200]}"
            continue
        got = actual[number]
        if step["type"] != got["type"]:
            yield f"step {number} is {str(got)[:200]} instead of {str(step)[:200]}"
            return
        yield from _different(f"step {number} text", step["text"], got["text"], words)
        if step["type"] == "prompt":
            continue
        for name in ("reasoning", "model"):
            yield from _different(f"step {number} {name}", step[name], got[name], words)
        usage = {**step["usage"], "prompt": _prompt_tokens(step), "output": agent.output(step)}
        for name, count in got["usage"].items():
            yield from _different(f"step {number} {name}", usage[name], count, words)
        calls = step["calls"]
        if [call["id"] for call in calls] != [call["id"] for call in got["calls"]]:
            yield f"step {number}: other calls"
            continue
        for call, mine in zip(calls, got["calls"], strict=True):
            at = f"step {number} {call['id']}"
            yield from _different(f"{at} name", call["name"], mine["name"], words)
            yield from _different(f"{at} arguments", call["arguments"], mine["arguments"], words)
            if not call.get("result"):
                continue  # it was never sent
            result = _text(call["result"]["content"], agent.between)
            yield from _different(f"{at} result", result, mine["result"], words)
    for got in actual[len(expected) :]:
        yield f"one step too many: {str(got)[:300]}"


def _prompt_tokens(step: Value) -> int:
    usage: dict[str, int] = step["usage"]
    return usage["input"] + usage["cache_read"] + usage["cache_write"]


def _is_anywhere(step: Value, words: Words) -> bool:
    """Whether anything of a step was written down: of an answer that was cut off, the agent may have
    kept the beginning, or nothing."""
    if step["type"] == "prompt":
        # OpenCode keeps what came by the command line in quotes, as a shell would have it.
        quoted = step["text"].replace('"', '\\"')
        known = any(map(words.hold, (step["text"], quoted)))
        return known or not (words.session or step["text"].startswith("/"))
    cut = None if step["status"] == "ok" else 20
    starts = [(step.get(name) or "")[:cut] for name in ("reasoning", "text")]
    starts += [call["id"] for call in step.get("calls") or ()]
    return any(start and words.hold(start) for start in starts)


def _different(name: str, expected: Any, actual: Any, words: Words) -> Iterator[str]:
    if expected == actual or (not expected and not actual):
        return
    is_text = isinstance(expected, str | dict) and type(actual) is type(expected)
    # What was cut off is known as far as it was written down.
    if (
        isinstance(expected, str)
        and actual
        and expected.startswith(actual)
        and not words.hold(expected)
    ):
        return
    if not words.hold(expected) and (not actual or (is_text and words.hold(actual))):
        return
    yield f"{name} is {str(actual)[-300:]!r} instead of {str(expected)[-300:]!r}"


@pytest.mark.parametrize("recording", [*_recordings()])
def test_recording_equals_its_truth(recording: Recording) -> None:
    agent, folder, inputs = recording
    truth = json.loads((folder / "truth.json").read_text())
    origins = [origin for name in inputs for origin in origins_of(folder / name)]
    trajectories = {t.conversation_id: t for t in reduce_all(facts_of(origins))}
    threads = {thread["key"]: thread for thread in truth["threads"]}
    problems: list[str] = []
    for session in truth["sessions"]:
        trajectory = trajectories.pop(session["id"])
        alone = inputs == ("stream",)
        # Of what was before a compaction, a fork of Claude Code keeps nothing.
        apart = (alone or session["copied"]) and agent.source == "claude-code"
        words = _words(folder, inputs, session["id"] if apart else "")
        assert trajectory.source == agent.source
        # A stream does not tell that the conversation went on from an earlier answer.
        path = sorted((*session["path"], *session["abandoned"])) if alone else session["path"]
        steps = [threads["main"]["steps"][n] for n in path]
        problems += _differences(steps, trajectory.messages, agent, words)
        spent = threads["main"].get("compactions", ()) if agent.counts_summaries else ()
        problems += _totals(steps[session["copied"] :], trajectory, words, agent, spent)
        abandoned = [threads["main"]["steps"][n] for n in session["abandoned"] if not alone]
        branches = [m for branch in trajectory.branches or () for m in branch.messages]
        problems += _differences(abandoned, branches, agent, words)
        forked = session["forked_from"]
        named = trajectory.parent and trajectory.parent.conversation_id
        if words.hold(forked) and named != forked:
            problems.append("the fork does not name its parent")
        problems += _compactions(threads["main"], trajectory, session["path"], words)
    for thread in truth["threads"]:
        if "parent" not in thread:
            continue
        children = [
            t
            for t in trajectories.values()
            if t.parent
            and (t.parent.tool_call_id or "").rpartition("__")[2] == thread["parent"]["call_id"]
        ]
        words = _words(folder, inputs, "")
        # The last answer is the caller's result: it does not tell that a sub-agent wrote it.
        told = any(_is_anywhere(step, words) for step in thread["steps"][:-1])
        if not children and not told:
            continue  # of a sub-agent's sub-agent, a stream prints nothing
        if len(children) != 1:
            problems.append(f"{len(children)} sub-agents called by {thread['parent']['call_id']}")
            continue
        child = trajectories.pop(children[0].conversation_id)
        steps = [{"type": "prompt", "text": thread["prompt"]}, *thread["steps"]]
        found = _differences(steps, child.messages, agent, words)
        problems += [f"{thread['key']}: {problem}" for problem in found]
        problems += [f"{thread['key']}: {p}" for p in _totals(steps[1:], child, words, agent)]
    problems += [f"a conversation too many: {name}" for name in trajectories]
    assert not problems, "\n".join(problems)


def _totals(
    steps: list[Value],
    trajectory: Trajectory,
    words: Words,
    agent: Agent,
    compactions: Sequence[Value] = (),
) -> Iterator[str]:
    """A conversation's own tokens: no sub-agent's, nothing copied; its summaries', where told."""
    answers = [step for step in steps if step["type"] == "answer"]
    # Nobody counts an answer that was cut off; what was counted before it ended is no count.
    answers = [step for step in answers if step["status"] == "ok"]
    if not answers:
        return
    answers += compactions
    expected = {
        "prompt": sum(map(_prompt_tokens, answers)),
        "output": sum(map(agent.output, answers)),
    }
    usage = trajectory.usage
    actual = {
        "prompt": usage.prompt_tokens if usage else None,
        "output": usage.completion_tokens if usage else None,
    }
    told = {
        "prompt": [m.usage.prompt_tokens or 0 for m in trajectory.messages if m.usage],
        "output": [m.usage.completion_tokens or 0 for m in trajectory.messages if m.usage],
    }
    for name, count in actual.items():
        # Where not all answers tell it, and nobody tells the sum, it is the sum of those that do.
        if expected[name] not in words.numbers and count == (sum(told[name]) or None):
            actual[name] = expected[name]
    if actual != expected:
        yield f"the totals are {actual} instead of {expected}"
    by_model = ((trajectory.model_usage or {}).get("by_model") or {}).values()
    spent = sum(model.get("prompt_tokens") or 0 for model in by_model)
    if usage and by_model and spent != (usage.prompt_tokens or 0):
        yield f"all models together have {spent} tokens of input, the whole {usage.prompt_tokens}"


def _compactions(
    thread: Value, trajectory: Trajectory, path: list[int], words: Words
) -> Iterator[str]:
    expected = [
        c
        for c in thread.get("compactions", ())
        if c["after_steps"] <= len(path) and words.hold(_kept_summary(c))
    ]
    marks = [mark for mark in trajectory.marks or () if mark.kind == "compaction"]
    # Pi asks for two summaries, and joins them, where a compaction falls into the middle of a turn.
    times = {(compaction["run"], compaction["after_steps"]) for compaction in expected}
    if len(marks) != len(times):
        yield f"{len(marks)} compactions instead of {len(times)}"
    summaries = [m.content for m in trajectory.messages if m.kind == "summary"]
    summaries += [str((mark.data or {}).get("summary", "")) for mark in marks]
    for told in map(_kept_summary, expected):
        if not any(told in summary for summary in summaries):
            yield f"no summary {told[:200]!r}"


def _kept_summary(compaction: Value) -> str:
    """The agent keeps what stands between the marks of its summary."""
    summary: str = compaction["summary"]
    return summary.rpartition("<summary>")[2].partition("</summary>")[0].strip()


def _hook_logs() -> Iterator[Any]:
    lab = corpus("lab")
    for truth in sorted(lab.glob("claude-code-*/*/truth.json")) if lab is not None else ():
        folder = truth.parent
        for log in sorted((folder / "hooks").glob("*")):
            yield pytest.param(log, id=f"{folder.parent.name}/{folder.name}/{log.name}")


@pytest.mark.parametrize("log", [*_hook_logs()])
def test_hooks_alone_tell_words_calls_and_results_in_order(log: Path) -> None:
    """Hooks tell texts and calls apart, and neither reasoning nor tokens of the main thread."""
    folder = log.parent.parent
    truth = json.loads((folder / "truth.json").read_text())
    trajectories = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(log)))}
    words = _words(folder, ("hooks",), "")
    threads = {thread["key"]: thread for thread in truth["threads"]}
    for session in truth["sessions"]:
        path = sorted((*session["path"][session["copied"] :], *session["abandoned"]))
        steps = [threads["main"]["steps"][n] for n in path]
        assert _told(trajectories.pop(session["id"])) == _tellable(steps, words)
    for thread in truth["threads"]:
        if "parent" in thread:
            # Which call started it is told when that returns: not where it was interrupted.
            by_call = {t.parent.tool_call_id: t for t in trajectories.values() if t.parent}
            child = by_call.get(thread["parent"]["call_id"]) or by_call[None]
            assert _told(trajectories.pop(child.conversation_id)) == _tellable(
                thread["steps"], words
            )
            last = thread["steps"][-1]
            if words.hold(last["usage"]["input"]):  # the call hands the last answer's tokens back
                assert child.usage is not None
                assert child.usage.prompt_tokens == _prompt_tokens(last)
                assert child.usage.completion_tokens == last["usage"]["output"]
    assert not trajectories


def _tellable(steps: list[Value], words: Words) -> list[tuple[Any, ...]]:
    """What a truth's steps say, as far as it stands in the log."""
    told: list[tuple[Any, ...]] = []
    for step in steps:
        if step.get("text") and words.hold(step["text"]):
            told.append((step["type"], step["text"]))
        for call in sorted(step.get("calls") or (), key=lambda call: str(call["id"])):
            result = _text((call.get("result") or {}).get("content"), "\n\n")
            result = result.partition("<system-reminder>")[0].removesuffix("\n\n")
            if words.hold(call["id"]):
                kept = result if words.hold(result) or not result else None
                # As the model gave them, or where that stands nowhere as the agent filled them in.
                given = call["arguments"]
                given = given if words.hold(given) else call.get("repeated", given)
                told.append((call["id"], call["name"], given, kept))
    return told


def _told(trajectory: Trajectory) -> list[tuple[Any, ...]]:
    results = {m.tool_call_id: m for m in trajectory.messages if m.role == "tool"}
    told: list[tuple[Any, ...]] = []
    for message in trajectory.messages:
        if message.role == "user" and message.typed is not None:
            told.append(("prompt", message.typed))
        elif message.role == "assistant" and message.content and message.kind is None:
            told.append(("answer", message.content))
        for call in message.tool_calls or ():
            result = results[call.id].content if call.id in results else None
            told.append((call.id, call.name, _arguments(call), result))
            if len(told) > 1 and len(told[-2]) == 4 and told[-2][0] > told[-1][0]:
                told[-2:] = [told[-1], told[-2]]  # hooks of calls made at once come in any order
    return told
