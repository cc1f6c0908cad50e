"""Companions: small files beside a transcript that say whose it is."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.dirty_json import sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.sources.claude_code.files import UUID, File
from unspool.sources.claude_code.lines import Line
from unspool.sources.claude_code.place import NAME, Place, child_id

Value = dict[str, Any]


def is_meta(name: str, parts: tuple[str, ...]) -> bool:
    return name.startswith("agent-") and name.endswith(".meta.json") and "subagents" in parts


def is_run(name: str, parts: tuple[str, ...]) -> bool:
    """`<session>/workflows/<run>.json`; other projects have a folder of that name too."""
    if not name.endswith(".json") or parts[-1:] != ("workflows",):
        return False
    return any(UUID.match(part) for part in parts[-2:-1])


def is_output(parts: tuple[str, ...]) -> bool:
    """`<session>/tool-results/…`: what a tool returned, read with the line that refers to it. It states
    nothing by itself, but without it a kept transcript could not be read anew."""
    return parts[-1:] == ("tool-results",) and any(UUID.match(part) for part in parts[-3:-1])


def is_title(name: str, parts: tuple[str, ...]) -> bool:
    """`<session>/custom-title.json`: the name that the person gave the session."""
    return name == "custom-title.json" and any(UUID.match(part) for part in parts[-1:])


def tells_run(data: bytes) -> bool:
    return b'"runId"' in data and b'"workflow' in data


def is_companion(name: str, parts: tuple[str, ...]) -> bool:
    known = is_meta(name, parts) or is_run(name, parts) or is_title(name, parts)
    return known or is_output(parts)


def read_companion(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    if origin.start:
        return
    tally.records += 1
    if is_output(PurePath(origin.path).parts[:-1]):
        tally.noise += 1
        return
    with open_origin(origin.path) as file:
        data = file.read()
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        tally.problems += 1
        yield Problem(
            key=NOBODY, origin=origin.path, offset=0, code="invalid-json", sample=sample(data)
        )
        return
    name = Head(origin.path, b"", True).name
    if name.endswith(".meta.json"):
        yield from _read_meta(value, origin)
    elif name == "custom-title.json":
        yield from _read_title(value, origin)
    else:
        yield from _read_run(value, origin)


def _read_title(value: Value, origin: Origin) -> Iterator[AnyFact]:
    title = value.get("customTitle")
    if isinstance(title, str) and title.strip():
        place = Place((NAME, PurePath(origin.path).parts[-2]), origin.path, 0, Line())
        yield place.note("title", title)


def _read_run(value: Value, origin: Origin) -> Iterator[AnyFact]:
    """A workflow: what each of its sub-agents was for."""
    session = PurePath(origin.path).parts[-3]
    listed = value.get("workflowProgress")
    agents = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    for number, item in enumerate(agents):
        agent = item.get("agentId")
        if not isinstance(agent, str) or not agent:
            continue
        place = Place((NAME, child_id(session, agent)), origin.path, number, Line())
        known = (
            ("title", item.get("label"), 4),
            ("run_id", value.get("runId"), 1),
            ("workflow", value.get("workflowName"), 0),
            ("phase", item.get("phaseTitle"), 0),
        )
        for name, said, rank in known:
            if isinstance(said, str) and said:
                yield place.note(name, said, rank)


def _read_meta(value: Value, origin: Origin) -> Iterator[AnyFact]:
    """`agent-<id>.meta.json`: the call that started the sub-agent, and its type."""
    found = File(origin.path)
    place = Place((NAME, child_id(found.session, found.agent)), origin.path, 0, Line())
    parent = value.get("parentAgentId")
    above = child_id(found.session, parent) if isinstance(parent, str) and parent else found.session
    link: dict[str, Any] = {"conversation_id": above, "kind": "subagent"}
    if isinstance(value.get("toolUseId"), str):
        link["tool_call_id"] = value["toolUseId"]
    if isinstance(value.get("agentType"), str):
        link["name"] = value["agentType"]
        yield place.note("agent_type", value["agentType"])
    yield place.note("parent", link)
    if isinstance(value.get("description"), str):
        yield place.note("title", value["description"], 4)
    if value.get("worktreePath"):
        yield place.note("worktree_path", value["worktreePath"])
