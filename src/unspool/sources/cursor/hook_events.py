"""What each event of Cursor's hooks states.

A shell command, an MCP call and a file edit come twice, as a tool use and as an event of their own:
the second is an echo of the first.
"""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.facts import AnyFact, Attachment, MessageSeen, Noted, ToolCalled, ToolReturned
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.payloads import AGAIN, PRODUCT, RANK, Payload, Said
from unspool.sources.cursor.tools import edits_of, likeness, output_of, touch, touches


def read_prompt(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    said.runs.clear()
    yield said.make(
        MessageSeen, id=said.entry, role="user", text=said.text("prompt"), rank=RANK,
        request=said.turn, mode=said.text("composer_mode"), attachments=_attachments(said.payload),
    )  # fmt: skip


def _attachments(payload: Payload) -> tuple[Attachment, ...]:
    given = payload.get("attachments")
    made = []
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict):
            path = item.get("file_path", item.get("filePath"))
            path = clean_path(path) if isinstance(path, str) else ""
            made.append(Attachment(kind=str(item.get("type") or "file"), path=path))
    return tuple(made)


def read_response(said: Said) -> Iterator[AnyFact]:
    step = said.steps.part("text", said.entry)
    yield said.make(
        MessageSeen, id=step, role="assistant", text=said.text("text", "response"), rank=RANK,
        model=said.model, request=said.turn,
    )  # fmt: skip
    yield from _duration(said, step)
    yield from said.usage(rank=1)


def _duration(said: Said, step: str) -> Iterator[AnyFact]:
    duration = said.number("duration_ms", "duration")
    if duration is not None:
        yield said.make(
            Noted, on="message", subject=step, name="duration_ms", value=duration, rank=RANK
        )


def read_thought(said: Said) -> Iterator[AnyFact]:
    step = said.steps.part("thinking", said.entry)
    yield said.make(
        MessageSeen, id=step, role="assistant", thinking=said.text("text"), rank=RANK,
        model=said.model, request=said.turn,
        extra={"thinking_ms": said.number("duration_ms")} if said.number("duration_ms") else None,
    )  # fmt: skip


def _call(said: Said, name: str, arguments: Any, rank: int, like: str) -> Iterator[Any]:
    """The call, and the step that it belongs to: it has a turn though it may say nothing."""
    known = said.runs.again(like, said.event) if rank == AGAIN else None
    step = known.step if known is not None else said.steps.part("call", said.entry)
    ident = known.ident if known is not None else said.text("tool_use_id")
    if rank == RANK:
        said.runs.began(like, ident, step)
    yield said.make(
        ToolCalled, id=ident, message=step, name=name, like=like, rank=rank,
        arguments=arguments_text(arguments),
        extra=said.pick("agent_message", "sandbox", "url") or None,
        files=touches(name, arguments) if rank == RANK else (),
    )  # fmt: skip
    yield said.make(
        MessageSeen, 11, id=step, role="assistant", rank=RANK, model=said.model,
        request=said.turn,
    )  # fmt: skip


def read_tool_use(said: Said) -> Iterator[AnyFact]:
    name, given = said.text("tool_name"), said.payload.get("tool_input")
    like = likeness(name, given)
    yield from _call(said, name, given, RANK, like)
    said.steps.began(like)


def read_tool_result(said: Said) -> Iterator[AnyFact]:
    name, given = said.text("tool_name"), said.payload.get("tool_input")
    failed = said.event == "postToolUseFailure"
    output = said.payload.get("tool_output", said.payload.get("tool_response"))
    text, details = output_of(said.payload.get("error_message") if failed else output)
    said.steps.ended(likeness(name, given))
    said.runs.ended(said.text("tool_use_id"), failed)
    yield said.make(
        ToolReturned, call=said.text("tool_use_id"), name=name, arguments=arguments_text(given),
        like=likeness(name, given) if given is not None else "", text=text, details=details,
        failed=failed, status=_failure(said) if failed else "", rank=RANK,
        duration_ms=said.number("duration", "duration_ms"),
    )  # fmt: skip
    if said.text("tool_use_id") and given is not None:
        # Logs without the event before: the result names its call as well as that would.
        yield said.make(
            ToolCalled, 11, id=said.text("tool_use_id"), name=name, like=likeness(name, given),
            arguments=arguments_text(given), rank=RANK, files=touches(name, given),
        )  # fmt: skip


def _failure(said: Said) -> str:
    if said.text("failure_type") == "permission_denied":
        return "denied"
    return "interrupted" if said.payload.get("is_interrupt") is True else "failed"


def _echo(said: Said, name: str, given: Any, kind: str, output: Any) -> Iterator[AnyFact]:
    """An event of its own for a call that the tool hooks may have told already."""
    like = likeness(name, given, kind)
    if said.event.startswith("before"):
        yield from _call(said, name, given, AGAIN, like)
        return
    text, details = output_of(output)
    known = said.runs.again(like, said.event)
    yield said.make(
        ToolReturned, name=name, arguments=arguments_text(given), like=like, text=text,
        call=known.ident if known is not None else "", details=details, rank=AGAIN,
        duration_ms=said.number("duration", "duration_ms"),
    )  # fmt: skip


