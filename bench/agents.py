"""Made-up sessions of Codex, Gemini CLI, Qwen Code and OpenCode, and OTLP traces, of any size.

Kinds, fields and proportions as in recorded sessions, with results of tools as long as those of the
made-up Claude Code sessions: Codex writes each result twice (the item shows it too), Qwen Code three
times (its screen has it as `output` and as `text`); Gemini CLI writes an answer again with its results;
a chat span repeats the history. A turn is five calls of the model, as in real files of Codex (120
prompts, 636 calls).
"""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from bench.measure import Measured, Row, extract_command, floor_of_rows, made_data, size_of
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
    """A thread as 0.166 writes it: each line with the fields that it has there."""
    thread, turn, cwd = _uuid(number), "", "/home/ana/shop"
    lines: list[bytes] = []
    total = dict.fromkeys(
        ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens",
         "reasoning_output_tokens", "total_tokens"), 0,
    )  # fmt: skip

    def line(kind: str, payload: Value, **fields: Any) -> None:
        value = {"timestamp": _stamp(len(lines)), "ordinal": len(lines), "type": kind}
        lines.append(orjson.dumps({**value, "payload": payload, **fields}) + b"\n")

    def event(kind: str, **fields: Any) -> None:
        line("event_msg", {"type": kind, **fields})

    def item(**fields: Any) -> None:
        at = 1_794_821_031_000 + len(lines)
        moments = {"started_at_ms": at, "completed_at_ms": at}
        event("item_completed", thread_id=thread, turn_id=turn, item=fields, **moments)

    def said(payload: Value, **about: Any) -> None:
        about = {"turn_id": turn, "create_time": 1_794_821_031.62, **about}
        source = {"id": {"message_id": payload.get("id"), "turn_id": turn}, "complete": True}
        line(
            "response_item",
            {**payload, "internal_chat_message_metadata_passthrough": about},
            metadata={"retained_source": source, "client_authored": False},
        )

    def message(role: str, text: str, kind: str) -> None:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        told = {"type": "message", "id": f"msg_{number}_{len(lines)}", "role": role}
        said({**told, "content": [part]}, content_item_kinds=[kind])

    def settings() -> Value:
        mode = {"mode": "default", "settings": {"model": "gpt-5.5", "reasoning_effort": None}}
        told = {
            "cwd": cwd,
            "approval_policy": "never",
            "sandbox_policy": {"type": "workspace-write"},
        }
        return {**told, "model": "gpt-5.5", "collaboration_mode": mode, "summary": "none"}

    line("session_meta", {
        "id": thread, "session_id": thread, "cwd": cwd, "cli_version": "0.166.0", "source": "cli",
        "originator": "codex_cli", "base_instructions": {"text": pool.cut(18000, 22000)},
    })  # fmt: skip
    for n in range(rounds):
        if n % 5 == 0:
            turn = _uuid(number * 1000 + n)
            event("task_started", turn_id=turn, started_at=1_794_821_031, root_turn_id=turn)
            if n == 0:
                message("developer", pool.cut(4000, 5000), "host_skills.instructions")
                line("world_state", {"full": True, "state": {"host_skills": pool.cut(4000, 5000)}})
            line("turn_context", {"turn_id": turn, "root_turn_id": turn, **settings()})
            event("thread_settings_applied", thread_id=thread, thread_settings=settings())
            prompt = pool.cut(40, 600)
            message("user", prompt, "user.text")
            item(type="UserMessage", id=turn, content=[{"type": "text", "text": prompt}])
        thought, ident = pool.cut(50, 300), f"{number}_{n}"
        item(type="Reasoning", id=f"rs_{ident}", summary_text=[thought], raw_content=[])
        summary = [{"type": "summary_text", "text": thought}]
        hidden = pool.cut(900, 2000)
        said(
            {
                "type": "reasoning",
                "id": f"rs_{ident}",
                "summary": summary,
                "encrypted_content": hidden,
            }
        )
        if n % 2:
            text = pool.cut(20, 400)
            item(type="AgentMessage", id=f"msg_{ident}", content=[{"type": "Text", "text": text}])
            message("assistant", text, "unknown")
        call, command, output = f"call_{ident}", pool.cut(20, 200), pool.cut(200, 8000)
        asked = orjson.dumps({"cmd": command}).decode()
        said({
            "type": "function_call", "status": "completed", "id": f"fc_{ident}", "call_id": call,
            "name": "exec_command", "arguments": asked,
        })  # fmt: skip
        spent = dict(zip(total, (900, 500, 0, 100, 40, 1000), strict=True))
        total = {name: count + spent[name] for name, count in total.items()}
        line("token_usage_record", {
            "thread_id": thread, "turn_id": turn, "session_id": thread, "root_turn_id": turn,
            "response_id": f"resp_{ident}", "usage": spent, "turn_token_usage": total,
            "thread_token_usage": total,
        })  # fmt: skip
        item(
            type="CommandExecution", id=call, process_id="20019", command=["/bin/bash", "-lc", command],
            cwd=f"file://{cwd}", parsed_cmd=[{"type": "unknown", "cmd": command}], status="completed",
            aggregated_output=output, exit_code=0, duration={"secs": 0, "nanos": 12389},
        )  # fmt: skip
        header = (
            "Chunk ID: da1a24\nWall time: 0.0000 seconds\nProcess exited with code 0\nOutput:\n"
        )
        said({"type": "function_call_output", "id": f"fco_{ident}", "call_id": call,
              "output": header + output})  # fmt: skip
        limits = dict.fromkeys(("limit_name", "primary", "secondary", "credits", "plan_type"))
        info = {
            "total_token_usage": total,
            "last_token_usage": spent,
            "model_context_window": 258400,
        }
        event("token_count", info=info, rate_limits={"limit_id": "codex", **limits})
        if n % 5 == 4:
            event("task_complete", turn_id=turn, completed_at=1_794_821_032, duration_ms=862)
    message("assistant", pool.cut(100, 900), "unknown")
    name = f"sessions/2026/05/04/rollout-2026-05-04T10-00-00-{thread}.jsonl"
    return name, b"".join(lines)


