"""Bubbles: the pieces that Cursor's editor shows of a conversation.

Type 1 is the person's, type 2 the model's: a thought, a text or a tool with its result, each a
bubble. A `Chat` turns the bubbles of one composer, given in order, into facts.
"""

from collections.abc import Iterator
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
    UsageReported,
)
from unspool.io.dirty_json import clean
from unspool.io.times import parse_time
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import request_id
from unspool.sources.cursor.outcomes import is_call, of_editor
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.steps import Steps
from unspool.sources.cursor.tools import decoded, likeness, output_of, path_of

RANK = 1
USER, ASSISTANT = 1, 2
TOOL = 15
"""`capabilityType` of tools; what other numbers stand for is told nowhere."""
MODES = {1: "ask", 2: "agent", 5: "plan"}
_TOOLS = {
    "5": "read_file", "6": "list_dir", "7": "edit_file", "8": "file_search", "9": "codebase_search",
    "11": "delete_file", "12": "reapply", "15": "run_terminal_cmd", "18": "web_search", "19": "mcp",
    "38": "edit_file_v2", "39": "list_dir_v2", "40": "read_file_v2", "41": "ripgrep_raw_search",
    "42": "glob_file_search",
}  # fmt: skip
_EPOCH_MS = 946_684_800_000
"""The year 2000: a smaller `clientStartTime` is a span, not a moment."""

_MOST_PATHS = 2000

Bubble = dict[str, Any]


