"""What was sent to the model, message by message: the leaves of a command-line chat, and of what the
editor keeps under `agentKv:blob:`."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from unspool.facts import (
    AnyFact,
    Attachment,
    Key,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
)
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.entries import request_id, sent_time, typed_words
from unspool.sources.cursor.tools import (
    counted,
    kind_of,
    likeness,
    of_message,
    output_of,
    result_body,
    touches,
)
from unspool.sources.cursor.turns import Clock

_TAG = re.compile(r"<[a-z][a-z_-]*>")
_INJECTED = (
    "<user_info>", "<system_reminder>", "<rules>", "<git_status>", "<agent_transcripts>",
    "<project_layout>", "<open_and_recently_viewed_files>",
)  # fmt: skip


class Sent:
    """The messages of one conversation, in the order in which they are read."""

    def __init__(
        self,
        key: Key,
        origin: str,
        rank: int,
        offsets: "count[int]",
        mode: str = "",
        model: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._key = key
        self._origin = origin
        self._rank = rank
        self._offsets = offsets
        self._mode = mode
        self._model = model if model != "default" else ""
        self._clock = clock
        self._times: dict[str, int] = {}

    def ident(self, name: str, mark: str = "") -> str:
        """The id of the message under a name. A message that is listed twice was said twice; two
        chats may hold the same words, and then the same blob: that is not the same message."""
        number = self._times[mark + name] = self._times.get(mark + name, 0) + 1
        return f"{self._key[1]}:{mark}{name[:20]}" + (f":{number}" if number > 1 else "")

    def entry(self, ident: str) -> str:
        """The id of its record: a record of one store is none of another, which knows less."""
        return f"sent:{ident}" if self._rank else f"blob:{ident}"

    def read(
        self, value: dict[str, Any], ident: str, after: str | None = None
    ) -> Iterator[AnyFact]:
        """The facts of a message; `after` where its place in a tree is known."""
        content = value.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks = [part for part in parts if isinstance(part, dict)]
        options = _options(value)
        text = _joined(blocks, "text")
        role = str(value["role"])
        common: dict[str, Any] = {
            "key": self._key, "origin": self._origin, "offset": next(self._offsets),
            "entry": self.entry(ident), "time": self._time(role, text), "after": after,
        }  # fmt: skip
        if role == "tool":
            yield from self._results(blocks, options, common)
        elif role == "system":
            yield self._said(common, id=ident, role="system", text=text)
        elif role == "user":
            yield from self._user(text, blocks, options, common, ident)
        elif role == "assistant":
            yield from self._assistant(text, blocks, options, common, ident)

    def _said(self, common: dict[str, Any], **fields: Any) -> MessageSeen:
        return MessageSeen(**common, rank=self._rank, apart=self._rank > 0, **fields)

    def _time(self, role: str, text: str) -> int | None:
        words = typed_words(text)
        exact = self._clock.time(role, text if words is None else words) if self._clock else None
        return exact if exact is not None else sent_time(text)

    def _user(
        self, text: str, blocks: list[dict[str, Any]], options: dict[str, Any],
        common: dict[str, Any], ident: str,
    ) -> Iterator[AnyFact]:  # fmt: skip
        kind = ""
        typed = typed_words(text)
        if options.get("isSummary") is True:
            kind = "summary"
            yield Marked(**common, kind="compaction", rank=self._rank)
        elif typed is None and self._is_injected(text, options):
            kind = "injected"
        images = tuple(Attachment(kind="image") for b in blocks if b.get("type") == "image")
        if text or images:
            yield self._said(
                common, id=ident, role="user", text=text, typed=typed, kind=kind,
                mode="" if kind else self._mode, attachments=images,
                request=request_id(options.get("requestId")),
            )  # fmt: skip

    def _is_injected(self, text: str, options: dict[str, Any]) -> bool:
        """What a person asks has a request; context has none, and most of it stands in a tag."""
        if text.startswith(_INJECTED) or _is_notebook(text):
            return True
        return not options.get("requestId") and _TAG.match(text) is not None

    def _assistant(
        self, text: str, blocks: list[dict[str, Any]], options: dict[str, Any],
        common: dict[str, Any], ident: str,
    ) -> Iterator[AnyFact]:  # fmt: skip
        hidden = any(b.get("type") == "redacted-reasoning" for b in blocks)
        kind = "summary" if options.get("isSummary") is True else ""
        yield self._said(
            common, id=ident, role="assistant", text=text, kind=kind,
            thinking=_joined(blocks, "reasoning"), request=request_id(options.get("requestId")),
            model=_model(blocks, options) or self._model,
            extra={"reasoning_encrypted": True} if hidden else None,
        )  # fmt: skip
        calls = [b for b in blocks if b.get("type") == "tool-call"]
        for number, part in enumerate(calls):
            name, given = str(part.get("toolName") or ""), part.get("args", part.get("input"))
            yield ToolCalled(
                **common, number=number, id=str(part.get("toolCallId") or ""), message=ident,
                name=name, arguments=arguments_text(given), index=number, rank=self._rank,
                like=likeness(name, given), files=touches(name, given),
            )  # fmt: skip

    def _results(
        self, blocks: list[dict[str, Any]], options: dict[str, Any], common: dict[str, Any]
    ) -> Iterator[AnyFact]:
        told = options.get("highLevelToolCallResult")
        parts = [b for b in blocks if b.get("type") == "tool-result"]
        _, body = result_body(told) if len(parts) == 1 else ("", {})
        for number, part in enumerate(parts):
            given = part.get("result", part.get("output"))
            text, details = output_of(given if given is not None else _shown(part))
            call, name = str(part.get("toolCallId") or ""), str(part.get("toolName") or "")
            failed, status = of_message(told, name, text or "")
            yield ToolReturned(
                **common, number=number, call=call, text=text, name=name, rank=self._rank,
                details=details if details is not None else _beside(body, text or ""),
                failed=True if part.get("isError") is True else failed, status=status,
                duration_ms=_milliseconds(body), files=counted(name, body),
            )  # fmt: skip
            child = body.get("agentId") if kind_of(name) == "task" else None
            if isinstance(child, str) and child:
                yield Noted(
                    **common, number=100 + number, on="call", subject=call, name="child_id",
                    value=child, rank=self._rank,
                )  # fmt: skip


def _beside(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """What the tool returned that the model was not told word for word."""
    kept = {
        name: value
        for name, value in body.items()
        if value not in (None, "", [], {})
        and not (isinstance(value, str) and value.strip() in text)
    }
    return kept or None


def _milliseconds(body: dict[str, Any]) -> float | None:
    for name in ("executionTime", "durationMs"):
        found = body.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return float(found)
    return None


def _shown(part: dict[str, Any]) -> str | None:
    """A result as blocks, where it is not told as a value."""
    blocks = part.get("experimental_content")
    found = [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    return _joined(found, "text") or None


def _joined(blocks: list[dict[str, Any]], kind: str) -> str:
    texts = [b["text"] for b in blocks if b.get("type", "text") == kind and b.get("text")]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def is_summary(value: dict[str, Any]) -> bool:
    return _options(value).get("isSummary") is True


def _options(value: dict[str, Any]) -> dict[str, Any]:
    options = value.get("providerOptions")
    own = options.get("cursor") if isinstance(options, dict) else None
    return own if isinstance(own, dict) else {}


def _model(blocks: list[dict[str, Any]], options: dict[str, Any]) -> str:
    """The model of the message, or of its reasoning, which tells it for each step."""
    for told in (options, *map(_options, blocks)):
        name = told.get("modelName")
        if isinstance(name, str) and name not in ("", "default"):
            return name
    return ""


def _is_notebook(text: str) -> bool:
    return text[:1] == "{" and '"nbformat"' in text and '"cells"' in text
