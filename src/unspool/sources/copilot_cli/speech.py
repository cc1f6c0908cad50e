"""What was said: by the person, by the model, and by the program in either's name."""

import re
from typing import Any

from unspool.facts import Rank
from unspool.io.values import list_of
from unspool.prompts.typed import typed_text
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup, content_id
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, plain, whole_number
from unspool.sources.copilot_cli.tools import read_requests
from unspool.sources.scribe import title_of

_TYPED_SOURCES = ("", "user", "human")
_ENCRYPTED = ("reasoningOpaque", "encryptedContent")
_DATED = "<current_datetime>"


def read_user(event: Event, lookup: Lookup) -> None:
    """`content` is what the screen shows, `transformedContent` what was sent."""
    data = event.data
    content = plain(data.get("content"))
    sent = data.get("transformedContent")
    text = sent if isinstance(sent, str) and sent else content
    source = event.text("source")
    # A sub-agent is told its task by its parent (case `runs_with_accounts`):
    # {"content":"List the callers","source":"agent-<session>"}
    is_task = event.key != event.root and source.startswith("agent-")
    injected = source not in _TYPED_SOURCES and not is_task
    injected = injected or data.get("isAutopilotContinuation") is True
    # Logs of 2025 hold only what was sent, with what the program added to the words (case
    # `dated_prompts`): {"content":"<current_datetime>…</current_datetime>\n\nFix the cart"}
    typed = typed_text(content) if _DATED in content else content
    # Nothing in the timeline, but something sent: a nudge of the program's.
    injected = injected or (not (typed or "").strip() and bool(text.strip()))
    if injected:
        typed = None
    elif typed and typed.strip():
        event.note("title", title_of(typed), FIRST_PROMPT_RANK)
    kind = ""
    if injected:
        kind = "injected"
    elif event.text("delivery") == "steering":
        kind = "steering"
    elif content.startswith("/") and content not in text:
        kind = "command"  # `/init` is sent as the long prompt that it stands for
    event.message(
        id=event.entry,
        role="user",
        text=text,
        typed=typed,
        shown=content if injected and content != text else "",
        kind=kind,
        mode=event.text("agentMode"),
        attachments=lookup.attachments(data.get("attachments")),
        request=event.text("interactionId"),
        extra=event.chosen("source", "delivery", "parentAgentTaskId") or None,
    )


def read_assistant(event: Event, lookup: Lookup) -> None:
    data = event.data
    call = event.text("apiCallId")
    chunked = whole_number(data.get("chunkIndex")) is not None and bool(call)
    ident = call if chunked else event.text("messageId") or event.entry
    extra = event.chosen(
        "phase", "providerId", "citations", "serverTools", "requestId", "serviceRequestId", "fusion"
    )
    encrypted = [name for name in _ENCRYPTED if data.get(name)]
    if encrypted:
        extra["encrypted_reasoning"] = len(encrypted)
    model = event.text("model")
    event.message(
        id=ident,
        role="assistant",
        text=plain(data.get("content")),
        thinking=plain(data.get("reasoningText")) or _readable(data.get("reasoningBlocks")),
        model=model or (event.envelope.model or "").strip(),
        request=call or event.text("interactionId"),
        # One record per chunk or call in the oldest logs; reasoning may stand before it.
        joins=event.rank == 0,
        extra=extra or None,
    )
    tokens = event.number_of("outputTokens")
    if tokens is not None:
        event.usage(subject=ident, completion=tokens, model=model)
        if not event.rank:
            event.count_for_session(subject=call or ident, completion=tokens, model=model)
    read_requests(event, ident, lookup)
    if event.key != event.root:
        event.link()  # older logs have no turns that tell a child's answers apart


def _readable(blocks: Any) -> str:
    """Reasoning in typed blocks, as far as it can be read."""
    if not blocks:
        return ""
    parts = blocks.get("blocks") if isinstance(blocks, dict) else blocks
    return "\n\n".join(
        plain(part[name])
        for part in list_of(parts)
        if isinstance(part, dict)
        for name in ("text", "thinking", "summary")
        if part.get(name)
    )


