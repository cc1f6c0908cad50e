"""Long conversations: kept narrow, put aside, written some messages at a time; and the same as ever."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from tests.harness import CASES
from unspool import extract, trajectory
from unspool.cli import extract as cli_extract
from unspool.cli import group
from unspool.io import longtext
from unspool.pipeline import chunks
from unspool.sources.copilot_telemetry import envelope

SOURCES = sorted(path.name for path in CASES.iterdir())


@pytest.fixture
def everything_is_long() -> Iterator[None]:
    with (
        patch.object(longtext, "LONG", 8),
        patch.object(longtext, "STEP", 7),
        patch.object(trajectory, "_BATCH_CHARS", 5),
        patch.object(chunks, "CHUNK_BYTES", 1),
        patch.object(cli_extract, "MEGABYTE", 1),
    ):
        yield


def written(folder: Path, out: Path, *options: str) -> tuple[bytes, bytes]:
    arguments = ["extract", str(folder), "-q", "--workers", "1", "-o", str(out / "made.jsonl")]
    told = out / "problems.jsonl"
    done = CliRunner().invoke(group, [*arguments, "--problems", str(told), *options])
    assert done.exit_code == 0, done.output
    return (out / "made.jsonl").read_bytes(), told.read_bytes()


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_bytes_go_out(source: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Through every step: to disk fact by fact, and out again message by message."""
    expected = written(CASES / source, tmp_path)
    request.getfixturevalue("everything_is_long")
    assert written(CASES / source, tmp_path, "--memory-limit", "1") == expected


def event(name: str, **properties: Any) -> bytes:
    """What is no text is JSON in a text, as the sender has it."""
    told = {k: v if isinstance(v, str) else json.dumps(v) for k, v in properties.items()}
    made = {"name": f"GitHub.copilot-chat/{name}", "time": "2026-03-04T10:00:00Z"}
    data = json.dumps({**made, "properties": {"conversationId": "c😀", **told}}, ensure_ascii=False)
    return data.encode() + b"\n"


REQUEST = "<context>\nnow 😀\n</context>\n<userRequest>\nsay 😀 to #file:a😀.py\n</userRequest>"
EMOJI = [
    event(
        "engine.messages",
        messagesJson=[
            {"role": "system", "content": "You help 😀."},
            {"role": "user", "content": REQUEST},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I 😀 look"},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"a😀": ["😀", 1.5]}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "it says 😀"}],
            },
            {"role": "assistant", "content": "done 😀"},
        ],
        fileExcerpt="of 😀",
        **{"request.option.tools": [{"name": "read", "description": "reads 😀 files"}]},
    ),
    event(
        "conversation.messageText",
        messageText="say 😀 to #file:a😀.py",
        source="user",
        messageId="m1",
        headerRequestId="r1",
        turnIndex=0,
        mode="agent😀",
    ),
    event("conversation.messageText", messageText="hm 😀", source="model", turnIndex="7"),
]


@pytest.mark.parametrize("options", [(), ("--regex", "it says 😀$"), ("--regex", "nobody 😀")])
def test_emoji_everywhere(
    tmp_path: Path, request: pytest.FixtureRequest, options: tuple[str, ...]
) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"".join(EMOJI))
    expected = written(tmp_path / "log.jsonl", tmp_path, *options)
    assert bool(expected[0]) == ("nobody 😀" not in options)
    request.getfixturevalue("everything_is_long")
    for limit in ("1", "1M"):
        assert (
            written(tmp_path / "log.jsonl", tmp_path, "--memory-limit", limit, *options) == expected
        )


