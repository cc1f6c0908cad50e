"""The session around the conversation: runs, models, modes, usage, compactions, sub-agents."""

from typing import Any, Literal

from unspool.facts import CONCURRENT, Key, Rank
from unspool.io.values import dict_of, field_of
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup, content_id
from unspool.sources.copilot_cli.texts import plain, whole_number
from unspool.sources.scribe import chosen, snake

_CONTEXT = {
    "cwd": "workspace.path",
    "gitRoot": "workspace.git_root",
    "repository": "workspace.repository",
    "branch": "workspace.branch",
    "headCommit": "workspace.commit",
    "hostType": "host_type",
    "baseCommit": "base_commit",
    "repositoryHost": "repository_host",
}
_EFFORT = ("reasoningEffort", "reasoningSummary", "verbosity", "contextTier", "autoTier")


def _note_context(event: Event, context: Any, rank: int) -> None:
    """Where the session stands. What it started with is the conversation's; changes are marks."""
    event.notes(chosen(dict_of(context), _CONTEXT, _CONTEXT), rank)


def read_start(event: Event, lookup: Lookup) -> None:
    rank = event.rank
    event.note("session_id", event.root[1], rank)
    in_editor = bool(event.data.get("vscodeVersion"))
    event.note("agent", "GitHub Copilot Chat" if in_editor else "GitHub Copilot CLI", rank)
    version = event.text("copilotVersion")
    if version and version != "unknown":
        event.note("agent_version", version, rank)
    event.note_text("vscodeVersion", "vscode_version", rank)
    event.notes(event.chosen(*_EFFORT), rank)
    _note_context(event, event.data.get("context"), rank)
    if parent := event.text("detachedFromSpawningParentSessionId"):
        event.parent(parent, "handoff")
    data = event.chosen("selectedModel", "producer", "startTime")
    event.mark("start", {**data, **_concurrent(event)}, rank=rank)


def _concurrent(event: Event) -> dict[str, Any]:
    """{"alreadyInUse": true}: another program has the session open (case `two_programs_at_once`)."""
    in_use = event.data.get("alreadyInUse")
    return {} if in_use is None else {CONCURRENT: in_use}


def read_resume(event: Event, lookup: Lookup) -> None:
    lookup.resumed = True
    data = event.chosen("eventCount", "selectedModel", "reasoningEffort", "sessionWasActive")
    data.update(_concurrent(event))
    if event.data.get("continuePendingWork") is True:
        data["continues"] = True
    event.mark("resume", data)
    _note_context(event, event.data.get("context"), 4)


def read_shutdown(event: Event, lookup: Lookup) -> None:
    """The figures are of the run that ends here, or of the session up to here; lines changed are of
    the session in either case.

    Newer versions tell their agents apart (1.0.85; case `runs_of_agents`) and write a snapshot of their
    accounts (1.0.102; case `runs_with_accounts`):
        {"type":"session.shutdown","data":{"accountingSnapshot":{…},"modelMetrics":{"m":{…}},
         "agentMetrics":{"main":{"modelMetrics":{"m":{…}}},"<agent id>":{"modelMetrics":{"m":{…}}}}}}
    There all figures are of the whole session.
    """
    metrics, agents = event.data.get("modelMetrics"), event.data.get("agentMetrics")
    agents_report = event.data.get("accountingSnapshot") or agents
    if not agents_report and not lookup.runs_on(event.entry):
        _report(event, event.root, "segment", metrics)
    elif isinstance(agents, dict) and "main" in agents:
        for agent, account in agents.items():
            child = f"{event.root[1]}/{lookup.child(agent, '')}"
            key = event.root if agent == "main" else (event.root[0], child)
            _report(event, key, "conversation", field_of(account, "modelMetrics"))
    else:
        _report(event, event.root, "conversation", metrics)
    changes = dict_of(event.data.get("codeChanges"))
    event.notes({"code_changes": {snake(name): value for name, value in changes.items()}})
    data = event.chosen(
        "shutdownType", "errorReason", "totalPremiumRequests", "totalNanoAiu", "totalApiDurationMs",
        "currentModel", "currentTokens", "systemTokens", "conversationTokens",
        "toolDefinitionsTokens", "agentMetrics",
    )  # fmt: skip
    event.mark("end", data)


_FIGURES = {
    "prompt": "inputTokens",  # with cache reads and writes
    "completion": "outputTokens",
    "cached": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
    "reasoning": "reasoningTokens",
}


def _figures(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: whole_number(usage.get(native)) for name, native in _FIGURES.items()}