def read_delta(event: Event, lookup: Lookup) -> None:
    """A piece of an answer as it was streamed: all that is left where the stream was cut off."""
    event.message(
        id=event.text("messageId") or event.entry,
        role="assistant",
        text=plain(event.data.get("deltaContent")),
        piece=True,
        rank=max(event.rank, Rank.EXTRACT),
    )


def read_reasoning(event: Event, lookup: Lookup) -> None:
    """Streams repeat so, behind a message, the reasoning that it holds."""
    if not event.envelope.ephemeral:
        event.message(
            id=event.text("reasoningId") or event.entry,
            role="assistant",
            thinking=plain(event.data.get("content")),
            joins=event.rank == 0,
        )


def read_torn_reasoning(event: Event, lookup: Lookup) -> None:
    """Reasoning as it was streamed: all that is left where the stream was cut off before the answer
    was whole. Told where it begins (case `stdout_killed`)."""
    reasoning = lookup.torn(event.text("reasoningId"))
    if reasoning is not None and reasoning.entry == event.entry:
        event.message(
            id=reasoning.message,
            role="assistant",
            thinking=reasoning.text,
            rank=max(event.rank, Rank.EXTRACT),
        )


_STATED = (
    ("agent_version", re.compile(r"Version number: (\S+)\s*</version_information>")),
    ("workspace.path", re.compile(r"^\* Current working directory: (.+?)\s*$", re.MULTILINE)),
    ("workspace.git_root", re.compile(r"^\* Git repository root: ([/A-Z].*?)\s*$", re.MULTILINE)),
)
"""What the system prompt says about the session; logs of 2025 say it nowhere else."""
_NO_ROOT = "Not a git repository"


def read_system(event: Event, lookup: Lookup) -> None:
    """The system prompt is written again with every run: one message for each that differs."""
    text = plain(event.data.get("content")) or plain(event.data.get("contentBlocks"))
    role = event.text("role")
    event.message(
        id=f"{role or 'system'}:{content_id(text)[:16]}",
        role="system",
        text=text,
        extra={"role": role} if role not in ("", "system") else None,
    )
    note_stated(event, text)


def note_stated(event: Event, prompt: str) -> None:
    for name, pattern in _STATED:
        stated = pattern.search(prompt)
        if stated and stated[1] != _NO_ROOT:
            event.note(name, stated[1], Rank.LAST_RESORT)


def read_notification(event: Event, lookup: Lookup) -> None:
    """The model gets it in the person's place, save where instructions were only discovered."""
    kind = event.data.get("kind")
    about = kind if isinstance(kind, dict) else {"type": plain(kind)}
    text = plain(event.data.get("content"))
    if about.get("type") == "instruction_discovered":
        event.mark("notification", {**about, "content": text})
        return
    about = {name: value for name, value in about.items() if name != "prompt"}
    event.message(
        id=event.entry, role="user", kind="notification", text=text, extra={"notification": about}
    )


def read_injected(event: Event, lookup: Lookup) -> None:
    """Context that the program gave to the model: a skill's text, a notice about the mode."""
    text = plain(event.data.get("content"))
    if event.type.endswith("_ref"):
        middle = lookup.skill(event.text("contentId"))
        text = plain(event.data.get("prefix")) + middle + plain(event.data.get("suffix"))
    extra = event.chosen("source", "mode", "contentId", "interactionId")
    if not text:
        event.mark("notice", extra)
        return
    role = "user" if event.type.startswith("skill") else "system"
    event.message(id=event.entry, role=role, kind="injected", text=text, extra=extra or None)


def read_error(event: Event, lookup: Lookup) -> None:
    """The program's words in place of an answer; never an answer."""
    extra = event.chosen(
        "errorType", "errorCode", "statusCode", "providerCallId", "remediation", "url"
    )
    text = plain(event.data.get("message"))
    event.message(id=event.entry, role="system", kind="error", text=text, extra=extra or None)
