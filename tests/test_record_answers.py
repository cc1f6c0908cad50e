"""Responses and streams of any shape become answers; odd ones do no harm."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.record import Recorder
from unspool.record.answers import Gathering, to_answer, to_tokens
from unspool.record.history import History

NAMES = [
    *(
        "id",
        "model",
        "usage",
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "function",
        "type",
    ),
    *(
        "name",
        "arguments",
        "input",
        "output",
        "text",
        "thinking",
        "reasoning",
        "summary",
        "index",
        "role",
    ),
    *(
        "content_block",
        "partial_json",
        "stop_reason",
        "finish_reason",
        "response",
        "item",
        "call_id",
    ),
    *(
        "prompt_tokens",
        "input_tokens",
        "output_tokens",
        "prompt_tokens_details",
        "refusal",
        "custom",
    ),
]
KINDS = [
    *(
        "text",
        "tool_use",
        "tool_result",
        "thinking",
        "message",
        "function_call",
        "reasoning",
        "assistant",
    ),
    *(
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "text_delta",
        "user",
    ),
    *(
        "input_json_delta",
        "thinking_delta",
        "response.completed",
        "response.output_item.done",
        "tool",
    ),
    *("response.output_text.delta", "response.reasoning_text.delta", "system", "x", ""),
]
JSON = st.recursive(
    st.sampled_from([None, True, 0, -1, 2.5, *KINDS]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON, max_size=4))
def test_nothing_that_comes_makes_the_recorder_raise(values: list[Any]) -> None:
    gathering = Gathering()
    history = History()
    for value in values:
        gathering.add(value)
        place = history.take("r", [value]).place
        answer = to_answer(value)
        history.answer("r", place, answer.text, [call.id for call in answer.calls])
    to_answer(gathering.response)
    history.take("s", values)
    with Recorder() as recorder:
        with recorder.request("m", values, values, session_id="c") as request:
            for value in values:
                request.chunk(value)
            request.respond(values, usage=values[0] if values else None, tool_calls=values)
        list(recorder.trajectories())


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, (5, 2, None, None, None)),
        ({"prompt": 5, "completion": 2, "cached": 1}, (5, 2, 1, None, None)),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4},
             "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}},
            (5, 2, 4, None, 1),
        ),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2,
             "output_tokens": 3},
            (14, 3, 7, 2, None),
        ),
        (
            {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3,
             "output_tokens_details": {"reasoning_tokens": 2}},
            (9, 3, 4, None, 2),
        ),
        ({"prompt_tokens": "many"}, (None, None, None, None, None)),
    ],
)  # fmt: skip
def test_tokens(usage: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    made = to_tokens(usage)
    assert made is not None
    found = (made.prompt, made.completion, made.cached, made.cache_write, made.reasoning)
    assert found == expected


def test_several_choices_are_kept() -> None:
    choices = [{"message": {"content": text}} for text in ("one", "two")]
    made = to_answer({"choices": choices})
    assert made.text == "one"
    assert made.data["choices"] == choices[1:]


CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}


@pytest.mark.parametrize(
    ("response", "text", "thinking", "calls"),
    [
        ({"choices": [{"message": {"content": "hi", "tool_calls": [CALL]}}]}, "hi", "", ['{"a": 1}']),
        ({"choices": [{"message": {"content": None, "tool_calls": [CUSTOM]}}]}, "", "", ["ls"]),
        ({"choices": [{"message": {"content": None, "refusal": "no"}}]}, "no", "", []),
        ({"choices": [{"message": {"content": "hi", "reasoning": "hm"}}]}, "hi", "hm", []),
        (
            {"content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one"},
                {"type": "text", "text": "two"},
                {"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}},
            ]},
            "one\ntwo", "hm", ['{"a":1}'],
        ),
        (
            {"output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"a": 1}'},
            ]},
            "hi", "hm", ['{"a": 1}'],
        ),
    ],
)  # fmt: skip
def test_responses_of_all_interfaces(
    response: dict[str, Any], text: str, thinking: str, calls: list[str]
) -> None:
    answer = to_answer(response)
    assert (answer.text, answer.thinking) == (text, thinking)
    assert [(c.id, c.name, c.arguments) for c in answer.calls] == [("c1", "run", a) for a in calls]


def test_items_that_nobody_knows_are_kept() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    answer = to_answer({"output": [search, {"type": "message", "content": "found"}]})
    assert answer.text == "found"
    assert answer.data["blocks"] == [search]
