"""Real agents that talked to a scripted model: what comes out is what was said, word for word.

`<corpus>/lab/<agent>-<version>/<scenario>` holds the agent's files (`home`), its hook payloads
(`hooks`), what its processes printed (`stream`), and `truth.json`: all that was typed, answered,
called, returned and counted. A value may be missing from the output only where it stands nowhere in
the files that were read.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness import corpus, facts_of, origins_of, reduce_all
from unspool.trajectory import Message, Trajectory

AGENTS: dict[str, str] = {
    "copilot-cli": "copilot-cli",
}
"""Agent of the lab → the source that its conversations have."""

CHANNELS = (("home",), ("home", "hooks"), ("home", "stream"), ("home", "hooks", "stream"))


class Run(NamedTuple):
    folder: Path
    channels: tuple[str, ...]

    @property
    def name(self) -> str:
        agent, scenario = self.folder.parts[-2:]
        return f"{agent}-{scenario}-{'+'.join(self.channels)}"


def _runs() -> Iterator[Run]:
    root = corpus("lab")
    for folder in sorted(root.glob("*/*/truth.json")) if root is not None else ():
        if folder.parts[-3].rpartition("-")[0] in AGENTS:
            for channels in CHANNELS:
                if all((folder.parent / channel).exists() for channel in channels):
                    yield Run(folder.parent, channels)


@pytest.mark.parametrize("run", [*_runs()] or [None], ids=lambda run: run.name if run else "none")
def test_equals_the_truth(run: Run | None) -> None:
    if run is None:
        pytest.skip("no recordings on this machine")
    truth = json.loads((run.folder / "truth.json").read_bytes())
    folders = [run.folder / channel for channel in run.channels]
    origins = [origin for folder in folders for origin in origins_of(folder)]
    conversations = {t.conversation_id: t for t in reduce_all(facts_of(origins))}
    files = _Files(folders)
    wrong = [
        f"{where}: {wanted!r} but {got!r}"
        for where, wanted, got in _differences(truth, conversations, AGENTS[truth["agent"]])
        if wanted is None or files.hold(wanted)
    ]
    assert not wrong, "\n".join(wrong)


Difference = tuple[str, Any, Any]
"""Where, what was said or counted, what came out."""


def _differences(
    truth: dict[str, Any], conversations: dict[str, Trajectory], source: str
) -> Iterator[Difference]:
    threads = {thread["key"]: thread for thread in truth["threads"]}
    for session in truth["sessions"]:
        found = conversations.get(session["id"])
        if found is None or found.source != source:
            yield session["id"], source, found and found.source
            continue
        main = threads["main"]
        steps = [main["steps"][number] for number in session["path"]]
        yield from _compare("main", steps, found, session["copied"])
        summaries = [compaction["summary"] for compaction in main["compactions"]]
        yield from _pairs("main: compactions", summaries, _summaries(found))
    for key, thread in threads.items():
        if key == "main":
            continue
        call = thread["parent"]["call_id"]
        started = [t for t in conversations.values() if t.parent and t.parent.tool_call_id == call]
        if len(started) != 1:
            yield f"{key}: sub-agents of {call}", None, len(started)
            continue
        asked = {"type": "prompt", "text": thread["prompt"]}
        yield from _compare(key, [asked, *thread["steps"]], started[0], 0)
    parents = [t.parent for t in conversations.values() if t.parent is not None]
    children = sum(1 for parent in parents if parent.kind == "subagent")
    if children != len(threads) - 1:
        yield "sub-agents", None, (len(threads) - 1, children)


def _compare(
    thread: str, steps: list[dict[str, Any]], found: Trajectory, copied: int
) -> Iterator[Difference]:
    prompts = [s["text"] for s in steps if s["type"] == "prompt"]
    asked = [m for m in found.messages if _is_prompt(m)]
    yield from _pairs(f"{thread}: prompt", prompts, [_typed(m) for m in asked])
    answers = [s for s in steps if s["type"] == "answer" and s["status"] == "ok"]
    said = [m for m in found.messages if m.role == "assistant" and m.kind is None]
    cut = [s["text"] or "" for s in steps if s["type"] == "answer" and s["status"] == "cut"]
    said = [m for m in said if m.usage or not any(text.startswith(m.content) for text in cut)]
    yield from _pairs(
        f"{thread}: answer", [s["text"] or "" for s in answers], [m.content for m in said]
    )
    results = {m.tool_call_id: m.content for m in found.messages if m.role == "tool"}
    for number, (step, message) in enumerate(zip(answers, said, strict=False)):
        where = f"{thread}: answer {number}"
        yield from _pairs(
            f"{where}: reasoning", [step["reasoning"] or ""], [message.thinking or ""]
        )
        yield from _pairs(f"{where}: model", [step["model"]], [message.model])
        yield from _pairs(f"{where}: tokens", _tokens(step["usage"]), _counted(message))
        calls = [(call["id"], call["name"]) for call in step["calls"]]
        yield from _pairs(
            f"{where}: calls", calls, [(c.id, c.name) for c in message.tool_calls or ()]
        )
        for call, asked_for in zip(step["calls"], message.tool_calls or (), strict=False):
            arguments = call.get("repeated", call["arguments"])
            yield from _pairs(
                f"{where}: {call['id']}", [arguments], [_decoded(asked_for.arguments)]
            )
            got = results.get(call["id"])
            yield from _pairs(f"{where}: result of {call['id']}", [_result(call)], [got])
            if call.get("child") and not asked_for.child_id:
                yield f"{where}: sub-agent of {call['id']}", None, None
    sums = [sum(figures) for figures in zip(*(_tokens(s["usage"]) for s in answers), strict=True)]
    usage = found.usage
    told = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens] if usage else []
    if not copied and sums != told:
        yield f"{thread}: all tokens", None, (sums, told)


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and message.kind in (None, "command", "steering")


def _typed(message: Message) -> str:
    return message.content if message.typed is None else message.typed


def _summaries(found: Trajectory) -> list[str]:
    marks = [m for m in found.marks or () if m.kind == "compaction"]
    return [str((mark.data or {}).get("summary", "")) for mark in marks]


def _tokens(usage: dict[str, int]) -> list[int]:
    """All input, output, and of the input what was read from a cache."""
    inputs = usage["input"] + usage["cache_read"] + usage["cache_write"]
    return [inputs, usage["output"], usage["cache_read"]]


def _counted(message: Message) -> list[int]:
    usage = message.usage
    figures = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) if usage else ()
    return [figure or 0 for figure in figures]


def _decoded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _result(call: dict[str, Any]) -> str | None:
    content = (call["result"] or {}).get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content


def _pairs(where: str, wanted: list[Any], got: list[Any]) -> Iterator[Difference]:
    if wanted == got:
        return
    if len(wanted) != len(got):
        yield where, None, (wanted, got)
        return
    for one, other in zip(wanted, got, strict=True):
        if one != other:
            yield where, one, other


class _Files:
    """The bytes of all files that were read: what stands in none of them cannot come out."""

    def __init__(self, folders: list[Path]) -> None:
        self.data = b"\n".join(
            path.read_bytes()
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        )

    def hold(self, value: Any) -> bool:
        if isinstance(value, int):
            return re.search(rb"(?<!\d)%d(?!\d)" % value, self.data) is not None
        text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
        written = (json.dumps(text, ensure_ascii=False), json.dumps(text))
        return any(form[1:-1].encode("utf-8", "replace") in self.data for form in written)
