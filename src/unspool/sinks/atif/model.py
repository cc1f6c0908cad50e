"""The Agent Trajectory Interchange Format (ATIF) as structs, at its newest version (1.8).

Documents are built at the newest version; `versions` moves what an older one cannot hold.
"""

from collections.abc import Callable, Iterator
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

Json = dict[str, Any]
Source = Literal["system", "user", "agent"]

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8")
DEFAULT = "1.7"
NEWEST = "1.8"
PREFIX = "ATIF-v"

SINCE = {
    "Document": {
        "extra": "1.1",
        "continued_trajectory_ref": "1.5",
        "trajectory_id": "1.7",
        "subagent_trajectories": "1.7",
    },
    "Agent": {"tool_definitions": "1.5"},
    "Step": {"is_copied_context": "1.5", "llm_call_count": "1.7"},
    "Metrics": {"completion_token_ids": "1.3", "prompt_token_ids": "1.4"},
    "ToolCall": {"extra": "1.7"},
    "Result": {"extra": "1.7"},
    "Ref": {"trajectory_id": "1.7"},
}
"""Struct of the model → field → the version that brought it."""
OBSERVATION_ANYWHERE = "1.2"
"""Before it, only agent steps had observations."""
PARTS, AUDIO, IDS = "1.6", "1.8", "1.7"

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
LLM_ONLY = ("metrics", "reasoning_content")
TOTALS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}
"""Figure of the document → that of its steps."""

NAMELESS = "unknown"
FOREIGN = "atif"
"""The source of a trajectory that was read from a document which is not ours."""
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


def _required(make: Callable[[], Any]) -> Any:
    """A field that must be there: a factory's value is always written, and it stands for the field in
    a document that lacks it."""
    return msgspec.field(default_factory=lambda: make())


class Media(msgspec.Struct, omit_defaults=True):
    media_type: str = _required(str)
    path: str = _required(str)
    duration_sec: float | None = None


class Part(msgspec.Struct, omit_defaults=True):
    type: Literal["text", "image", "audio"] = _required(lambda: "text")
    text: str | None = None
    source: Media | None = None


Content = str | list[Part]


class Ref(msgspec.Struct, omit_defaults=True):
    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Json | None = None


class ToolCall(msgspec.Struct, omit_defaults=True):
    tool_call_id: str = _required(str)
    function_name: str = _required(str)
    arguments: Json = _required(dict)
    extra: Json | None = None


class Result(msgspec.Struct, omit_defaults=True):
    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[Ref] | None = None
    extra: Json | None = None


class Observation(msgspec.Struct):
    results: list[Result] = _required(list)


class Metrics(msgspec.Struct, omit_defaults=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Json | None = None


class Step(msgspec.Struct, omit_defaults=True, kw_only=True):
    step_id: int = _required(int)
    timestamp: str | None = None
    source: Source = _required(lambda: "system")
    message: Content = _required(str)
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: Json | None = None

    @property
    def results(self) -> list[Result]:
        return self.observation.results if self.observation else []


class Agent(msgspec.Struct, omit_defaults=True):
    name: str = _required(lambda: NAMELESS)
    version: str = _required(lambda: NAMELESS)
    model_name: str | None = None
    tool_definitions: list[Json] | None = None
    extra: Json | None = None


class FinalMetrics(msgspec.Struct, omit_defaults=True):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: Json | None = None


class Document(msgspec.Struct, omit_defaults=True, kw_only=True):
    schema_version: str = ""
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent = _required(Agent)
    steps: list[Step] = _required(list)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Json | None = None
    subagent_trajectories: list["Document"] | None = None


class Field(NamedTuple):
    type: Any
    """With `dict` and `list` for the objects of the format and lists of them."""
    required: bool
    struct: type[msgspec.Struct] | None
    """What it holds, or holds a list of, where that is an object of the format."""


@cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Field]:
    return {
        field.name: Field(
            _outside(field.type),
            field.default_factory is not msgspec.NODEFAULT,
            _struct_in(field.type),
        )
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


def older(version: str, than: str) -> bool:
    return VERSIONS.index(version) < VERSIONS.index(than)


def version_of(document: Any) -> str:
    """The version that the document declares; the newest where it declares none that is known."""
    label = str(document.get("schema_version")) if isinstance(document, dict) else ""
    version = label.removeprefix(PREFIX)
    return version if label.startswith(PREFIX) and version in VERSIONS else NEWEST


def is_document(value: Any) -> bool:
    """Whether a value means to be ATIF: by its label, or by an agent and steps with ids."""
    if not isinstance(value, dict):
        return False
    if str(value.get("schema_version") or "").startswith(PREFIX):
        return True
    steps = value.get("steps")
    if not isinstance(steps, list) or not isinstance(value.get("agent"), dict):
        return False
    return any(isinstance(step, dict) and "step_id" in step for step in steps[:1])


def documents_in(value: Any) -> Iterator[tuple[str, Json]]:
    """(name, document): the value itself, or each element of an array or of an object by ids."""
    named: list[tuple[str, Any]] = []
    if is_document(value):
        named = [("", value)]
    elif isinstance(value, list):
        named = [(str(number), item) for number, item in enumerate(value)]
    elif isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        named = list(value.items())
    return (pair for pair in named if is_document(pair[1]))
