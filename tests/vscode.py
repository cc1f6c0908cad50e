"""VS Code chats in the making, for tests."""

import json
from pathlib import Path
from typing import Any

from tests.harness import CASES, facts_of, origins_of, reduce_all
from unspool.facts import Problem
from unspool.trajectory import Trajectory

INPUTS = CASES / "vscode_chat"
START = 1_760_000_000_000


def read(path: Path | str) -> list[Trajectory]:
    return reduce_all(facts_of(origins_of(path)))


def one(path: Path | str) -> Trajectory:
    (trajectory,) = read(path)
    return trajectory


def codes(path: Path | str) -> list[str]:
    return [f.code for _, f in facts_of(origins_of(path)) if isinstance(f, Problem)]


def put(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def request(number: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {
        "requestId": f"request_{number}",
        "message": {"text": text or f"question {number}", "parts": []},
        "response": [{"value": f"answer {number}"}],
        "responseId": f"response_{number}",
        "timestamp": START + number * 60_000,
        **more,
    }


def chat(*requests: Any, session: str = "s", **more: Any) -> dict[str, Any]:
    return {"version": 3, "responderUsername": "GitHub Copilot", "sessionId": session,
            "creationDate": START, "requests": list(requests), **more}  # fmt: skip


def words(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(m.role, m.typed if m.typed is not None else m.content) for m in trajectory.messages]
