"""VS Code chat: which native field is which of ours. The source reads by it, the sink writes by it.

What stands here travels as it is; what needs more than a new name is told by the two sides.
"""

USER = {
    "agent": "agent",
    "slash_command": "slashCommand",
    "confirmation": "confirmation",
    "edited_file_events": "editedFileEvents",
    "mode_info": "modeInfo",
    "removed": "shouldBeRemovedOnSend",
    "system_label": "systemInitiatedLabel",
    "terminal_execution_id": "terminalExecutionId",
    "request_source": "requestSource",
    "request_origin": "origin",
    "working_set": "workingSet",
}
"""In the `extra` of the user message → in the request."""

ANSWER = {
    "response_id": "responseId",
    "model_id": "modelId",
    "followups": "followups",
    "used_context": "usedContext",
    "content_references": "contentReferences",
    "code_citations": "codeCitations",
    "vote_down_reason": "voteDownReason",
    "markdown_info": "responseMarkdownInfo",
    "elapsed_ms": "elapsedMs",
    "waited_ms": "timeSpentWaiting",
}
"""In the `extra` of the last assistant message → in the request."""

RESULT = {
    "error": "errorDetails",
    "timings": "timings",
    "details": "details",
    "next_question": "nextQuestion",
}
"""In the `extra` of the last assistant message → in the request's result."""

METADATA = {
    "model_message_id": "modelMessageId",
    "server_response_id": "responseId",
    "agent_id": "agentId",
    "command": "command",
    "filter_category": "filterCategory",
    "resolved_model": "resolvedModel",
    "max_tool_calls_exceeded": "maxToolCallsExceeded",
    "summaries": "summaries",
    "summary": "summary",
}
"""In the `extra` of the last assistant message → in the result's metadata."""

USAGE = {
    "prompt_token_details": "promptTokenDetails",
    "output_buffer": "outputBuffer",
    "copilot_credits": "copilotCredits",
    "session_copilot_credits": "sessionCopilotCredits",
    "model_totals": "modelTotals",
}
"""In the `extra` of the usage → in the request."""

ROUND = {"phase": "phase", "phase_model": "phaseModelId", "hook_context": "hookContext"}
"""In the `extra` of an assistant message → in its round."""

CALL = {
    "tool_id": "toolId",
    "invocation": "invocationMessage",
    "past_tense": "pastTenseMessage",
    "origin_message": "originMessage",
    "confirmed": "isConfirmed",
    "source": "source",
    "presentation": "presentation",
    "specific": "toolSpecificData",
    "title": "generatedTitle",
    "sub_agent": "subAgentInvocationId",
    "ui_call": "uiCallId",
}
"""In the `extra` of a tool call → in its response part."""

PARTICIPANT = ("metadata", "slashCommands", "disambiguation")
"""Fields of a participant that are kept once per chat (`metadata.participants`), by its id."""

STATES = {0: "pending", 1: "complete", 2: "cancelled", 3: "failed", 4: "needs-input"}
VOTES = {0: "down", 1: "up"}
OUTCOMES = {1: "accepted", 2: "rejected", 3: "modified"}
CALL_SUFFIX = "__vscode-"


def bare_call_id(ident: str) -> str:
    """The model's id of a tool call: VS Code adds a suffix of its own."""
    return ident.split(CALL_SUFFIX, 1)[0]
