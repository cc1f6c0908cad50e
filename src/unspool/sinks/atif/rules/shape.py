"""Shape: types, required and unknown fields, and fields that are newer than the declared version."""

import math
import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from unspool.sinks.atif import model
from unspool.sinks.atif.model import AUDIO_ALIASES, AUDIO_TYPES, IMAGE_TYPES
from unspool.sinks.atif.rules.findings import Findings, items
from unspool.sinks.atif.versions import (
    AUDIO,
    NEWEST,
    OBSERVATION_ANYWHERE,
    OF_AGENT,
    OF_CALL,
    OF_METRICS,
    OF_RESULT,
    OF_ROOT,
    OF_STEP,
    PARTS,
    PREFIX,
    REF_IDS,
    VERSIONS,
    older,
)


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


def _word(kind: Any) -> str:
    """What a value of the type is called; the keys of TYPES."""
    if get_origin(kind) is UnionType or get_origin(kind) is Union:
        words = [_word(one) for one in get_args(kind) if one is not NoneType]
        return words[0] if len(words) == 1 else " or ".join(re.sub(" of .*", "", w) for w in words)
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        plural = {int: "integers", float: "numbers"}.get(of, "objects")
        return "an array" if isinstance(of, type(model.Step)) else f"an array of {plural}"
    if isinstance(kind, type(model.Step)) or get_origin(kind) is dict:
        return "an object"
    words_of = {int: "an integer", float: "a number", bool: "true or false"}
    return words_of.get(kind, "a string")


@cache
def known_fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Field → what it must be, as the format's own structs have it."""
    return {field.name: _word(field.type) for field in msgspec.structs.fields(kind)}


Json = dict[str, Any]
_SURROGATE = re.compile("[\ud800-\udfff]")


class Shape:
    """Goes through one document."""

    def __init__(self, version: str, findings: Findings) -> None:
        self.version = version
        self.findings = findings

    def fields(
        self,
        value: Any,
        path: str,
        kind: type[msgspec.Struct],
        required: tuple[str, ...] = (),
        since: dict[str, str] | None = None,
    ) -> bool:
        """The fields of one object; False where it is none."""
        types = known_fields(kind)
        if not isinstance(value, dict):
            self.findings.error("wrong-type", path, f"must be an object, is {_kind(value)}")
            return False
        for name in required:
            if value.get(name) is None:
                self.findings.error("missing", f"{path}.{name}", "required, but missing")
        for name, item in value.items():
            if name not in types:
                self.findings.error("unknown-field", f"{path}.{name}", "not a field of ATIF")
            elif item is not None and not TYPES[types[name]](item):
                self._wrong(f"{path}.{name}", types[name], item)
            elif item is not None and since and name in since:
                self.since(since[name], f"{path}.{name}")
        return True

    def _wrong(self, path: str, wanted: str, item: Any) -> None:
        self.findings.error("wrong-type", path, f"must be {wanted}, is {_kind(item)}")

    def since(self, version: str, path: str) -> None:
        if older(self.version, version):
            self.findings.error(
                "newer-than-declared",
                path,
                f"came with {version}, but the document declares {self.version}",
            )

    def root(self, document: Json, path: str) -> None:
        self.fields(document, path, model.Document, ("agent", "steps"), OF_ROOT)
        if self.fields(
            document.get("agent") or {}, f"{path}.agent", model.Agent, ("name", "version"), OF_AGENT
        ):
            self._not_empty(document.get("agent") or {}, f"{path}.agent", ("name", "version"))
        steps = document.get("steps")
        if steps == []:
            self.findings.error("no-steps", f"{path}.steps", "at least one step is needed")
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            self._step(step, f"{path}.steps[{number}]")
        if document.get("final_metrics") is not None:
            self.fields(document["final_metrics"], f"{path}.final_metrics", model.FinalMetrics)

    def _step(self, step: Any, path: str) -> None:
        if not self.fields(step, path, model.Step, ("step_id", "source", "message"), OF_STEP):
            return
        if isinstance(step.get("source"), str) and step["source"] not in (
            "system",
            "user",
            "agent",
        ):
            self.findings.error(
                "unknown-source",
                f"{path}.source",
                f"{step['source']!r} is not system, user or agent",
            )
        self._content(step.get("message"), f"{path}.message")
        for number, call in enumerate(items(step.get("tool_calls"))):
            at = f"{path}.tool_calls[{number}]"
            names = ("tool_call_id", "function_name", "arguments")
            if self.fields(call, at, model.ToolCall, names, OF_CALL):
                self._not_empty(call, at, ("tool_call_id", "function_name"))
        if isinstance(step.get("metrics"), dict):
            self.fields(step["metrics"], f"{path}.metrics", model.Metrics, (), OF_METRICS)
        if isinstance(step.get("observation"), dict):
            self._observation(step, f"{path}.observation")

    def _observation(self, step: Json, path: str) -> None:
        observation = step["observation"]
        self.fields(observation, path, model.Observation, ("results",))
        if step.get("source") != "agent":
            self.since(OBSERVATION_ANYWHERE, path)
        for number, result in enumerate(items(observation.get("results"))):
            at = f"{path}.results[{number}]"
            if not self.fields(result, at, model.Result, (), OF_RESULT):
                continue
            self._content(result.get("content"), f"{at}.content")
            for count, ref in enumerate(items(result.get("subagent_trajectory_ref"))):
                self._ref(ref, f"{at}.subagent_trajectory_ref[{count}]")

    def _ref(self, ref: Any, path: str) -> None:
        if not self.fields(ref, path, model.Ref, (), {"trajectory_id": REF_IDS}):
            return
        if not ref.get("trajectory_id") and not ref.get("trajectory_path"):
            self.findings.error(
                "unresolvable-reference", path, "has neither trajectory_id nor trajectory_path"
            )
        if older(self.version, REF_IDS) and ref.get("session_id") is None:
            self.findings.error("missing", f"{path}.session_id", f"required up to {self.version}")

    def _content(self, content: Any, path: str) -> None:
        if not isinstance(content, list):
            return
        self.since(PARTS, path)
        for number, part in enumerate(content):
            at = f"{path}[{number}]"
            if self.fields(part, at, model.Part, ("type",)):
                self._part(part, at)

    def _part(self, part: Json, path: str) -> None:
        kind = part.get("type")
        if kind == "text":
            if part.get("text") is None:
                self.findings.error("missing", f"{path}.text", "required in a text part")
            if part.get("source") is not None:
                self.findings.error("wrong-part", f"{path}.source", "not allowed in a text part")
            return
        if kind not in ("image", "audio"):
            if kind is not None:
                self.findings.error("wrong-part", f"{path}.type", "is not text, image or audio")
            return
        if kind == "audio":
            self.since(AUDIO, path)
        if part.get("text") is not None:
            self.findings.error("wrong-part", f"{path}.text", f"not allowed in an {kind} part")
        if part.get("source") is None:
            self.findings.error("missing", f"{path}.source", f"required in an {kind} part")
            return
        self._media(part["source"], f"{path}.source", kind)

    def _media(self, source: Any, path: str, kind: str) -> None:
        if not self.fields(source, path, model.Media, ("media_type", "path")):
            return
        if kind == "image" and "duration_sec" in source:
            self.findings.error("unknown-field", f"{path}.duration_sec", "not a field of ATIF")
        media_type = source.get("media_type")
        if kind == "audio" and isinstance(media_type, str):
            media_type = AUDIO_ALIASES.get(media_type.strip().lower(), media_type.strip().lower())
        if isinstance(media_type, str) and media_type not in (
            IMAGE_TYPES if kind == "image" else AUDIO_TYPES
        ):
            self.findings.error(
                "media-type",
                f"{path}.media_type",
                f"{source['media_type']!r} is no {kind} type of ATIF",
            )
        if is_number(source.get("duration_sec")) and source["duration_sec"] < 0:
            self.findings.error("negative", f"{path}.duration_sec", "cannot be negative")

    def _not_empty(self, value: Json, path: str, names: tuple[str, ...]) -> None:
        for name in names:
            if value.get(name) == "":
                self.findings.error("empty", f"{path}.{name}", "must not be empty")


