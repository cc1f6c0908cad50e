"""Whose telemetry it is: the agent that sent an item, and what it calls the conversation.

    scope com.anthropic.claude_code.events, session.id          →  (claude-code, session.id)
    event.name codex.user_prompt, conversation.id               →  (codex, conversation.id)
    service.name checkout, gen_ai.conversation.id               →  (otel, gen_ai.conversation.id)

What a known agent sent repeats the conversation that its own files hold, and joins it.
"""

from unspool.sources.otel.otlp import Item

NAME = "otel"
OURS = "unspool"
"""The scope of what `--to otlp` wrote: conversations of their own, whoever led them."""
_BY_NAME = {
    "claude_code": "claude-code",
    "codex": "codex",
    "gemini_cli": "gemini-cli",
    "copilot_chat": "vscode-chat",
}
"""How events and spans of an agent begin (`codex.user_prompt`) → its product."""
_BY_SERVICE = {
    "claude-code": "claude-code",
    "codex": "codex",
    "codex_cli_rs": "codex",
    "codex_exec": "codex",
    "gemini-cli": "gemini-cli",
    "github-copilot": "copilot-cli",
    "copilot-chat": "vscode-chat",
}
_BY_SCOPE = (
    ("com.anthropic.claude_code", "claude-code"),
    ("github.copilot", "copilot-cli"),
    ("copilot-chat", "vscode-chat"),
)
_IDS = ("gen_ai.conversation.id", "copilot_chat.chat_session_id", "session.id", "conversation.id")
_OWN_IDS = {
    "vscode-chat": ("copilot_chat.chat_session_id", "gen_ai.conversation.id"),
    "claude-code": ("session.id",),
    "codex": ("conversation.id",),
    "gemini-cli": ("session.id", "gen_ai.conversation.id"),
    "copilot-cli": ("gen_ai.conversation.id",),
}
"""Under which names the agent's own files know the conversation."""


def product_of(item: Item) -> str:
    if item.scope == OURS:
        return NAME
    for name in (item.name, item.text("event.name"), item.body):
        beginning, dot, _ = name.partition(".") if isinstance(name, str) else ("", "", "")
        if dot and beginning in _BY_NAME:
            return _BY_NAME[beginning]
    service = str(item.resource.get("service.name") or "")
    if service in _BY_SERVICE:
        return _BY_SERVICE[service]
    for beginning, product in _BY_SCOPE:
        if item.scope.startswith(beginning):
            return product
    if any(name.startswith("copilot_chat.") for name in item.attributes):
        return "vscode-chat"
    return NAME


def session_of(item: Item, product: str) -> str:
    """What the item itself, or its resource, says that its conversation is called."""
    for name in _OWN_IDS.get(product, _IDS):
        session = item.text(name) or item.resource.get(name)
        if session:
            return str(session)
    return ""
