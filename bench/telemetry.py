"""Made-up Copilot Chat telemetry of any size, and what `extract` costs on it.

Every conversation is an agent session: each engine call logs the whole growing list, cut into parts
of 8192 characters; its answer, user events, session events and noise stand between; the events of
several conversations are mixed, and a conversation may go on in the next file.
"""

import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench.measure import Measured, Row, extract_command

PART = 8192
TEXT = """the value of parse error in module import class return file path test update check run
función größe 漢字 → “quoted” \\n {braces} <tag> index result line"""
WORDS = TEXT.split()
COMMON = {
    "editor_version": "vscode/1.108.2",
    "editor_plugin_version": "copilot-chat/0.36.2",
    "client_machineid": "m" * 64,
    "client_sessionid": "s" * 36,
    "copilot_version": "copilot/0.36.2",
    "common_extname": "copilot-chat",
    "common_extversion": "0.36.2",
    "common_vscodeversion": "vscode/1.108.2",
}


class Sizes(NamedTuple):
    """From how many to how many characters the texts of a conversation have."""

    system: tuple[int, int]
    context: tuple[int, int]
    answer: tuple[int, int]
    result: tuple[int, int]


LONG = Sizes(system=(12_000, 24_000), context=(200, 900), answer=(100, 800), result=(500, 8000))
SHORT = Sizes(system=(1500, 4000), context=(50, 300), answer=(30, 200), result=(30, 300))


class Pool:
    """Texts made once and cut from at random: making them anew would be the slowest part."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.body = "\n".join(" ".join(rng.choices(WORDS, k=12)) for _ in range(30_000))

    def cut(self, low: int, high: int) -> str:
        size = self.rng.randint(low, high)
        at = self.rng.randrange(len(self.body) - size)
        return self.body[at : at + size]


def event(name: str, clock: int, properties: dict[str, Any], **measures: int) -> bytes:
    base: dict[str, Any] = {"name": f"GitHub.copilot-chat/{name}", "properties": properties}
    if measures:
        base["measurements"] = measures
    day, hour, minute = 1 + clock // 86400 % 28, clock // 3600 % 24, clock // 60 % 60
    stamp = f"2026-03-{day:02d}T{hour:02d}:{minute:02d}:{clock % 60:02d}.000Z"
    return orjson.dumps({"time": stamp, "data": {"baseData": base}}) + b"\n"


def split(name: str, value: str) -> dict[str, Any]:
    made = {name: value[:PART]}
    for number, at in enumerate(range(PART, len(value), PART), 2):
        made[f"{name}_{number:02d}"] = value[at : at + PART]
    return made


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def conversation(number: int, pool: Pool, clock: int) -> Iterator[bytes]:
    """The events of one conversation: some turns, each with some tool rounds."""
    ident = hashlib.md5(str(number).encode()).hexdigest()
    environment = f"<environment_info>\n{pool.cut(200, 500)}\n</environment_info>"
    messages = [
        dump({"role": "system", "content": pool.cut(*LONG.system)}),
        dump({"role": "user", "content": environment}),
    ]
    for turn in range(pool.rng.randint(2, 5)):
        clock += 60
        calls = pool.rng.randint(4, 16)
        yield from _turn(ident, turn, pool, messages, clock, calls, LONG)


def _turn(
    ident: str,
    turn: int,
    pool: Pool,
    messages: list[str],
    clock: int,
    calls: int,
    sizes: Sizes,
) -> Iterator[bytes]:
    request = f"{ident}-{turn}"
    base = {"conversationId": ident, "headerRequestId": request, "messageId": request, **COMMON}
    words = pool.cut(50, 300)
    user = {"source": "user", "turnIndex": str(turn), "mode": "agent", "messageText": words}
    yield event("conversation.messageText", clock, {**base, **user})
    context = f"<context>\n{pool.cut(*sizes.context)}\n</context>"
    content = f"{context}\n<userRequest>\n{words}\n</userRequest>"
    messages.append(dump({"role": "user", "content": content}))
    for call in range(calls):
        clock += 5
        yield from _call(f"{request}-{call}", base, pool, messages, clock, sizes)
    session = {"sessionId": ident, "requestId": request, "baseModel": "claude-sonnet-4.5"}
    yield event("interactiveSessionResponse", clock, session)


def _call(
    call: str,
    base: dict[str, str],
    pool: Pool,
    messages: list[str],
    clock: int,
    sizes: Sizes,
) -> Iterator[bytes]:
    base = {**base, "modelCallId": call, "messageSource": "chat.agent"}
    whole = "[" + ",".join(messages) + "]"
    options = {"request_option_model": '"claude-sonnet-4.5"', "request_option_tools": "[]"}
    yield event("engine.messages", clock, {**base, **options, **split("messagesJson", whole)})
    length = {"message_direction": "input", "messagesJson": str(len(whole))}
    yield event("engine.messages.length", clock, {**base, **length})
    answer = pool.cut(*sizes.answer)
    output = split("messagesJson", dump([{"role": "assistant", "content": answer}]))
    yield event(
        "engine.messages", clock + 2, {**base, "baseModel": "claude-sonnet-4.5", **output},
        promptTokens=len(whole) // 4, completionTokens=200,
    )  # fmt: skip
    for name in ("request.sent", "toolCallDetailsExternal"):
        yield event(name, clock + 2, {**base, "availableTools": "x" * 300})
    function = {"name": "read_file", "arguments": dump({"filePath": f"/w/{call}.py"})}
    calls = [{"id": f"call_{call}", "type": "function", "function": function}]
    messages.append(dump({"role": "assistant", "content": answer, "tool_calls": calls}))
    returned = {"role": "tool", "tool_call_id": f"call_{call}", "content": pool.cut(*sizes.result)}
    messages.append(dump(returned))


def generate(folder: Path, size: int, files: int = 8, seed: int = 1) -> None:
    """About `size` bytes in `files` files; conversations mixed four at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    pool = Pool(random.Random(seed))
    number = 0
    running: list[Iterator[bytes]] = []
    for part in range(files):
        done = 0
        with open(folder / f"part-{part:02d}.jsonl", "wb") as file:
            while done < size / files:
                while len(running) < 4:
                    running.append(conversation(number, pool, number * 1000))
                    number += 1
                chosen = pool.rng.choice(running)
                line = next(chosen, None)
                if line is None:
                    running.remove(chosen)
                    continue
                file.write(line)
                done += len(line)