HISTORY = [
    {"role": "system", "content": "You help 😀."},
    {"role": "user", "content": "say 😀"},
    {"role": "assistant", "content": "I say 😀"},
    {"role": "user", "content": [{"type": "text", "text": "again 😀", "cache_control": {}}]},
]
CALLS = [
    event("engine.messages", modelCallId="c1", messagesJson=HISTORY[:2]),
    event("engine.messages", modelCallId="c1", baseModel="gpt-5", messagesJson=HISTORY[2:3]),
    event("engine.messages", modelCallId="c2", messagesJson=[HISTORY[0], *HISTORY[1:]]),
    event(
        "engine.messages",
        modelCallId="c3",
        messagesJson=[
            {"content": "You help 😀.", "role": "system"},  # the same, spelled otherwise
            *HISTORY[1:3],
            {"role": "user", "content": "again 😀"},
            {"role": "assistant", "content": "and 😀 again"},
        ],
    ),
    event("conversation.messageText", messageText="again 😀", source="user", turnIndex=1),
    event("conversation.messageText", messageText="and 😀 again", source="model", turnIndex=1),
]


@pytest.mark.parametrize("long", [30, 200, 300, 360, 400, 450])
@pytest.mark.parametrize("limit", ["1", "1M"])
def test_what_is_long_is_compared_with_what_is_not(tmp_path: Path, long: int, limit: str) -> None:
    """The same words in a long list and in short ones are the same words."""
    (tmp_path / "log.jsonl").write_bytes(b"".join(CALLS))
    expected = written(tmp_path / "log.jsonl", tmp_path)
    with patch.object(longtext, "LONG", long), patch.object(cli_extract, "MEGABYTE", 1):
        assert written(tmp_path / "log.jsonl", tmp_path, "--memory-limit", limit) == expected


@pytest.mark.usefixtures("everything_is_long")
@pytest.mark.parametrize("sink", ["atif", "chat-json", "html", "markdown", "timeline"])
def test_other_shapes_get_whole_texts(tmp_path: Path, sink: str) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"".join(EMOJI))
    out = tmp_path / "out"
    command = ["extract", str(tmp_path / "log.jsonl"), "--to", sink, "-q", "--workers", "1"]
    done = CliRunner().invoke(group, [*command, "-o", str(out)])
    assert done.exit_code == 0, done.output
    files = [out] if out.is_file() else sorted(p for p in out.rglob("*") if p.is_file())
    assert any("😀" in file.read_text("utf-8") for file in files)


@pytest.mark.usefixtures("everything_is_long")
def test_whoever_calls_gets_whole_texts(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"".join(EMOJI))
    (made,) = extract([tmp_path / "log.jsonl"])
    assert made.messages[1].content == REQUEST
    assert made.messages[1].typed == "say 😀 to #file:a😀.py"


def test_what_is_too_long_for_what_it_is(tmp_path: Path) -> None:
    """A name or context that nobody would send is left out, and that is told."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(EMOJI) + event("interactiveSessionMessage", intent="i" * 400))
    whole, _ = written(log, tmp_path)
    assert b"iiii" in whole
    with patch.object(envelope, "MOST", 300):
        cut, problems = written(log, tmp_path)
    assert b"iiii" not in cut
    (problem,) = map(json.loads, problems.splitlines())
    assert problem["code"] == "long-value"
    assert problem["sample"] == "intent"


@pytest.mark.parametrize("most", [300, 100_000])
@pytest.mark.parametrize(
    "prompt", ['You "help" 😀.\n' * 30, [{"type": "text", "text": "You help.\n" * 30}]]
)
def test_a_system_prompt_that_is_too_long_or_cut_off(
    tmp_path: Path, prompt: Any, most: int
) -> None:
    """Its beginning is used, and the conversation is not given up for having none."""
    cut = json.dumps(prompt) if most < 1000 else json.dumps(prompt)[:-100]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    log = tmp_path / "log.jsonl"
    log.write_bytes(
        event("engine.messages", messagesJson=messages, **{"request.option.system": cut})
    )
    with patch.object(envelope, "MOST", most), patch.object(longtext, "STEP", 100):
        data, problems = written(log, tmp_path)
    (made,) = map(json.loads, data.splitlines())
    text = prompt if isinstance(prompt, str) else prompt[0]["text"]
    assert made["messages"][0]["role"] == "system"
    assert text.startswith(made["messages"][0]["content"])
    assert len(made["messages"][0]["content"]) > 40
    assert [json.loads(p)["code"] for p in problems.splitlines()] == ["long-value"] * (most < 1000)
