"""Made-up installations of every age, read by the source and by the second reader: they agree."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import bubble, rows_of, tool, write_editor
from tests.test_cursor_shapes import T, at, differences, timing, tokens

WORDS = ("go on", "ok", "fix it", "why?\nreally", "make tea", "again ")
STATUSES = ("completed", "completed", "error", "cancelled")


class Installation:
    """One global database and one workspace, of one age of Cursor."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.age = self.dice.choice(("0.45", "0.50", "1.5", "1.7", "3.7"))
        self.clock = 0
        self.number = 0
        self.rows: dict[str, Any] = {}
        self.sent: list[dict[str, Any]] = []
        self.heads: list[dict[str, Any]] = []

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number:04d}"

    def made(self, **fields: Any) -> dict[str, Any]:
        """What every bubble of the age has: the next moment, or none."""
        self.clock += self.dice.randint(1, 3)
        return {"createdAt": at(self.clock), **fields} if self.age >= "1.7" else fields

    def answer(self, request: str, first: bool) -> list[dict[str, Any]]:
        dice, own = self.dice, {}
        if first and self.age < "3":
            own = timing(self.clock, self.clock + 2, window=dice.random() * 10**6)
        if self.age == "0.45":
            pass
        elif first or dice.random() < 0.6:
            own["usageUuid"] = request if self.age < "3" else None
        kind = dice.choice(("text", "text", "thinking", "call", "empty"))
        if first or kind == "text":
            made = bubble(self.name("b"), 2, dice.choice(WORDS), **self.made(**own))
        elif kind == "thinking":
            made = bubble(self.name("b"), 2, **self.made(thinking={"text": "hm"}, **own))
        elif kind == "empty":
            made = bubble(self.name("b"), 2, **self.made(toolFormerData={"additionalData": {}}))
        else:
            call = tool(self.name("b"), "read_file", self.name("call"), {"path": "/w/a"},
                        {"contents": "x"}, status=dice.choice(STATUSES),
                        **({"userDecision": "rejected"} if dice.random() < 0.1 else {}))  # fmt: skip
            made = {**call, **self.made()}
        return [made]

    def turn(self, listed: bool = True) -> list[dict[str, Any]]:
        self.clock += 5
        request = self.name("request")
        words = self.dice.choice(WORDS) + (f" {self.number}" if self.dice.random() < 0.7 else "")
        asked = bubble(self.name("b"), 1, words, **self.made(unifiedMode=2))
        if self.age >= "1.5":
            asked["requestId"] = request
        self.clock += 1
        answers = self.answer(request, True)
        for _ in range(self.dice.randint(0, 4)):
            answers += self.answer(request, False)
        if self.age in ("0.50", "1.5", "1.7") and self.dice.random() < 0.8:
            answers[-1] |= tokens(self.dice.randint(100, 9000), self.dice.randint(1, 900))
        if self.age >= "0.50":
            generation = {"unixMs": T + self.clock * 1000, "generationUUID": request,
                          "type": "composer", "textDescription": words}  # fmt: skip
            self.sent.append(generation)
        # Of a prompt that was sent again only the answers are left.
        return [asked, *answers] if listed else answers

    def composer(self) -> None:
        ident = self.name("composer")
        listed: list[dict[str, Any]] = []
        lost: list[dict[str, Any]] = []
        for _ in range(self.dice.randint(1, 4)):
            if self.age in ("1.5", "1.7") and self.dice.random() < 0.3:
                lost += self.turn(listed=False)
            listed += self.turn()
        head = {"composerId": ident, "status": "completed", "name": "Tea", "createdAt": T - 9**9,
                "modelConfig": {"modelName": self.dice.choice(("default", "kettle-2"))}}  # fmt: skip
        self.heads.append({"composerId": ident, "type": "head"})
        if self.age == "0.45":
            self.rows[f"composerData:{ident}"] = {**head, "conversation": listed}
            return
        rows = rows_of(head, *listed, *lost, listed=len(listed))
        for each in (*listed, *lost):  # in the order in which they are written
            self.rows[f"bubbleId:{ident}:{each['bubbleId']}"] = each
        self.rows |= {key: value for key, value in rows.items() if key not in self.rows}

    def write(self, home: Path) -> Path:
        for _ in range(self.dice.randint(1, 3)):
            self.composer()
        write_editor(home / "User/globalStorage/state.vscdb", self.rows)
        prompts = [generation["textDescription"] for generation in self.sent]
        for _ in range(self.dice.randint(0, 3)):  # of conversations that are gone
            self.clock += 1
            words = f"gone {self.dice.randint(1, 2)}"
            prompts.append(words)
            self.sent.append({"unixMs": T + self.clock * 1000, "generationUUID": self.name("x"),
                              "type": "composer", "textDescription": words})  # fmt: skip
            self.sent.append({"unixMs": T + self.clock * 1000, "generationUUID": self.name("x"),
                              "type": "apply", "textDescription": "tea.py"})  # fmt: skip
        listed = [
            words for n, words in enumerate(prompts) if not n or words != prompts[n - 1]
        ]  # the same words directly after themselves are written once
        folder = home / "User/workspaceStorage/abc"
        items = {
            "aiService.prompts": [{"text": words, "commandType": 4} for words in listed],
            "aiService.generations": self.sent,
            "composer.composerData": {"allComposers": self.heads},
        }
        write_editor(folder / "state.vscdb", {}, items)
        (folder / "workspace.json").write_text(json.dumps({"folder": "file:///w/tea"}))
        return home


@pytest.mark.parametrize("seed", range(40))
def test_both_readers_agree(tmp_path: Path, seed: int) -> None:
    assert differences(Installation(seed).write(tmp_path)) == []
