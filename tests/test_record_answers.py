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
        history.take("r", [value])
        answer = to_answer(value)
        history.answer("r", answer.text, [call.id for call in answer.calls])
    gathering.finish()
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
