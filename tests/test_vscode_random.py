"""Random VS Code chats: nothing is lost or told twice, and every way of keeping one is the same."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.test_chat_json import assert_round_trip
from tests.test_vscode_copies import log
from tests.vscode import chat, put, read
from tests.vscode_random import Maker
from unspool.trajectory import Message, Trajectory

SEEDS = range(120)


def made_chat(seed: int) -> dict[str, Any]:
    maker = Maker(seed)
    return chat(*(maker.request(str(number)) for number in range(1, maker.rng.randint(2, 4))))


@pytest.mark.parametrize("seed", SEEDS)
def test_round_trip(seed: int, tmp_path: Path) -> None:
    path = put(tmp_path / "in", "s.json", made_chat(seed))
    (tmp_path / "out").mkdir()
    assert_round_trip(path, tmp_path / "out")


def texts_of(part: Any) -> list[str]:
    """The words of the model in a part."""
    held = part.get("content") if part.get("kind") in ("markdownContent", "markdownVuln") else part
    value = held.get("value") if "kind" not in part or held is not part else None
    value = part["value"] if part.get("kind") == "thinking" else value
    return re.findall(r"word \d+", "".join(value) if isinstance(value, list) else value or "")


def told_in(message: Message) -> Iterator[str]:
    extra = message.extra or {}
    yield message.content
    yield message.thinking or ""
    yield from (thought.get("value", "") for thought in extra.get("thoughts", ()))
    kept = (p for p in extra.get("parts", ()) if p.get("kind") == "markdownContent")
    yield from (part["content"]["value"] for part in kept)


def calls_of(trajectory: Trajectory) -> Iterator[str]:
    for message in trajectory.messages:
        for call in message.tool_calls or ():
            yield call.id
            yield str((call.extra or {}).get("ui_call", ""))
        for part in (message.extra or {}).get("parts", ()):
            yield str(part.get("toolCallId", "")).partition("__")[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_word_and_call_is_told_once(seed: int, tmp_path: Path) -> None:
    held = made_chat(seed)
    made = read(put(tmp_path, "s.json", held))
    main = next(t for t in made if t.parent is None)
    answers = [m for m in main.messages if m.role == "assistant"]
    found = "\n".join(text for message in answers for text in told_in(message))
    calls = [ident for t in made for ident in calls_of(t)]
    for request in held["requests"]:
        rounds = request.get("result", {}).get("metadata", {}).get("toolCallRounds", ())
        for word in (w for part in request["response"] for w in texts_of(part)):
            assert len(re.findall(rf"{word}(?!\d)", found)) == 1, word
        for call in (call for one in rounds for call in one["toolCalls"]):
            assert calls.count(call["id"]) == 1
        for part in request["response"]:
            telling = part.keys() & {
                "pastTenseMessage",
                "resultDetails",
                "toolSpecificData",
                "result",
            }
            if "toolCallId" in part and (telling or part.get("presentation") != "hidden"):
                assert calls.count(part["toolCallId"].partition("__")[0]) == 1


class Log:
    """A chat as it came about: a log of changes, and what it should end in."""

    def __init__(self, maker: Maker) -> None:
        self.state = chat(maker.request("1"))
        self.changes: list[dict[str, Any]] = [{"kind": 0, "v": deepcopy(self.state)}]
        self.maker = maker
        for number in range(2, maker.rng.randint(3, 12)):
            self._step(str(number))

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.state["requests"]

    def _write(self, kind: int, *path: str | int, **more: Any) -> None:
        self.changes.append({"kind": kind, "k": list(path), **deepcopy(more)})

    def _step(self, name: str) -> None:
        maker, last = self.maker, len(self.requests) - 1
        step = maker.rng.randint(0, 6)
        if step < 3:
            self._stream(maker.request(name))
        elif step == 3:
            at = maker.rng.randint(0, last + 1)
            del self.requests[at:]
            self.requests.append(maker.request(name))
            self._write(2, "requests", i=at, v=self.requests[at:])
        elif step == 4:
            self.state["customTitle"] = f"Title {name}"
            self._write(1, "customTitle", v=f"Title {name}")
        elif step == 5:
            gone = maker.one("followups", "vote", "result", "modelState")
            self.requests[last].pop(gone, None)
            self._write(maker.one(1, 3), "requests", last, gone)
        else:
            self.changes.append({"kind": 0, "v": deepcopy(self.state)})

    def _stream(self, request: dict[str, Any]) -> None:
        """The parts one after the other, the last one sometimes once more; then the end."""
        at = len(self.requests)
        late = {name: request[name] for name in ("result", "modelState") if name in request}
        bare = {k: v for k, v in request.items() if k not in late}
        self._write(2, "requests", v=[{**bare, "response": []}])
        for number, part in enumerate(request["response"]):
            if number and self.maker.maybe(0.3):
                again = request["response"][number - 1 : number + 1]
                self._write(2, "requests", at, "response", v=again, i=number - 1)
            else:
                self._write(2, "requests", at, "response", v=[part])
        for name, value in late.items():
            self._write(1, "requests", at, name, v=value)
        self.requests.append(request)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_is_what_it_ends_in(seed: int, tmp_path: Path) -> None:
    made = Log(Maker(seed))
    flat = put(tmp_path, "a/chatSessions/s.json", json.dumps(made.state))
    logged = log(tmp_path, "b/chatSessions/s.jsonl", *made.changes)
    first, second = (next(t for t in read(p) if t.parent is None) for p in (flat, logged))
    assert _lasting(first) == _lasting(second)


def _lasting(trajectory: Trajectory) -> dict[str, Any]:
    """All but what also tells of requests that were taken back."""
    made: dict[str, Any] = msgspec.to_builtins(trajectory)
    gone = ("file_path", "branches", "references", "ended_at", "children")
    return {name: value for name, value in made.items() if name not in gone}
