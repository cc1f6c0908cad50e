"""Companions: small files beside a transcript that say whose it is."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.origins import Origin, Tally, open_origin
from unspool.records import sample
from unspool.sources.claude_code.files import File
from unspool.sources.claude_code.lines import Line
from unspool.sources.claude_code.transcript import NAME, Place, child_id


def is_meta(name: str, parts: tuple[str, ...]) -> bool:
    return name.startswith("agent-") and name.endswith(".meta.json") and "subagents" in parts


def read_meta(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """`agent-<id>.meta.json`: the call that started the sub-agent, and its type."""
    if origin.start:
        return
    tally.records += 1
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
