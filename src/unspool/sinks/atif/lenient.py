"""Lenient: any document that means to be ATIF, made into one that is.

VS Code and NVIDIA's toolkit write keys that ATIF forbids: they go to the nearest `extra`. So does a
value of a wrong type or against the rules, which is a problem besides. What is missing but required
gets the emptiest value that ATIF allows.
"""

import math
from copy import deepcopy
from datetime import datetime
from typing import Any

import msgspec

from unspool.io.values import dict_of, field_of, str_of
from unspool.sinks.atif import model
from unspool.sinks.atif.model import is_media_type
from unspool.sinks.atif.steps import parse_arguments
from unspool.sinks.atif.versions import NEWER, PREFIX, keep, older, version_of

Json = dict[str, Any]

SOURCES = {"assistant": "agent", "model": "agent"}
"""Words for a step's source that ATIF does not know; every other one counts as the system's."""

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
LLM_ONLY = ("metrics", "reasoning_content")
_EMPTIEST: Json = {
    "name": "unknown", "version": "unknown", "tool_call_id": "", "function_name": "",
    "arguments": {}, "message": "", "results": [], "steps": [], "step_id": 0,
    "agent": {"name": "unknown", "version": "unknown"},
}  # fmt: skip
"""What stands for a required field that is not there."""


class Tidied:
    """A document made well-formed, and what was wrong with it."""

    def __init__(self, document: Json) -> None:
        self.wrong: list[str] = []
        self.version = version_of(document)
        self._newer: Json = {}
        """What the step in hand has no place for before 1.7, by its path in the step."""
        self.document = self._object(document, model.Document, "", {})

    def _object(self, given: Json, kind: type[msgspec.Struct], path: str, above: Json) -> Json:
        """The object and those in it. Unknown keys and values of a wrong type go to its `extra`, to
        the strays of the object above where it has none."""
        given = dict(given)
        fields = model.fields_of(kind)
        if kind is model.ToolCall and isinstance(given.get("arguments"), str):
            self.wrong.append(f"{path}/arguments")
            parsed = parse_arguments(given["arguments"])
            given["arguments"] = {"raw": given["arguments"]} if parsed is None else parsed
        elif kind is model.Result and isinstance(given.get("subagent_trajectory_ref"), dict):
            # An array since the beginning, but written bare by some.
            given["subagent_trajectory_ref"] = [given["subagent_trajectory_ref"]]
        elif kind is model.Step and given.get("source") not in ("system", "user", "agent"):
            self.wrong.append(f"{path}/source")
            given["source"] = SOURCES.get(str_of(given.get("source")), "system")
        tidied: Json = {}
        strays: Json = {}
        for key, value in given.items():
            if key not in fields:
                strays[key] = value
                continue
            at, field = f"{path}/{key}", fields[key]
            if value is not None and field.misfit(value, strict=False):
                self.wrong.append(at)
                strays[key] = value
                continue
            if field.struct is not None and isinstance(value, list):
                value = self._list(value, field.struct, at, strays)
            elif field.struct is not None and isinstance(value, dict):
                below: Json = {}
                value = self._object(value, field.struct, at, below)
                strays |= {f"{key}.{name}": item for name, item in below.items()}
            tidied[key] = value
        for name, field in fields.items():
            if field.required and tidied.get(name) is None:
                if name not in strays:  # else it was said already
                    self.wrong.append(f"{path}/{name}")
                tidied[name] = deepcopy(_EMPTIEST[name])
        if "extra" not in fields:
            above |= strays
        else:
            for key, value in strays.items():
                stray(tidied, key, value)
        if kind is model.Result:
            set_odd_refs_apart(tidied)
        if kind in (model.ToolCall, model.Result):
            if older(self.version, "1.7") and "extra" in tidied and "extra" not in given:
                # Calls and results had no `extra` before 1.7: what was put there goes to the step's.
                place = path.rpartition("/steps/")[2].partition("/")[2]
                self._newer[f"/{place}/extra"] = tidied.pop("extra")
        elif kind is model.Step:
            self.wrong += [f"{path}/{name}" for name in mend_step(tidied)]
            if self._newer:
                keep(tidied, NEWER, self._newer)
                self._newer = {}
        elif kind is model.Document:
            self.wrong += [f"{path}/{name}" for name in mend_root(tidied)]
        return tidied

    def _list(
        self, values: list[Any], kind: type[msgspec.Struct], path: str, strays: Json
    ) -> list[Any]:
        """The objects of a list; what is none of it is wrong, and of a content kept beside it."""
        tidied: list[Any] = []
        for number, value in enumerate(values):
            at = f"{path}/{number}"
            if kind is model.Part:
                part = {"type": "text", "text": value} if isinstance(value, str) else value
                if is_part(part):
                    tidied.append(part)
                    continue
                strays[f"{path.rpartition('/')[2]}.{number}"] = part
            elif isinstance(value, dict):
                tidied.append(self._object(value, kind, at, {}))
                continue
            self.wrong.append(at)
        return tidied


