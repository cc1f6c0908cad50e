"""Headless output of Claude Code: however it was saved, it is the same run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, facts_of, origins_of, plain, reduce_all

STREAMS = ("stream", "stream_nested", "stream_and_agent_file")
Row = dict[str, Any]


def compact(value: Any) -> str:
    """As the program itself writes: arguments are kept as they were written."""
    return json.dumps(value, separators=(",", ":"))


SHAPES: dict[str, Callable[[list[Row]], str]] = {
    "array": compact,
    "array, indented": lambda rows: json.dumps(rows, indent=2),
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
