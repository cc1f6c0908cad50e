"""Heads: what a composer says about its conversation as a whole, in the trajectory's names."""

import ntpath
import posixpath
from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact, UsageReported
from unspool.io.times import format_time, parse_time
from unspool.sources.cursor.bubbles import RANK, mode_name
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import decoded

Composer = dict[str, Any]


def head_notes(composer: Composer) -> dict[str, Any]:
    """What a composer's head says about its conversation, in the trajectory's names."""
    used, limit = composer.get("contextTokensUsed"), composer.get("contextTokenLimit")
    percent = composer.get("contextUsagePercent")
    if (
        percent is None
        and isinstance(used, int | float)
        and isinstance(limit, int | float)
        and limit
    ):
        percent = round(100 * used / limit, 1)
    mode = composer.get("unifiedMode") or composer.get("forceMode")
    identifier = composer.get("workspaceIdentifier")
    parent = composer.get("subagentInfo")
    summary = composer.get("latestConversationSummary")
    while isinstance(summary, dict):
        summary = summary.get("summary")
    made: dict[str, Any] = {
        "title": composer.get("name") or composer.get("chatTitle"),
        "started_at": format_time(parse_time(composer.get("createdAt"))),
        "ended_at": format_time(
            parse_time(composer.get("lastUpdatedAt", composer.get("lastSendTime")))
        ),
        "composer_mode": mode_name(mode) or None,
        "composer_status": composer.get("status"),
        "context_usage": percent,
        "context_tokens": used,
        "context_limit": limit,
        "total_lines_added": composer.get("totalLinesAdded"),
        "total_lines_removed": composer.get("totalLinesRemoved"),
        "files_changed": composer.get("filesChangedCount"),
        "agent_backend": composer.get("agentBackend"),
        "is_archived": composer.get("isArchived") or None,
        "conversation_summary": summary if isinstance(summary, str) else None,
        "workspace.path": _workspace(identifier),
        "workspace.branch": _branch(composer.get("trackedGitRepos")),
    }
    if isinstance(parent, dict) and isinstance(parent.get("parentComposerId"), str):
        made["parent"] = {"conversation_id": parent["parentComposerId"]}
        if isinstance(parent.get("toolCallId"), str):
            made["parent"]["tool_call_id"] = parent["toolCallId"]
        if isinstance(parent.get("subagentTypeName"), str):
            made["parent"]["name"] = parent["subagentTypeName"]
        root = parent.get("rootParentConversationId")
        made["session_id"] = root if isinstance(root, str) and root else parent["parentComposerId"]
    return {name: value for name, value in made.items() if value not in (None, "")}


def _workspace(identifier: Any) -> str | None:
    uri = identifier.get("uri") if isinstance(identifier, dict) else None
    if isinstance(uri, dict):
        uri = uri.get("fsPath", uri.get("path"))
    return clean_path(uri) if isinstance(uri, str) and uri else None


def workspace_id(composer: Composer) -> str:
    """The name that the editor has for the workspace: that of its folder under `workspaceStorage`."""
    identifier = composer.get("workspaceIdentifier")
    ident = identifier.get("id") if isinstance(identifier, dict) else composer.get("workspaceId")
    is_name = isinstance(ident, str) and ident.isalnum()
    return str(ident) if is_name else ""


def _branch(repositories: Any) -> str | None:
    first = repositories[0] if isinstance(repositories, list) and repositories else None
    listed = first.get("branches") if isinstance(first, dict) else None
    branch = listed[0] if isinstance(listed, list) and listed else None
    name = branch.get("branchName") if isinstance(branch, dict) else None
    return name if isinstance(name, str) else None


def children_of(composer: Composer) -> list[str]:
    """The composers of the sub-agents that it started."""
    listed = composer.get("subagentComposerIds")
    return [ident for ident in (listed if isinstance(listed, list) else ()) if _is_name(ident)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def model_of(composer: Composer) -> str:
    """The model that is set for the composer; `default` is whatever Cursor chose."""
    config = decoded(composer.get("modelConfig"))
    name = config.get("modelName") if isinstance(config, dict) else None
    if isinstance(name, str) and name and name != "default":
        return name
    usage = composer.get("usageData")
    models = [m for m in usage if m != "default"] if isinstance(usage, dict) else []
    if len(models) == 1:
        return str(models[0])
    return name if isinstance(name, str) else ""


def common_folder(composers: list[Composer]) -> str | None:
    """The folder that the changed files of several composers share, where nothing names it."""
    changed: list[dict[str, Any]] = []
    for composer in composers:
        blocks = composer.get("codeBlockData")
        if isinstance(blocks, dict) and blocks:
            changed.append(blocks)
    if len(changed) < 2:
        return None
    return folder_of([clean_path(str(uri)) for blocks in changed for uri in blocks])


def folder_of(paths: list[str]) -> str | None:
    """The innermost folder that holds all these files, but no root of a disk."""
    windows = [path for path in paths if path[1:3] == ":\\"]
    plain = [path for path in paths if path[:1] == "/"]
    module: Any = ntpath if len(windows) > len(plain) else posixpath
    absolute = windows if module is ntpath else plain
    try:
        found: str = module.commonpath([module.dirname(path) for path in absolute])
    except ValueError:
        return None
    return found if len(found) > 3 else None


def costs(composer: Composer, common: dict[str, Any]) -> Iterator[AnyFact]:
    usage = composer.get("usageData")
    for number, (model, spent) in enumerate(usage.items() if isinstance(usage, dict) else ()):
        cents = spent.get("costInCents") if isinstance(spent, dict) else None
        if isinstance(cents, int | float) and cents:
            amount = spent.get("amount")
            yield UsageReported(
                **common, number=number, on="conversation", model=str(model), rank=RANK,
                cost_usd=cents / 100, requests=amount if isinstance(amount, int) else None,
            )  # fmt: skip
