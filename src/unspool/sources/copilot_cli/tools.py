"""Tools: what the model asked for, what was run, by whom, and what came back."""

import re
from typing import Any

import msgspec

from unspool.facts import Rank
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import plain
from unspool.sources.diffs import files_of_patch
from unspool.sources.scribe import chosen, touched

_STATUS = {
    "interrupted": "interrupted",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "aborted": "interrupted",
    "denied": "denied",
    "rejected": "denied",
}
_COMMIT = re.compile(
    r"^\[(\S+)(?: \(root-commit\))? ([0-9a-f]{7,40})\] .*\n(?:.*\n){0,3}? \d+ files? changed",
    re.MULTILINE,
)
"""What `git commit` prints: the branch, the commit, its subject, and how much it changed."""

_NO_MODEL = ("", "resumed")
"""What the log writes for the results that a resumption makes up is no model."""

_SERVER = {"mcpServerName": "mcp_server", "mcpToolName": "mcp_tool"}
_REQUEST_EXTRAS = {
    **_SERVER,
    "toolTitle": "title",
    "intentionSummary": "intention",
    "caller": "caller",
}


def read_requests(event: Event, message: str, lookup: Lookup) -> None:
    """The calls that an answer asks for."""
    for index, request in enumerate(dicts_of(event.data.get("toolRequests"))):
        # Logs that another program made say `id`.
        call = plain(request.get("toolCallId") or request.get("id"))
        name, arguments = plain(request.get("name")), request.get("arguments")
        extra = chosen(request, _REQUEST_EXTRAS, _REQUEST_EXTRAS)
        kind = request.get("type") or ("custom" if call.startswith("custom_") else "function")
        if kind != "function":
            extra["type"] = kind
        event.call(
            id=call, message=message, name=name, arguments=arguments_text(arguments), index=index,
            files=touches(name, arguments), extra=extra or None,
        )  # fmt: skip
        _read_task(event, call, arguments, lookup)


def _read_task(event: Event, call: str, arguments: Any, lookup: Lookup) -> None:
    """What a sub-agent was told: before it wrote that down itself, only the call says so."""
    if event.rank or not isinstance(arguments, dict) or "prompt" not in arguments:
        return
    task = arguments["prompt"]
    started = lookup.started(call) if isinstance(task, str) else None
    if started is None:
        return
    child = (event.root[0], f"{event.root[1]}/{started}")
    event.message(key=child, id=f"task:{call}", role="user", text=task, rank=Rank.EXTRACT)
    title = arguments.get("description") or arguments.get("name")
    if isinstance(title, str) and title:
        event.note("title", title, 1, key=child)


def read_start(event: Event, lookup: Lookup) -> None:
    """How and when a call was run. The call itself is the assistant message's."""
    call, name = event.text("toolCallId"), event.text("toolName")
    arguments = event.data.get("arguments")
    extra = chosen(event.data, _SERVER, _SERVER)
    event.call(
        id=call, name=name, arguments=arguments_text(arguments), rank=event.rank + 1,
        files=touches(name, arguments), extra=extra or None,
    )  # fmt: skip
    if call:
        _note_model(event, call)
        _read_task(event, call, arguments, lookup)


def _note_model(event: Event, call: str) -> None:
    """Before 1.0.5x answers do not name their model, but what is run for them does."""
    model = event.text("model")
    if model not in _NO_MODEL:
        event.note("model", model, event.rank, "call", call)


