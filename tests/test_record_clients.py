"""Wrapped openai and anthropic clients against a real server on loopback."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wire import Server
from unspool.errors import UsageError
from unspool.record import Recorder
from unspool.trajectory import Message, Trajectory

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
CLAUDE_TOOLS = [{"name": "ls", "input_schema": {"type": "object"}}]
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Server() as address:
        yield address


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(agent="demo", path=tmp_path / "journal") as made:
        yield made


def chat(address: str, recorder: Recorder, asynchronous: bool = False) -> Any:
    kind = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return recorder.wrap(kind(api_key="k", base_url=f"{address}/v1", max_retries=0))


def claude(address: str, recorder: Recorder, asynchronous: bool = False) -> Any:
    kind = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    return recorder.wrap(kind(api_key="k", base_url=address, max_retries=0))


def only(recorder: Recorder) -> Trajectory:
    (made,) = recorder.trajectories()
    return made


def said(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in trajectory.messages]


def last(recorder: Recorder) -> Message:
    return only(recorder).messages[-1]


def test_a_tool_loop_of_chat_completions(server: str, recorder: Recorder) -> None:
    client = chat(server, recorder)
    with recorder.conversation("c"):
        messages: list[Any] = list(HELLO)
        made = client.chat.completions.create(model="gpt-test", messages=messages, tools=TOOLS)
        messages.append(made.choices[0].message)  # the client's own object goes back in
        with recorder.tool("ls", {"d": "."}, "call_1") as tool:
            tool.result("a.txt")
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "a.txt"})
        client.chat.completions.create(model="gpt-test", messages=messages, tools=TOOLS)
    found = only(recorder)
    assert said(found) == [
        ("system", "Be brief."), ("user", "hello"), ("assistant", ""), ("tool", "a.txt"),
        ("assistant", "You said: a.txt"),
    ]  # fmt: skip
    (call,) = found.messages[2].tool_calls or ()
    assert (call.id, call.name, call.arguments, call.status) == (
        "call_1", "ls", '{"d": "."}', "completed",
    )  # fmt: skip
    usage = found.messages[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (12, 4, 8)
    assert found.messages[-1].model == "gpt-test-2026"
    assert found.tool_definitions == TOOLS


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_streamed_chat_completions(server: str, recorder: Recorder, tools: Any) -> None:
    client = chat(server, recorder)
    more = {"tools": tools} if tools else {}
    stream = client.chat.completions.create(
        model="gpt-test",
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True},
        **more,
    )
    text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    made = last(recorder)
    assert made.content == text == ("" if tools else "You said: hello")
    assert [call.arguments for call in made.tool_calls or ()] == (['{"d": "."}'] if tools else [])
    assert made.stop_reason == ("tool_calls" if tools else "stop")
    assert made.usage is not None
    assert made.usage.reasoning_tokens == 1
    assert (made.extra or {})["time_to_first_token_ms"] <= (made.duration_ms or 0)


def test_streams_that_are_left_early(server: str, recorder: Recorder) -> None:
    client = chat(server, recorder)
    asked = {"model": "m", "messages": HELLO, "stream": True}
    with recorder.conversation("broken off"), client.chat.completions.create(**asked) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
    with recorder.conversation("whole but for the end"):
        for chunk in client.chat.completions.create(**asked):
            if chunk.choices and chunk.choices[0].finish_reason:
                break
    broken, whole = (t.messages[-1] for t in recorder.trajectories())
    assert (broken.content, broken.status) == ("You", "interrupted")
    assert (whole.content, whole.status) == ("You said: hello", None)


def test_helpers_of_the_openai_client(server: str, recorder: Recorder) -> None:
    client = chat(server, recorder)
    with client.chat.completions.stream(model="m", messages=HELLO) as stream:
        stream.until_done()
    client.chat.completions.with_raw_response.create(model="m", messages=HELLO).parse()
    client.with_options(timeout=5).chat.completions.create(model="m", messages=HELLO)
    client.chat.completions.parse(model="m", messages=HELLO)
    assert said(only(recorder))[2:] == [("assistant", "You said: hello")] * 4


@pytest.mark.parametrize("streamed", [False, True])
def test_responses(server: str, recorder: Recorder, streamed: bool) -> None:
    client = chat(server, recorder)
    items: list[Any] = [{"role": "user", "content": "hello"}]
    made = client.responses.create(
        model="m", instructions="Be brief.", input=items, stream=streamed
    )
    if streamed:
        (made,) = [event.response for event in made if event.type == "response.completed"]
    items += made.output
    items.append({"type": "function_call_output", "call_id": "call_1", "output": "a.txt"})
    client.responses.create(model="m", instructions="Be brief.", input=items)
    found = only(recorder)
    assert said(found) == [
        ("system", "Be brief."), ("user", "hello"), ("assistant", "You said: hello"),
        ("tool", "a.txt"), ("assistant", "You said: a.txt"),
    ]  # fmt: skip
    assert found.messages[2].thinking == "Hm."
    usage = found.messages[2].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens, usage.reasoning_tokens) == (10, 6, 2)


def test_a_tool_loop_of_anthropic_messages(server: str, recorder: Recorder) -> None:
    client = claude(server, recorder)
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    asked = {"model": "claude-test", "max_tokens": 50, "system": "Be brief.", "tools": CLAUDE_TOOLS}
    made = client.messages.create(messages=messages, **asked)
    messages.append({"role": "assistant", "content": made.content})
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    messages.append({"role": "user", "content": [result]})
    client.messages.create(messages=messages, **asked)
    found = only(recorder)
    assert said(found) == [
        ("system", "Be brief."), ("user", "hello"), ("assistant", "You said: hello"),
        ("tool", "a.txt"), ("assistant", "You said: a result"),
    ]  # fmt: skip
    answer = found.messages[2]
    assert answer.thinking == "Let me think."
    assert answer.model == "claude-test-2026"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 28
    assert answer.usage.cached_tokens == 20
    assert answer.usage.cache_write_tokens == 3
    assert found.tool_definitions is not None


@pytest.mark.parametrize("helper", [False, True])
def test_streamed_anthropic_messages(server: str, recorder: Recorder, helper: bool) -> None:
    client = claude(server, recorder)
    asked = {
        "model": "claude-test", "max_tokens": 50, "tools": CLAUDE_TOOLS,
        "messages": [{"role": "user", "content": "hello"}],
    }  # fmt: skip
    if helper:
        with client.messages.stream(**asked) as stream:
            assert stream.get_final_message().stop_reason == "tool_use"
    else:
        assert len(list(client.messages.create(stream=True, **asked))) > 5
    made = last(recorder)
    assert made.role == "assistant"
    assert (made.content, made.thinking) == ("You said: hello", "Let me think.")
    assert made.stop_reason == "tool_use"
    assert [(c.id, c.arguments) for c in made.tool_calls or ()] == [("toolu_1", '{"d": "."}')]
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (28, 9)


def test_raw_responses(server: str, recorder: Recorder) -> None:
    gpt, sonnet = chat(server, recorder), claude(server, recorder)
    asked = {"model": "m", "messages": HELLO[1:], "max_tokens": 5}
    with recorder.conversation("raw"):
        raw = sonnet.messages.with_raw_response.create(**asked)
        assert raw.parse().content[1].text == "You said: hello"
    streamed = gpt.chat.completions.with_streaming_response
    with recorder.conversation("streamed raw"), streamed.create(**asked) as response:
        assert "You said" in "".join(response.iter_text())

    async def main() -> None:
        async with recorder.conversation("async raw"):
            raw = await claude(server, recorder, True).messages.with_raw_response.create(**asked)
            parsed = raw.parse()
            message = await parsed if asyncio.iscoroutine(parsed) else parsed
            assert message.content[1].text == "You said: hello"

    asyncio.run(main())
    found = {t.conversation_id: t.messages[-1] for t in recorder.trajectories()}
    assert found["raw"].content == found["async raw"].content == "You said: hello"
    assert (found["streamed raw"].extra or {})["raw_response"] is True


def test_failures_are_recorded_and_raised(server: str, recorder: Recorder) -> None:
    with pytest.raises(openai.InternalServerError):
        chat(server, recorder).chat.completions.create(model="broken", messages=HELLO)
    made = last(recorder)
    assert (made.kind, made.status) == ("error", "failed")
    assert "out of order" in made.content


def test_asynchronous_clients_do_not_mix(server: str, recorder: Recorder) -> None:
    async def talk(name: str, kind: int) -> None:
        async with recorder.conversation(name):
            words = [{"role": "user", "content": name}]
            if kind == 0:
                await gpt.chat.completions.create(model="m", messages=words)
            elif kind == 1:
                async for _ in await gpt.chat.completions.create(
                    model="m", messages=words, stream=True
                ):
                    await asyncio.sleep(0)
            elif kind == 2:
                await sonnet.messages.create(model="m", messages=words, max_tokens=5)
            else:
                async with sonnet.messages.stream(
                    model="m", messages=words, max_tokens=5
                ) as stream:
                    async for _ in stream.text_stream:
                        await asyncio.sleep(0)

    async def main() -> None:
        nonlocal gpt, sonnet
        gpt, sonnet = chat(server, recorder, True), claude(server, recorder, True)
        await asyncio.gather(*(talk(f"talk {n}", n % 4) for n in range(12)))
        with pytest.raises(anthropic.InternalServerError):
            async with recorder.conversation("talk 99"):
                await sonnet.messages.create(model="broken", messages=HELLO[1:], max_tokens=5)

    gpt: Any = None
    sonnet: Any = None
    asyncio.run(main())
    found = {t.conversation_id: said(t) for t in recorder.trajectories()}
    assert found.pop("talk 99")[-1][0] == "assistant"
    assert found == {
        f"talk {n}": [("user", f"talk {n}"), ("assistant", f"You said: talk {n}")]
        for n in range(12)
    }


def test_a_cancelled_task_leaves_what_had_come(server: str, recorder: Recorder) -> None:
    async def main() -> None:
        client = chat(server, recorder, True)
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)

        async def read() -> None:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    await asyncio.sleep(60)

        task = asyncio.ensure_future(read())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stream.close()

    asyncio.run(main())
    made = last(recorder)
    assert (made.content, made.status) == ("You", "interrupted")


def test_wrapping_twice_records_once(server: str, recorder: Recorder) -> None:
    client = recorder.wrap(chat(server, recorder))
    client.chat.completions.create(model="m", messages=HELLO)
    assert len(only(recorder).messages) == 3


def test_only_known_clients_can_be_wrapped(recorder: Recorder) -> None:
    with pytest.raises(UsageError, match="openai or anthropic"):
        recorder.wrap(object())
