"""VS Code chat: which native field is which of ours. The source reads by it, the sink writes by it.

What stands here travels as it is; what needs more than a new name is told by the two sides.
"""

import re

NAME = "vscode-chat"
HEAD = 1 << 62
"""The rank of what a chat says about itself, less how much it holds: of two copies the one with more
requests knows better, then the one with the latest."""
BESIDE = HEAD + 1
"""The rank of what stands beside a chat: the index, the folder."""

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
    "response_timestamp": "responseTimestamp",
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
    "global_context_key": "globalContextCacheKey",
    "switch_to_auto": "shouldAutoSwitchToAuto",
    "code_blocks": "codeBlocks",
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

ROUND = {
    "phase": "phase",
    "phase_model": "phaseModelId",
    "hook_context": "hookContext",
    "compaction": "compaction",
    "retries": "toolInputRetry",
}
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

DISPLAY = frozenset(
    (
        "progressMessage",
        "codeblockUri",
        "undoStop",
        "prepareToolInvocation",
        "changesSummary",
        "disabledClaudeHooks",
        "mcpServersStarting",
        "mcpServersStartingSlow",
        "mcpAuthenticationRequired",
        "voiceProgress",
    )
)
"""Response parts that only move the display: kept among `extra.parts`, never read out."""

AGENT = (
    "id", "name", "fullName", "description", "isDefault", "isDynamic", "isCore", "extensionId",
    "extensionVersion", "extensionPublisherId", "extensionPublisher", "publisherDisplayName",
    "extensionDisplayName", "locations", "modes",
)  # fmt: skip
"""What comes first of a participant in the `extra` of the user message; all else of it follows."""
PARTICIPANT = ("metadata", "slashCommands", "disambiguation")
"""Fields of a participant that are kept once per chat (`metadata.participants`), by its id."""

STATES = {0: "pending", 1: "complete", 2: "cancelled", 3: "failed", 4: "needs-input"}
VOTES = {0: "down", 1: "up"}
OLD_VOTES = {2: "down"}
"""Until 2024 a vote against had another number."""
OUTCOMES = {1: "accepted", 2: "rejected", 3: "modified"}
NATIVE = "native"
"""In `extra` (and in a chat's `metadata`): fields that are none of these, under the names of what they
stood in (`request`, `result`, `metadata`, `round`; bare for a call and a chat), as they are."""
MADE_THINKING = re.compile(r"thinking_\d+")
"""Ids of thinking that are mere numbers: those of chats that were written from trajectories."""
CALL_SUFFIX = "__vscode-"


def bare_call_id(ident: str) -> str:
    """The model's id of a tool call: VS Code adds a suffix of its own."""
    return ident.split(CALL_SUFFIX, 1)[0]


EDITORS = frozenset(
    ("apply_patch", "insert_edit_into_file", "create_file", "replace_string_in_file",
     "multi_replace_string_in_file", "edit_notebook_file", "edit_files",
     "create_new_jupyter_notebook")
)  # fmt: skip
"""Tools that edit files: the edits of their calls are parts of their own."""

TOOL_NAMES = {
    "copilot_applyPatch": "apply_patch",
    "copilot_searchCodebase": "semantic_search",
    "copilot_searchWorkspaceSymbols": "search_workspace_symbols",
    "copilot_getVSCodeAPI": "get_vscode_api",
    "copilot_testFailure": "test_failure",
    "copilot_findFiles": "file_search",
    "copilot_findTextInFiles": "grep_search",
    "copilot_readFile": "read_file",
    "copilot_viewImage": "view_image",
    "copilot_listDirectory": "list_dir",
    "copilot_getErrors": "get_errors",
    "copilot_getChangedFiles": "get_changed_files",
    "copilot_readProjectStructure": "read_project_structure",
    "copilot_createNewWorkspace": "create_new_workspace",
    "copilot_createNewJupyterNotebook": "create_new_jupyter_notebook",
    "copilot_insertEdit": "insert_edit_into_file",
    "copilot_createFile": "create_file",
    "copilot_replaceString": "replace_string_in_file",
    "copilot_multiReplaceString": "multi_replace_string_in_file",
    "copilot_editNotebook": "edit_notebook_file",
    "copilot_runNotebookCell": "run_notebook_cell",
    "copilot_readNotebookCellOutput": "read_notebook_cell_output",
    "copilot_installExtension": "install_extension",
    "copilot_fetchWebPage": "fetch_webpage",
    "copilot_memory": "memory",
    "copilot_findTestFiles": "test_search",
    "copilot_getProjectSetupInfo": "get_project_setup_info",
    "copilot_getSearchResults": "get_search_view_results",
    "copilot_githubRepo": "github_repo",
    "copilot_createDirectory": "create_directory",
    "copilot_runVscodeCommand": "run_vscode_command",
    "copilot_toolReplay": "tool_replay",
    "copilot_editFiles": "edit_files",
    "copilot_switchAgent": "switch_agent",
    "copilot_resolveMemoryFileUri": "resolve_memory_file_uri",
}
"""The names that the model knows VS Code's own tools by, where the display has another."""
