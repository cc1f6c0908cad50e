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

import msgspec

from unspool.facts import AnyFact, Problem, Rank
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


class File:
    """What the path says: the session, whether that is certain, and the sub-agent."""

    __slots__ = ("agent", "certain", "path", "run", "session")

    def __init__(self, path: str) -> None:
        self.path = path
        head = Head(path, b"", True)
        agent = _AGENT_FILE.match(head.name)
        self.agent = agent[1] if agent else ""
        self.session = ""
        self.run = ""
        """The workflow that the sub-agent was a part of."""
        if agent and "subagents" in head.parts:
            at = len(head.parts) - 1 - head.parts[::-1].index("subagents")
            self.session = head.parts[at - 1] if at else ""
            below = head.parts[at + 1 :]
            self.run = below[1] if len(below) == 2 and below[0] == "workflows" else ""
        elif not agent:
            stem = head.name.rpartition(".")[0]
            self.session = stem if _UUID.match(stem) else ""
        self.certain = bool(self.session)

    def or_head(self) -> str:
        """The session, where a line does not name it: by the path, else the first one named."""
        if not self.session:
            named = _SESSION.search(read_head(self.path).data)
            self.session = named[1].decode("utf-8", "replace") if named else Path(self.path).stem
        return self.session


def kind_of(path: str) -> str:
    """meta, run, title or output, judged by the path; empty for any other file."""
    head = Head(path, b"", True)
    name, parts = head.name, head.parts
    if name.startswith("agent-") and name.endswith(".meta.json") and "subagents" in parts:
        return "meta"
    if (
        parts[-1:] == ("workflows",)
        and name.endswith(".json")
        and _UUID.match("".join(parts[-2:-1]))
    ):
        return "run"  # other projects have a folder of that name too: the content must agree
    if name == "custom-title.json" and _UUID.match(parts[-1]):
        return "title"
    if parts[-1:] == ("tool-results",) and any(_UUID.match(part) for part in parts[-3:-1]):
        return "output"
    return ""


def claims(head: Head) -> bool:
    kind = kind_of(head.path)
    if kind == "run":
        return b'"runId"' in head.data and b'"workflow' in head.data
    return bool(kind)


def session_of(path: str) -> str | None:
    """The session that a file belongs to, by its path; hook logs and streams may be of many."""
    kind = kind_of(path)
    parts = PurePath(path).parts
    if kind == "run":
        return parts[-3]
    return parts[-2] if kind == "title" else File(path).session or None


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
    for line in iter_json_lines(origin, _COMPANION, tally):
        if isinstance(line, Problem):
            yield line
            continue
        told = line[2]
        scribe = Scribe((NAME, session), origin.path, 0)
        if kind == "meta":
            scribe.key = (NAME, child_id(session, File(origin.path).agent))
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
