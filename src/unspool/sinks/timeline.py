"""Timeline: the conversation as its events in time, the way a telemetry dashboard wants it.

One JSON object per line. A conversation is told as user turns with the tools that each of them used;
where its source says so (`TIMELINE = "prompts"`), as prompts, responses and edits. `docs/timeline.md`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool import sources
from unspool.io.packing import encode_json
from unspool.io.times import parse_time
from unspool.io.values import dict_of
from unspool.reduce.totals import is_turn
from unspool.sinks import Family, Options, Piece
from unspool.trajectory import (
    FileTouch,
    Message,
    ToolCall,
    Trajectory,
    Usage,
    text_of,
)
from unspool.views.edits import replacements
from unspool.views.figures import between_ms

NAME = "timeline"
MANY_FILES = False
FAMILIES = False

Entry = dict[str, Any]

_MARKS = {
    "start": ("session_start", "source"),
    "compaction": ("context_compaction", "trigger", "messages_before", "messages_after"),
    "end": ("session_end", "reason"),
}
"""Kind of mark → the type of its entry, and the fields of the mark that it has."""


def write(family: Family, options: Options) -> Iterator[Piece]:
    yield Piece("", encode_json(to_timeline(family.root)) + b"\n")


def to_timeline(trajectory: Trajectory) -> dict[str, Any]:
    """The reconstructed conversation; what is unknown is absent."""
    by_prompts = sources.declared(trajectory.source, "TIMELINE", "turns") == "prompts"
    messages, metadata, marks = trajectory.messages, trajectory.metadata, trajectory.marks or []
    calls = sum(len(message.tool_calls or ()) for message in messages)
    turns = sum(map(is_turn, messages))
    edits = [touch for touch in trajectory.files or () if touch.operation != "read"]
    workspace = trajectory.workspace
    usage: dict[str, Any] = msgspec.to_builtins(trajectory.usage) if trajectory.usage else {}
    models = trajectory.model_usage
    named: Entry = {"title": trajectory.title}
    if by_prompts:
        named = {
            "composer_name": trajectory.title,
            "composer_mode": metadata.get("composer_mode", metadata.get("mode")),
            "context_usage": metadata.get("context_usage"),
        }
    fields = {
        "session_id": trajectory.session_id or trajectory.conversation_id,
        "conversation_id": trajectory.conversation_id,
        "platform": sources.declared(trajectory.source, "PLATFORM", trajectory.source),
        "workspace_path": workspace.path if workspace else None,
        "workspace_name": workspace.name if workspace else None,
        "workspace_hash": workspace.hash if workspace else None,
        "started_at": stamp(trajectory.started_at),
        "ended_at": stamp(trajectory.ended_at),
        **named,
        "event_count": turns + calls + len(marks),
        "transcript_messages": sum(1 for m in messages if m.role in ("user", "assistant")),
        "user_turns": turns,
        "tools_executed": calls,
        "compactions": sum(1 for mark in marks if mark.kind == "compaction"),
        "model_usage": models and dict(sorted(models.items(), key=lambda kv: kv[0] == "by_model")),
        # As the agent counted them, else as its edits add up.
        "total_lines_added": metadata.get("total_lines_added", lines(edits, "lines_added")),
        "total_lines_removed": metadata.get("total_lines_removed", lines(edits, "lines_removed")),
        "files_changed": metadata.get("files_changed", len({touch.path for touch in edits})),
        "usage": {name: value for name, value in usage.items() if name != "extra"} or None,
        "parent_id": trajectory.parent.conversation_id if trajectory.parent else None,
        "timeline": Entries(trajectory, by_prompts).tell(),
    }
    return {name: value for name, value in fields.items() if value is not None}


def stamp(text: str | None) -> str | None:
    """ISO text; whole seconds without a fraction."""
    return text.replace(".000Z", "Z") if text else None


def _lean(entry: Entry) -> Entry:
    """What is known; whole numbers of milliseconds without a fraction."""
    lean = {name: value for name, value in entry.items() if value is not None}
    duration = lean.get("duration_ms")
    if isinstance(duration, float) and duration.is_integer():
        lean["duration_ms"] = int(duration)
    return lean


def lines(edits: list[FileTouch], name: str) -> int | None:
    """How many lines the edits added or removed; unknown where none of them tells."""
    counts = [number for touch in edits if (number := getattr(touch, name)) is not None]
    return sum(counts) if counts or not edits else None


class Entries:
    """The entries of one conversation, in its order."""

    def __init__(self, trajectory: Trajectory, by_prompts: bool) -> None:
        self._trajectory = trajectory
        self._by_prompts = by_prompts
        self._results = {
            m.tool_call_id: m for m in trajectory.messages if m.role == "tool" and m.tool_call_id
        }
        self._files: dict[int, list[FileTouch]] = {}
        for touch in trajectory.files or ():
            if touch.operation != "read":
                self._files.setdefault(touch.index or 0, []).append(touch)

    def tell(self) -> list[Entry]:
        """User turns, each with the tools that it used; or prompts, responses and file edits, each an
        entry of its own, with the other tools at the prompt."""
        entries: list[Entry] = []
        messages = self._trajectory.messages
        turn: Entry | None = None
        asked: Message | None = None
        begun = number = 0
        for index, message in enumerate(messages):
            entries += self._marks_at(index)
            if is_turn(message):
                self._close(turn, begun, index)
                number += 1
                turn, asked, begun = self._prompt(message, number), message, index
                entries.append(turn)
            elif self._by_prompts and message.role == "assistant" and message.content:
                entries.append(_response(message, asked))
            edits = self._files.get(index, []) if self._by_prompts else []
            entries += [self._edit(touch, message) for touch in edits]
            shown = {touch.tool_call_id for touch in edits}
            calls = [call for call in message.tool_calls or () if call.id not in shown]
            if calls and turn is None:  # the log does not hold its beginning
                opened: Entry = {"timestamp": stamp(message.timestamp), "tools_used": []}
                turn, begun = _lean({"type": "user_turn", **opened}), index
                entries.insert(len(entries) - len(edits), turn)
            if calls and turn is not None:
                tools = [self._tool(call, message) for call in calls]
                turn["tools_used"] = [*turn.get("tools_used", ()), *tools]
        self._close(turn, begun, len(messages))
        return entries + self._marks_at(len(messages), last=True)

    def _prompt(self, message: Message, number: int) -> Entry:
        text = text_of(message)
        files = sum(1 for a in message.attachments or () if a.kind not in ("rule", "image"))
        fields: Entry = {
            "type": "user_turn",
            "timestamp": stamp(message.timestamp),
            "sequence_num": number,
            "prompt_length": len(text),
            "word_count": len(text.split()),
            "context_files": files,
            "tools_used": [],
        }
        if self._by_prompts:
            fields = {
                "type": "user_prompt",
                "timestamp": stamp(message.timestamp),
                "generation_id": message.request_id,
                "prompt_text": text,
                "prompt_length": len(text),
                "context_files": files,
            }
        return _lean(fields)

    def _close(self, turn: Entry | None, begun: int, end: int) -> None:
        """What a turn came to: its answers, its edits, its time."""
        if turn is None or self._by_prompts:
            return
        messages = self._trajectory.messages[begun:end]
        answers = [m for m in messages if m.role == "assistant"]
        edits = [t for index in range(begun, end) for t in self._files.get(index, ())]
        tokens = [n for m in answers if (n := _tokens(m.usage)) is not None and not m.copied]
        tools = turn.pop("tools_used")
        # What the agent itself measured of the turn.
        durations = [
            (mark.data or {}).get("duration_ms")
            for mark in self._trajectory.marks or ()
            if mark.kind == "turn_end" and begun < mark.index <= end
        ]
        measured = [n for n in durations if isinstance(n, int | float) and not isinstance(n, bool)]
        # Else from the first time to the last one; nothing between is nothing known.
        times = [time for m in messages if (time := parse_time(m.timestamp)) is not None]
        lasted = (max(times) - times[0]) // 1000 or None if times else None
        turn |= _lean(
            {
                "response_length": sum(len(m.content) for m in answers) or None,
                "tokens_used": sum(tokens) if tokens else None,
                "lines_added": lines(edits, "lines_added") if edits else None,
                "lines_removed": lines(edits, "lines_removed") if edits else None,
                "duration_ms": sum(measured) or lasted,
                "tools_used": tools,
            }
        )

    def _marks_at(self, index: int, last: bool = False) -> list[Entry]:
        entries: list[Entry] = []
        for mark in self._trajectory.marks or ():
            if mark.kind not in _MARKS or mark.index < index or (mark.index > index and not last):
                continue
            kind, *names = _MARKS[mark.kind]
            fields = {name: (mark.data or {}).get(name) for name in names}
            if mark.kind == "start":
                workspace, metadata = self._trajectory.workspace, self._trajectory.metadata
                fields["workspace_hash"] = workspace.hash if workspace else None
                path = (mark.data or {}).get("transcript_path", metadata.get("transcript_path"))
                fields["transcript_path"] = path
            entries.append(_lean({"type": kind, "timestamp": stamp(mark.timestamp), **fields}))
        return entries

    def _tool(self, call: ToolCall, message: Message) -> Entry:
        result = self._results.get(call.id)
        started = call.started_at or message.timestamp
        ended = call.status is not None or result is not None
        return _lean(
            {
                "tool": call.name,
                "start_time": stamp(started),
                "end_time": stamp(call.ended_at or (result.timestamp if result else None)),
                "parameters": _parameters(call.arguments),
                "success": call.status in (None, "completed") if ended else None,
                "result_length": len(result.content) if result else None,
                "duration_ms": call.duration_ms,
            }
        )

    def _edit(self, touch: FileTouch, message: Message) -> Entry:
        call = next((c for c in message.tool_calls or () if c.id == touch.tool_call_id), None)
        replaced = replacements(dict_of(_parameters(call.arguments))) if call else []
        return _lean(
            {
                "type": "file_edit",
                "timestamp": stamp(touch.timestamp or message.timestamp),
                "generation_id": message.request_id,
                "file_path": touch.path,
                "edits": [{"old_string": old, "new_string": new} for _, old, new in replaced]
                or None,
                "lines_added": touch.lines_added,
                "lines_removed": touch.lines_removed,
                "outcome": touch.outcome,
            }
        )


def _response(message: Message, asked: Message | None) -> Entry:
    duration = message.duration_ms
    if duration is None and asked is not None:
        waited = between_ms(asked.timestamp, message.timestamp)  # which the agent did not measure
        duration = None if waited is None else waited // 1
    return _lean(
        {
            "type": "ai_response",
            "timestamp": stamp(message.timestamp),
            "generation_id": message.request_id,
            "response_text": message.content,
            "response_length": len(message.content),
            "model": message.model,
            "tokens_used": _tokens(message.usage),
            "duration_ms": duration,
        }
    )


def _tokens(usage: Usage | None) -> int | None:
    if usage is None:
        return None
    counts = [v for v in (usage.prompt_tokens, usage.completion_tokens) if v is not None]
    total = (usage.extra or {}).get("total_tokens")
    return sum(counts) if counts else total


def _parameters(arguments: str) -> Any:
    """The arguments as a value; text that is no JSON as it is."""
    if not arguments:
        return None
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
