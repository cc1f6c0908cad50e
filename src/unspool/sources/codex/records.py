"""The shapes of Codex's records, as far as they are read, and what the parts of a message say."""

from typing import Any

import msgspec
from msgspec import Raw

from unspool.facts import Attachment, UsageOf
from unspool.io.structs import Shape
from unspool.prompts.shapes import image_of
from unspool.sources.scribe import Scribe

NOTHING = Raw(b"")


class Part(msgspec.Struct, gc=False, omit_defaults=True):
    """One part of a message's content, of a summary, or of a tool's output."""

    type: str = ""
    text: str = ""
    image_url: Any = None
    encrypted_content: str = ""


class Passthrough(msgspec.Struct, gc=False, omit_defaults=True):
    content_item_kinds: list[str] | None = None
    """What each part of a message is: `user.text` is typed, all else was put there."""


class Counts(msgspec.Struct, gc=False):
    """Tokens: `input_tokens` holds the cached ones, `output_tokens` the reasoning."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None

    def report(self, scribe: Scribe, model: str, on: UsageOf, subject: str) -> None:
        scribe.usage(
            on=on,
            subject=subject,
            model=model,
            prompt=self.input_tokens,
            completion=self.output_tokens,
            cached=self.cached_input_tokens,
            cache_write=self.cache_write_input_tokens,
            reasoning=self.reasoning_output_tokens,
        )


class TokenInfo(msgspec.Struct, gc=False):
    total_token_usage: Counts | None = None
    last_token_usage: Counts | None = None


class Base(msgspec.Struct, gc=False):
    """Where a thread goes on from: the lines of another file before this ordinal."""

    thread_id: str = ""
    end_ordinal_exclusive: int | None = None


class Item(msgspec.Struct, gc=False):
    """What a turn did, as the screen shows it (`item_completed`)."""

    type: str = ""
    id: str = ""
    command: Any = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: dict[str, Any] | None = None
    kind: str | None = None
    agent_thread_id: str | None = None
    receiver_thread_ids: list[str] | None = None
    tool: str | None = None
    user_facing_hint: str | None = None


class Payload(msgspec.Struct, gc=False, omit_defaults=True):
    """The payload of a line; in files from before 0.32 the line itself.

    Items without an id are known by a hash of this: what a record does not say is left out, so that
    a field that is read some day changes no id of records without it."""

    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    # session_meta
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    originator: str | None = None
    source: Any = None
    git: Any = None
    agent_nickname: str | None = None
    agent_path: str | None = None
    base_instructions: Any = None
    instructions: Any = None
    history_base: Base | None = None
    subagent_history_start_ordinal: int | None = None
    # turn_context
    model: str | None = None
    # response_item
    role: str | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | str | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    action: Raw = NOTHING
    output: str | list[Part] | dict[str, Any] | None = None
    author: str | None = None
    recipient: str | None = None
    tools: list[dict[str, Any]] | None = None
    internal_chat_message_metadata_passthrough: Passthrough | None = None
    # event_msg
    thread_id: str | None = None
    user_facing_hint: str | None = None
    message: str | None = None
    info: TokenInfo | None = None
    item: Item | None = None
    reason: str | None = None
    num_turns: int | None = None
    error: Any = None
    success: bool | None = None
    # compacted, token_usage_record
    replacement_history: list["Payload"] | None = None
    response_id: str | None = None
    usage: Counts | None = None


class LineMetadata(msgspec.Struct, gc=False):
    compaction_output: bool | None = None


class Line(msgspec.Struct, gc=False):
    """`{timestamp, type, payload}`, with `ordinal` and `metadata` since paginated mode."""

    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: Payload | None = None
    metadata: LineMetadata | None = None
    record_type: str | None = None


LINE = Shape(Line)
BARE = Shape(Payload)
_INJECTED = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions for", "<turn_aborted>",
    "<permissions instructions>", "<hook_prompt ", "<skill>", "<recommended_plugins>",
    "<codex_internal_context ", "<subagent_notification>", "<user_shell_command>", "<model_switch>",
    "<collaboration_mode>", "<INSTRUCTIONS>", "<user_action>",
)  # fmt: skip
"""How messages begin that nobody typed, in files that do not say so themselves."""


def texts_of(parts: list[Part] | str | None) -> list[str]:
    if isinstance(parts, str):
        return [parts] if parts else []
    return [part.text for part in parts or () if part.text]


def content_of(
    content: str | list[Part] | None, between: str = "\n"
) -> tuple[str, tuple[Attachment, ...]]:
    if not isinstance(content, list):
        return content or "", ()
    images = [part for part in content if part.image_url]
    attachments = tuple(image_of({"image_url": part.image_url}) for part in images)
    return between.join(part.text for part in content if part.text), attachments


def typed_of(content: str | list[Part] | None) -> str | None:
    """What was typed, where the program wrapped pictures that came with it:

    [{"text":"<image name=[Image #1]>"},{"image_url":…},{"text":"</image>"},{"text":"What is it?"}]
    """
    parts = content if isinstance(content, list) else []
    if not any(part.text.startswith("<image ") for part in parts):
        return None
    words: list[str] = []
    inside = False
    for part in parts:
        inside = inside or part.text.startswith("<image ")
        if not inside and part.text:
            words.append(part.text)
        inside = inside and part.text != "</image>"
    return "\n".join(words)


def is_injected(payload: Payload, text: str) -> bool:
    passthrough = payload.internal_chat_message_metadata_passthrough
    kinds = passthrough.content_item_kinds if passthrough else None
    if kinds:
        return not any(kind.startswith("user.") for kind in kinds)
    return text.lstrip().startswith(_INJECTED)
