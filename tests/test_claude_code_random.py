"""Made-up sessions of any shape against the plain second reading (tests/claude_oracle.py)."""

import random
from pathlib import Path

import pytest

from tests.claude_lines import SESSION, Row, answer, call, line, read, result, said, write
from tests.claude_oracle import Session, blocks
from unspool.trajectory import Trajectory


class Story:
    """A session that goes on, rewinds, compacts and restarts as it happens."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rows: list[Row] = []
        self.prompts: list[str | None] = []
        """What the prompts so far hang on: where a rewind may go back to."""
        self.last: str | None = None

    def _uuid(self) -> str:
        return f"u{len(self.rows)}"

    def _add(self, row: Row) -> None:
        row["timestamp"] = (
            f"2026-03-02T09:{len(self.rows) // 60:02d}:{len(self.rows) % 60:02d}.000Z"
        )
        self.rows.append(row)
        self.last = row["uuid"]

    def write(self) -> list[Row]:
        for _ in range(self.dice.randint(2, 8)):
            what = self.dice.random()
            if what < 0.2 and self.prompts:
                self.last = self.dice.choice(self.prompts)
            elif what < 0.3:
                self._add(line("system", self._uuid(), None, subtype="compact_boundary"))
                self._add(said(self._uuid(), self.last, "Summary.", isCompactSummary=True))
                self.prompts = []
            elif what < 0.35:
                self.last, self.prompts = self.dice.choice((None, "gone")), []
            self._turn()
        return self.rows

    def _turn(self) -> None:
        self.prompts.append(self.last)
        uuid = self._uuid()
        self._add(said(uuid, self.last, f"prompt {uuid}"))
        for _ in range(self.dice.randint(0, 3)):
            self._model_call()
        if self.dice.random() < 0.2:
            self._add(said(self._uuid(), self.last, "injected", isMeta=True))

    def _model_call(self) -> None:
        message = f"m{len(self.rows)}"
        usage = {"input_tokens": len(self.rows), "output_tokens": 5}
        if self.dice.random() < 0.6:
            self._add(answer(self._uuid(), self.last, message, f"text {message}",
                             body={"usage": usage}))  # fmt: skip
        made: list[tuple[str, str]] = []
        for number in range(self.dice.randint(0, 3)):
            ident = f"c{len(self.rows)}"
            usage = {"input_tokens": len(self.rows), "output_tokens": 9 + number}
            row = answer(self._uuid(), self.last, message, call(ident), body={"usage": usage})
            self._add(row)
            made.append((ident, row["uuid"]))
            if self.dice.random() < 0.2:
                self._add(line("progress", self._uuid(), self.last, data={"type": "bash_progress"}))
        self.dice.shuffle(made)
        for ident, above in made:
            if self.dice.random() < 0.95:
                self._add(result(self._uuid(), above, ident, f"result {ident}"))


@pytest.mark.parametrize("seed", range(150))
def test_any_session(tmp_path: Path, seed: int) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", *Story(seed).write())
    known = Session(path)
    made = read(path)[SESSION]
    assert [m.id for m in made.messages if m.role == "assistant"] == known.message_ids()
    spoken = [m.id for m in made.messages if m.role == "user" and m.kind != "injected"]
    assert spoken == [uuid for uuid in known.prompts() if not known.main[uuid].get("isMeta")]
    calls = [c.id for m in made.messages for c in m.tool_calls or ()]
    assert sorted(calls) == sorted(known.calls())
    results = [m.tool_call_id for m in made.messages if m.role == "tool"]
    assert sorted(filter(None, results)) == sorted(known.results())
    usage = made.usage
    assert (usage.prompt_tokens if usage else 0) == known.tokens()[0]
    gone = abandoned(made)
    injected = {uuid for uuid, row in known.main.items() if row.get("isMeta")}
    assert gone - injected == expected_abandoned(known) - injected
    assert injected <= gone | {m.id for m in made.messages}


def abandoned(made: Trajectory) -> set[str]:
    return {
        name
        for branch in made.branches or ()
        for m in branch.messages
        for name in (m.id, m.tool_call_id, *(c.id for c in m.tool_calls or ()))
        if name
    }


def expected_abandoned(known: Session) -> set[str]:
    found: set[str] = set()
    for uuid in known.abandoned:
        row = known.main[uuid]
        for block in blocks(row):
            if block["type"] == "tool_use":
                found |= {block["id"], row["message"]["id"]}
            elif block["type"] == "tool_result":
                found.add(block["tool_use_id"])
            else:
                found.add(row["message"].get("id") or uuid)
    return found
