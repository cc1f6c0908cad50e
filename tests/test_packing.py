"""Numbers that no program counts to still make the trip through a file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.claude_lines import answer, said, write
from unspool.cli import group
from unspool.pipeline.batch import extract
from unspool.store.collection import StoreCollection
from unspool.store.opening import reading
from unspool.trajectory import (
    Message,
    ToolCall,
    Trajectory,
    Usage,
    pack_trajectory,
    unpack_trajectory,
)

HUGE = 10**30


@pytest.mark.parametrize("number", [HUGE, -HUGE, 2**64])
def test_a_count_beyond_counting_is_unknown(number: int) -> None:
    message = Message(
        "assistant", "hi", usage=Usage(prompt_tokens=5, completion_tokens=number),
        details=number, extra={"deep": [{"n": number}]}, tool_calls=[ToolCall("c")],
    )  # fmt: skip
    given = Trajectory("c", [message], usage=Usage(completion_tokens=number, requests=1))
    found = unpack_trajectory(pack_trajectory(given))
    assert found.usage == Usage(requests=1)
    assert found.messages[0].usage == Usage(prompt_tokens=5)
    assert found.messages[0].extra == {"deep": [{"n": float(number)}]}
    assert found.messages[0].details == float(number)
    assert found.messages[0].tool_calls == [ToolCall("c")]


def put_wild(folder: Path, number: int) -> None:
    """The same conversation in three formats, each with a number that cannot be."""
    usage = {"input_tokens": 5, "output_tokens": number}
    write(
        folder / "s.jsonl",
        said("u", None, "hello"),
        answer("a", "u", "m", "hi", body={"usage": usage}),
    )
    document = {
        "schema_version": "ATIF-v1.7", "session_id": "run", "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "hello"},
            {"step_id": 2, "source": "agent", "message": "hi", "metrics": {"prompt_tokens": number}},
        ],
        "final_metrics": {"total_completion_tokens": number},
    }  # fmt: skip
    (folder / "run.trajectory.json").write_text(json.dumps(document))
    events = [
        {"type": "user.message", "id": "1", "data": {"content": "hello"}},
        {"type": "assistant.message", "id": "2", "data": {"content": "hi", "outputTokens": number}},
    ]
    log = folder / "session-state" / "00000000-0000-4000-8000-000000000003" / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.mark.parametrize("number", [HUGE, 2**64, 2**63, 2**63 - 1])
def test_one_wild_number_spoils_no_run(tmp_path: Path, number: int) -> None:
    put_wild(tmp_path, number)
    found = list(extract(tmp_path))
    assert [[message.content for message in one.messages] for one in found] == [["hello", "hi"]] * 3


@pytest.mark.parametrize("number", [HUGE, 2**64, 2**63, 2**63 - 1])
def test_nor_a_store(tmp_path: Path, number: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    put_wild(home, number)
    store = ["--store", str(tmp_path / "store.db")]
    for arguments in (["sync", str(home)], ["stats"], ["search", "hello"], ["store", "verify"]):
        done = CliRunner().invoke(group, [*arguments, *store])
        assert done.exception is None, (arguments, done.exception)
    with reading(tmp_path / "store.db") as connection:
        entries = StoreCollection(connection).entries()
    assert sorted((entry.source, entry.messages) for entry in entries) == [
        ("atif", 2), ("claude-code", 2), ("copilot-cli", 2),
    ]  # fmt: skip
