"""Lenient: any document that means to be ATIF, made into one that is.

VS Code and NVIDIA's toolkit write keys that ATIF forbids: they go to the nearest `extra`. So does a
value of a wrong type or against the rules, which is a problem besides. What is missing but required
gets the emptiest value that ATIF allows.
"""

import math
from datetime import datetime
from typing import Any

import msgspec

from unspool.io.values import dict_of, field_of, list_of, str_of
from unspool.sinks.atif import model
from unspool.sinks.atif.model import is_media_type
from unspool.sinks.atif.steps import parse_arguments
from unspool.sinks.atif.versions import NEWER, PREFIX, keep, older, version_of

Json = dict[str, Any]

SOURCES = {"assistant": "agent", "model": "agent", "tool": "system", "environment": "system"}
"""Words for a step's source that ATIF does not know, but others write."""

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
LLM_ONLY = ("metrics", "reasoning_content")
PART_KEYS = {"type", "text", "source"}


class Tidied:
    """A document made well-formed, and what was wrong with it."""

    def __init__(self, document: Json) -> None:
        self.wrong: list[str] = []
        self.version = version_of(document)
        self.document = self._root(document, "")

    def _root(self, given: Json, path: str) -> Json:
        agent = self._tidy(dict_of(given.get("agent")), model.Agent, f"{path}/agent")
        for name in ("name", "version"):
            if not isinstance(agent.get(name), str):
                agent[name] = "unknown"
        steps = self._objects(given.get("steps"), f"{path}/steps")
        root = {
            **given,
            "agent": agent,
            "steps": [self._step(step, number, at) for number, (at, step) in enumerate(steps)],
        }
        if isinstance(given.get("subagent_trajectories"), list):
            subs = self._objects(given["subagent_trajectories"], f"{path}/subagent_trajectories")
            below = [(at, self._root(sub, at)) for at, sub in subs]
            root["subagent_trajectories"] = [sub for _, sub in below if sub["steps"]]
            self.wrong += [f"{at}/steps" for at, sub in below if not sub["steps"]]
        root = self._tidy(root, model.Document, path)
        self.wrong += [f"{path}/{name}" for name in mend_root(root)]
        if root.get("schema_version") is None:
            root.pop("schema_version", None)
        return root

    def _objects(self, values: Any, path: str) -> list[tuple[str, Json]]:
        """The objects of an array and their paths; what is none is wrong."""
        places = [(f"{path}/{number}", value) for number, value in enumerate(list_of(values))]
        self.wrong += [at for at, value in places if not isinstance(value, dict)]
        return [(at, value) for at, value in places if isinstance(value, dict)]

    def _step(self, given: Json, number: int, path: str) -> Json:
        step = dict(given)
        source = step.get("source")
        if source not in ("system", "user", "agent"):
            self.wrong.append(f"{path}/source")
            step["source"] = SOURCES.get(str(source), "system")
        if not _is(step.get("step_id"), int):
            step["step_id"] = number + 1
        content = self._content(step.get("message"), f"{path}/message", step)
        step["message"] = "" if content is None else content
        if isinstance(step.get("observation"), dict):
            for key, value in step["observation"].items():  # it has no `extra` of its own
                if key != "results":
                    stray(step, f"observation.{key}", value)
            step["observation"] = {"results": list_of(step["observation"].get("results"))}
        step = self._tidy(step, model.Step, path)
        self.wrong += [f"{path}/{name}" for name in mend_step(step, number + 1)]
        if older(self.version, "1.7"):
            # Calls and results had no `extra` before 1.7: what was put there goes to the step's.
            newer: Json = {}
            for path, holders, before in (
                ("/tool_calls", step.get("tool_calls"), given.get("tool_calls")),
                ("/observation/results", _results(step), _results(given)),
            ):
                if not isinstance(before, list) or len(holders or ()) != len(before):
                    continue
                for number, (holder, old) in enumerate(zip(holders or (), before, strict=True)):
                    if "extra" in holder and "extra" not in old:
                        newer[f"{path}/{number}/extra"] = holder.pop("extra")
            if newer:
                keep(step, NEWER, newer)
        return step

    def _ready_call(self, call: Json, path: str) -> None:
        arguments = call.get("arguments")
        if not isinstance(arguments, dict):
            if arguments is not None:
                self.wrong.append(f"{path}/arguments")
            parsed = parse_arguments(str_of(arguments))
            call["arguments"] = {"raw": arguments} if parsed is None else parsed
        for name in ("tool_call_id", "function_name"):
            if not isinstance(call.get(name), str):
                self.wrong.append(f"{path}/{name}")
                call[name] = ""

    def _content(self, given: Any, path: str, holder: Json) -> Any:
        if given is None or isinstance(given, str):
            return given
        if not isinstance(given, list):
            self.wrong.append(path)
            stray(holder, path.rpartition("/")[2], given)
            return ""
        parts = []
        for number, part in enumerate(given):
            if isinstance(part, str):
                part = {"type": "text", "text": part}
            if not _is(part, model.Part) or part.keys() - PART_KEYS or not is_part(part):
                self.wrong.append(f"{path}/{number}")
                stray(holder, f"{path.rpartition('/')[2]}.{number}", part)
                continue
            parts.append(part)
        return parts

    def _tidy(self, given: Json, kind: type[msgspec.Struct], path: str) -> Json:
        """The object and those in it: unknown keys and values of a wrong type go to `extra`."""
        if kind is model.ToolCall:
            given = dict(given)
            self._ready_call(given, path)
        elif kind is model.Result:
            given = dict(given)
            if "content" in given:
                given["content"] = self._content(given["content"], f"{path}/content", given)
            refs = given.get("subagent_trajectory_ref")
            if isinstance(refs, dict):  # an array since the beginning, but written bare by some
                given["subagent_trajectory_ref"] = [refs]
        fields = model.fields_of(kind)
        tidied: Json = {}
        strays: Json = {}
        for key, value in given.items():
            if key not in fields:
                strays[key] = value
                continue
            at, inner = f"{path}/{key}", fields[key].struct
            if inner in _WITHIN_STEPS and isinstance(value, list):
                value = [self._tidy(item, inner, place) for place, item in self._objects(value, at)]
            elif inner in _WITHIN_STEPS and isinstance(value, dict):
                value = self._tidy(value, inner, at)
            if value is None or _is(value, fields[key].type):
                tidied[key] = value
            else:
                self.wrong.append(at)
                strays[key] = value
        for key, value in strays.items():
            stray(tidied, key, value)
        if kind is model.Result:
            set_odd_refs_apart(tidied)
        return tidied


