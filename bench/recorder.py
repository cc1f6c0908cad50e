"""What recording costs the caller: microseconds of its time for one request."""

import tempfile
import time
from typing import Any

from unspool.record import Recorder

Row = tuple[str, str]

HISTORY = 20
CONVERSATIONS = 1000


def run() -> list[Row]:
    """Requests with a history of 20 messages: lists that grow, and lists that slide."""
    return [_row("growing list", False), _row("sliding window", True)]


def _row(what: str, sliding: bool) -> Row:
    costs = sorted(_costs(sliding))
    median, late = costs[len(costs) // 2], costs[len(costs) * 99 // 100]
    name = f"recorder: one request with {HISTORY} messages, {what}"
    return name, f"{median:.0f} µs of the caller's time (99 %: {late:.0f} µs; aim 150 µs)"


def _costs(sliding: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as folder, Recorder(agent="bench", path=folder) as recorder:
        return [_last_cost(recorder, f"chat-{n}", sliding) for n in range(CONVERSATIONS)]


def _last_cost(recorder: Recorder, session: str, sliding: bool) -> float:
    """Ten requests of one conversation; what the tenth, with the whole history, costs."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help. " * 100}]
    cost = 0.0
    for number in range(HISTORY // 2 + (2 if sliding else 0)):
        messages.append({"role": "user", "content": f"question {number} " + "and more " * 50})
        if number:
            messages.append({"role": "user", "content": f"and also {number}"})
        sent = [messages[0], *messages[1:][-(HISTORY - 1) :]]
        start = time.perf_counter_ns()
        with recorder.request("model", sent, session_id=session) as request:
            request.respond(f"answer {number} " + "words " * 80)
        cost = (time.perf_counter_ns() - start) / 1000
        if number % 2:
            messages.append({"role": "assistant", "content": f"answer {number} " + "words " * 80})
    return cost


if __name__ == "__main__":
    for name, value in run():
        print(f"{name:60} {value}")
