"""The shapes of a stored or exported chat, as far as they are read.

Whole documents are decoded straight into these. Where a field has a wrong type, the rest is taken field
by field and the field is reported. Fields that nobody knows are kept as they are (`rest`): a document
that has any is decoded once more, the slow way.
"""

from typing import Any

import msgspec

from unspool.io.structs import Shape, Whole

Text = str | None
Number = int | float | None


class Node(msgspec.Struct, gc=False):
    """A piece or a text of a rendered prompt (prompt-tsx)."""

    type: Any = None
    ctor: Any = None
    text: Text = None
    lineBreakBefore: Any = None
    children: list["Node"] | None = None


class Value(msgspec.Struct, gc=False):
    node: Node | None = None
    mimeType: Text = None
    data: Any = None


class Item(Value, gc=False):
    """One part of what a tool gave to the model: `{"value": "words"}`, `{"value": {"node": …}}`, and
    data as `{"mimeType": …, "data": …}` or as such a value."""

    value: str | Value | None = None


class ToolResult(msgspec.Struct, gc=False):
    content: list[Item] | None = None
    toolResultError: Any = None


class Thinking(msgspec.Struct, gc=False):
    id: Text = None
    text: str | list[str] | None = None


class Call(msgspec.Struct, gc=False):
    name: Text = None
    arguments: Any = None
    id: Text = None


class Round(Whole, gc=False):
    """One model call of a turn."""

    id: Text = None
    response: Text = None
    toolCalls: list[Call] | None = None
    thinking: Thinking | str | list[str] | None = None
    timestamp: Number = None
    summary: Any = None
    phase: Any = None
    phaseModelId: Any = None
    hookContext: Any = None
    compaction: Any = None
    toolInputRetry: Any = None
    statefulMarker: Any = None
    """Opaque, and of no use to anybody but the server that made it."""


class Image(msgspec.Struct, gc=False):
    url: Text = None
    mediaType: Text = None


class Rendered(msgspec.Struct, gc=False):
    """One part of a message as the model got it."""

    text: Text = None
    imageUrl: Image | None = None


RenderedMessage = list[Rendered] | str | None


class Metadata(Whole, gc=False):
    sessionId: Text = None
    modelMessageId: Text = None
    responseId: Text = None
    agentId: Text = None
    command: Text = None
    filterCategory: Any = None
    resolvedModel: Text = None
    promptTokens: Number = None
    outputTokens: Number = None
    maxToolCallsExceeded: Any = None
    renderedUserMessage: RenderedMessage = None
    renderedGlobalContext: RenderedMessage = None
    summaries: list[Any] | None = None
    summary: Any = None
    toolCallRounds: list[Round] | None = None
    toolCallResults: dict[str, ToolResult] | None = None
    codeBlocks: list[Any] | None = None
    globalContextCacheKey: Any = None
    shouldAutoSwitchToAuto: Any = None


class Result(Whole, gc=False):
    errorDetails: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    metadata: Metadata | None = None
    details: Any = None
    nextQuestion: Any = None
    usage: dict[str, Any] | None = None


class ModelState(msgspec.Struct, gc=False):
    value: Number = None
    completedAt: Number = None


class Variables(msgspec.Struct, gc=False):
    variables: list[dict[str, Any]] | dict[str, Any] | None = None
    """By name in files of early 2024."""


class Message(msgspec.Struct, gc=False):
    """What the person typed, and what it was parsed into: words and mentions."""

    text: Text = None
    parts: list[dict[str, Any]] | None = None


class Request(Whole, gc=False):
    """A user message and what was answered."""

    requestId: Text = None
    providerRequestId: Text = None
    message: Message | str | None = None
    variableData: Variables | None = None
    response: Any = None
    responseId: Text = None
    timestamp: Number = None
    responseTimestamp: Number = None
    agent: dict[str, Any] | None = None
    slashCommand: Any = None
    modelId: Text = None
    result: Result | None = None
    responseErrorDetails: dict[str, Any] | None = None
    modelState: ModelState | None = None
    isCanceled: bool | None = None
    vote: Number = None
    voteDownReason: Text = None
    usedContext: Any = None
    contentReferences: list[Any] | None = None
    codeCitations: list[Any] | None = None
    followups: list[Any] | None = None
    confirmation: Any = None
    editedFileEvents: list[dict[str, Any]] | None = None
    shouldBeRemovedOnSend: Any = None
    isHidden: bool | None = None
    hiddenFromTranscript: Any = None
    requestHiddenFromTranscript: Any = None
    isSystemInitiated: bool | None = None
    systemInitiatedLabel: Any = None
    terminalExecutionId: Any = None
    requestSource: Any = None
    origin: Any = None
    workingSet: Any = None
    timeSpentWaiting: Number = None
    elapsedMs: Number = None
    responseMarkdownInfo: list[Any] | None = None
    modeInfo: dict[str, Any] | None = None
    promptTokens: Number = None
    completionTokens: Number = None
    outputBuffer: Any = None
    promptTokenDetails: Any = None
    copilotCredits: Any = None
    sessionCopilotCredits: Any = None
    modelTotals: list[dict[str, Any]] | None = None


class Pending(msgspec.Struct, gc=False):
    """Typed, and not yet sent."""

    id: Any = None
    kind: Any = None
    request: Request | None = None


class Chat(Whole, gc=False):
    """A whole chat: exported, stored flat, or the state that a mutation log ends in."""

    version: Any = None
    sessionId: Text = None
    creationDate: Number = None
    lastMessageDate: Any = None
    customTitle: Text = None
    computedTitle: Text = None
    requesterUsername: Text = None
    requesterAvatarIconUri: Any = None
    responderUsername: Text = None
    responderAvatarIconUri: Any = None
    initialLocation: Text = None
    isImported: bool | None = None
    hasPendingEdits: Any = None
    isNew: Any = None
    inputState: Any = None
    repoData: dict[str, Any] | None = None
    repoDataEnd: dict[str, Any] | None = None
    """Not VS Code's name: what a zip holds beside the chat."""
    pendingRequests: list[Pending] | None = None
    workingDirectory: Any = None
    providerId: Text = None
    requests: list[Request] | None = None


CHAT = Shape(Chat)
REQUEST = Shape(Request)