_WITHIN_STEPS = frozenset(
    (model.FinalMetrics, model.Metrics, model.ToolCall, model.Observation, model.Result, model.Ref)
)


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


def _results(step: Json) -> Any:
    return field_of(step.get("observation"), "results")


def _is(value: Any, kind: Any) -> bool:
    """Whether the value can be read as that type; nested structs have been seen to already."""
    try:
        msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError):
        return False
    return True


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
    extra = holder.get("extra")
    extra = dict(extra) if isinstance(extra, dict) else {}
    while key in extra:
        key += "_"
    holder["extra"] = {**extra, key: value}


def mend_step(step: Json, number: int) -> list[str]:
    """The step made lawful in its place; which of its fields were not."""
    wrong: list[str] = []

    def move(name: str) -> None:
        wrong.append(name)
        stray(step, name, step.pop(name))

    if step.get("step_id") != number:
        step["step_id"] = number
        wrong.append("step_id")
    if isinstance(step.get("timestamp"), str):
        try:
            datetime.fromisoformat(step["timestamp"].replace("Z", "+00:00"))
        except ValueError:
            move("timestamp")
    if step["source"] != "agent":
        for name in AGENT_ONLY:
            if step.get(name) is not None:
                move(name)
    count = step.get("llm_call_count")
    dispatch = count is not None and step["source"] == "agent" and float(count) == 0
    if count is not None and (
        float(count) < 0 or (dispatch and any(step.get(name) is not None for name in LLM_ONLY))
    ):
        move("llm_call_count")
    calls = {call.get("tool_call_id") for call in step.get("tool_calls") or ()}
    for at, result in enumerate((step.get("observation") or {}).get("results") or ()):
        source = result.get("source_call_id")
        if source is not None and source not in calls:
            wrong.append(f"observation/results/{at}/source_call_id")
            stray(result, "tool_call_id", result.pop("source_call_id"))
    return wrong


def mend_root(document: Json) -> list[str]:
    """Totals that cannot be, and embedded trajectories that no reference could tell apart."""
    wrong: list[str] = []
    final = document.get("final_metrics") or {}
    if float(final.get("total_steps") or 0) < 0:
        stray(final, "total_steps", final.pop("total_steps"))
        wrong.append("final_metrics/total_steps")
    taken: set[str] = set()
    for number, sub in enumerate(document.get("subagent_trajectories") or ()):
        ident = sub.get("trajectory_id")
        if ident is None or ident in taken:
            wrong.append(f"subagent_trajectories/{number}/trajectory_id")
            ident = f"{ident or 'subagent'}-{number + 1}"
            while ident in taken:
                ident += "'"
            sub["trajectory_id"] = ident
        taken.add(ident)
    return wrong


def is_part(part: Json) -> bool:
    """Whether a content part has what its type needs, and nothing else."""
    source = part.get("source")
    if part.get("type") == "text":
        return part.get("text") is not None and source is None
    if part.get("text") is not None or not isinstance(source, dict):
        return False
    kind, media_type = part["type"], str(source.get("media_type"))
    duration = source.get("duration_sec")
    lasts = duration is None or (math.isfinite(float(duration)) and float(duration) >= 0)
    allowed = {"media_type", "path"} | ({"duration_sec"} if kind == "audio" else set())
    return is_media_type(media_type, kind) and lasts and source.keys() <= allowed
