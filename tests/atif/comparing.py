"""Our documents beside Harbor's, step by step."""

import hashlib
import json
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from tests.atif.judges import documents, families
from tests.harness import facts_of, reduce_all
from unspool.io.folders import walk
from unspool.io.origins import Origin

Json = dict[str, Any]
FIELDS = ("message", "reasoning", "model", "calls", "results", "tokens")


def our_steps(raw: Path, source: str) -> list[Json]:
    """The steps of all that we read in the folder, sub-agents behind their parents."""
    found: list[Json] = []

    def take(document: Json) -> None:
        found.extend(document["steps"])
        for sub in document.get("subagent_trajectories", ()):
            take(sub)

    for family in families(reduce_all(facts_of(_origins(raw, source)))):
        for document in documents(family):
            take(document)
    return found


def _origins(raw: Path, source: str) -> list[Origin]:
    """As with `--source`: some of Harbor's inputs are too bare to be recognised."""
    return [Origin(path, name, source) for path, name in walk(str(raw))]


def view(step: Json) -> Json:
    """What is compared of a step."""
    results = (step.get("observation") or {}).get("results", [])
    metrics = step.get("metrics") or {}
    return {
        "source": step["source"],
        "message": step["message"],
        "reasoning": step.get("reasoning_content"),
        "model": step.get("model_name"),
        "calls": [
            (c["tool_call_id"], c["function_name"], c["arguments"])
            for c in step.get("tool_calls") or ()
        ],
        "results": [(r.get("source_call_id"), r.get("content")) for r in results],
        "tokens": [metrics.get(f"{name}_tokens") for name in ("prompt", "completion", "cached")],
    }


def compare(ours: list[Json], theirs: list[Json]) -> list[str]:
    """One line per step: `=`, what differs in it, or whose alone it is."""
    left, right = [view(step) for step in ours], [view(step) for step in theirs]
    lines: list[str] = []
    matcher = SequenceMatcher(
        None, [_key(s) for s in left], [_key(s) for s in right], autojunk=False
    )
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            lines += [_line(one, other) for one, other in zip(left[a:b], right[c:d], strict=True)]
            continue
        lines += [f"ours only: {step['source']}" for step in left[a:b]]
        lines += [f"theirs only: {step['source']}" for step in right[c:d]]
    return lines


def _key(step: Json) -> str:
    """Steps are the same one if they say or do the same."""
    said = step["message"] if isinstance(step["message"], str) else json.dumps(step["message"])
    return f"{step['source']} {said.strip()} {[call[0] for call in step['calls']]}"


def _line(one: Json, other: Json) -> str:
    differing = [name for name in FIELDS if one[name] != other[name]]
    if "tokens" in differing and one["tokens"] == [*other["tokens"][:2], None]:
        differing[differing.index("tokens")] = "no cached tokens"
    if "results" in differing and sorted(map(str, one["results"])) == sorted(
        map(str, other["results"])
    ):
        differing[differing.index("results")] = "order of results"
    return ", ".join(differing) or "="


def digest(agent: str, pair: str) -> str:
    """A short name for a pair: the table holds nothing of the corpus."""
    return hashlib.sha256(f"{agent}/{pair}".encode()).hexdigest()[:10]
