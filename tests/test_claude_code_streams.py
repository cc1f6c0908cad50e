"""Headless output of Claude Code: however it was saved, it is the same run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, facts_of, origins_of, plain, reduce_all

SESSION = "5d0f3f6e-7a61-4c52-9a55-0e6f4f0c1a0f"
STREAMS = ("stream", "stream_nested", "stream_and_agent_file")
Row = dict[str, Any]


def compact(value: Any) -> str:
    """As the program itself writes: arguments are kept as they were written."""
    return json.dumps(value, separators=(",", ":"))


SHAPES: dict[str, Callable[[list[Row]], str]] = {
    "array": compact,
    "array, a line each": lambda rows: "[\n" + ",\n".join(map(compact, rows)) + "\n]\n",
    "objects, indented": lambda rows: "\n".join(json.dumps(row, indent=2) for row in rows),
}


def made_of(folder: Path) -> list[dict[str, Any]]:
    return plain(reduce_all(facts_of(origins_of(folder))), folder)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_the_same_in_every_shape(tmp_path: Path, name: str, shape: str) -> None:
    """`--output-format json --verbose` prints one array of what `stream-json` prints in lines."""
    folder = shutil.copytree(CASES / "claude_code" / name / "input", tmp_path / "in")
    (path,) = folder.glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(compact(row) + "\n" for row in rows))
    known = made_of(folder)
    path.write_text(SHAPES[shape](rows))
    assert made_of(folder) == known


def test_what_the_program_says_in_the_persons_place_is_no_prompt(tmp_path: Path) -> None:
    def user(uuid: str, text: str, **more: Any) -> Row:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        named = {"session_id": SESSION, "parent_tool_use_id": None, "uuid": uuid}
        return {"type": "user", "message": message, **named, **more}

    first = {"type": "system", "subtype": "init", "session_id": SESSION, "tools": [], "uuid": "i"}
    rows = [first, user("1", "go", isReplay=True), user("2", "Skill text.", isSynthetic=True)]
    (tmp_path / "run.jsonl").write_text("".join(compact(row) + "\n" for row in rows))
    (made,) = made_of(tmp_path)
    assert [(m.get("kind"), m.get("typed")) for m in made["messages"]] == [
        (None, "go"),
        ("injected", None),
    ]
