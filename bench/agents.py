"""Made-up sessions of Codex, Gemini CLI, Qwen Code and OpenCode, and OTLP traces, of any size.

Proportions as in recorded sessions: results of tools are most of the bytes; Codex writes each result
twice (the item shows it too); Gemini CLI writes an answer again with its results; a chat span repeats
the history, of which the last twenty messages are kept here.
"""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from bench.measure import Measured, Row, extract_command, floor, made_data, size_of
from bench.telemetry import Pool

Value = dict[str, Any]
SIZE = 400_000_000
"""As much as there is of Claude Code, so that starting up weighs the same."""


def _stamp(second: int) -> str:
    return (
        f"2026-05-04T{10 + second // 3600 % 12:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z"
    )


def _uuid(number: int) -> str:
    return f"01a1e3ab-{number % 65536:04x}-7000-8000-{number:012x}"


def codex(number: int, rounds: int, pool: Pool) -> tuple[str, bytes]:
    thread = _uuid(number)
    lines: list[bytes] = []

    def line(kind: str, payload: Value) -> None:
        value = {"timestamp": _stamp(len(lines)), "type": kind, "payload": payload}
        lines.append(orjson.dumps({**value, "ordinal": len(lines)}) + b"\n")

    def message(role: str, text: str, kind: str) -> None:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        kinds = {"content_item_kinds": [kind]}
        line("response_item", {
            "type": "message", "id": f"msg_{number}_{len(lines)}", "role": role, "content": [part],
            "internal_chat_message_metadata_passthrough": kinds,
        })  # fmt: skip

    line("session_meta", {
        "id": thread, "session_id": thread, "cwd": "/home/ana/shop", "cli_version": "0.166.0",
        "source": "cli", "base_instructions": {"text": pool.cut(8000, 12000)},
    })  # fmt: skip
    total = 0
    for n in range(rounds):
        if n % 12 == 0:
            line("turn_context", {"cwd": "/home/ana/shop", "model": "gpt-6"})
            message("user", pool.cut(40, 400), "user.text")
        line("response_item", {
            "type": "reasoning", "id": f"rs_{number}_{n}", "encrypted_content": pool.cut(900, 2000),
            "summary": [{"type": "summary_text", "text": pool.cut(50, 300)}],
        })  # fmt: skip
        if n % 2:
            message("assistant", pool.cut(20, 400), "unknown")
        call, command, output = f"call_{number}_{n}", pool.cut(20, 200), pool.cut(200, 8000)
        asked = orjson.dumps({"cmd": command}).decode()
        line("response_item", {
            "type": "function_call", "id": f"fc_{number}_{n}", "call_id": call, "name": "exec_command",
            "arguments": asked,
        })  # fmt: skip
        total += 1000
        usage = {"input_tokens": 900, "cached_input_tokens": 500, "output_tokens": 100}
        usage["total_tokens"] = 1000
        told = {"response_id": f"resp_{number}_{n}", "usage": usage, "thread_id": thread}
        line("token_usage_record", told)
        info = {"last_token_usage": usage, "total_token_usage": {**usage, "total_tokens": total}}
        line("event_msg", {"type": "token_count", "info": info})
        item = {"type": "CommandExecution", "id": call, "command": ["bash", "-lc", command]}
        item |= {"aggregated_output": output, "exit_code": 0}
        line("event_msg", {"type": "item_completed", "thread_id": thread, "item": item})
        line("response_item", {"type": "function_call_output", "call_id": call, "output": output})
    message("assistant", pool.cut(100, 900), "unknown")
    name = f"sessions/2026/05/04/rollout-2026-05-04T10-00-00-{thread}.jsonl"
    return name, b"".join(lines)


def gemini(number: int, rounds: int, pool: Pool) -> tuple[str, bytes]:
    session = _uuid(number)
    head = {"sessionId": session, "projectHash": "ab12", "startTime": _stamp(0), "kind": "main"}
    lines = [orjson.dumps(head)]
    for n in range(rounds):
        common = {"timestamp": _stamp(n * 5)}
        if n % 12 == 0:
            prompt = {
                "id": f"u{number}-{n}",
                **common,
                "type": "user",
                "content": [{"text": pool.cut(40, 400)}],
            }
            lines.append(orjson.dumps(prompt))
        tokens = {
            "input": 900,
            "output": 100,
            "cached": 500,
            "thoughts": 5,
            "tool": 0,
            "total": 1005,
        }
        thought = {"subject": "Plan", "description": pool.cut(50, 500), "timestamp": _stamp(n)}
        answer = {"id": f"g{number}-{n}", **common, "type": "gemini", "content": pool.cut(0, 400)}
        answer |= {"tokens": tokens, "thoughts": [thought], "model": "gemini-2.5-pro"}
        lines.append(orjson.dumps(answer))
        call = f"run_shell_command__{number}_{n}"
        output = pool.cut(200, 8000)
        response = {"id": call, "name": "run_shell_command", "response": {"output": output}}
        parts = [{"functionResponse": response}]
        done = {"id": call, "name": "run_shell_command", "args": {"command": pool.cut(20, 200)}}
        done |= {"status": "success", "result": parts, "resultDisplay": output[:200], **common}
        lines.append(orjson.dumps({**answer, "toolCalls": [done]}))
        lines.append(
            orjson.dumps({"id": f"t{number}-{n}", **common, "type": "user", "content": parts})
        )
        lines.append(orjson.dumps({"$set": {"lastUpdated": _stamp(n)}}))
    return f"tmp/shop/chats/session-2026-05-04T10-00-{number:08x}.jsonl", b"\n".join(lines) + b"\n"