def mode_name(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return MODES.get(value, str(value)) if isinstance(value, int) else str(value)


def bubble_time(bubble: Bubble) -> int | None:
    """When it was made: told outright, or reckoned from the client's timing."""
    made = parse_time(bubble.get("createdAt"))
    timing = bubble.get("timingInfo")
    if made is not None or not isinstance(timing, dict):
        return made
    start = timing.get("clientStartTime")
    if not isinstance(start, int | float) or isinstance(start, bool):
        return None
    if start >= _EPOCH_MS:
        return parse_time(start)
    for name in ("clientRpcSendTime", "clientSettleTime", "clientEndTime"):
        end = timing.get(name)
        if isinstance(end, int | float) and end >= _EPOCH_MS:
            return parse_time(end - start)
    return None


def rich_text(value: Any) -> str:
    """The text of an editor state (Lexical): paragraphs as lines, mentions as they were written."""
    root = decoded(value)
    node = root.get("root", root) if isinstance(root, dict) else None
    return "\n".join(_paragraphs(node)).strip() if isinstance(node, dict) else ""


def _paragraphs(node: dict[str, Any]) -> Iterator[str]:
    for child in node.get("children") or ():
        if isinstance(child, dict):
            yield _inline(child)


def _inline(node: dict[str, Any]) -> str:
    if node.get("type") == "linebreak":
        return "\n"
    if isinstance(node.get("text"), str):
        return str(node["text"])
    return "".join(
        _inline(child) for child in node.get("children") or () if isinstance(child, dict)
    )


def words_of(bubble: Bubble) -> str:
    for name in ("text", "rawText"):
        if isinstance(bubble.get(name), str) and bubble[name].strip():
            return str(bubble[name])
    return rich_text(bubble.get("richText")) if bubble.get("type") in (USER, "user") else ""


def attachments_of(bubble: Bubble) -> tuple[Attachment, ...]:
    """Files, selections, folders, documents and images that the person put in."""
    context = bubble.get("context")
    made: list[Attachment] = []
    for holder in (context if isinstance(context, dict) else {}, bubble):
        for item in _listed(holder, "fileSelections"):
            made.append(Attachment(kind="file", path=_uri(item)))
        for item in _listed(holder, "selections"):
            text = item.get("text", item.get("rawText"))
            lines = item.get("range") if isinstance(item.get("range"), dict) else {}
            made.append(
                Attachment(
                    kind="selection",
                    path=_uri(item),
                    text=text if isinstance(text, str) else "",
                    start_line=_line(lines, "selectionStartLineNumber"),
                    end_line=_line(lines, "positionLineNumber"),
                )
            )
        for item in _listed(holder, "folderSelections"):
            made.append(
                Attachment(kind="folder", path=_uri(item) or _str(item.get("relativePath")))
            )
        for item in _listed(holder, "selectedDocs"):
            made.append(Attachment(kind="doc", name=_str(item.get("name", item.get("docId")))))
        for item in (*_listed(holder, "selectedImages"), *_listed(holder, "images")):
            made.append(Attachment(kind="image", path=clean_path(_str(item.get("path")))))
    return tuple(dict.fromkeys(made, None)) if all(a.extra is None for a in made) else tuple(made)


def _listed(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = holder.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _line(lines: Any, name: str) -> int | None:
    found = lines.get(name) if isinstance(lines, dict) else None
    return found if isinstance(found, int) else None


def _uri(item: dict[str, Any]) -> str:
    uri = item.get("uri")
    if isinstance(uri, dict):
        uri = uri.get("fsPath", uri.get("path"))
    return clean_path(uri) if isinstance(uri, str) else ""


class Chat:
    """The bubbles of one composer. Facts stand at `offset`, which the reader counts up."""

    def __init__(self, key: Key, origin: str, changes: Changes, mode: str = "") -> None:
        self.key = key
        self.origin = origin
        self.calls: list[str] = []
        """Ids of calls whose result the bubbles do not hold."""
        self.all_calls: set[str] = set()
        self.requests: set[str] = set()
        self.roots: list[str] = []
        """Folders that bubbles say they were asked in."""
        self.paths: set[str] = set()
        """Files that tools and context name."""
        self._request = ""
        self._asked = ""
        """The model that the last prompt was sent to."""
        self._changes = changes
        self._mode = mode
        self._steps = Steps()
        self._tokens = (0, 0)
        self._spent: dict[str, tuple[int, int]] = {}

    def read(self, bubble: Bubble, ident: str, offset: int, after: str | None) -> list[AnyFact]:
        """The facts of a bubble; none where it says nothing."""
        bubble = clean(bubble)
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": offset, "after": after,
            "entry": f"bubble:{ident}", "time": bubble_time(bubble),
        }  # fmt: skip
        self.requests.add(_request(bubble))
        self._look_around(bubble)
        if bubble.get("type") in (USER, "user"):
            return list(self._user(bubble, ident, common))
        return list(self._assistant(bubble, ident, common))

    def _look_around(self, bubble: Bubble) -> None:
        """Where the work is done, for composers that do not name their folder."""
        listed = bubble.get("workspaceUris")
        if not self.roots and isinstance(listed, list):
            self.roots = [clean_path(uri) for uri in listed if isinstance(uri, str) and uri]
        tool = bubble.get("toolFormerData")
        given = decoded(tool.get("params") or tool.get("rawArgs")) if isinstance(tool, dict) else {}
        if isinstance(given, dict) and len(self.paths) < _MOST_PATHS:
            self.paths.add(path_of(given))
        self.paths.update(a.path for a in attachments_of(bubble) if a.kind in ("file", "selection"))

    def _user(self, bubble: Bubble, ident: str, common: dict[str, Any]) -> Iterator[AnyFact]:
        text, attachments = words_of(bubble), attachments_of(bubble)
        # Without words, files are what stands in the input box; an image may be a question.
        if text or any(attachment.kind == "image" for attachment in attachments):
            self._steps.close()
            self._request, self._asked = _request(bubble), _model(bubble)
            yield MessageSeen(
                **common, id=ident, role="user", text=text, attachments=attachments, rank=RANK,
                mode=mode_name(bubble.get("unifiedMode")) or self._mode, request=_request(bubble),
                extra=_ids(bubble),
            )  # fmt: skip
        if is_call(bubble.get("toolFormerData")):
            # 13 of 291 tools of one real database sat on bubbles of the person's.
            yield from self._tool(bubble, ident, common)

    def _assistant(self, bubble: Bubble, ident: str, common: dict[str, Any]) -> Iterator[AnyFact]:
        text, thinking = words_of(bubble), _thinking(bubble)
        error = bubble.get("errorDetails")
        if thinking or text:
            step = self._steps.part("thinking" if thinking else "text", ident, _group(bubble))
            if thinking and text:
                self._steps.part("text", ident, _group(bubble))
            yield self._said(bubble, common, step, text=text, thinking=thinking, extra=_ids(bubble))
            yield from self._usage(bubble, common, step)
        if is_call(bubble.get("toolFormerData")):
            yield from self._tool(bubble, ident, common)
        elif isinstance(error, dict) and isinstance(error.get("message"), str):
            yield MessageSeen(
                **common, number=2, id=f"{ident}:error", role="assistant", kind="error", rank=RANK,
                text=error["message"],
                request=request_id(error.get("generationUUID")) or _request(bubble),
            )  # fmt: skip

    def _said(
        self, bubble: Bubble, common: dict[str, Any], step: str, **fields: Any
    ) -> MessageSeen:
        return MessageSeen(
            **common, id=step, role="assistant", rank=RANK, model=_model(bubble) or self._asked,
            request=_request(bubble) or self._request, **fields,
        )  # fmt: skip

    def _tool(self, bubble: Bubble, ident: str, common: dict[str, Any]) -> Iterator[AnyFact]:
        tool = bubble["toolFormerData"]
        number = str(tool.get("tool"))
        name = _str(tool.get("name")) or _TOOLS.get(number, f"tool_{number}")
        call = _str(tool.get("toolCallId")) or f"{ident}:tool"
        given = tool.get("rawArgs") or tool.get("params")
        step = self._steps.part("call", ident, _str(tool.get("modelCallId")))
        self.all_calls.add(call)
        decision = _str(tool.get("userDecision"))
        yield self._said(bubble, common | {"number": 4}, step)
        yield ToolCalled(
            **common, id=call, message=step, name=name, arguments=arguments_text(given), rank=RANK,
            like=likeness(name, tool.get("params") or given), index=None,
            extra={"user_decision": decision} if decision else None,
        )  # fmt: skip
        yield from self._result(tool, name, call, ident, common)
        yield from self._usage(bubble, common, step)

    def _result(
        self, tool: dict[str, Any], name: str, call: str, ident: str, common: dict[str, Any]
    ) -> Iterator[AnyFact]:
        error, result = tool.get("error"), tool.get("result")
        if not result and not error:
            self.calls.append(call)
        if not (tool.get("status") or result or error):
            return
        text, details = output_of(result) if result else (None, None)
        if error and text is None:
            text, details = output_of(error)
        failed, status = of_editor(tool)
        yield ToolReturned(
            **common, call=call, name=name, text=text, details=details, rank=RANK, failed=failed,
            status=status, files=tuple(self._changes.of_tool(tool, name, ident)),
        )  # fmt: skip

    def _usage(self, bubble: Bubble, common: dict[str, Any], step: str) -> Iterator[AnyFact]:
        """Counts go on from bubble to bubble; where one drops, another request began. 0 is unknown."""
        count = bubble.get("tokenCount")
        if not isinstance(count, dict):
            return
        now = (_count(count, "inputTokens"), _count(count, "outputTokens"))
        if not any(now):
            return
        before, self._tokens = self._tokens, now
        fresh = any(new < old for new, old in zip(now, before, strict=True))
        grown = now if fresh else (now[0] - before[0], now[1] - before[1])
        known = self._spent.get(step, (0, 0))
        spent = self._spent[step] = (known[0] + grown[0], known[1] + grown[1])
        if any(spent):
            yield UsageReported(
                **common, subject=step, prompt=spent[0], completion=spent[1], rank=RANK
            )

    def files(self, bubble: Bubble, ident: str, offset: int) -> Iterator[AnyFact]:
        """Files that the bubble changed without a tool, by the code blocks of its text."""
        for number, touch in enumerate(self._changes.of_bubble(bubble, ident)):
            yield Marked(
                key=self.key, origin=self.origin, offset=offset, number=number,
                entry=f"bubble:{ident}:files", kind="file", data=touch, rank=RANK,
            )  # fmt: skip

    def context(self, value: dict[str, Any], ident: str, offset: int) -> AnyFact:
        """What a request was sent with: how many of each kind."""
        counts = {n: len(v) for n, v in value.items() if isinstance(v, list | dict) and v}
        return Noted(
            key=self.key, origin=self.origin, offset=offset, entry=f"bubble:{ident}:context",
            on="message", subject=ident, name="request_context", value=counts, rank=RANK,
        )  # fmt: skip


def _count(count: dict[str, Any], name: str) -> int:
    found = count.get(name)
    return int(found) if isinstance(found, int | float) else 0


def _request(bubble: Bubble) -> str:
    return request_id(bubble.get("requestId")) or request_id(bubble.get("usageUuid"))


def _model(bubble: Bubble) -> str:
    """The model that a bubble names; `default` is whatever Cursor chose."""
    told = bubble.get("modelInfo")
    name = told.get("modelName") if isinstance(told, dict) else bubble.get("modelType")
    return _str(name) if name != "default" else ""


def _group(bubble: Bubble) -> str:
    return _str(bubble.get("modelCallId"))


def _ids(bubble: Bubble) -> dict[str, Any] | None:
    names = {
        "serverBubbleId": "server_bubble_id", "checkpointId": "checkpoint_id",
        "thinkingDurationMs": "thinking_ms", "isRefunded": "refunded",
    }  # fmt: skip
    return {ours: bubble[name] for name, ours in names.items() if bubble.get(name)} or None


def _thinking(bubble: Bubble) -> str:
    thinking = bubble.get("thinking")
    if isinstance(thinking, dict) and _str(thinking.get("text")):
        return _str(thinking["text"])
    blocks = bubble.get("allThinkingBlocks")
    found = blocks if isinstance(blocks, list) else []
    texts = [_str(b.get("thinking", b.get("text"))) for b in found if isinstance(b, dict)]
    return "\n\n".join(text for text in texts if text) or _str(thinking)
