"""The session around the conversation: runs, models, modes, compactions, usage."""

from collections.abc import Iterator
from typing import Any, Literal

from unspool.facts import AnyFact, Key, Link, Marked, MessageSeen, Noted, Rank, UsageReported
from unspool.sources.copilot_cli.envelope import Event, snake, whole_number
from unspool.sources.copilot_cli.lookup import Lookup, content_id
from unspool.sources.copilot_cli.texts import plain

_CONTEXT = {
    "cwd": "workspace.path",
    "gitRoot": "workspace.git_root",
    "repository": "workspace.repository",
    "branch": "workspace.branch",
    "headCommit": "workspace.commit",
}
_EFFORT = ("reasoningEffort", "reasoningSummary", "verbosity", "contextTier", "autoTier")
_CLI = "GitHub Copilot CLI"
_CHAT = "GitHub Copilot Chat"


def _context(event: Event, context: Any, rank: int) -> Iterator[AnyFact]:
    """Where the session stands. What it started with is the conversation's; changes are marks."""
    if not isinstance(context, dict):
        return
    for native, name in _CONTEXT.items():
        value = context.get(native)
        if isinstance(value, str) and value:
            yield event.fact(Noted, name=name, value=value, rank=rank)
    for native in ("hostType", "baseCommit", "repositoryHost"):
        if context.get(native):
            yield event.fact(Noted, name=snake(native), value=context[native], rank=rank)


def _model(event: Event, model: str) -> Iterator[AnyFact]:
    if model:
        yield event.fact(Noted, on="following", name="model", value=model)


