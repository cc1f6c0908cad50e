"""Made-up project folders of Claude Code: sessions, sub-agents, asides, forks, and their outputs."""

import json
import random
from pathlib import Path

from tests.claude_ledger import Ledger
from tests.claude_lines import Row
from tests.claude_story import Story


class Home:
    """A project folder with sessions, their sub-agents and their outputs."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.ledgers: dict[str, Ledger] = {}
        self.files: dict[str, list[Row]] = {}
        self.outputs: dict[tuple[str, str], str] = {}
        self.metas: dict[str, Row] = {}
        self.payloads: list[Row] = []
        self.depth = 0
        self._clock = 0
        self._number = 0

    def name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def words(self, prefix: str) -> str:
        return self.name(f"{prefix} number ")

    def now(self) -> str:
        self._clock += 1
        seconds = self._clock
        return (
            f"2026-03-02T{9 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000Z"
        )

    def session(self, number: int = 0, turns: int | None = None) -> Story:
        ident = f"0f4b7c1a-52d3-4f0e-8c11-{number:012d}"
        story = Story(self, ident, ident)
        self.files[f"{ident}.jsonl"] = story.rows
        story.go_on(turns or self.dice.randint(1, 6))
        return story

    def spawn(self, above: Story, call: str, prompt: str) -> str:
        """A sub-agent that a call starts; its name, where the result is to tell it."""
        agent = self.name("a")
        key = f"{above.ident}/{agent}"
        child = Story(self, above.ident, key, isSidechain=True, agentId=agent)
        child.ledger.parent = (above.key, call)
        layouts = ("folder", "beside", "inline") if above.inline else ("folder", "beside")
        layout = self.dice.choice(layouts)
        child.inline = layout == "inline"
        self.depth += 1
        child.prompt(prompt)
        child.model_call()
        child.go_on(self.dice.randint(0, 1))
        self.depth -= 1
        told = self.dice.choice((agent, ""))
        if self.dice.random() < 0.5:
            self._show(above, call, agent, child.rows)
        if layout == "folder":
            stem = f"{above.ident}/subagents/agent-{agent}"
            self.files[f"{stem}.jsonl"] = child.rows
            if self.dice.random() < 0.5:
                self.metas[f"{stem}.meta.json"] = {"agentType": "Explore", "toolUseId": call}
        elif layout == "beside":
            self.files[f"agent-{agent}.jsonl"] = child.rows
        else:
            above.rows += child.rows
        return told

    def _show(self, above: Story, call: str, agent: str, rows: list[Row]) -> None:
        """What a sub-agent says, shown in its parent while it runs."""
        for row in rows:
            if row.get("type") in ("user", "assistant") and row["agentId"] == agent:
                names = ("type", "message", "uuid", "timestamp", "requestId", "toolUseResult")
                told = {name: row[name] for name in names if name in row}
                data = {"type": "agent_progress", "agentId": agent, "prompt": "p", "message": told}
                above.line("progress", data=data, parentToolUseID=call, toolUseID=self.name("t"))

    def aside(self, session: Story) -> None:
        """A question beside the conversation, which is told again for it, by other lines."""
        agent = self.name("aside_question-")
        side = {"isSidechain": True, "agentId": agent}
        story = Story(self, session.ident, f"{session.ident}/{agent}", **side)
        story.inline = False
        known = session.ledger
        names = {
            None: None,
            **{row["uuid"]: self.name("u") for row in session.rows if "uuid" in row},
        }
        for row in list(session.rows):
            if row.get("type") in ("user", "assistant") and not row["isSidechain"]:
                again = {
                    "uuid": names[row["uuid"]],
                    "parentUuid": story.last,
                    "timestamp": self.now(),
                }
                story.rows.append({**row, **again, **side})
                story.last = again["uuid"]
        story.copy(known, names)
        answered = [n for n, ident in enumerate(story.ledger.chain) if ident in known.answers]
        story.ledger.copied = set(story.ledger.chain[: answered[-1] + 1 if answered else 0])
        story.ledger.partly = True
        story.ledger.parent = (session.key, None)
        story.turn()
        self.files[f"{session.ident}/subagents/agent-{agent}.jsonl"] = story.rows

    def fork(self, session: Story, number: int) -> Story:
        """A session that goes on from a copy of another one's lines."""
        ident = f"0f4b7c1a-52d3-4f0e-8c11-{number:012d}"
        ways = (self._kept_fork, self._renamed_fork, self._old_resume)
        made = self.dice.choice(ways)(session, ident)
        self.files[f"{ident}.jsonl"] = made.rows
        made.go_on(self.dice.randint(1, 3))
        return made

    def _kept_fork(self, session: Story, ident: str) -> Story:
        """Lines keep their ids and times; only the session is another one."""
        fixed = {"sessionKind": "bg"} if self.dice.random() < 0.5 else {}
        return self._copied(session, ident, {"sessionId": ident, **fixed})

    def _old_resume(self, session: Story, ident: str) -> Story:
        """Old versions resumed into a new file: the lines of before still name their session."""
        return self._copied(session, ident, {})

    def _copied(self, session: Story, ident: str, changes: Row) -> Story:
        story = Story(self, ident, ident)
        story.fixed = {name: value for name, value in changes.items() if name != "sessionId"}
        rows = [row for row in session.rows if "uuid" in row and not row["isSidechain"]]
        story.rows += [{**row, **changes} for row in rows]
        story.copy(session.ledger, {})
        story.last = session.last
        story.ledger.parent = (session.key, None)
        return story

    def _renamed_fork(self, session: Story, ident: str) -> Story:
        """The SDK's: new ids, every line names the one that it was; progress is left out."""
        story = Story(self, ident, ident)
        names: dict[str | None, str | None] = {None: None}
        for row in session.rows:
            if "uuid" not in row or row["isSidechain"]:
                continue
            if row["type"] == "progress":
                names[row["uuid"]] = names.get(row["parentUuid"])
                continue
            names[row["uuid"]] = self.name("u")
            story.rows.append({
                **row, "uuid": names[row["uuid"]], "parentUuid": names.get(row["parentUuid"]),
                "sessionId": ident,
                "forkedFrom": {"sessionId": session.ident, "messageUuid": row["uuid"]},
            })  # fmt: skip
        story.copy(session.ledger, names)
        story.last = names[session.last]
        story.ledger.parent = (session.key, None)
        return story

    def write(self, folder: Path) -> Path:
        for name, rows in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, value in self.metas.items():
            (folder / name).write_text(json.dumps(value))
        for (ident, name), words in self.outputs.items():
            path = folder / ident / "tool-results" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(words)
        return folder
