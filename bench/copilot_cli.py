"""Made-up Copilot CLI sessions of any size, and what `extract` costs on them.

Proportions as in real logs: a hook repeats every tool result (over a third of all bytes), most lines
are a tool's start and end, one session in five has a sub-agent.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.telemetry import Pool

TOOLS = ("view", "edit", "bash", "grep", "report_intent")


class Writer:
    """The lines of one session."""

    def __init__(self, number: int, pool: Pool) -> None:
        self.id = f"{number:08d}-0000-4000-8000-000000000000"
        self.pool = pool
        self.clock = 0

    def line(self, kind: str, data: dict[str, Any]) -> bytes:
        self.clock += 1
        minute, second = self.clock // 60 % 60, self.clock % 60
        stamp = f"2026-05-04T{10 + self.clock // 3600 % 12}:{minute:02d}:{second:02d}.000Z"
        event = {"type": kind, "data": data, "id": f"{self.id}-{self.clock}", "timestamp": stamp}
        event["parentId"] = f"{self.id}-{self.clock - 1}"
        return orjson.dumps(event) + b"\n"

    def session(self, rounds: int) -> Iterator[bytes]:
        context = {"cwd": "/home/ana/shop", "branch": "main", "repository": "ana/shop"}
        start = {"sessionId": self.id, "copilotVersion": "1.0.40", "context": context}
        yield self.line("session.start", {**start, "selectedModel": "model-a"})
        for number in range(rounds):
            if number % 12 == 0:
                text = self.pool.cut(40, 400)
                sent = f"<current_datetime>now</current_datetime>\n\n{text}"
                data = {"content": text, "transformedContent": sent, "attachments": []}
                yield self.line("user.message", data)
            yield from self.round(number)
        usage = {"inputTokens": 1000, "outputTokens": rounds * 100}
        metrics = {"model-a": {"requests": {"count": rounds, "cost": 1}, "usage": usage}}
        yield self.line("session.shutdown", {"shutdownType": "routine", "modelMetrics": metrics})

    def round(self, number: int) -> Iterator[bytes]:
        rng, cut = self.pool.rng, self.pool.cut
        child = {"parentToolCallId": f"{self.id}-task"} if number % 60 in range(5, 15) else {}
        if number % 60 == 4:
            started = {"toolCallId": f"{self.id}-task", "agentName": "explore"}
            yield self.line("subagent.started", started)
        calls = [(f"{self.id}-c{number}-{k}", rng.choice(TOOLS)) for k in range(rng.randint(1, 3))]
        requests = [
            {"toolCallId": c, "name": n, "arguments": {"path": "/x.py", "text": cut(20, 600)}}
            for c, n in calls
        ]
        yield self.line("assistant.turn_start", {"turnId": str(number)})
        data = {"messageId": f"{self.id}-m{number}", "content": cut(0, 400), "outputTokens": 100}
        thinking = {"reasoningText": cut(100, 900), "reasoningOpaque": "x" * 400}
        yield self.line(
            "assistant.message", {**data, "toolRequests": requests, **thinking, **child}
        )
        for call, name in calls:
            held = {"toolCallId": call, "toolName": name, "arguments": {"path": "/x.py"}, **child}
            yield self.line("tool.execution_start", held)
            result = cut(200, 8000)
            hook = {"hookInvocationId": call, "hookType": "postToolUse", "input": {"r": result}}
            yield self.line("hook.start", hook)
            yield self.line("hook.end", {"hookInvocationId": call, "success": True})
            done = {"toolCallId": call, "success": True, "model": "model-a", **child}
            done["result"] = {"content": result, "detailedContent": result[:300]}
            yield self.line("tool.execution_complete", done)
        yield self.line("assistant.turn_end", {"turnId": str(number)})


def generate(folder: Path, size: int, seed: int = 1) -> None:
    """Sessions of 20 to 600 rounds until the size is reached."""
    rng = random.Random(seed)
    pool = Pool(rng)
    written = number = 0
    while written < size:
        number += 1
        writer = Writer(number, pool)
        path = folder / "session-state" / writer.id / "events.jsonl"
        path.parent.mkdir(parents=True)
        data = b"".join(writer.session(rng.randint(20, 600)))
        path.write_bytes(data)
        written += len(data)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(float(sys.argv[2])))