def _report(event: Event, key: Key, on: Literal["segment", "conversation"], metrics: Any) -> None:
    for model, account in dict_of(metrics).items():
        requests = dict_of(field_of(account, "requests"))
        premium = requests.get("cost")  # counts premium requests, not dollars
        event.usage(
            key=key,
            on=on,
            subject=event.entry if on == "segment" else "",
            model=model,
            **_figures(dict_of(field_of(account, "usage"))),
            requests=whole_number(requests.get("count")),
            rank=0 if on == "segment" else Rank.EXTRACT,
            extra={"premium_requests": premium} if premium is not None else None,
        )


def read_usage(event: Event, lookup: Lookup) -> None:
    """One engine call, told before its answer: by streams, and by the logs of newer versions.

    {"type":"session.usage_record","data":{"usage":{"apiCallId":"c1","inputTokens":900,…}}}
    {"type":"assistant.message","data":{"apiCallId":"c1","content":"Done."}}
    """
    recorded = event.data.get("usage")
    data = recorded if isinstance(recorded, dict) else event.data
    call, model = plain(data.get("apiCallId")), plain(data.get("model"))
    if model:
        event.note("model", model, on="following")
    if call and model:
        event.note("model", model, on="request", subject=call)
    figures = _figures(data)
    if all(figure is None for figure in figures.values()):
        return
    extra = chosen(data, ("duration", "timeToFirstTokenMs", "initiator", "finishReason"))
    report: dict[str, Any] = {"subject": call or event.entry, "model": model, "rank": 1, **figures}
    event.usage(on="message" if call else "call", extra=extra or None, **report)
    if recorded is None:
        event.count_for_session(**report)


def read_context_change(event: Event, lookup: Lookup) -> None:
    _note_context(event, event.data, 5)
    event.mark("context_change", event.chosen(*_CONTEXT))


def read_compaction(event: Event, lookup: Lookup) -> None:
    """The history stays; the mark holds what the model saw in its place from then on."""
    done = event.data.get("success") is not False
    data = event.chosen(
        "outcome", "outcomeReason", "failureReason", "error", "model", "trigger",
        "preCompactionTokens", "postCompactionTokens", "preCompactionMessagesLength",
        "messagesRemoved", "tokensRemoved", "customInstructions", "checkpointNumber",
        "checkpointPath", "compactionTokensUsed", "requestId",
    )  # fmt: skip
    if event.data.get("summaryContent"):
        data["summary"] = plain(event.data["summaryContent"])
    event.mark("compaction" if done else "compaction_failed", data)
    number = event.number_of("checkpointNumber")
    if done and number is not None:
        event.note("checkpoints", {"number": number, **event.chosen("checkpointPath")}, 3)


def read_handoff(event: Event, lookup: Lookup) -> None:
    """A session that goes on from one elsewhere: what it was told of that."""
    texts = (plain(event.data.get(name)) for name in ("summary", "context"))
    if text := "\n\n".join(filter(None, texts)):
        event.message(id=event.entry, role="system", kind="injected", text=text)
    if remote := event.text("remoteSessionId"):
        event.parent(remote, "handoff", 1)
    event.mark("handoff", event.chosen("sourceType", "repository", "remoteSessionId", "host"))


def read_skill(event: Event, lookup: Lookup) -> None:
    """A skill's text is the model's from here on; what names it by hash is given the text."""
    data = event.chosen("name", "path", "description", "source", "trigger", "pluginName", "model",
                        "allowedTools", "content", "contentId", "skillName")  # fmt: skip
    if "content" in data:
        data.setdefault("content_id", content_id(plain(data["content"])))
    elif "content_id" in data and lookup.skill(str(data["content_id"])):
        data["content"] = lookup.skill(str(data["content_id"]))
    event.mark("skill", data)


# Sub-agents: their events stand in the parent's log; each is a conversation of its own


def read_agent_start(event: Event, lookup: Lookup) -> None:
    """The parent is the session, or the sub-agent that the record names; linking finds the caller."""
    call, spawner = event.text("toolCallId"), event.text("parentId")
    parent = f"{event.root[1]}/{lookup.child(spawner, '')}" if spawner else event.root[1]
    name = event.text("agentDisplayName") or event.text("agentName")
    tie = {"conversation_id": parent, "tool_call_id": call or None, "name": name or None}
    event.note("parent", tie)
    event.note("session_id", event.root[1])
    event.note_text("agentName", "agent")
    data = event.chosen(
        "agentName", "agentDisplayName", "agentDescription", "agentType", "executionMode"
    )
    event.mark("start", data)


def read_agent_end(event: Event, lookup: Lookup) -> None:
    data = event.chosen(
        "error", "model", "totalToolCalls", "totalTokens", "durationMs", "cancelled"
    )
    event.mark("end", {**data, "failed": event.type.endswith("failed")})
    event.note_text("agentName", "agent", 1)
    event.note_text("model", "model")
