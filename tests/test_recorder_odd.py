"""Nothing that a program hands over makes the recorder raise, and nothing is lost over it."""

import enum
import logging
import types
import uuid
from collections import UserDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from unspool.record import Recorder


class Speechless(Exception):
    """An error, or any object, whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Undumpable:
    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("not today")


class Setting(enum.Enum):
    MODEL = "some-model"


@dataclass
class Said:
    role: str
    content: Any


USER = {"role": "user", "content": "hello"}
CALL = {"id": 7, "function": {"name": "run", "arguments": {"a": 1}}}
NAN, INFINITY = float("nan"), float("inf")


def said() -> Iterator[dict[str, str]]:
    yield USER


ASKED: dict[str, dict[str, Any]] = {
    "no model": {"model": None},
    "a model of settings": {"model": Setting.MODEL},
    "a number for a model": {"model": 5},
    "a stand-in for a model": {"model": MagicMock()},
    "a generator": {"messages": said()},
    "a deque": {"messages": deque([USER])},
    "one message": {"messages": USER},
    "text": {"messages": "hello"},
    "a data class": {"messages": [Said("user", "hello")]},
    "data classes within": {"messages": [Said("user", [Said("x", "y"), "hello"]), USER]},
    "a namespace": {"messages": [types.SimpleNamespace(**USER)]},
    "a mapping": {"messages": [types.MappingProxyType(USER)]},
    "another mapping": {"messages": [UserDict(USER)]},
    "a stand-in for a message": {"messages": [MagicMock(), USER]},
    "objects without words": {"messages": [Speechless(), Undumpable(), USER]},
    "a number among tools": {"tools": 5},
    "a generator of tools": {"tools": (tool for tool in [{"name": "run"}])},
    "a stand-in for tools": {"tools": MagicMock()},
}
ANSWERED: dict[str, dict[str, Any]] = {
    "thinking in pieces": {"thinking": ["a", "b"]},
    "a number for calls": {"tool_calls": 5},
    "a number for an id": {"tool_calls": [CALL]},
    "a reason that is none": {"stop": 5},
    "another model": {"model": Setting.MODEL},
    "figures as floats": {"usage": {"prompt_tokens": 12.0, "completion_tokens": 3.5}},
    "figures as text": {"usage": {"prompt_tokens": "12", "cost_usd": "0.1"}},
    "a cost that is none": {"usage": {"prompt_tokens": 12, "cost_usd": NAN}},
    "an exact cost": {"usage": {"prompt_tokens": 12, "cost_usd": Decimal("0.5")}},
    "a stand-in for usage": {"usage": MagicMock()},
}


@pytest.fixture
def recorder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Recorder]:
    """A recorder whose journal must be readable without a problem."""
    with Recorder(agent="demo", path=tmp_path / "journal") as made:
        yield made
        with caplog.at_level(logging.WARNING):
            trajectories = list(made.trajectories())
        assert not caplog.records
        assert trajectories
        assert made.lost == 0


def said_in(recorder: Recorder) -> list[tuple[str, str]]:
    return [(m.role, m.content) for made in recorder.trajectories() for m in made.messages]


@pytest.mark.parametrize("name", ASKED)
def test_whatever_is_asked(recorder: Recorder, name: str) -> None:
    given: dict[str, Any] = {"model": "m", "messages": [USER], **ASKED[name]}
    with recorder.conversation("c"), recorder.request(**given) as request:
        request.respond("ok")
    found = said_in(recorder)
    assert ("user", "hello") in found
    assert found[-1] == ("assistant", "ok")


@pytest.mark.parametrize("messages", [None, 5, [], [None], MagicMock()])
def test_nothing_is_asked(recorder: Recorder, messages: Any) -> None:
    with recorder.conversation("c"), recorder.request("m", messages) as request:
        request.respond("ok")
    assert said_in(recorder)[-1] == ("assistant", "ok")


@pytest.mark.parametrize("name", ANSWERED)
def test_whatever_is_said_beside_the_answer(recorder: Recorder, name: str) -> None:
    with recorder.conversation("c"), recorder.request("m", [USER]) as request:
        request.respond("ok", **ANSWERED[name])
    (made,) = recorder.trajectories()
    assert [m.content for m in made.messages][:2] == ["hello", "ok"]


def test_figures_as_floats_are_figures(recorder: Recorder) -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": NAN, "cost_usd": Decimal("0.5")}
    recorder.log_request("m", [USER], "ok", usage=usage, session_id="c")
    (made,) = recorder.trajectories()
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (12, None)
    assert made.usage.cost_usd == 0.5


@pytest.mark.parametrize("answer", [MagicMock(), Speechless(), Undumpable(), 5, {"content": NAN}])
def test_whatever_is_answered(recorder: Recorder, answer: Any) -> None:
    with recorder.conversation("c"), recorder.request("m", [USER]) as request:
        request.respond(answer)
    assert [role for role, _ in said_in(recorder)] == ["user", "assistant"]


@pytest.mark.parametrize("ident", [uuid.UUID(int=5), 5, Setting.MODEL], ids=str)
def test_ids_of_any_kind(recorder: Recorder, ident: Any) -> None:
    """A program's ids are often objects: every place takes them, and they are the same everywhere."""
    with recorder.conversation(ident, title=5, metadata="odd") as opened:  # type: ignore[arg-type]
        with recorder.request("m", [USER]) as request:
            call = {"id": ident, "function": {"name": "run", "arguments": "{}"}}
            request.respond("ok", tool_calls=[call])
        with recorder.tool(Setting.MODEL, {"a": 1}, ident) as tool:  # type: ignore[arg-type]
            tool.result("done")
        with recorder.subagent(ident, invocation_id=f"sub-{ident}", call_id=ident):
            recorder.log_request("m", [USER], "ok")
    recorder.log_request("m", [USER], "ok", session_id=ident, request_id=ident)
    recorder.log_tool_call("run", {}, "done", session_id=ident, child_id=ident)
    recorder.log_element(ident, 3.5, "many", session_id=ident, data=[1])  # type: ignore[arg-type]
    made = {t.conversation_id: t for t in recorder.trajectories()}
    first, result = made[opened.id].messages[1], made[opened.id].messages[2]
    assert first.tool_calls is not None
    assert first.tool_calls[0].id == result.tool_call_id
    assert first.tool_calls[0].child_id == f"sub-{ident}"
    assert len(made) == 2
    assert [t.conversation_id for t in recorder.trajectories(ident)] == list(made)
    recorder.clear(f"sub-{ident}")
    assert len(list(recorder.trajectories())) == 1