def gemini(number: int, rounds: int, pool: Pool) -> tuple[str, bytes]:
    session = _uuid(number)
    head = {"sessionId": session, "projectHash": "ab12", "startTime": _stamp(0), "kind": "main"}
    lines = [orjson.dumps(head)]
    for n in range(rounds):
        common = {"timestamp": _stamp(n * 5)}
        if n % 5 == 0:
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

    def event(name: str, n: int, **fields: Any) -> None:
        told = {"event.name": f"qwen-code.{name}", "event.timestamp": _stamp(len(lines)), **fields}
        told |= {"prompt_id": f"{session}########{n // 5}", "response_id": f"chatcmpl-{number}-{n}"}
        line("system", provenance="system", subtype="ui_telemetry", systemPayload={"uiEvent": told})

    for n in range(rounds):
        if n % 5 == 0:
            parts: list[Value] = [{"text": pool.cut(40, 600)}]
            line("user", provenance="real_user", message={"role": "user", "parts": parts})
            state = {
                "type": "attribution-snapshot",
                "version": 1,
                "surface": "cli",
                "promptCount": n,
            }
            payload = {"snapshot": {**state, "fileStates": {}}}
            line(
                "system", provenance="system", subtype="attribution_snapshot", systemPayload=payload
            )
        call, text, given = f"call_{number}_{n}", pool.cut(0, 400), {"command": pool.cut(20, 200)}
        event(
            "api_response", n, model="qwen3-coder-plus", status_code=200, duration_ms=308,
            input_token_count=900, output_token_count=100, cached_content_token_count=500,
            thoughts_token_count=7, total_token_count=1000, response_text=text, auth_type="openai",
        )  # fmt: skip
        parts = [{"text": pool.cut(50, 500), "thought": True}, {"text": text}]
        counts = {"promptTokenCount": 900, "candidatesTokenCount": 100, "totalTokenCount": 1000}
        counts |= {"thoughtsTokenCount": 7, "cachedContentTokenCount": 500}
        asked = {"id": call, "name": "run_shell_command", "args": given}
        message = {"role": "model", "parts": [*parts, {"functionCall": asked}]}
        line(
            "assistant", provenance="assistant_output", model="qwen3-coder-plus", message=message,
            usageMetadata=counts, contextWindowSize=1_000_000,
        )  # fmt: skip
        event(
            "tool_call", n, call_id=call, function_name="run_shell_command", function_args=given,
            duration_ms=156, status="success", success=True, decision="auto_accept",
        )  # fmt: skip
        output = pool.cut(200, 8000)
        got = f"Command: {given['command']}\nDirectory: (root)\nOutput: {output}\nExit Code: 0"
        response = {"id": call, "name": "run_shell_command", "response": {"output": got}}
        shown = {
            "type": "shell_result",
            "version": 1,
            "exitCode": 0,
            "signal": None,
            "output": output,
        }
        result = {"callId": call, "status": "success", "resultDisplay": {**shown, "text": output}}
        message = {"role": "user", "parts": [{"functionResponse": response}]}
        line("tool_result", provenance="tool_result", toolCallResult=result, message=message)
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
        if n % 5 == 0:
            ident = asked = f"msg_{number:08d}_{n:06d}a"
            told: Value = {"role": "user", "time": {"created": at}, "agent": "build"}
            told |= {
                "model": {"providerID": "house", "modelID": "house-1"},
                "summary": {"diffs": []},
            }
            yield "message", (ident, session, at, orjson.dumps(told).decode())
            part: Value = {"type": "text", "text": pool.cut(40, 600)}
            yield "part", (f"prt_{ident}", ident, session, at, orjson.dumps(part).decode())
        ident = f"msg_{number:08d}_{n:06d}b"
        counts = {"input": 400, "output": 95, "reasoning": 5, "cache": {"write": 0, "read": 500}}
        counts["total"] = 1000
        told = {
            "parentID": asked, "role": "assistant", "mode": "build", "agent": "build",
            "path": {"cwd": "/home/ana/shop", "root": "/"}, "cost": 0, "tokens": counts,
            "modelID": "house-1", "providerID": "house", "finish": "tool-calls",
            "time": {"created": at, "completed": at + 900},
        }  # fmt: skip
        yield "message", (ident, session, at, orjson.dumps(told).decode())
        output = pool.cut(200, 8000)
        command = pool.cut(20, 200)
        given = {"command": command, "description": "Run it"}
        state = {"status": "completed", "input": given, "output": output, "title": command}
        state["metadata"] = {"output": output, "exit": 0, "truncated": False}
        state["time"] = moments = {"start": at, "end": at + 5}
        parts: list[Value] = [
            {"type": "step-start"},
            {"type": "reasoning", "text": pool.cut(50, 500), "time": moments},
            {"type": "text", "text": pool.cut(0, 400), "time": moments},
            {"type": "tool", "tool": "bash", "callID": f"call_{number}_{n}", "state": state},
            {"reason": "tool-calls", "type": "step-finish", "tokens": counts, "cost": 0},
        ]
        for k, part in enumerate(parts):
            yield "part", (f"prt_{ident}_{k}", ident, session, at, orjson.dumps(part).decode())


_TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, title TEXT, directory TEXT, version TEXT,
  time_created INTEGER, time_updated INTEGER, parent_id TEXT, revert TEXT);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
  data TEXT);
CREATE INDEX message_session ON message (session_id, time_created, id);
CREATE INDEX part_message ON part (message_id, id);
"""
_COLUMNS = {
    "session": "id, project_id, title, directory, version, time_created, time_updated",
    "message": "id, session_id, time_created, data",
    "part": "id, message_id, session_id, time_created, data",
}


def generate_opencode(folder: Path, size: int = SIZE) -> None:
    """A database of 1.x."""
    pool = Pool(random.Random(1))
    written = number = 0
    with closing(sqlite3.connect(folder / "opencode.db")) as base:
        base.executescript(_TABLES)
        while written < size:
            number += 1
            for table, values in _rows(number, pool.rng.randint(20, 600), pool):
                marks = ", ".join("?" * len(values))
                base.execute(f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES ({marks})", values)
                written += len(str(values[-1]))
        base.commit()


def run_opencode(size: int = SIZE, job: str = "opencode") -> list[Row]:
    with made_data(job, lambda folder: generate_opencode(folder, size)) as folder:
        base = floor_of_rows(folder / "opencode.db", "message", "part")
        output = folder.parent / f"{job}-out.jsonl"
        done = Measured(extract_command(folder, output, "--workers", "1"))
        output.unlink()
        return [
            (f"{job}: input", f"{size_of(folder) / 1e6:.0f} MB"),
            (f"{job}: floor, orjson.loads on every row", f"{base.seconds:.2f} s"),
            (f"{job}: extract --workers 1", done.over(base)),
        ]
