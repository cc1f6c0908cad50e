"""Bare lines: those without an id. They stand where they were written; of what they say of the
session, the last one holds."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from unspool.facts import Rank
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.sources.claude_code.lines import blocks_of, text_of
from unspool.sources.claude_code.transcript import note_task
from unspool.sources.claude_code.words import kept_as, read_words
from unspool.sources.scribe import Scribe, chosen, title_of

Value = dict[str, Any]


def _queue(value: Value, scribe: Scribe) -> None:
    """A prompt was typed ahead. The line of the prompt itself may come later, or never."""
    if value.get("operation") != "enqueue" or not value.get("content"):
        return
    text = text_of(value["content"])
    words = read_words(text)
    scribe.message(
        role="user",
        text=text,
        kind=words.kind or "steering",
        typed=words.typed,
        shown=kept_as(words.typed),
        status="queued",
        rank=Rank.EXTRACT,
        attachments=words.attachments,
        extra={"queued": True},
    )
    note_task(text, words.kind, scribe)


def _summary(value: Value, scribe: Scribe) -> None:
    """A title; it belongs to the session that holds the line that it names."""
    title, leaf = value.get("summary"), str_of(value.get("leafUuid"))
    if isinstance(title, str):
        scribe.note("title", title, Rank.ECHO, "entry" if leaf else "conversation", leaf)


def _pr_link(value: Value, scribe: Scribe) -> None:
    names = {"prNumber": "number", "prUrl": "url", "prRepository": "repository"}
    scribe.note("references", {"kind": "pull_request", **chosen(value, names, names)})


def _continued(value: Value, scribe: Scribe) -> None:
    if other := str_of(value.get("continuedInSessionId")):
        scribe.note("children", {"conversation_id": other, "kind": "continuation"})


# Every request is kept whole, in three kinds of line (2.1.325; cases/claude_code/api_requests):
# {"type":"api-request-shape","shapeHash":"5a…","shape":{"system":[…],"tools":[…]}}
# {"type":"api-request-blob","hash":"d8…","message":{"role":"user","content":[…]}}
# {"type":"api-request","base":"<id>","keep":3,"tail":["d8…"],"shapeHash":"5a…","params":{…}}
# The messages of a request are the first `keep` of its base and the blobs of its tail. All of them
# stand in the transcript too, but for the reminders that were put behind results on the way.


def _request_shape(value: Value, scribe: Scribe) -> None:
    shape = value.get("shape")
    if isinstance(shape, dict):
        texts = [block.text or "" for block in blocks_of(shape.get("system"))]
        # The last block is what a `prompt_snapshot` repeats; a line of who is speaking goes before.
        before = "\n\n".join(texts[:-1])
        read_setup(texts[-1] if texts else "", shape.get("tools"), scribe, before)


def read_setup(system: str, tools: Any, scribe: Scribe, before: str = "") -> None:
    """The system prompt and the tools. They are written again with every resumption: by its words,
    the same prompt is one message, where it stood first."""
    if system.strip():
        ident = hashlib.sha256(system.encode("utf-8", "replace")).hexdigest()[:16]
        extra = {"before": before} if before else None
        scribe.message(id=f"system:{ident}", role="system", text=system, extra=extra)
    scribe.notes({"tool_definitions": dicts_of(tools)})


_REMINDERS = re.compile(
    r"(?:\s*<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>)+\s*$", re.DOTALL
)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


def _request_blob(value: Value, scribe: Scribe) -> None:
    """Of a message that was sent: the reminders behind a result, and the result itself where its own
    line is gone."""
    for block in list_of(field_of(value.get("message"), "content")):
        call = field_of(block, "tool_use_id")
        if not isinstance(call, str) or block.get("type") != "tool_result":
            continue
        text = text_of(block.get("content"))
        behind = _REMINDERS.search(text)
        reminders = _REMINDER.findall(behind[0]) if behind else []
        scribe.returned(
            call=call,
            text=text[: behind.start()] if behind else text,
            failed=block.get("is_error") is True,
            rank=Rank.EXTRACT,
            extra={"reminders": reminders} if reminders else None,
        )


def _worktree(value: Value, scribe: Scribe) -> None:
    """None where the line says that it is over."""
    given = dict_of(value.get("worktreeSession"))
    scribe.note("worktree", chosen(given, _WORKTREE, _WORKTREE) or None)


_COST = {
    "totalCostUSD": "cost_usd",
    "totalAPIDuration": "api_duration_ms",
    "totalToolDuration": "tool_duration_ms",
    "totalDuration": "duration_ms",
    "totalLinesAdded": "lines_added",
    "totalLinesRemoved": "lines_removed",
    "modelUsage": "models",
}
"""What the program counted for the whole session with its sub-agents and side requests: no total of
this conversation, whose answers tell their own tokens."""
_WORKTREE = {
    "worktreePath": "path",
    "worktreeName": "name",
    "worktreeBranch": "branch",
    "originalCwd": "original_path",
    "originalBranch": "original_branch",
}

_CONTEXT = {"parentLastUuid": "after", "contextLength": "messages"}

NOTES: dict[str, tuple[str, str, int]] = {
    "custom-title": ("customTitle", "title", Rank.ITSELF),
    "ai-title": ("aiTitle", "title", Rank.COPY),
    "tag": ("tag", "tag", Rank.ITSELF),
    "agent-name": ("agentName", "agent_name", Rank.ITSELF),
    "agent-color": ("agentColor", "agent_color", Rank.ITSELF),
    "agent-setting": ("agentSetting", "agent_setting", Rank.ITSELF),
    "mode": ("mode", "session_mode", Rank.ITSELF),
    "permission-mode": ("permissionMode", "permission_mode", Rank.ITSELF),
    "relocated": ("relocatedCwd", "relocated_path", Rank.ITSELF),
    "tools-used": ("tools", "tools_used", Rank.ITSELF),
    "api-request": ("params", "request_options", Rank.ITSELF),
}
"""Types without an id that hold one field: a note of that value."""

BARE: dict[str, Callable[[Value, Scribe], None]] = {
    "queue-operation": _queue,
    "summary": _summary,
    "last-prompt": lambda value, scribe: scribe.notes(
        {"title": title_of(str_of(value.get("lastPrompt")))}, Rank.EXTRACT
    ),
    "pr-link": _pr_link,
    "worktree-state": _worktree,
    "cost-state": lambda value, scribe: scribe.notes({"cost_state": chosen(value, _COST, _COST)}),
    "fork-context-ref": lambda value, scribe: scribe.notes(
        {"given_context": chosen(value, _CONTEXT, _CONTEXT)}
    ),
    "continued-in": _continued,
    "api-request-blob": _request_blob,
    "api-request-shape": _request_shape,
}
"""Types without an id that state something else."""

NOISE = frozenset(
    (
        # undo state
        "file-history-snapshot", "file-history-delta", "content-replacement",
        "attribution-snapshot", "speculation-accept",
        # links to what lies elsewhere
        "artifact", "artifact-link", "artifact-autoreact-ledger", "artifact-comment-monitor",
        "frame-link", "bridge-session", "observer-ref",
        # the program's own switches
        "atis-latch", "isolation-latch", "history-suppression", "ended-by-model",
        "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset",
        "saved_hook_context", "task-summary", "resume-head-vouch", "data-flow-records",
        "data-flow-incomplete", "session-owner", "dev-mods", "memory-mode", "repl-mode",
        # the journals of workflows
        "launched", "started", "result", "failed",
    )
)  # fmt: skip
"""Nothing that was said."""


def read_bare(kind: str, value: Value, scribe: Scribe) -> None:
    if kind in BARE:
        BARE[kind](value, scribe)
    elif kind in NOTES:
        field, name, rank = NOTES[kind]
        scribe.notes({name: value.get(field)}, rank)
