"""Tool calls: the model's rounds joined with the parts that a person saw, and what came of them.

toolCallRounds   {"toolCalls": [{"name": "read_file", "arguments": "{…}", "id": "toolu_1__vscode-7"}]}
toolCallResults  {"toolu_1__vscode-7": {"$mid": 20, "content": [{"value": {"node": {…}}}]}}
response         {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": …}
"""

from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.io.structs import Shape
from unspool.io.values import field_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.attachments import from_typed_data
from unspool.sources.vscode_chat.fields import CALL, NATIVE, bare_call_id
from unspool.sources.vscode_chat.model import Node, Round, ToolResult
from unspool.sources.vscode_chat.parts import Tool
from unspool.sources.vscode_chat.uris import markdown

_MESSAGES = frozenset(("invocation", "past_tense", "origin_message"))
_OURS = {theirs: ours for ours, theirs in CALL.items()}
"""In the part of a call → in its `extra`."""
_TELLING = frozenset(("pastTenseMessage", "resultDetails", "toolSpecificData", "result"))
_DENIED, _SKIPPED = 0, 5
_TEXT_NODE, _IMAGE_PIECE = 2, 3
_RESULT = Shape(ToolResult)


class Joined(msgspec.Struct):
    """A call with what is known of it from either side."""

    id: str
    name: str
    arguments: str
    native: str
    """Its id as the results are kept by."""
    tool: Tool | None = None

    @property
    def part(self) -> dict[str, Any]:
        return self.tool.part if self.tool is not None else {}


def join(
    rounds: list[Round], shown: list[Tool], prefix: str
) -> tuple[list[list[Joined]], list[int]]:
    """The calls of every round; and for every tool part the round that it went to.

    By id; where no part has the id of a call, by order and name: in files of 2025 parts have ids and
    names of their own (rounds_by_order). The model did not ask for a part that no call is left for: a
    tool called another (or the part merely announced a call), and its round is -1.
    """
    calls: list[list[Joined]] = [[] for _ in rounds]
    for number, round_ in enumerate(rounds):
        for n, call in enumerate(round_.toolCalls or ()):
            native, arguments = call.id or "", arguments_text(call.arguments)
            ident = bare_call_id(native) or f"{prefix}/{number}.{n}"
            calls[number].append(Joined(ident, call.name or "", arguments, native))
    flat = [(number, joined) for number, group in enumerate(calls) for joined in group]
    by_id = {joined.id: (number, joined) for number, joined in reversed(flat)}
    homes: list[int] = [-1] * len(shown)
    for tool in shown:
        number, named = by_id.get(tool.id, (-1, None))
        if named is not None and named.tool is None:
            homes[tool.number], named.tool = number, tool
    if not any(home >= 0 for home in homes):
        # A hidden part announces a call that a later part shows: the one shown has the first choice.
        for tools in ([t for t in shown if not _is_hidden(t)], [t for t in shown if _is_hidden(t)]):
            at = 0
            for tool in tools:
                for place in range(at, len(flat)):
                    number, joined = flat[place]
                    if joined.tool is None and joined.name == tool.name:
                        homes[tool.number], joined.tool = number, tool
                        at = place + 1
                        break
    return calls, homes


def _is_hidden(tool: Tool) -> bool:
    return tool.part.get("presentation") == "hidden"


def is_announcement(tool: Tool, calls: Iterable[Joined]) -> bool:
    """A hidden part before the one that shows the call: it tells nothing of how that went."""
    if not _is_hidden(tool) or tool.part.keys() & _TELLING:
        return False
    return any(call.name == tool.name for call in calls)


def from_part(tool: Tool, place: str) -> Joined:
    return Joined(tool.id or place, tool.name, "", tool.native, tool)


def unique(ident: str, seen: set[str], prefix: str = "") -> str:
    """The id, or where the chat repeats it another that is made of it (repeated_calls)."""
    name = ident
    for number in count(1):
        if name not in seen:
            break
        name = f"{prefix}{ident}#{number}" if number > 1 else prefix + ident
    seen.add(name)
    return name