@pytest.mark.parametrize("error", [Speechless(), Speechless, 5], ids=["one", "a class", "5"])
def test_errors_without_words(recorder: Recorder, error: Any) -> None:
    if isinstance(error, Speechless):
        with pytest.raises(Speechless), recorder.request("m", [USER]):
            raise error
        with pytest.raises(Speechless), recorder.tool("run"):
            raise error
    recorder.log_request("m", [USER], error=error, session_id="c")
    recorder.log_tool_call("run", error=error, session_id="c")
    assert ("user", "hello") in said_in(recorder)


@pytest.mark.parametrize(
    "time",
    ["2026-01-01T00:00:00Z", "noon", NAN, INFINITY, -1e300, datetime(1, 1, 1), "", []],
    ids=str,
)
def test_times_of_any_kind(recorder: Recorder, time: Any) -> None:
    recorder.log_request(
        "m", [USER], "ok", started_at=time, ended_at=time, time_to_first_token_ms=time
    )
    recorder.log_tool_call("run", {}, "done", started_at=time, ended_at=time)
    (made,) = recorder.trajectories()
    assert made.messages[1].content == "ok"
    if time == "2026-01-01T00:00:00Z":
        assert made.messages[1].timestamp == "2026-01-01T00:00:00.000Z"


CHUNKS: list[Any] = [
    *(None, 5, MagicMock(), Speechless(), Undumpable(), {"choices": 5}, {"choices": [5]}),
    {"choices": [{"delta": {"content": ["x"], "tool_calls": [{"index": [1], "function": 5}]}}]},
    {"type": "content_block_delta", "index": {}, "delta": {"type": "input_json_delta"}},
]


def test_chunks_of_any_kind(recorder: Recorder) -> None:
    with recorder.request("m", [USER]) as request:
        for chunk in CHUNKS:
            request.chunk(chunk)
        request.chunk("ok")
    assert said_in(recorder)[-1][1].endswith("ok")


RESULTS: list[Callable[[], Any]] = [MagicMock, Speechless, Undumpable, lambda: b"\xff", set]


@pytest.mark.parametrize("make", RESULTS)
def test_tools_that_take_and_give_anything(recorder: Recorder, make: Callable[[], Any]) -> None:
    with recorder.tool("run", make(), "c1") as tool:
        tool.result(make())
    assert [role for role, _ in said_in(recorder)] == ["assistant", "tool"]


def test_what_a_tool_gives_bit_by_bit_stays_the_agents(recorder: Recorder) -> None:
    pieces = iter(["a", "b"])
    with recorder.tool("run", {}, "c1") as tool:
        tool.result(pieces)
    assert list(pieces) == ["a", "b"]