def check_shape(document: Any, path: str, findings: Findings, embedded: bool) -> bool:
    """False where the value is no object at all."""
    if not isinstance(document, dict):
        findings.error("wrong-type", path, f"must be an object, is {_kind(document)}")
        return False
    label = document.get("schema_version")
    version = str(label or "").removeprefix(PREFIX)
    if label is None:
        findings.error("missing", f"{path}.schema_version", "required, but missing")
    elif not isinstance(label, str) or not label.startswith(PREFIX) or version not in VERSIONS:
        findings.error(
            "unknown-version", f"{path}.schema_version", f"{label!r} is no version of ATIF"
        )
    version = version if version in VERSIONS else NEWEST
    Shape(version, findings).root(document, path)
    if document.get("session_id") in (None, ""):
        if older(version, "1.7"):
            findings.error("missing", f"{path}.session_id", f"required in {version}")
        elif not embedded:
            findings.warning("no-session", f"{path}.session_id", "a root should name its run")
    return True


def check_values(value: Any, path: str, findings: Findings) -> None:
    """Numbers and texts that are no JSON, wherever they stand."""
    waiting = [(value, path)]
    while waiting:
        item, at = waiting.pop()
        if isinstance(item, dict):
            for key in item:
                if _SURROGATE.search(key):
                    findings.error("lone-surrogate", at, f"in the key {key!a}")
            waiting += [(below, f"{at}.{key}") for key, below in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [(item[n], f"{at}[{n}]") for n in reversed(range(len(item)))]
        elif isinstance(item, float) and not math.isfinite(item):
            findings.error("not-finite", at, f"{item} is no JSON number")
        elif isinstance(item, str) and not item.isascii() and _SURROGATE.search(item):
            findings.error(
                "lone-surrogate", at, "half of a character pair, which no UTF-8 can hold"
            )


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array of something else" if value else "an array"
    return names.get(type(value), f"the number {value}")