def write_calls(
    scribe: Scribe, calls: list[Joined], message: str, results: dict[str, ToolResult] | None,
    inside: bool = False,
) -> None:  # fmt: skip
    """The calls of one message, and what came of them. `inside` a sub-agent, of whose calls a chat has
    no other record than their parts."""
    by_id = results or {}
    for index, call in enumerate(calls):
        part = call.part
        shown = _shown_result(part)
        # Results are kept by the id with or without its suffix.
        result = by_id.get(call.native)
        if result is None:
            bare = bare_call_id(call.native)
            result = next((v for k, v in by_id.items() if bare and bare_call_id(k) == bare), None)
        told = result is None and shown.plain and not inside
        scribe.call(
            id=call.id, message=message, name=call.name, index=index,
            arguments=call.arguments or shown.arguments,
            extra=_call_extra(call.tool, call.id, told) if call.tool is not None else None,
        )  # fmt: skip
        if result is None and call.tool is None:
            continue  # nobody tells that it ended
        text, images, failed = shown.text, shown.images, shown.failed
        if result is not None:
            text, images = _model_result(result)
            images = images or shown.images
            if result.toolResultError not in _NO_ERROR or (text or "").startswith(_FAILURES):
                failed = True
        cancelled = "cancelled" if text == _CANCELLED else ""
        # The person (or the program) did not let the call be made: a bool until 1.103.
        confirmed = part.get("isConfirmed")
        choice = field_of(confirmed, "type")
        denied = "denied" if confirmed is False or choice in (_DENIED, _SKIPPED) else ""
        scribe.returned(
            call=call.id, name=call.name, text=text, failed=failed,
            status=denied or cancelled, details=shown.details,
            duration_ms=shown.duration_ms, attachments=tuple(images),
        )  # fmt: skip


# What Copilot Chat hands to the model instead of a result: nothing else tells that the call did not
# end well (edits_of_calls).
_CANCELLED = "The user cancelled the tool call."
_NO_ERROR = (None, False, "")
_FAILURES = ("ERROR while calling tool: ", "Applying patch failed with error: ")


def _call_extra(tool: Tool, ident: str, told: bool) -> dict[str, Any] | None:
    """What the part tells that has no field of its own. `told`: its result is the call's text."""
    extra: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for theirs, value in tool.part.items():
        ours = _OURS.get(theirs, "")
        if ours in _MESSAGES and isinstance(field_of(value, "value"), str):
            value = value["value"]
        if value is None or value == "" or theirs in ("kind", "resultDetails"):
            continue
        if ours:
            extra[ours] = value
        elif not (
            (theirs == "toolCallId" and type(value) is str)
            or (theirs == "isComplete" and value is True)
            or (theirs == "result" and told)
        ):
            left[theirs] = value
    if tool.id not in ("", ident):
        extra["ui_call"] = tool.native
    if left:
        extra[NATIVE] = left
    return extra or None


def write_orphans(
    scribe: Scribe, results: dict[str, ToolResult] | None, calls: Iterable[Joined]
) -> None:
    """Results that no call of the request asked for."""
    natives = {call.native for call in calls}
    left = {native: result for native, result in (results or {}).items() if native not in natives}
    called = set(map(bare_call_id, natives)) if left else set()
    for native, result in left.items():
        ident = bare_call_id(native)
        if ident and ident not in called:
            text, images = _model_result(result)
            scribe.returned(call=ident, text=text, attachments=tuple(images))


def _model_result(result: ToolResult) -> tuple[str | None, list[Attachment]]:
    """What the model got (None where nothing tells), with its images."""
    if result.content is None:
        return None, []
    texts: list[str] = []
    images: list[Attachment] = []
    for item in result.content:
        # By the shape of the value: the numbers of `$mid` have changed their meaning.
        part = item if item.value is None else item.value
        if isinstance(part, str):
            texts.append(part)
        elif part.node is not None:
            texts.append(_tree_text(part.node))
        elif data := from_typed_data(part.mimeType, part.data):
            images.append(data)
    return "\n".join(texts), images


def _tree_text(node: Node) -> str:
    """The text of a rendered prompt tree. Joined once: it may be long, and every join copies it."""
    texts: list[str] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.children is None or node.type == _TEXT_NODE:
            if node.lineBreakBefore:
                texts.append("\n")
            texts.append(node.text or "")
        elif node.ctor == _IMAGE_PIECE:
            texts.append("<image>")
        else:
            waiting += reversed(node.children)
    return "".join(texts)