def read_complete(event: Event, lookup: Lookup) -> None:
    data = event.data
    call = event.text("toolCallId")
    result, error = data.get("result"), data.get("error")
    code = plain(error.get("code")) if isinstance(error, dict) else ""
    success = data.get("success")
    failed = not success if isinstance(success, bool) else (True if error else None)
    extra = event.chosen("interactionId", "isUserRequested", "sandboxed", "mcpMeta", "fusion")
    if code:
        extra["error_code"] = code
    text: str | None
    if failed:
        text = (plain(error) if error else plain(result)) or "Tool execution failed"
    elif isinstance(result, dict) and "content" in result:
        text = plain(result["content"])
    elif result is None:
        # As the CLI replays it; but a transcript of the editor's never holds results.
        text = "" if success is True and not event.rank else None
    else:
        text = plain(result)
    shown = chosen(dict_of(result), _SHOWN, _SHOWN)
    details = {name: value for name, value in shown.items() if value != field_of(result, "content")}
    details |= chosen(data, _RAN, _RAN)
    binaries = field_of(result, "binaryResultsForLlm")
    event.returned(
        call=call,
        name=event.text("toolName"),
        text=text,
        failed=failed,
        status=_STATUS.get(code, ""),
        details=details or None,
        files=_measured(data.get("toolTelemetry")),
        attachments=lookup.attachments(binaries) if binaries else (),
        extra=extra or None,
    )
    if call:
        _note_model(event, call)
    if text and not failed and "[" in text and " changed" in text:  # one character is found fast
        for branch, commit in dict.fromkeys(_COMMIT.findall(text)):
            reference = {"type": "commit", "value": commit, "branch": branch, "tool_call_id": call}
            event.mark("reference", reference, commit)


_SHOWN = {
    "detailedContent": "detailed",
    "contents": "contents",
    "structuredContent": "structured",
    "uiResource": "ui",
}
"""What a tool returned beside what the model got: the screen's text, typed blocks."""
_RAN = {"shellExecution": "shell", "fileEdits": "file_edits"}


def read_user_requested(event: Event, lookup: Lookup) -> None:
    """A tool that the person ran in the chat (`! ls`)."""
    arguments = event.data.get("arguments")
    command = arguments.get("command") if isinstance(arguments, dict) else arguments
    call, name = event.text("toolCallId"), event.text("toolName")
    event.message(id=event.entry, role="user", kind="shell", text=plain(command) or name)
    event.call(
        id=call, message=event.entry, name=name, arguments=arguments_text(arguments),
        by_user=True, files=touches(name, arguments),
    )  # fmt: skip


def read_permission(event: Event, lookup: Lookup) -> None:
    """Who allowed a call: kept with the call."""
    asked, result = dict_of(event.data.get("permissionRequest")), event.data.get("result")
    call = event.text("toolCallId") or plain(asked.get("toolCallId"))
    name, kind = "permission", plain(result.get("kind") if isinstance(result, dict) else result)
    if not kind:
        name, kind = "permission_request", plain(asked.get("kind"))
    if call and kind:
        event.note(name, kind, 0, "call", call)
    else:
        event.mark("permission", event.chosen("requestId"))


# Files that a call touches

_OPERATIONS = {
    "create": "create",
    "edit": "edit",
    "view": "read",
    "str_replace": "edit",
    "insert": "edit",
    "str_replace_editor": "edit",
    "delete": "delete",
    # the editor's own tools, in its transcripts
    "create_file": "create",
    "replace_string_in_file": "edit",
    "insert_edit_into_file": "edit",
    "read_file": "read",
}


def touches(name: str, arguments: Any) -> tuple[dict[str, Any], ...]:
    """The fields of `unspool.trajectory.FileTouch` for every file in the arguments."""
    if name == "apply_patch":
        texts = arguments.values() if isinstance(arguments, dict) else [arguments]
        patch = next(filter(None, map(str_of, texts)), "")
        return tuple(
            {"path": file["path"], "operation": file["operation"], "tool": name}
            for file in files_of_patch(patch)
        )
    operations = _OPERATIONS
    if name == "str_replace_editor":
        operations = {name: _OPERATIONS.get(str(field_of(arguments, "command")), "edit")}
    return touched(operations, name, arguments, "path", "filePath")


def _measured(telemetry: Any) -> tuple[dict[str, Any], ...]:
    """How many lines a call changed, where it tells that and touched one file:

    {"metrics":{"linesAdded":2},"restrictedProperties":{"filePaths":"[\\"/home/ann/shop/cart.py\\"]"}}
    """
    counts = chosen(dict_of(field_of(telemetry, "metrics")), ("linesAdded", "linesRemoved"))
    for group in ("restrictedProperties", "properties") if counts else ():
        paths = field_of(field_of(telemetry, group), "filePaths")
        try:
            named = list_of(msgspec.json.decode(paths) if isinstance(paths, str) else paths)
        except msgspec.DecodeError:
            continue
        if len(named) == 1:
            return ({"path": str(named[0]), **counts},)
    return ()