def qwen(number: int, rounds: int, pool: Pool) -> tuple[str, bytes]:
    session = _uuid(number)
    lines: list[bytes] = []

    def line(kind: str, **fields: Any) -> None:
        at = len(lines)
        value: Value = {
            "uuid": f"{session}-{at}",
            "parentUuid": f"{session}-{at - 1}" if at else None,
        }
        value |= {"sessionId": session, "timestamp": _stamp(at), "type": kind, "version": "0.24.4"}
        lines.append(orjson.dumps({**value, "cwd": "/home/ana/shop", **fields}) + b"\n")

    for n in range(rounds):
        if n % 12 == 0:
            parts: list[Value] = [{"text": pool.cut(40, 400)}]
            line("user", provenance="real_user", message={"role": "user", "parts": parts})
        call = f"call_{number}_{n}"
        parts = [{"text": pool.cut(50, 500), "thought": True}, {"text": pool.cut(0, 400)}]
        asked = {"id": call, "name": "run_shell_command", "args": {"command": pool.cut(20, 200)}}
        counts = {"promptTokenCount": 900, "candidatesTokenCount": 100, "totalTokenCount": 1000}
        message = {"role": "model", "parts": [*parts, {"functionCall": asked}]}
        line("assistant", model="qwen3", usageMetadata=counts, message=message)
        event = {"event.name": "qwen-code.api_response", "prompt_id": f"{session}########{n}"}
        line("system", subtype="ui_telemetry", systemPayload={"uiEvent": event})
        output = pool.cut(200, 8000)
        response = {"id": call, "name": "run_shell_command", "response": {"output": output}}
        result = {"callId": call, "status": "success", "resultDisplay": output[:200]}
        message = {"role": "user", "parts": [{"functionResponse": response}]}
        line("tool_result", toolCallResult=result, message=message)
    return f"projects/-home-ana-shop/chats/{session}.jsonl", b"".join(lines)


def otel(number: int, rounds: int, pool: Pool) -> tuple[str, bytes]:
    """A trace per session, an envelope per span, as a collector's file exporter writes them."""
    history: list[Value] = []
    lines: list[bytes] = []
    base = 1_790_000_000_000_000_000 + number * 10**13

    def span(n: int, name: str, **attributes: Any) -> None:
        pairs = [
            {"key": key.replace("__", "."), "value": {"stringValue": value}
             if isinstance(value, str) else {"intValue": str(value)}}
            for key, value in attributes.items()
        ]  # fmt: skip
        start = base + n * 10**9
        value = {
            "traceId": f"{number:032x}", "spanId": f"{len(lines) + number * 10**6 + 1:016x}",
            "name": name, "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 10**8),
            "attributes": pairs,
        }  # fmt: skip
        lines.append(
            orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]}) + b"\n"
        )

    for n in range(min(rounds, 60)):
        if n % 12 == 0:
            history.append(
                {"role": "user", "parts": [{"type": "text", "content": pool.cut(40, 400)}]}
            )
        call, output = f"call_{number}_{n}", pool.cut(200, 4000)
        asked = {
            "type": "tool_call",
            "id": call,
            "name": "bash",
            "arguments": {"c": pool.cut(20, 90)},
        }
        answer = {
            "role": "assistant",
            "parts": [{"type": "text", "content": pool.cut(9, 400)}, asked],
        }
        span(
            2 * n, "chat acme-large", gen_ai__operation__name="chat",
            gen_ai__conversation__id=f"conv-{number}", gen_ai__request__model="acme-large",
            gen_ai__input__messages=orjson.dumps(history).decode(),
            gen_ai__output__messages=orjson.dumps([answer]).decode(),
            gen_ai__usage__input_tokens=900, gen_ai__usage__output_tokens=100,
        )  # fmt: skip
        span(
            2 * n + 1, "execute_tool bash", gen_ai__operation__name="execute_tool",
            gen_ai__conversation__id=f"conv-{number}", gen_ai__tool__name="bash",
            gen_ai__tool__call__id=call, gen_ai__tool__call__result=output,
        )  # fmt: skip
        part = {"type": "tool_call_response", "id": call, "response": output}
        history += [answer, {"role": "tool", "parts": [part]}]
    return f"traces-{number}.jsonl", b"".join(lines)


