"""Bare lines: those without an id. They stand where they were written; of what they say of the
session, the last one holds."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from unspool.facts import AnyFact, MessageSeen
from unspool.sources.claude_code.context import queued_text
from unspool.sources.claude_code.place import Place, title_of
from unspool.sources.claude_code.transcript import note_task
from unspool.sources.claude_code.words import read_words

Value = dict[str, Any]


def read_queue(value: Value, place: Place) -> Iterator[AnyFact]:
    """A prompt was typed ahead. The line of the prompt itself may come later, or never."""
    if value.get("operation") != "enqueue" or not value.get("content"):
        return
    text = queued_text(value["content"])
    words = read_words(text)
    yield MessageSeen(
        **place.common(),
        role="user",
        text=text,
        kind=words.kind or "steering",
        typed=words.typed,
        status="queued",
        rank=2,
        attachments=words.attachments,
        extra={"queued": True},
    )
    yield from note_task(text, words.kind, place)


def read_summary(value: Value, place: Place) -> Iterator[AnyFact]:
    """A title; it belongs to the session that holds the line that it names."""
    if isinstance(value.get("summary"), str):
        note = place.note("title", value["summary"], 3)
        leaf = value.get("leafUuid")
        if isinstance(leaf, str) and leaf:
            note = replace(note, on="entry", subject=leaf)
        yield note


def _noted(field: str, name: str, rank: int = 0) -> Callable[[Value, Place], Iterator[AnyFact]]:
    def read(value: Value, place: Place) -> Iterator[AnyFact]:
        found = value.get(field)
        if isinstance(found, str) and found:
            yield place.note(name, found, rank)

    return read


def read_last_prompt(value: Value, place: Place) -> Iterator[AnyFact]:
    found = value.get("lastPrompt")
    if isinstance(found, str) and found.strip():
        yield place.note("title", title_of(found), 2)


def read_pr_link(value: Value, place: Place) -> Iterator[AnyFact]:
    made = {
        "kind": "pull_request",
        "number": value.get("prNumber"),
        "url": value.get("prUrl"),
        "repository": value.get("prRepository"),
    }
    yield place.note("references", {name: found for name, found in made.items() if found})


def _fields(
    name: str, names: dict[str, str], inside: str = ""
) -> Callable[[Value, Place], Iterator[AnyFact]]:
    """A note of several fields, under our names; None where the line says that it is over."""

    def read(value: Value, place: Place) -> Iterator[AnyFact]:
        found = value.get(inside) if inside else value
        found = found if isinstance(found, dict) else {}
        made = {
            ours: found[theirs] for theirs, ours in names.items() if found.get(theirs) is not None
        }
        if made or inside:
            yield place.note(name, made or None)

    return read


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


def read_continued(value: Value, place: Place) -> Iterator[AnyFact]:
    other = value.get("continuedInSessionId")
    if isinstance(other, str) and other:
        yield place.note("children", {"conversation_id": other, "kind": "continuation"})


BARE: dict[str, Callable[[Value, Place], Iterator[AnyFact]]] = {
    "queue-operation": read_queue,
    "summary": read_summary,
    "custom-title": _noted("customTitle", "title"),
    "ai-title": _noted("aiTitle", "title", 1),
    "last-prompt": read_last_prompt,
    "tag": _noted("tag", "tag"),
    "agent-name": _noted("agentName", "agent_name"),
    "agent-color": _noted("agentColor", "agent_color"),
    "agent-setting": _noted("agentSetting", "agent_setting"),
    "mode": _noted("mode", "session_mode"),
    "permission-mode": _noted("permissionMode", "permission_mode"),
    "pr-link": read_pr_link,
    "relocated": _noted("relocatedCwd", "relocated_path"),
    "worktree-state": _fields("worktree", _WORKTREE, "worktreeSession"),
    "cost-state": _fields("cost_state", _COST),
    "fork-context-ref": _fields(
        "given_context", {"parentLastUuid": "after", "contextLength": "messages"}
    ),
    "continued-in": read_continued,
}
"""Types without an id that state something."""

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
        "saved_hook_context", "task-summary",
        # the journals of workflows
        "launched", "started", "result", "failed",
    )
)  # fmt: skip
"""Nothing that was said."""
