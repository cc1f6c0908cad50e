"""Messages as GenAI spans hold them, of the conventions of today and of before 1.37.

    {"role":"assistant","parts":[{"type":"text","content":"I look."},{"type":"tool_call","id":"c1",…}]}
    {"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","function":{"name":…}}]}     before

What holds messages may be JSON text, and may be cut off: `[{"role":"user",…...[truncated, original
70000 chars]`. What is cut is kept as far as it goes.
"""

import re
from hashlib import sha256
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.io.door import read_json
from unspool.io.values import dict_of, dicts_of
from unspool.sources.otel.lines import INPUT, unescaped
from unspool.sources.otel.otlp import Event, Item

CUT = "...[truncated, original "
DETAILS = "gen_ai.client.inference.operation.details"
_OUTPUT = "gen_ai.output.messages"
_OLD_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
OLD_EVENTS = frozenset((*_OLD_ROLES, "gen_ai.choice"))
_NUMBERED = re.compile(
    r"gen_ai\.(prompt|completion)\.([0-9]{1,4})\.(?:tool_calls\.([0-9]{1,3})\.(?=\w+\Z))?(.+)"
)


class ToolUse(msgspec.Struct, gc=False):
    """A call in a message, or what came of one."""

    id: str = ""
    name: str = ""
    text: str = ""
    """The arguments, or the result."""


class Said(msgspec.Struct, gc=False):
    """One message of a list."""

    role: str
    text: str = ""
    thinking: str = ""
    calls: list[ToolUse] = []
    results: list[ToolUse] = []
    attachments: list[Attachment] = []
    stop: str = ""
    model: str = ""
    kind: str = ""
    typed: str | None = None
    withdrawn: bool = False

    @property
    def identity(self) -> bytes:
        """What makes it the same message in two lists: calls and results by their ids, else its words.
        (A later list leaves out the reasoning, and trims.)"""
        ids = [use.id for use in (*self.calls, *self.results) if use.id]
        words = ids or [self.text.strip(), *(use.name + use.text for use in self.calls)]
        words += [] if ids else [use.text for use in self.results]
        # The same words may be said again after they were taken back.
        return msgspec.json.encode([self.role, *words, *(["abandoned"] if self.withdrawn else ())])


class History:
    """What a model was given last in a conversation, and what it answered. The next list mostly goes on
    from the last one, and repeats its text: then only the rest is decoded."""

    def __init__(self, before: str = "") -> None:
        self._before = before
        self.answer: Said | None = None
        self.known = 0
        """How many of the messages given the list before held, too."""
        self.systems: list[tuple[int, str]] = []
        """New system prompts, each with the number of the message given that it stands before."""
        self.is_cut = False
        """Whether the list of what was given is cut off."""
        self._begin()

    def _begin(self) -> None:
        self._text: Any = ""
        """Of the list, without its closing bracket."""
        self.given: list[Said] = []
        self.ids: list[str] = []
        self._running = sha256(self._before.encode())

    def read(self, item: Item) -> None:
        """The contents of a span, wherever its convention puts them."""
        self._take(item.attributes.get(INPUT))
        answers, _ = messages_of(item.attributes.get(_OUTPUT), "assistant")
        for event in item.events:
            if event.name == DETAILS:
                if not self.given:
                    self._take(event.attributes.get(INPUT))
                answers = answers or messages_of(event.attributes.get(_OUTPUT), "assistant")[0]
        if not self.given and not answers:
            older, answers = _of_events(item.events)
            if not older and not answers:
                older, answers = _of_attributes(item)
            self._add(older)
        instructions = item.attributes.get("gen_ai.system_instructions")
        told = _said({"parts": instructions}, "system") if instructions else None
        if told is not None:
            self.systems.insert(0, (0, told.text))
        self.answer = answers[0] if answers else None
        for said in answers:  # several choices: the first is the answer, parts of one go together
            if self.answer is not None and said.calls and not self.answer.calls:
                self.answer.calls = said.calls

    def _take(self, text: Any) -> None:
        """The list, escaped and without its closing bracket where it is bytes (`lines.py`)."""
        closing = "]" if isinstance(text, bytes) else ""
        if isinstance(text, str) and text.endswith("]"):
            text, closing = text[:-1], "]"
        rest = text
        self.known, self.systems, self.is_cut = 0, [], False
        if (
            self._text
            and closing
            and type(text) is type(self._text)
            and text.startswith(self._text)
        ):
            behind = text[len(self._text) :]
            if not behind:
                self.known = len(self.given)
                return
            if behind[:1] in (",", b","):
                self.known, rest = len(self.given), behind[1:]
        if isinstance(rest, bytes):
            rest = unescaped(rest)
        if isinstance(rest, str):
            rest = ("[" if self.known else "") + rest + closing
        messages, self.is_cut = messages_of(rest, "user")
        if not self.known:
            self._begin()
        self._text = text if closing and not self.is_cut else ""
        self._add(messages)

    def _add(self, messages: list[Said]) -> None:
        """Messages with their ids; system prompts have a place and no id."""
        for said in messages:
            if said.role == "system":
                self.systems.append((len(self.given), said.text))
            else:
                self._running.update(said.identity + b"\n")
                self.given.append(said)
                self.ids.append(_chain_id(self._running))

    def id_of(self, answer: Said) -> str:
        """The id that the answer has in the next list."""
        running = self._running.copy()
        running.update(answer.identity + b"\n")
        return _chain_id(running)