class Shown(msgspec.Struct):
    """What the response part of a tool call tells about its arguments and its end."""

    arguments: str = ""
    text: str | None = None
    details: Any = None
    failed: bool | None = None
    duration_ms: float | None = None
    images: list[Attachment] = []
    plain: bool = False
    """The text is the part's `result`."""


def _shown_result(part: dict[str, Any]) -> Shown:
    shown = Shown()
    _take_details(shown, part.get("resultDetails"))
    specific = part.get("toolSpecificData")
    if isinstance(specific, dict):
        _take_specific(shown, specific)
    result = part.get("result")
    error = part.get("toolResultError")
    if isinstance(result, dict) and ("content" in result or "toolResultError" in result):
        # {"result": {"content": [{"kind": "text", "value": "3 lines"}], "toolResultError": true}}
        text, images = _model_result(_RESULT.convert(result))
        shown.text = text if shown.text is None else shown.text
        shown.images = shown.images or images
        error = error or result.get("toolResultError")
    elif result is not None and shown.text is None:
        shown.text = result if isinstance(result, str) else arguments_text(result)
        shown.plain = True
    if error not in _NO_ERROR:
        shown.failed = True
        if isinstance(error, str) and not shown.text:
            shown.text = error
    return shown


def _take_details(shown: Shown, details: Any) -> None:
    shown.details = details
    if not isinstance(details, dict):
        return
    if isinstance(details.get("input"), str):
        shown.arguments = details["input"]
    if isinstance(details.get("isError"), bool):
        shown.failed = details["isError"]
    output = details.get("output")
    if isinstance(output, list):
        texts: list[str] = []
        kept: list[Any] = []
        for part in output:
            value = field_of(part, "value")
            media_type = field_of(part, "mimeType")
            image = isinstance(media_type, str) and media_type.startswith("image/")
            if isinstance(value, str) and (image or part.get("isText") is False):
                data = from_typed_data(media_type, value)
                if data is not None:
                    shown.images.append(msgspec.structs.replace(data, kind="image"))
                part = {k: v for k, v in part.items() if k != "value"}  # the bytes are attached
            elif isinstance(value, str):
                texts.append(value)
            kept.append(part)
        shown.text = "\n".join(texts) if texts or not shown.images else None
        if shown.images:
            shown.details = {**details, "output": kept}
    elif isinstance(output, dict) and isinstance(output.get("base64Data"), str):
        data = from_typed_data(output.get("mimeType"), output["base64Data"])
        if data is not None:
            shown.images.append(data)
        bare = {k: v for k, v in output.items() if k not in ("base64Data", "value")}
        shown.details = {**details, "output": bare}


def _take_specific(shown: Shown, data: dict[str, Any]) -> None:
    kind = data.get("kind")
    arguments: Any = None
    text: Any = None
    duration: Any = None
    if kind == "terminal":
        command = _command_line(data)
        arguments = {"command": command} if command else None
        text = field_of(data.get("terminalCommandOutput"), "text")
        duration = field_of(data.get("terminalCommandState"), "duration")
    elif kind == "subagent":
        names = ("prompt", "description", "agentName")
        arguments = {name: data[name] for name in names if data.get(name)} or None
        text, duration = data.get("result"), data.get("duration")
    elif kind == "input":
        arguments = data.get("rawInput")
    elif kind == "simpleToolInvocation":
        arguments, text = data.get("input"), arguments_text(data.get("output"))
    elif kind == "todoList" and "todoList" in data:
        arguments = {"todoList": data["todoList"]}
    if arguments is not None and not shown.arguments:
        shown.arguments = arguments_text(arguments)
    if isinstance(text, str) and shown.text is None:
        shown.text = text
    if isinstance(duration, int | float):
        shown.duration_ms = float(duration)


def _command_line(data: dict[str, Any]) -> str:
    """The command of a terminal call, as it was run at last."""
    line = data.get("commandLine")
    if isinstance(line, dict):
        for name in ("userEdited", "toolEdited", "original"):
            if isinstance(line.get(name), str) and line[name]:
                return str(line[name])
    return line if isinstance(line, str) else markdown(data.get("command"))
