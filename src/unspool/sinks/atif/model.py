"""The Agent Trajectory Interchange Format (ATIF) as structs, at its newest version (1.8).

Documents are built at the newest version; `versions` moves what an older one cannot hold.
"""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

Source = Literal["system", "user", "agent"]

OURS = "unspool"
"""The key under which `extra` holds what ATIF has no field for, in the trajectory's own words."""

IMAGE_TYPES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
}
AUDIO_TYPES = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/webm": "webm",
    "audio/aiff": "aiff",
}
ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
    "image/jpg": "image/jpeg",
}


class Media(msgspec.Struct, omit_defaults=True):
    media_type: str
    path: str
    duration_sec: float | None = None


class Part(msgspec.Struct, omit_defaults=True):
    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Media | None = None


Content = str | list[Part]


class Ref(msgspec.Struct, omit_defaults=True):
    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: dict[str, Any] | None = None


class ToolCall(msgspec.Struct, omit_defaults=True):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class Result(msgspec.Struct, omit_defaults=True):
    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[Ref] | None = None
    extra: dict[str, Any] | None = None


class Observation(msgspec.Struct):
    results: list[Result]


class Metrics(msgspec.Struct, omit_defaults=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class Step(msgspec.Struct, omit_defaults=True, kw_only=True):
    step_id: int
    timestamp: str | None = None
    source: Source
    message: Content
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class Agent(msgspec.Struct, omit_defaults=True):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(msgspec.Struct, omit_defaults=True):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: dict[str, Any] | None = None


class Document(msgspec.Struct, omit_defaults=True, kw_only=True):
    schema_version: str = ""
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: list[Step]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list["Document"] | None = None


class Field(NamedTuple):
    type: Any
    """With `dict` and `list` for the objects of the format and lists of them."""
    required: bool
    struct: type[msgspec.Struct] | None
    """What it holds, or holds a list of, where that is an object of the format."""

    def misfit(self, value: Any, strict: bool = True) -> str:
        """Why a value, not looking into what it holds, is none of the field; else empty."""
        try:
            msgspec.convert(value, self.type, strict=strict)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            return str(error)
        return ""


@cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Field]:
    return {
        field.name: Field(_outside(field.type), field.required, _struct_in(field.type))
        for field in msgspec.structs.fields(kind)
    }


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):  # `list[int]` is no class
        return kind
    return next((struct for one in get_args(kind) if (struct := _struct_in(one))), None)


def _outside(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return str
    if get_origin(kind) is UnionType:
        return reduce(or_, map(_outside, get_args(kind)))
    return kind if _struct_in(kind) is None else list if get_args(kind) else dict


def is_media_type(text: str, kind: str) -> bool:
    """Whether ATIF takes such an image or audio part; of audio it knows other spellings, too."""
    if kind == "image":
        return text in IMAGE_TYPES
    spelt = text.strip().lower()
    return ALIASES.get(spelt, spelt) in AUDIO_TYPES