Maker = Callable[[int, int, Pool], tuple[str, bytes]]


def generate(folder: Path, make: Maker, size: int = SIZE, rounds: int = 600, seed: int = 1) -> None:
    """Sessions of 20 rounds and more until the size is reached."""
    pool = Pool(random.Random(seed))
    written = number = 0
    while written < size:
        number += 1
        name, data = make(number, pool.rng.randint(20, rounds), pool)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written += len(data)


def generate_one(folder: Path, make: Maker, size: int, name: str) -> None:
    """The same, all sessions one behind the other in a single file."""
    pool = Pool(random.Random(1))
    written = number = 0
    with open(folder / name, "wb") as file:
        while written < size:
            number += 1
            written += file.write(make(number, pool.rng.randint(20, 600), pool)[1])


def _rows(number: int, rounds: int, pool: Pool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    session = f"ses_{number:08d}"
    time = 1_790_000_000_000 + number * 10**7
    yield "session", (session, "p1", f"Session {number}", "/home/ana/shop", "1.18.33", time, time)
    for n in range(rounds):
        at = time + n * 1000
        if n % 12 == 0:
            ident = f"msg_{number:08d}_{n:06d}a"
            told: Value = {"role": "user", "time": {"created": at}}
            yield "message", (ident, session, at, orjson.dumps(told).decode())
            part: Value = {"type": "text", "text": pool.cut(40, 400)}
            yield "part", (f"prt_{ident}", ident, session, at, orjson.dumps(part).decode())
        ident = f"msg_{number:08d}_{n:06d}b"
        counts = {"input": 400, "output": 95, "reasoning": 5, "cache": {"read": 500, "write": 0}}
        told = {
            "role": "assistant",
            "modelID": "house-1",
            "tokens": counts,
            "time": {"created": at},
        }
        told |= {"finish": "tool-calls", "path": {"cwd": "/home/ana/shop"}}
        yield "message", (ident, session, at, orjson.dumps(told).decode())
        output = pool.cut(200, 8000)
        state = {"status": "completed", "input": {"command": pool.cut(20, 200)}, "output": output}
        state |= {"metadata": {"output": output, "exit": 0}, "time": {"start": at, "end": at + 5}}
        parts: list[Value] = [
            {"type": "step-start"},
            {"type": "reasoning", "text": pool.cut(50, 500)},
            {"type": "text", "text": pool.cut(0, 400)},
            {"type": "tool", "tool": "bash", "callID": f"call_{number}_{n}", "state": state},
            {"type": "step-finish", "reason": "tool-calls", "tokens": counts},
        ]
        for k, part in enumerate(parts):
            yield "part", (f"prt_{ident}_{k}", ident, session, at, orjson.dumps(part).decode())


_TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, title TEXT, directory TEXT, version TEXT,
  time_created INTEGER, time_updated INTEGER, parent_id TEXT, revert TEXT);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
  data TEXT);
CREATE INDEX message_session ON message (session_id);
CREATE INDEX part_message ON part (message_id);
"""
_COLUMNS = {
    "session": "id, project_id, title, directory, version, time_created, time_updated",
    "message": "id, session_id, time_created, data",
    "part": "id, message_id, session_id, time_created, data",
}


def generate_opencode(folder: Path, size: int = SIZE) -> None:
    """A database, and the same rows as JSON lines (`.rows`), of which the floor is made."""
    pool = Pool(random.Random(1))
    written = number = 0
    place = folder / "opencode"
    place.mkdir()
    with (
        closing(sqlite3.connect(place / "opencode.db")) as base,
        open(folder / "rows", "wb") as rows,
    ):
        base.executescript(_TABLES)
        while written < size:
            number += 1
            for table, values in _rows(number, pool.rng.randint(20, 600), pool):
                marks = ", ".join("?" * len(values))
                base.execute(f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES ({marks})", values)
                if table != "session":
                    written += rows.write(str(values[-1]).encode() + b"\n")
        base.commit()


def run_opencode(size: int = SIZE, job: str = "opencode") -> list[Row]:
    with made_data(job, lambda folder: generate_opencode(folder, size)) as folder:
        base = floor(folder, ".db")
        output = folder.parent / f"{job}-out.jsonl"
        place = folder / "opencode"
        done = Measured(extract_command(place, output, "--workers", "1"))
        output.unlink()
        return [
            (f"{job}: input", f"{size_of(place) / 1e6:.0f} MB"),
            (f"{job}: extract --workers 1", done.over(base)),
        ]
