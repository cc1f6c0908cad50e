"""What the parts of a message say, and who said it."""

from unspool.facts import Attachment
from unspool.prompts.shapes import image_of
from unspool.sources.codex.records import Part, Payload

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
