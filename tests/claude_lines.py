"""Lines of made-up Claude Code sessions, and what becomes of them."""

import json
from pathlib import Path
from typing import Any

from tests.harness import facts_of, origins_of, reduce_all
from unspool.trajectory import Trajectory

Row = dict[str, Any]
SESSION = "0f4b7c1a-52d3-4f0e-8c11-7a6d5e4f3b2a"


def at(second: float) -> str:
    return f"2026-03-02T09:{int(second) // 60:02d}:{second % 60:06.3f}Z"


def line(kind: str, uuid: str, parent: str | None, second: float = 0, **fields: Any) -> Row:
    base = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": SESSION}
    return {**base, "timestamp": at(second), "cwd": "/w/shop", "version": "2.1.150", **fields}


def said(uuid: str, parent: str | None, text: Any, second: float = 0, **fields: Any) -> Row:
    """A user line."""
    return line("user", uuid, parent, second, message={"role": "user", "content": text}, **fields)


def text(words: str) -> Row:
    return {"type": "text", "text": words}


def call(ident: str, name: str = "Bash", **given: Any) -> Row:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def result(
    uuid: str, parent: str, ident: str, content: Any, second: float = 0, **fields: Any
) -> Row:
    block = {"type": "tool_result", "tool_use_id": ident, "content": content}
    return said(uuid, parent, [block], second, **fields)


def answer(
    uuid: str,
    parent: str | None,
    message: str,
    *blocks: Row | str,
    second: float = 0,
    **fields: Any,
) -> Row:
    """An assistant line; fields of the message itself in `body`."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    body = {"id": message, "model": "claude-x", "role": "assistant", "content": content}
    body |= fields.pop("body", {})
    return line("assistant", uuid, parent, second, message=body, **fields)


def write(path: Path, *rows: Row) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def transcript(prompt: str, ident: str = SESSION) -> bytes:
    """A whole session: a prompt and its answer."""
    head = said(f"{ident}-u", None, prompt, sessionId=ident)
    tail = answer(f"{ident}-a", f"{ident}-u", f"{ident}-m", f"Answer to {prompt}", sessionId=ident)
    return b"".join(json.dumps(row).encode() + b"\n" for row in (head, tail))


def read(*places: Path) -> dict[str, Trajectory]:
    origins = [origin for place in places for origin in origins_of(place)]
    return {t.conversation_id: t for t in reduce_all(facts_of(origins))}


def session(tmp_path: Path, *rows: Row) -> Trajectory:
    """The session that the lines are."""
    return read(write(tmp_path / f"{SESSION}.jsonl", *rows))[SESSION]


def words(made: Trajectory) -> list[str]:
    return [m.content for m in made.messages]
