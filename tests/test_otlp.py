"""Conversations written as OTLP are valid traces, and are the same conversations when read back."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.harness import CASES, case_id, cases, facts_of, origins_of, reduce_all
from tests.test_otlp_protobuf import with_bytes
from unspool.cli import group
from unspool.sinks import Family
from unspool.sinks.otlp import write
from unspool.trajectory import Branch, Message, ToolCall, ToolFunction, Trajectory, Usage


def families(trajectories: list[Trajectory]) -> list[Family]:
    """Every conversation that no other one of them started, with all that it started."""
    known = {(t.source, t.conversation_id) for t in trajectories}
    children: dict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    roots = []
    for one in trajectories:
        parent = one.parent
        key = (parent.source or one.source, parent.conversation_id) if parent else None
        if parent is not None and parent.kind == "subagent" and key in known:
            children[key].append(one)  # type: ignore[index]
        else:
            roots.append(one)
    made = []
    for root in roots:
        members = [root]
        for member in members:
            members += children.pop((member.source, member.conversation_id), [])
        made.append(Family(root, tuple(members[1:])))
    return made


def requests_of(lines: bytes) -> list[ExportTraceServiceRequest]:
    return [
        ParseDict(with_bytes(json.loads(line)), ExportTraceServiceRequest())
        for line in lines.splitlines()
    ]


def tokens(usage: Usage | None) -> list[int | None]:
    usage = usage or Usage()
    return [
        usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cache_write_tokens,
        usage.reasoning_tokens,
    ]  # fmt: skip


def words(text: str) -> str:
    """JSON, which may be a value in a span, without its blanks."""
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return text


def told(messages: list[Message]) -> list[Any]:
    """Prompts, answers, calls and tokens, in order. A call stands once: at its first place."""
    steps: list[Any] = []
    known: set[str] = set()
    for message in messages:
        if message.role == "user" and (message.content or message.attachments):
            steps.append(("user", message.content, message.typed, message.kind))
        elif message.role == "assistant":
            new = [call for call in message.tool_calls or () if call.id not in known]
            calls = [(call.id, call.name, words(call.arguments)) for call in new]
            known.update(call.id for call in new)
            spent = tokens(None if message.copied else message.usage)
            steps.append((message.content, message.thinking, calls, message.model, spent))
    return steps


def results(messages: list[Message]) -> dict[str | None, str]:
    return {m.tool_call_id: m.content for m in messages if m.role == "tool"}


def abandoned(trajectory: Trajectory) -> list[str]:
    messages = [m for branch in trajectory.branches or () for m in branch.messages]
    return sorted(m.content for m in messages if m.role in ("user", "assistant") and m.content)


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_reads_back(case: Path, tmp_path: Path) -> None:
    trajectories = reduce_all(facts_of(origins_of(case / "input")))
    for number, family in enumerate(families(trajectories)):
        lines = b"".join(piece.data for piece in write(family, {}))
        ids = set()
        for request in requests_of(lines):
            for span in request.resource_spans[0].scope_spans[0].spans:
                assert (len(span.trace_id), len(span.span_id)) == (16, 8)
                assert span.end_time_unix_nano >= span.start_time_unix_nano
                assert not span.parent_span_id or span.parent_span_id in ids
                assert span.span_id not in ids
                ids.add(span.span_id)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "traces.jsonl").write_bytes(lines)
        again = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}
        for one in (family.root, *family.descendants):
            if not one.messages:
                continue
            back = again.pop(one.conversation_id)
            assert back.source == "otel"
            assert told(back.messages) == told(one.messages)
            assert results(back.messages) == results(one.messages)
            assert tokens(back.usage) == tokens(one.usage)
            assert abandoned(back) == abandoned(one)
            if one is not family.root and one.parent and back.parent:
                assert back.parent.conversation_id == one.parent.conversation_id
                assert back.parent.tool_call_id == one.parent.tool_call_id
        assert not again


@pytest.mark.parametrize("index", [2, 4])
@pytest.mark.parametrize("ending", [[], [Message("assistant", "Listed.")]])
def test_calls_of_an_abandoned_branch_stay_in_it(
    index: int, ending: list[Message], tmp_path: Path
) -> None:
    call = ToolCall(id="c1", function=ToolFunction("ls", "{}"))
    branch = [
        Message("user", "List them."),
        Message("assistant", "", tool_calls=[call]),
        Message("tool", "a.txt", tool_call_id="c1"),
        *ending,
    ]
    words = [("user", "Hello."), ("assistant", "Hi."), ("user", "Go on."), ("assistant", "Done.")]
    one = Trajectory("c", [Message(role, text) for role, text in words], source="codex")  # type: ignore[arg-type]
    one.branches = [Branch(index, branch)]
    (tmp_path / "traces.jsonl").write_bytes(b"".join(p.data for p in write(Family(one), {})))
    (back,) = reduce_all(facts_of(origins_of(tmp_path)))
    assert back.branches is not None
    assert [branch.index for branch in back.branches] == [index]
    for read, written in ((back.messages, one.messages), (back.branches[0].messages, branch)):
        assert [(m.role, m.content) for m in read] == [(m.role, m.content) for m in written]
        assert [m.tool_call_id for m in read] == [m.tool_call_id for m in written]


def test_extract_and_export_write_the_same_traces(tmp_path: Path) -> None:
    folder = str(CASES / "claude_code/subagents/input")
    run = CliRunner()
    made = []
    for workers in ("1", "2"):
        output = tmp_path / f"{workers}.jsonl"
        done = run.invoke(
            group, ["extract", folder, "--to", "otlp", "-o", str(output), "--workers", workers]
        )
        assert done.exit_code == 0
        made.append(output.read_bytes())
    assert made[0] == made[1]
    (first, *_) = (json.loads(line) for line in made[0].splitlines())
    span = first["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    ids = {pair["key"]: pair["value"].get("stringValue") for pair in span["attributes"]}
    ident = ids["gen_ai.conversation.id"]
    done = run.invoke(group, ["export", "--from", folder, ident, "--to", "otlp"])
    assert done.exit_code == 0
    assert set(done.stdout_bytes.splitlines()) <= set(made[0].splitlines())


def test_long_conversations_are_cut_into_requests() -> None:
    texts = [Message("user" if n % 2 == 0 else "assistant", "word " * 50_000) for n in range(20)]
    pieces = [p.data for p in write(Family(Trajectory("long", texts, source="codex")), {})]
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 2 << 20
    spans = [
        span for data in pieces for request in requests_of(data)
        for span in request.resource_spans[0].scope_spans[0].spans
    ]  # fmt: skip
    assert len(spans) == 11
    assert len({span.trace_id for span in spans}) == 1
