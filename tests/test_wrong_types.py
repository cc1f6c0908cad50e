"""Values of wrong types anywhere in the input: what can be read is read and written, and nothing of
ours breaks."""

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from unspool import sinks

OTHERS: list[Any] = [
    None, True, False, 0, -5, 1.5, 10**18, 10**30, "", "x", "2026-01-01T00:00:00Z", "\U0001f600",
    [], [[]], [1], ["a"], [{"type": "text", "text": "t"}], {}, {"a": 1}, {"type": ["a"]},
]  # fmt: skip
RUNS = 5


class Spoiler:
    """Puts other values in the place of some, and leaves some fields out."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._share = self._random.choice([0.01, 0.03, 0.1])

    def file(self, path: Path) -> None:
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            return  # a database, or something packed
        made = self.text(text)
        path.write_text(made or "\n".join(self.text(line) or line for line in text.split("\n")))

    def text(self, text: str) -> str | None:
        """None where it is no JSON."""
        try:
            return json.dumps(self.value(json.loads(text)))
        except ValueError:
            return None

    def value(self, value: Any) -> Any:
        if self._random.random() < self._share:
            return self._random.choice(OTHERS)
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if self._random.random() > self._share / 3}
            return {name: self.value(held) for name, held in kept.items()}
        if isinstance(value, list):
            return [self.value(held) for held in value]
        if isinstance(value, str) and value[:1] in ("[", "{") and self._random.random() < 0.5:
            return self.text(value) or value  # JSON within
        return value


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_wrong_types_break_nothing(case: Path, tmp_path: Path) -> None:
    for number in range(RUNS):
        folder = tmp_path / str(number)
        shutil.copytree(case / "input", folder)
        spoiler = Spoiler(f"{case_id(case)} {number}")
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                spoiler.file(path)
        for trajectory in reduce_all(facts_of(origins_of(folder))):
            for sink in sinks.SINKS:
                made = sinks.load(sink).write(sinks.Family(copy.deepcopy(trajectory)), {})
                data = b"".join(piece.data for piece in made)
                if sink == "jsonl":
                    assert json.loads(data)["conversation_id"] == trajectory.conversation_id