def messages_of(value: Any, role: str) -> tuple[list[Said], bool]:
    """The messages of a list, and whether it is cut off."""
    if value in (None, ""):
        return [], False
    is_cut = isinstance(value, str) and CUT in value[-80:]
    values = decoded(value)
    if isinstance(values, str):
        return [Said(role, values)], is_cut
    listed = values if isinstance(values, list) else [values]
    return [said for one in listed if (said := _said(one, role)) is not None], is_cut


def _of_events(events: list[Event]) -> tuple[list[Said], list[Said]]:
    """Conventions up to 1.36: an event for each message, and one for each choice."""
    given: list[Said] = []
    answers: list[Said] = []
    for event in events:
        value: dict[str, Any] = dict(event.attributes)
        for name in ("gen_ai.event.content", "body", "message"):
            inner = decoded(value.get(name))
            if isinstance(inner, dict):
                value |= inner
                value |= inner["message"] if isinstance(inner.get("message"), dict) else {}
        if event.name == "gen_ai.choice":
            answers += filter(None, [_said(value, "assistant")])
        elif event.name in _OLD_ROLES:
            given += filter(None, [_said(value, _OLD_ROLES[event.name])])
        elif event.name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            name = event.name.replace("content.", "")
            role = "user" if name == "gen_ai.prompt" else "assistant"
            (given if role == "user" else answers).extend(messages_of(value.get(name), role)[0])
    return given, answers


def _of_attributes(item: Item) -> tuple[list[Said], list[Said]]:
    """`gen_ai.prompt`, `gen_ai.completion`, and the same with a number for each message."""
    given = messages_of(item.attributes.get("gen_ai.prompt"), "user")[0]
    answers = messages_of(item.attributes.get("gen_ai.completion"), "assistant")[0]
    numbered: dict[tuple[str, int], dict[str, Any]] = {}
    for name, value in item.attributes.items():
        if field := _NUMBERED.fullmatch(name):
            message = numbered.setdefault((field[1], int(field[2])), {"tool_calls": {}})
            # `gen_ai.completion.0.tool_calls.0.name` = value
            call = message["tool_calls"].setdefault(int(field[3]), {}) if field[3] else message
            call[field[4]] = value
    for (side, _), message in sorted(numbered.items()):
        role, messages = ("user", given) if side == "prompt" else ("assistant", answers)
        calls = [call for _, call in sorted(message["tool_calls"].items())]
        messages += filter(None, [_said({**message, "tool_calls": calls}, role)])
    return given, answers


