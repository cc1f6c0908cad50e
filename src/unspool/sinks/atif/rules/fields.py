"""Fields: what ATIF's objects are made of."""

from collections.abc import Callable
from typing import Any


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(test(item) for item in value)


TYPES: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "an integer": _is_integer,
    "a number": is_number,
    "a string or a number": lambda value: isinstance(value, str) or is_number(value),
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
    "an array": lambda value: isinstance(value, list),
    "an array of objects": _is_list_of(lambda value: isinstance(value, dict)),
    "an array of integers": _is_list_of(_is_integer),
    "an array of numbers": _is_list_of(is_number),
    "a string or an array": lambda value: isinstance(value, str | list),
}

ROOT = {
    "schema_version": "a string",
    "session_id": "a string",
    "trajectory_id": "a string",
    "agent": "an object",
    "steps": "an array",
    "notes": "a string",
    "final_metrics": "an object",
    "continued_trajectory_ref": "a string",
    "extra": "an object",
    "subagent_trajectories": "an array",
}
AGENT = {
    "name": "a string",
    "version": "a string",
    "model_name": "a string",
    "tool_definitions": "an array of objects",
    "extra": "an object",
}
STEP = {
    "step_id": "an integer",
    "timestamp": "a string",
    "source": "a string",
    "message": "a string or an array",
    "model_name": "a string",
    "reasoning_effort": "a string or a number",
    "reasoning_content": "a string",
    "tool_calls": "an array",
    "observation": "an object",
    "metrics": "an object",
    "is_copied_context": "true or false",
    "llm_call_count": "an integer",
    "extra": "an object",
}
CALL = {
    "tool_call_id": "a string",
    "function_name": "a string",
    "arguments": "an object",
    "extra": "an object",
}
RESULT = {
    "source_call_id": "a string",
    "content": "a string or an array",
    "subagent_trajectory_ref": "an array",
    "extra": "an object",
}
REF = {
    "trajectory_id": "a string",
    "trajectory_path": "a string",
    "session_id": "a string",
    "extra": "an object",
}
METRICS = {
    "prompt_tokens": "an integer",
    "completion_tokens": "an integer",
    "cached_tokens": "an integer",
    "cost_usd": "a number",
    "prompt_token_ids": "an array of integers",
    "completion_token_ids": "an array of integers",
    "logprobs": "an array of numbers",
    "extra": "an object",
}
FINAL = {
    "total_prompt_tokens": "an integer",
    "total_completion_tokens": "an integer",
    "total_cached_tokens": "an integer",
    "total_cost_usd": "a number",
    "total_steps": "an integer",
    "extra": "an object",
}
PART = {"type": "a string", "text": "a string", "source": "an object"}
MEDIA = {"media_type": "a string", "path": "a string", "duration_sec": "a number"}
