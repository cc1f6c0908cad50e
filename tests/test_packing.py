"""Numbers that no program counts to still make the trip through a file."""

import json
from pathlib import Path

import pytest

from tests.claude_lines import answer, said, write
from unspool.pipeline import extract
from unspool.trajectory import (
    Message,
    ToolCall,
    Trajectory,
    Usage,
    pack_parts,
    pack_trajectory,
    unpack_parts,
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
    for found in (
        unpack_trajectory(pack_trajectory(given)),
        unpack_parts(pack_parts(given)),
    ):
        assert found.usage == Usage(requests=1)
        assert found.messages[0].usage == Usage(prompt_tokens=5)
        assert found.messages[0].extra == {"deep": [{"n": float(number)}]}
        assert found.messages[0].details == float(number)
        assert found.messages[0].tool_calls == [ToolCall("c")]


def test_one_wild_number_spoils_no_run(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": HUGE}
    write(
        tmp_path / "s.jsonl",
        said("u", None, "hello"),
        answer("a", "u", "m", "hi", body={"usage": usage}),
    )
    document = {
        "schema_version": "ATIF-v1.7", "session_id": "run", "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "hello"},
            {"step_id": 2, "source": "agent", "message": "hi", "metrics": {"prompt_tokens": HUGE}},
        ],
        "final_metrics": {"total_completion_tokens": HUGE},
    }  # fmt: skip
    (tmp_path / "run.trajectory.json").write_text(json.dumps(document))
    events = [
        {"type": "user.message", "id": "1", "data": {"content": "hello"}},
        {"type": "assistant.message", "id": "2", "data": {"content": "hi", "outputTokens": HUGE}},
    ]
    log = tmp_path / "session-state" / "00000000-0000-4000-8000-000000000003" / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    found = list(extract(tmp_path))
    assert [[message.content for message in one.messages] for one in found] == [["hello", "hi"]] * 3
