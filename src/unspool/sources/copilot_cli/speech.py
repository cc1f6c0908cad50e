"""What was said: the person, the model, the program in either's name."""

from collections.abc import Iterator
from typing import Any

from unspool.facts import (
    AnyFact,
    Link,
    Marked,
    MessageSeen,
    Noted,
    Rank,
    ToolCalled,
    UsageReported,
)
from unspool.sources.copilot_cli.attachments import attachments
from unspool.sources.copilot_cli.envelope import Event, whole_number
from unspool.sources.copilot_cli.lookup import Lookup, content_id
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, arguments_text, plain, title_of
from unspool.sources.copilot_cli.touches import touched

DELTA_RANK = 2
_TYPED_SOURCES = ("", "user", "human")
_ENCRYPTED = ("reasoningOpaque", "encryptedContent")


def read_user(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.data
    content = plain(data.get("content"))
    sent = data.get("transformedContent")
    text = sent if isinstance(sent, str) and sent else content
    source = event.text("source")
    # A sub-agent is told its task by its parent: `"source":"agent-<session>"` (case `subagent_told`).
    told = event.key != event.root and source.startswith("agent-")
    injected = source not in _TYPED_SOURCES and not told
    injected = injected or data.get("isAutopilotContinuation") is True
    # Nothing in the timeline, but something sent: a nudge of the program's.
    injected = injected or (not content.strip() and bool(text.strip()))
    if not injected and content.strip():
        yield event.fact(
            Noted,
            name="title",
            value=title_of(content),
            rank=FIRST_PROMPT_RANK,
        )
    yield event.fact(
        MessageSeen,
        id=event.id,
        role="user",
        text=text,
        typed=None if injected else content,
        shown=content if injected and content != text else "",
        kind="injected" if injected else _user_kind(event, content, text),
        mode=event.text("agentMode"),
        rank=event.rank,
        attachments=attachments(data.get("attachments"), lookup),
        request=event.text("interactionId"),
        extra=event.chosen("source", "delivery", "parentAgentTaskId") or None,
    )


def _user_kind(event: Event, content: str, text: str) -> str:
    if event.text("delivery") == "steering":
        return "steering"
    # `/init` is sent as the long prompt that it stands for.
    return "command" if content.startswith("/") and content not in text else ""


def read_assistant(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.data
    call = event.text("apiCallId")
    chunked = whole_number(data.get("chunkIndex")) is not None and bool(call)
    ident = call if chunked else event.text("messageId") or event.id
    ident = ident or f"{event.origin}:{event.offset}"
    encrypted = sum(1 for name in _ENCRYPTED if data.get(name))
    blocks = data.get("reasoningBlocks")
    extra = event.chosen("phase", "providerId", "citations", "serverTools")
    extra.update(event.chosen("requestId", "serviceRequestId", "fusion"))
    if encrypted:
        extra["encrypted_reasoning"] = encrypted
    yield event.fact(
        MessageSeen,
        id=ident,
        role="assistant",
        text=plain(data.get("content")),
        thinking=plain(data.get("reasoningText")) or _readable(blocks),
        model=event.text("model") or event.model,
        rank=event.rank,
        request=call or event.text("interactionId"),
        # One record per chunk or call in the oldest logs; reasoning may stand before it.
        joins=event.rank == 0,
        extra=extra or None,
    )
    tokens = event.number_of("outputTokens")
    if tokens is not None:
        yield event.fact(
            UsageReported, subject=ident, completion=tokens, model=event.text("model"),
            rank=event.rank,
        )  # fmt: skip
        if event.key != event.root and not event.rank:
            # What a run reports holds its sub-agents; so must what stands in for a report.
            yield event.fact(
                UsageReported, key=event.root, on="call", subject=call or ident, completion=tokens,
                model=event.text("model"),
            )  # fmt: skip
            yield event.fact(Noted, key=event.root, name="usage_includes_subagents", value=True)
    yield from _requests(event, ident, lookup)
    if event.key != event.root:
        yield event.fact(Link)  # no turn events tell a child's answers apart


def read_delta(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A piece of an answer as it was streamed: all that is left where the stream was cut off."""
    yield event.fact(
        MessageSeen,
        id=event.text("messageId") or event.id,
        role="assistant",
        text=plain(event.data.get("deltaContent")),
        piece=True,
        rank=max(event.rank, DELTA_RANK),
    )


def _readable(blocks: Any) -> str:
    """Reasoning in typed blocks, as far as it can be read."""
    found = blocks.get("blocks") if isinstance(blocks, dict) else blocks
    parts = found if isinstance(found, list) else []
    names = ("text", "thinking", "summary")
    texts = (plain(p[n]) for p in parts if isinstance(p, dict) for n in names if p.get(n))
    return "\n\n".join(texts)


def _requests(event: Event, message: str, lookup: Lookup) -> Iterator[AnyFact]:
    requests = event.data.get("toolRequests")
    for index, request in enumerate(requests if isinstance(requests, list) else ()):
        if not isinstance(request, dict):
            continue
        # Logs that another program made say `id`.
        ident = plain(request.get("toolCallId") or request.get("id"))
        name = plain(request.get("name"))
        arguments = request.get("arguments")
        extra = {
            key: request[native]
            for key, native in _REQUEST_EXTRAS.items()
            if request.get(native) not in (None, "")
        }
        kind = request.get("type") or ("custom" if ident.startswith("custom_") else "function")
        if kind != "function":
            extra["type"] = kind
        yield event.fact(
            ToolCalled,
            id=ident,
            message=message,
            name=name,
            arguments=arguments_text(arguments),
            index=index,
            rank=event.rank,
            files=touched(name, arguments),
            extra=extra or None,
        )
        yield from task_prompt(event, ident, name, arguments, lookup)


_REQUEST_EXTRAS = {
    "mcp_server": "mcpServerName",
    "mcp_tool": "mcpToolName",
    "title": "toolTitle",
    "intention": "intentionSummary",
    "caller": "caller",
}


def task_prompt(
    event: Event, call: str, name: str, arguments: Any, lookup: Lookup
) -> Iterator[AnyFact]:
    """What a sub-agent was told: before it wrote that down itself, only the call says so."""
    if (
        event.rank
        or not isinstance(arguments, dict)
        or not isinstance(arguments.get("prompt"), str)
    ):
        return
    if call not in lookup.started:
        return
    key = (event.root[0], f"{event.root[1]}/{lookup.started[call]}")
    yield event.fact(
        MessageSeen,
        key=key,
        id=f"task:{call}",
        role="user",
        text=arguments["prompt"],
        rank=Rank.EXTRACT,
    )
    title = arguments.get("description") or arguments.get("name")
    if isinstance(title, str) and title:
        yield event.fact(Noted, key=key, name="title", value=title, rank=1)


def read_reasoning(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """Streams repeat so, behind a message, the reasoning that it holds."""
    if event.ephemeral:
        return
    yield event.fact(
        MessageSeen,
        id=event.text("reasoningId") or event.id,
        role="assistant",
        thinking=plain(event.data.get("content")),
        rank=event.rank,
        joins=event.rank == 0,
    )


def read_system(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The system prompt is written again with every run: one message for each that differs."""
    text = plain(event.data.get("content")) or plain(event.data.get("contentBlocks"))
    role = event.text("role")
    yield event.fact(
        MessageSeen,
        id=f"{role or 'system'}:{content_id(text)[:16]}",
        role="system",
        text=text,
        rank=event.rank,
        extra={"role": role} if role not in ("", "system") else None,
    )


def read_notification(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The model gets it in the person's place, save where instructions were only discovered."""
    kind = event.data.get("kind")
    about = kind if isinstance(kind, dict) else {"type": plain(kind)}
    text = plain(event.data.get("content"))
    if about.get("type") == "instruction_discovered":
        yield event.fact(Marked, kind="notification", data={**about, "content": text})
        return
    about = {name: value for name, value in about.items() if name != "prompt"}
    yield event.fact(
        MessageSeen, id=event.id, role="user", kind="notification", text=text,
        extra={"notification": about},
    )  # fmt: skip


def read_injected(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """Context that the program gave to the model: a skill's text, a notice about the mode."""
    text = plain(event.data.get("content"))
    if event.type.endswith("_ref"):
        middle = lookup.skill(event.text("contentId"))
        parts = (plain(event.data.get("prefix")), middle, plain(event.data.get("suffix")))
        text = "".join(parts)
    extra = event.chosen("source", "mode", "contentId", "interactionId")
    if not text:
        yield event.fact(Marked, kind="notice", data=extra or None)
        return
    yield event.fact(
        MessageSeen, id=event.id, role="user" if event.type.startswith("skill") else "system",
        kind="injected", text=text, extra=extra or None,
    )  # fmt: skip


def read_error(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The program's words in place of an answer; never an answer."""
    extra = event.chosen(
        "errorType", "errorCode", "statusCode", "providerCallId", "remediation", "url"
    )
    yield event.fact(
        MessageSeen, id=event.id, role="system", kind="error",
        text=plain(event.data.get("message")), extra=extra or None,
    )  # fmt: skip
