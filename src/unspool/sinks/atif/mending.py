"""Mending: what is well-formed but against ATIF's rules goes to `extra`, or gets a lawful value."""

import math
from datetime import datetime
from typing import Any

from unspool.sinks.atif.model import AUDIO_ALIASES, AUDIO_TYPES, IMAGE_TYPES

Json = dict[str, Any]

AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
LLM_ONLY = ("metrics", "reasoning_content")


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
    if isinstance(step.get("timestamp"), str) and not _is_time(step["timestamp"]):
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
    said = str(source.get("media_type"))
    if part.get("type") == "image":
        return said in IMAGE_TYPES and source.keys() <= {"media_type", "path"}
    said = said.strip().lower()
    duration = source.get("duration_sec")
    lasts = duration is None or (math.isfinite(float(duration)) and float(duration) >= 0)
    known = source.keys() <= {"media_type", "path", "duration_sec"}
    return AUDIO_ALIASES.get(said, said) in AUDIO_TYPES and lasts and known


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True
