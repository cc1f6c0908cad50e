"""What `codex exec --json` prints: another form of the same thread, without prompts and ids.

    {"type":"thread.started","thread_id":"01a1…"}
    {"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"First a look."}}
    {"type":"item.completed","item":{"id":"item_4","type":"command_execution","command":"…",…}}
    {"type":"turn.completed","usage":{"input_tokens":54833,…}}

Items have numbers of their own, and a command is what ran, not what the model asked for: all but the
words stand in only where the rollout is gone. The tokens are those of the thread up to there.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.sources import streams
from unspool.sources.codex.records import Counts
from unspool.sources.codex.tools import CHANGES
from unspool.sources.scribe import Scribe

_NOISE = frozenset(("turn.started", "item.started", "item.updated"))


class Item(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    command: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: list[dict[str, Any]] | None = None
    status: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    query: str = ""
    prompt: str | None = None


class Event(streams.Event, gc=False):
    thread_id: str = ""
    item: Item | None = None
    usage: Counts | None = None
    error: Any = None
    message: str = ""


_EVENT = Shape(Event)


def is_stream(objects: list[dict[str, object]]) -> bool:
    return any(value.get("type") == "thread.started" and "thread_id" in value for value in objects)


def read_stream(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    return streams.read_stream(origin, tally, recover, _EVENT, _Stream())


class _Stream(streams.Stream[Event]):
    thread = thought = shown = ""

    def scribe(self, event: Event, data: bytes, path: str, offset: int) -> Scribe:
        if event.type == "thread.started":
            self.thread = event.thread_id
        self.shown = f"shown:{hashlib.sha256(data).hexdigest()[:16]}"
        return Scribe(("codex", self.thread), path, offset, rank=Rank.STANDIN)

    def tell(self, event: Event, scribe: Scribe) -> int | None:
        item = event.item
        if event.type == "thread.started":
            scribe.note("agent", "Codex", Rank.ECHO)
        elif event.type == "item.completed" and item is not None:
            if item.type == "reasoning":
                self.thought = "\n\n".join(filter(None, (self.thought, item.text)))
                return 1
            thought, self.thought = self.thought, ""
            if item.type == "agent_message":
                scribe.message(role="assistant", text=item.text, thinking=thought, rank=Rank.ECHO)
            elif thought:
                scribe.message(id=self.shown, role="assistant", thinking=thought)
            _tell_item(item, self.shown, scribe)
        elif event.type == "turn.completed" and event.usage is not None:
            event.usage.report(scribe, "", "conversation", "")
        elif event.type in ("turn.failed", "error"):
            error = event.error if event.error is not None else event.message
            text = error.get("message") if isinstance(error, dict) else error
            scribe.message(role="assistant", text=str(text or ""), kind="error")
        elif event.type not in _NOISE:
            return None
        return not scribe.facts


def _tell_item(item: Item, ident: str, scribe: Scribe) -> None:
    """What ran, as far as it is shown."""
    given: Any
    if item.type == "command_execution":
        name, given, text = "exec_command", {"cmd": item.command}, item.aggregated_output
    elif item.type == "file_change":
        name, given, text = "apply_patch", {"changes": item.changes}, None
    elif item.type == "mcp_tool_call":
        result = msgspec.json.encode(item.result).decode() if item.result is not None else None
        name, given, text = item.tool, item.arguments, result
    elif item.type == "web_search":
        name, given, text = "web_search", {"query": item.query}, None
    elif item.type == "collab_tool_call":
        name, given, text = item.tool, {"prompt": item.prompt}, None
    else:  # words, warnings, to-do lists
        return
    files = [
        {"path": change["path"], "operation": CHANGES.get(str(change.get("kind")), "edit")}
        for change in item.changes or ()
        if isinstance(change.get("path"), str)
    ]
    arguments = msgspec.json.encode(given).decode()
    scribe.call(id=ident, message=ident, name=name, arguments=arguments, files=tuple(files))
    details = {"exit_code": item.exit_code} if item.exit_code is not None else None
    failed = item.status == "failed" or bool(item.exit_code)
    scribe.returned(call=ident, name=name, text=text, failed=failed, details=details)
