"""Companions: what the path of a file says, and the small files beside a transcript.

projects/<project>/<session>.jsonl
projects/<project>/<session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
projects/<project>/<session>/subagents/workflows/<run>/agent-<id>.jsonl
projects/<project>/<session>/workflows/<run>.json
projects/<project>/<session>/custom-title.json
projects/<project>/<session>/tool-results/…
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.io.structs import Shape
from unspool.sources.claude_code.lines import NAME, child_id
from unspool.sources.scribe import Scribe

_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
_AGENT_FILE = re.compile(r"^agent-(.+?)(?:\.meta)?\.jsonl?$")
_SESSION = re.compile(rb'"(?:sessionId|session_id)"\s*:\s*"([^"]+)"')


class Agent(msgspec.Struct, gc=False):
    """A sub-agent of a workflow."""

    agentId: str = ""
    label: str = ""
    phaseTitle: str = ""


class Companion(msgspec.Struct, gc=False):
    """What a small file says: of a sub-agent, of a workflow, or the session's title."""

    parentAgentId: str = ""
    toolUseId: str = ""
    agentType: str = ""
    description: str = ""
    worktreePath: str = ""
    customTitle: str = ""
    runId: str = ""
    workflowName: str = ""
    workflowProgress: list[Agent] | None = None


_COMPANION = Shape(Companion)


class File(NamedTuple):
    """What a path says: the session, the sub-agent, and the workflow that it was a part of."""

    session: str
    agent: str = ""
    run: str = ""


def file_of(path: str) -> File:
    head = Head(path, b"", True)
    agent = _AGENT_FILE.match(head.name)
    if not agent:
        stem = head.name.rpartition(".")[0]
        return File(stem if _UUID.match(stem) else "")
    if "subagents" not in head.parts:
        return File("", agent[1])
    at = len(head.parts) - 1 - head.parts[::-1].index("subagents")
    below = head.parts[at + 1 :]
    run = below[1] if len(below) == 2 and below[0] == "workflows" else ""
    return File(head.parts[at - 1] if at else "", agent[1], run)


def first_session(path: str) -> str:
    """The session that a file names first, for lines that name none."""
    named = _SESSION.search(read_head(path).data)
    return named[1].decode("utf-8", "replace") if named else Path(path).stem


def kind_of(path: str) -> str:
    """meta, run, title or output, judged by the path; empty for any other file."""
    head = Head(path, b"", True)
    name, folder, above = head.name, "".join(head.parts[-1:]), "".join(head.parts[-2:-1])
    if name.startswith("agent-") and name.endswith(".meta.json") and "subagents" in head.parts:
        return "meta"
    if folder == "workflows" and name.endswith(".json") and _UUID.match(above):
        return "run"  # other projects have a folder of that name too: the content must agree
    if name == "custom-title.json" and _UUID.match(folder):
        return "title"
    if folder == "tool-results" and any(_UUID.match(part) for part in head.parts[-3:-1]):
        return "output"
    return ""


def claims(head: Head) -> bool:
    kind = kind_of(head.path)
    if kind == "run":
        return b'"runId"' in head.data and b'"workflow' in head.data
    return bool(kind)


def session_of(path: str) -> str | None:
    """The session that a file belongs to, by its path; hook logs and streams may be of many."""
    parts, kind = PurePath(path).parts, kind_of(path)
    if kind in ("run", "title"):
        return parts[-3 if kind == "run" else -2]
    return file_of(path).session or None


def read(origin: Origin, kind: str, tally: Tally) -> Iterator[AnyFact]:
    if origin.start:
        return
    if kind == "output":
        # What a tool returned, read with the line that refers to it. It states nothing by itself, but
        # without it a kept transcript could not be read anew.
        tally.records += 1
        tally.noise += 1
        return
    session = session_of(origin.path) or ""
    for _, _, told in iter_json_lines(origin, _COMPANION, tally):
        scribe = Scribe((NAME, session), origin.path, 0)
        if kind == "meta":
            scribe.key = (NAME, child_id(session, file_of(origin.path).agent))
            # `agent-<id>.meta.json`: the call that started the sub-agent, and its type.
            caller = child_id(session, told.parentAgentId) if told.parentAgentId else session
            scribe.parent(caller, call=told.toolUseId, name=told.agentType)
        scribe.notes({"title": told.customTitle.strip(), "worktree_path": told.worktreePath})
        scribe.notes({"agent_type": told.agentType, "title": told.description}, Rank.INDEX)
        # A workflow: what each of its sub-agents was for.
        for agent in told.workflowProgress or ():
            if agent.agentId:
                scribe.key = (NAME, child_id(session, agent.agentId))
                scribe.notes({"title": agent.label}, Rank.INDEX)
                scribe.notes({"run_id": told.runId}, Rank.COPY)
                scribe.notes({"workflow": told.workflowName, "phase": agent.phaseTitle})
        yield from scribe.facts