def generate_short(folder: Path, count: int = 4000, files: int = 24, seed: int = 5) -> None:
    """Many short conversations, 700 MB: 1 to 8 turns of 1 to 6 calls, lists of 14 kB on average.

    Half of the lines escape what is not ASCII; forty conversations are mixed at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pool = Pool(random.Random(seed))
    rng = pool.rng
    coming = (_short_conversation(number, pool) for number in range(count))
    running = [next(coming) for _ in range(40)]
    lines: list[bytes] = []
    while running:
        chosen = rng.choice(running)
        line = next(chosen, None)
        if line is None:
            running.remove(chosen)
            running.extend(islice(coming, 1))
        elif rng.random() < 0.5:
            lines.append(json.dumps(orjson.loads(line)).encode() + b"\n")
        else:
            lines.append(line)
    for part in range(files):
        share = lines[len(lines) * part // files : len(lines) * (part + 1) // files]
        (folder / f"part-{part:02d}.jsonl").write_bytes(b"".join(share))


def _short_conversation(number: int, pool: Pool) -> Iterator[bytes]:
    rng = pool.rng
    ident = hashlib.md5(f"short-{number}".encode()).hexdigest()
    environment = f"<environment_info>\n{pool.cut(100, 300)}\n</environment_info>"
    messages = [
        dump({"role": "system", "content": pool.cut(*SHORT.system)}),
        dump({"role": "user", "content": environment}),
    ]
    clock = number * 400
    for turn in range(min(rng.randint(1, 8), rng.randint(1, 8))):  # most are short
        clock += 60
        yield from _turn(ident, turn, pool, messages, clock, rng.randint(1, 6), SHORT)


def run_memory(large: int = 4_000_000_000) -> list[Row]:
    """What four times the data costs in memory."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
        for size in (large // 4, large):
            folder = Path(temporary, str(size))
            generate(folder, size, files=16, seed=2)
            done = Measured(extract_command(folder, Path(temporary, "out.jsonl"), "--workers", "2"))
            figures = f"{done.seconds:.1f} s, peak {done.peak_bytes / 1e6:.0f} MB"
            rows.append((f"telemetry-memory: {size / 1e9:.0f} GB, --workers 2", figures))
            shutil.rmtree(folder)
    return rows


if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(float(sys.argv[2])))
