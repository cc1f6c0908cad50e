"""Made-up Claude Code sessions of any size, and what `extract` costs on them and on real ones.

Every session is a file as the program writes it: prompts, answers split over several lines (one
block each, one message id), parallel calls, results with the tool's own record of them, progress
lines, undo state, compactions, and a sub-agent file for some of the sessions.
"""

import random
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.telemetry import Pool

Line = dict[str, Any]


class Session:
    """One session being written: every line hangs on the one before it."""

    def __init__(self, pool: Pool, number: int, agent: str = "", session: str = "") -> None:
        self.pool = pool
        self.rng = pool.rng
        self.session = session or self._uuid()
        self.agent = agent
        self.clock = number * 50_000
        self.last: str | None = None
        self.result_chars = (200, 6000)

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def line(self, kind: str, parent: str | None = "", **fields: Any) -> Line:
        self.clock += 1
        day, hour, minute = (
            1 + self.clock // 86400 % 28,
            self.clock // 3600 % 24,
            self.clock // 60 % 60,
        )
        made: Line = {
            "parentUuid": self.last if parent == "" else parent,
            "isSidechain": bool(self.agent),
            "userType": "external",
            "cwd": "/home/dev/work/project",
            "sessionId": self.session,
            "version": "2.1.120",
            "gitBranch": "main",
            "type": kind,
            **({"agentId": self.agent} if self.agent else {}),
            **fields,
            "uuid": self._uuid(),
            "timestamp": f"2026-03-{day:02d}T{hour:02d}:{minute:02d}:{self.clock % 60:02d}.000Z",
        }
        self.last = made["uuid"]
        return made

    def user(self, content: Any, **fields: Any) -> Line:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, message: str, block: Line, **fields: Any) -> Line:
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": 900,
            "cache_read_input_tokens": 40_000,
            "cache_creation": {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 300,
            "service_tier": "standard",
        }
        body = {
            "model": "claude-opus-4-5-20251101",
            "id": message,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": usage,
        }
        return self.line("assistant", message=body, requestId=f"req_{message}", **fields)

    def turn(self, rounds: tuple[int, int] = (3, 12)) -> Iterator[Line]:
        """A prompt and what the model did about it."""
        cut = self.pool.cut
        yield {"type": "file-history-snapshot", "messageId": self._uuid(), "snapshot": {}}
        yield self.user(cut(40, 600), permissionMode="default")
        for _ in range(self.rng.randint(*rounds)):
            message = f"msg_{self._uuid()}"
            yield self.assistant(
                message, {"type": "thinking", "thinking": cut(100, 900), "signature": "x" * 300}
            )
            yield self.assistant(message, {"type": "text", "text": cut(40, 400)})
            calls = [f"toolu_{self._uuid()}" for _ in range(self.rng.choice((1, 1, 1, 2)))]
            made = [self._call(message, call) for call in calls]
            yield from made
            for call, line in zip(calls, made, strict=True):
                if self.rng.random() < 0.3:
                    data = {
                        "type": "bash_progress",
                        "output": cut(50, 200),
                        "fullOutput": cut(500, 3000),
                    }
                    yield self.line("progress", data=data, toolUseID=call, parentToolUseID=call)
                yield self._result(call, line)
        yield self.assistant(f"msg_{self._uuid()}", {"type": "text", "text": cut(100, 1500)})
        yield self.line("system", subtype="turn_duration", durationMs=5000, isMeta=False)

    def _call(self, message: str, call: str) -> Line:
        cut = self.pool.cut
        name, given = self.rng.choice(
            (
                ("Read", {"file_path": "/home/dev/work/project/a.py"}),
                ("Bash", {"command": cut(20, 200), "description": "Run it"}),
                (
                    "Edit",
                    {
                        "file_path": "/w/a.py",
                        "old_string": cut(50, 900),
                        "new_string": cut(50, 900),
                    },
                ),
            )
        )
        return self.assistant(
            message, {"type": "tool_use", "id": call, "name": name, "input": given}
        )

    def _result(self, call: str, line: Line) -> Line:
        cut = self.pool.cut
        given = line["message"]["content"][0]
        text = cut(*self.result_chars)
        returned: Any
        if given["name"] == "Read":
            file = {
                "filePath": "/w/a.py",
                "content": text,
                "numLines": 9,
                "startLine": 1,
                "totalLines": 9,
            }
            returned = {"type": "text", "file": file}
        elif given["name"] == "Edit":
            lines = [" " + cut(10, 60), "-" + cut(10, 60), "+" + cut(10, 60)]
            returned = {
                "filePath": "/w/a.py",
                "oldString": given["input"]["old_string"],
                "newString": given["input"]["new_string"],
                "originalFile": cut(2000, 20_000),
                "structuredPatch": [{"oldStart": 1, "oldLines": 2, "newStart": 1, "lines": lines}],
                "userModified": False,
                "replaceAll": False,
            }
        else:
            returned = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        block = {"tool_use_id": call, "type": "tool_result", "content": text}
        return self.user(
            [block],
            parent=line["uuid"],
            toolUseResult=returned,
            sourceToolAssistantUUID=line["uuid"],
        )

    def compact(self) -> Iterator[Line]:
        meta = {"trigger": "auto", "preTokens": 160_000}
        yield self.line("system", parent=None, subtype="compact_boundary", compactMetadata=meta)
        text = "This session is being continued from a previous conversation. "
        yield self.user(
            text + self.pool.cut(3000, 9000), isCompactSummary=True, isVisibleInTranscriptOnly=True
        )


def generate(folder: Path, size: int, seed: int = 1) -> int:
    """About `size` bytes of sessions in project folders; how many bytes they are."""
    pool = Pool(random.Random(seed))
    done = number = 0
    while done < size:
        session = Session(pool, number)
        project = folder / "projects" / f"-home-dev-work-project-{number % 20}"
        project.mkdir(parents=True, exist_ok=True)
        done += _write(project / f"{session.session}.jsonl", session, pool.rng.randint(2, 60))
        if number % 4 == 0:
            agent = f"a{number:08x}"
            child = Session(pool, number, agent, session.session)
            path = project / session.session / "subagents" / f"agent-{agent}.jsonl"
            path.parent.mkdir(parents=True)
            done += _write(path, child, 3)
        number += 1
    return done


def generate_hard(folder: Path, sessions: int = 300, turns: int = 40, seed: int = 4) -> None:
    """Many small records: 145,000 lines, 485 MB, sessions of short turns, each with a sub-agent."""
    pool = Pool(random.Random(seed))
    for number in range(sessions):
        session = Session(pool, number)
        session.result_chars = (200, 11_000)
        project = folder / "projects" / f"-home-dev-work-project-{number % 20}"
        subagents = project / session.session / "subagents"
        subagents.mkdir(parents=True)
        _write(project / f"{session.session}.jsonl", session, turns, rounds=(1, 2))
        agent = f"a{number:08x}"
        child = Session(pool, number, agent, session.session)
        _write(subagents / f"agent-{agent}.jsonl", child, 3, rounds=(1, 2))


def _write(path: Path, session: Session, turns: int, rounds: tuple[int, int] = (3, 12)) -> int:
    with open(path, "wb") as file:
        for turn in range(turns):
            lines = session.compact() if turn % 15 == 14 else session.turn(rounds)
            for line in lines:
                file.write(orjson.dumps(line) + b"\n")
        return file.tell()


if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(float(sys.argv[2])))