def read_start(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.data
    rank = event.rank
    yield event.fact(Noted, name="session_id", value=event.root[1], rank=rank)
    agent = _CHAT if data.get("vscodeVersion") else _CLI
    yield event.fact(Noted, name="agent", value=agent, rank=rank)
    version = event.text("copilotVersion")
    if version and version != "unknown":
        yield event.fact(Noted, name="agent_version", value=version, rank=rank)
    if event.text("vscodeVersion"):
        yield event.fact(Noted, name="vscode_version", value=event.text("vscodeVersion"), rank=rank)
    for native in _EFFORT:
        if event.text(native):
            yield event.fact(Noted, name=snake(native), value=event.text(native), rank=rank)
    yield from _context(event, data.get("context"), rank)
    yield from _model(event, event.text("selectedModel"))
    parent = event.text("detachedFromSpawningParentSessionId")
    if parent:
        tie = {"conversation_id": parent, "kind": "handoff"}
        yield event.fact(Noted, name="parent", value=tie)
    marked = event.chosen("selectedModel", "producer", "alreadyInUse", "startTime")
    yield event.fact(Marked, kind="start", rank=rank, data=marked or None)


def read_resume(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.chosen(
        "eventCount", "selectedModel", "reasoningEffort", "sessionWasActive", "alreadyInUse"
    )
    if event.data.get("continuePendingWork") is True:
        data["continues"] = True
    yield event.fact(Marked, kind="resume", data=data or None)
    yield from _context(event, event.data.get("context"), 4)
    yield from _model(event, event.text("selectedModel"))


def read_shutdown(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The figures are of the run that ends here, or of the session up to here; lines changed are of
    the session in either case.

    Newer versions write a snapshot of their accounts (case `runs_with_accounts`):
        {"type":"session.shutdown","data":{"accountingSnapshot":{…},"modelMetrics":{"m":{…}},
         "agentMetrics":{"main":{"modelMetrics":{"m":{…}}},"<agent id>":{"modelMetrics":{"m":{…}}}}}}
    There all figures are of the whole session, and `agentMetrics` tells the agents apart.
    """
    metrics, agents = event.data.get("modelMetrics"), event.data.get("agentMetrics")
    if not event.data.get("accountingSnapshot"):
        yield from _reported(event, event.root, "segment", metrics)
    elif isinstance(agents, dict) and "main" in agents:
        for agent, account in agents.items():
            child = f"{event.root[1]}/{lookup.child(agent, '')}"
            key = event.root if agent == "main" else (event.root[0], child)
            if isinstance(account, dict):
                yield from _reported(event, key, "conversation", account.get("modelMetrics"))
    else:
        yield from _reported(event, event.root, "conversation", metrics)
    changes = event.data.get("codeChanges")
    if isinstance(changes, dict) and changes:
        value = {snake(name): value for name, value in changes.items()}
        yield event.fact(Noted, name="code_changes", value=value)
    data = event.chosen(
        "shutdownType", "errorReason", "totalPremiumRequests", "totalNanoAiu", "totalApiDurationMs",
        "currentModel", "currentTokens", "systemTokens", "conversationTokens",
        "toolDefinitionsTokens", "agentMetrics",
    )  # fmt: skip
    yield event.fact(Marked, kind="end", data=data or None)


def _reported(
    event: Event, key: Key, on: Literal["segment", "conversation"], metrics: Any
) -> Iterator[AnyFact]:
    """Input holds cache reads and writes; `cost` counts premium requests, not dollars."""
    for model, account in metrics.items() if isinstance(metrics, dict) else ():
        if not isinstance(account, dict):
            continue
        usage, requests = account.get("usage"), account.get("requests")
        usage = usage if isinstance(usage, dict) else {}
        requests = requests if isinstance(requests, dict) else {}
        premium = requests.get("cost")
        yield event.fact(
            UsageReported,
            key=key,
            on=on,
            subject=event.id or f"{event.origin}:{event.offset}" if on == "segment" else "",
            model=model,
            **_figures(usage),
            requests=whole_number(requests.get("count")),
            rank=0 if on == "segment" else Rank.EXTRACT,
            extra={"premium_requests": premium} if premium is not None else None,
        )


def _figures(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: whole_number(usage.get(native)) for name, native in _FIGURES.items()}


_FIGURES = {
    "prompt": "inputTokens",
    "completion": "outputTokens",
    "cached": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
    "reasoning": "reasoningTokens",
}


def read_usage(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """One engine call, told before its answer: by streams, and by the logs of newer versions.

    {"type":"session.usage_record","data":{"usage":{"apiCallId":"c1","inputTokens":900,…}}}
    {"type":"assistant.message","data":{"apiCallId":"c1","content":"Done."}}
    """
    recorded = event.data.get("usage")
    data = recorded if isinstance(recorded, dict) else event.data
    call, model = plain(data.get("apiCallId")), plain(data.get("model"))
    if model:
        yield event.fact(Noted, on="following", name="model", value=model)
    if call and model:
        yield event.fact(Noted, on="request", subject=call, name="model", value=model)
    figures = _figures(data)
    if all(figure is None for figure in figures.values()):
        return
    extra = {
        snake(name): data[name]
        for name in ("duration", "timeToFirstTokenMs", "initiator", "finishReason")
        if data.get(name) not in (None, "")
    }
    subject = call or event.id or f"{event.origin}:{event.offset}"
    yield event.fact(
        UsageReported, on="message" if call else "call", subject=subject, model=model,
        extra=extra or None, rank=1, **figures,
    )  # fmt: skip
    if event.key != event.root and recorded is None:
        # What a run reports holds its sub-agents; so must what stands in for a report.
        yield event.fact(
            UsageReported, key=event.root, on="call", subject=subject, model=model, rank=1,
            **figures,
        )  # fmt: skip
        yield event.fact(Noted, key=event.root, name="usage_includes_subagents", value=True)


def read_model_change(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    model = event.text("newModel") or event.text("chosenModel")
    yield from _model(event, model)
    data = event.chosen("previousModel", "newModel", "chosenModel", "cause", "source",
                        "reasoningEffort", "previousReasoningEffort", "selectionReason")  # fmt: skip
    yield event.fact(Marked, kind="model_change", data=data or None)


def read_mode_change(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    if event.text("newMode"):
        yield event.fact(Noted, on="following", name="mode", value=event.text("newMode"))
    yield event.fact(
        Marked, kind="mode_change", data=event.chosen("previousMode", "newMode") or None
    )


def read_title(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """Only in streams; on disk the title stands in workspace.yaml."""
    if event.text("title").strip():
        yield event.fact(Noted, name="title", value=event.text("title").strip(), rank=3)


def read_context_change(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    yield from _context(event, event.data, 5)
    data = event.chosen(*_CONTEXT, "baseCommit", "hostType")
    yield event.fact(Marked, kind="context_change", data=data or None)


def read_compaction_start(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.chosen("trigger", "model", "currentTokens", "conversationTokens", "systemTokens",
                        "toolDefinitionsTokens", "tokenLimit")  # fmt: skip
    yield event.fact(Marked, kind="compaction_start", data=data or None)


def read_compaction(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
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
    yield event.fact(Marked, kind="compaction" if done else "compaction_failed", data=data or None)
    number = event.number_of("checkpointNumber")
    if done and number is not None:
        value = {"number": number, **event.chosen("checkpointPath")}
        yield event.fact(Noted, name="checkpoints", value=value, rank=3)


def read_handoff(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A session that goes on from one elsewhere: what it was told of that."""
    texts = (plain(event.data.get(name)) for name in ("summary", "context"))
    text = "\n\n".join(t for t in texts if t)
    if text:
        yield event.fact(MessageSeen, id=event.id, role="system", kind="injected", text=text)
    remote = event.text("remoteSessionId")
    if remote:
        tie = {"conversation_id": remote, "kind": "handoff"}
        yield event.fact(Noted, name="parent", value=tie, rank=1)
    data = event.chosen("sourceType", "repository", "remoteSessionId", "host")
    yield event.fact(Marked, kind="handoff", data=data or None)


def read_skill(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A skill's text is the model's from here on; what names it by hash is given the text."""
    data = event.chosen("name", "path", "description", "source", "trigger", "pluginName", "model",
                        "allowedTools", "content", "contentId", "skillName")  # fmt: skip
    if "content" in data:
        data.setdefault("content_id", content_id(plain(data["content"])))
    elif "content_id" in data and lookup.skill(str(data["content_id"])):
        data["content"] = lookup.skill(str(data["content_id"]))
    yield event.fact(Marked, kind="skill", data=data or None)


def read_abort(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    yield event.fact(Marked, kind="interruption", data=event.chosen("reason") or None)


def read_turn(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A new engine call: what follows is no part of the answer before."""
    yield event.fact(Link)