def read_shell(said: Said) -> Iterator[AnyFact]:
    given = {"command": said.text("command"), **said.pick("cwd")}
    yield from _echo(said, "Shell", given, "shell", said.payload.get("output"))


def read_mcp(said: Said) -> Iterator[AnyFact]:
    name = said.text("tool_name").removeprefix("MCP:")
    output = said.payload.get("result_json", said.payload.get("tool_output"))
    yield from _echo(said, f"MCP:{name}", said.payload.get("tool_input"), "mcp", output)


def read_edit(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    given = {"file_path": path, **said.pick("edits")}
    like = likeness("edit_file", given)
    called, *rest = _call(said, "edit_file", given, AGAIN, like)
    yield called
    yield from rest
    yield said.make(
        ToolReturned, name="edit_file", call=called.id, like=like, rank=AGAIN, failed=False,
        files=(touch(path, edits_of(given) or [], tool="edit_file"),),
    )  # fmt: skip


def read_tab_edit(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    counts = touch(path, edits_of({"edits": said.payload.get("edits")}))
    yield said.mark(kind="tab_edit", data=counts)


def read_file(said: Said) -> Iterator[AnyFact]:
    path = clean_path(said.text("file_path"))
    yield said.mark(kind="file", data={"path": path, "operation": "read"})


def read_start(said: Said) -> Iterator[AnyFact]:
    data = said.pick("source", "is_background_agent", "composer_mode", "transcript_path")
    yield said.mark(kind="start", data=data or None)


def read_end(said: Said) -> Iterator[AnyFact]:
    data = said.pick(
        "reason", "duration_ms", "final_status", "error_message", "is_background_agent"
    )
    yield said.mark(kind="end", data=data or None)


def read_stop(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    said.runs.clear()
    data = said.pick("status", "loop_count")
    yield said.mark(kind="turn_end", subject=said.turn, data=data or None)
    yield from said.usage(rank=0)


def read_compaction(said: Said) -> Iterator[AnyFact]:
    said.steps.close()
    names = (
        "trigger", "context_usage_percent", "context_tokens", "context_window_size",
        "message_count", "messages_to_compact", "is_first_compaction",
    )  # fmt: skip
    data = said.pick(*names)
    before, gone = said.number("message_count"), said.number("messages_to_compact")
    if before is not None:
        data["messages_before"] = int(before)
        if gone is not None:
            data["messages_after"] = int(before - gone)
    yield said.mark(kind="compaction", data=data or None)
    usage = said.number("context_usage_percent")
    if usage is not None:
        yield said.make(
            Noted, name="context_usage", value=said.payload["context_usage_percent"], rank=RANK
        )


def read_subagent(said: Said) -> Iterator[AnyFact]:
    """A sub-agent began or ended: told to its parent and to itself, where both have a name."""
    child = said.text("subagent_id")
    parent = said.text("parent_conversation_id") or said.key[1]
    call = said.text("tool_call_id")
    tie = {"name": said.text("subagent_type"), "tool_call_id": call}
    tie = {name: value for name, value in tie.items() if value}
    if said.event == "subagentStart" and child and child != parent:
        yield said.make(
            Noted, 10, (PRODUCT, parent), name="children", value={"conversation_id": child, **tie}
        )
        yield said.make(
            Noted, 11, (PRODUCT, child), name="parent", value={"conversation_id": parent, **tie}
        )
        yield said.make(Noted, 13, (PRODUCT, child), name="session_id", value=parent, rank=RANK)
    names = (
        "subagent_id", "subagent_type", "subagent_model", "task", "description", "summary",
        "status", "duration_ms", "message_count", "tool_call_count", "loop_count",
        "modified_files", "agent_transcript_path", "is_parallel_worker", "git_branch",
    )  # fmt: skip
    kind = "subagent_start" if said.event == "subagentStart" else "subagent_end"
    yield said.mark(12, (PRODUCT, parent), kind=kind, subject=call, data=said.pick(*names))


NOISE = frozenset(("workspaceOpen", "beforeTabFileRead", "Notification", "notification"))
"""Events that say nothing about a conversation."""

READERS: dict[str, Callable[[Said], Iterator[AnyFact]]] = {
    "beforeSubmitPrompt": read_prompt,
    "afterAgentResponse": read_response,
    "afterAgentThought": read_thought,
    "preToolUse": read_tool_use,
    "postToolUse": read_tool_result,
    "postToolUseFailure": read_tool_result,
    "beforeShellExecution": read_shell,
    "afterShellExecution": read_shell,
    "beforeMCPExecution": read_mcp,
    "afterMCPExecution": read_mcp,
    "beforeReadFile": read_file,
    "afterFileEdit": read_edit,
    "afterTabFileEdit": read_tab_edit,
    "sessionStart": read_start,
    "sessionEnd": read_end,
    "stop": read_stop,
    "preCompact": read_compaction,
    "subagentStart": read_subagent,
    "subagentStop": read_subagent,
}