def _said(value: Any, role: str) -> Said | None:
    if not isinstance(value, dict):
        return Said(role, value) if isinstance(value, str) and value else None
    role = str(value.get("role") or role)
    role = {"developer": "system", "model": "assistant", "human": "user"}.get(role, role)
    said = Said(role if role in ("system", "assistant", "tool") else "user")
    said.stop = as_text(value.get("finish_reason"))
    ours = value.get("unspool")  # what `--to otlp` says of the message beyond the conventions
    if isinstance(ours, dict):
        said.kind = as_text(ours.get("kind"))
        said.typed = as_text(ours["typed"]) if "typed" in ours else None
        said.model = as_text(ours.get("model"))
        said.withdrawn = ours.get("abandoned") is True
    content = value.get("parts", value.get("content"))
    if said.role == "tool" and not isinstance(value.get("parts"), list):
        call = {"id": value.get("tool_call_id") or value.get("id"), "name": value.get("name")}
        content = [{**call, "type": "tool_call_response", "response": content}]
    content = decoded(content)
    parts = content if isinstance(content, list) else [content]
    for call in dicts_of(decoded(value.get("tool_calls"))):
        parts = [*parts, {**call, **dict_of(call.get("function")), "type": "tool_call"}]
    texts: list[str] = []
    thoughts: list[str] = []
    said.calls, said.results, said.attachments = [], [], []
    for part in parts:
        if not isinstance(part, dict):
            texts.append(as_text(part))
            continue
        kind, content = part.get("type"), part.get("content", part.get("text"))
        ident, name = as_text(part.get("id")), as_text(part.get("name"))
        if kind in ("reasoning", "thinking"):
            thoughts.append(as_text(content))
        elif kind in ("tool_call", "server_tool_call"):
            arguments = as_text(part.get("arguments", part.get("server_tool_call")))
            said.calls.append(ToolUse(ident, name, arguments))
        elif kind in ("tool_call_response", "server_tool_call_response"):
            # The schema says `response`, its example `result`, and Copilot Chat writes `content`.
            names = ("response", "result", "content", "server_tool_call_response")
            result = next((part[name] for name in names if name in part), None)
            said.results.append(ToolUse(ident, name, result_text(result)))
        elif kind in ("blob", "file", "uri"):
            said.attachments.append(
                Attachment(
                    kind=as_text(part.get("modality")) or "file",
                    media_type=as_text(part.get("mime_type")),
                    uri=as_text(part.get("uri")),
                    name=as_text(part.get("file_id")),
                    data=as_text(content) if kind == "blob" else "",
                )
            )
        elif content is not None:  # text, a compaction, or what nobody knows yet
            texts.append(as_text(content))
    said.text = "\n".join(filter(None, texts))
    said.thinking = "\n\n".join(filter(None, thoughts))
    says = said.text or said.thinking or said.calls or said.results or said.attachments
    return said if says else None


def decoded(value: Any) -> Any:
    """JSON text as its value, as far as it goes where it is cut off; all else as it is."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    text = value.partition(CUT)[0]
    salvage = read_json(text.encode("utf-8", "replace"), recover=CUT in value)
    return salvage.values[0] if len(salvage.values) == 1 and not salvage.lost else value


def result_text(value: Any) -> str:
    """What a tool returned, as it was written; of a list of parts, their words."""
    if isinstance(value, str) and not (value.startswith("[") and _are_parts(decoded(value))):
        return value
    return as_text(decoded(value))


def as_text(value: Any) -> str:
    """Text as it is, the text in a list of parts, all else as JSON."""
    if isinstance(value, str):
        return value
    if _are_parts(value):
        return "\n".join(as_text(part["text"]) for part in value)
    return "" if value is None else msgspec.json.encode(value).decode()


def _are_parts(value: Any) -> bool:
    # [{"type":"text","text":"ok"}]
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and "text" in part for part in value)
    )


def _chain_id(running: Any) -> str:
    """An id for a message, from all that stands before it: lists that begin alike share them."""
    return f"otel:{running.hexdigest()[:24]}"


def system_id(text: str) -> str:
    return _chain_id(sha256(Said("system", text).identity + b"\n"))
