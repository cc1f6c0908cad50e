"""The shapes of Codex's records, as far as they are read."""

from typing import Any

import msgspec
from msgspec import Raw

from unspool.io.structs import Shape

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
    status: Any = None
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
    session_id: str | None = None
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