def set_odd_refs_apart(result: Json) -> None:
    """References by a session's id alone, which find nothing, are told in `extra`."""
    refs = result.get("subagent_trajectory_ref") or []
    keys = ("trajectory_id", "trajectory_path")
    good = [ref for ref in refs if any(ref.get(key) is not None for key in keys)]
    if len(good) < len(refs):
        result["subagent_trajectory_ref"] = good
        if not good:
            del result["subagent_trajectory_ref"]
        keep(result, "refs", [ref for ref in refs if ref not in good])


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


def stray(holder: Json, key: str, value: Any) -> None:
    """Put into `extra` what cannot stay where it is."""
    extra = dict_of(holder.get("extra"))
    while key in extra:
        key += "_"
    holder["extra"] = {**extra, key: value}


def mend_step(step: Json) -> list[str]:
    """The step made lawful in its place; which of its fields were not."""
    wrong: list[str] = []
    if isinstance(step.get("timestamp"), str):
        try:
            datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
        except ValueError:
            wrong.append("timestamp")
    is_agent = step["source"] == "agent"
    if not is_agent:
        wrong += [name for name in AGENT_ONLY if step.get(name) is not None]
    count = step.get("llm_call_count")
    if count is not None:
        inferred = any(step.get(name) is not None for name in LLM_ONLY)
        if float(count) < 0 or (is_agent and float(count) == 0 and inferred):
            wrong.append("llm_call_count")
    for name in wrong:
        stray(step, name, step.pop(name))
    calls = {call.get("tool_call_id") for call in step.get("tool_calls") or ()}
    for at, result in enumerate(field_of(step.get("observation"), "results") or ()):
        source = result.get("source_call_id")
        if source is not None and source not in calls:
            wrong.append(f"observation/results/{at}/source_call_id")
            stray(result, "tool_call_id", result.pop("source_call_id"))
    return wrong


def mend_root(document: Json) -> list[str]:
    """Steps by number, totals that cannot be, embedded trajectories that are none or that no
    reference could tell apart."""
    wrong: list[str] = []
    if document.get("schema_version") is None:
        document.pop("schema_version", None)
    for number, step in enumerate(document["steps"], 1):
        if step["step_id"] != number:
            step["step_id"] = number
            wrong.append(f"steps/{number - 1}/step_id")
    final = document.get("final_metrics") or {}
    if float(final.get("total_steps") or 0) < 0:
        stray(final, "total_steps", final.pop("total_steps"))
        wrong.append("final_metrics/total_steps")
    taken: set[str] = set()
    embedded = document.get("subagent_trajectories") or []
    for number, sub in enumerate(embedded):
        ident = sub.get("trajectory_id")
        if not sub["steps"]:
            wrong.append(f"subagent_trajectories/{number}/steps")
        elif ident is None or ident in taken:
            wrong.append(f"subagent_trajectories/{number}/trajectory_id")
            ident = f"{ident or 'subagent'}-{number + 1}"
            while ident in taken:
                ident += "'"
            sub["trajectory_id"] = ident
        taken.add(ident)
    if embedded:
        document["subagent_trajectories"] = [sub for sub in embedded if sub["steps"]]
    return wrong


def is_part(part: Any) -> bool:
    """Whether this is a content part: it has what its type needs, and nothing else."""
    try:
        given = msgspec.convert(part, model.Part, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError):
        return False
    media = given.source
    if part.keys() - model.fields_of(model.Part).keys():
        return False
    if given.type == "text" or media is None:
        return given.type == "text" and given.text is not None and media is None
    known = {"media_type", "path"} | ({"duration_sec"} if given.type == "audio" else set())
    lasts = 0 <= (media.duration_sec or 0) < math.inf
    is_known = is_media_type(media.media_type, given.type) and part["source"].keys() <= known
    return given.text is None and lasts and is_known
