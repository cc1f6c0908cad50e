"""Bubbles: the pieces that Cursor's editor shows of a conversation.

Type 1 is the person's, type 2 the model's: a thought, a text or a tool with its result, each a
bubble of its own. A `Chat` turns the bubbles of one composer, given in order, into facts.
"""

from typing import Any

import msgspec

from unspool.facts import AnyFact, Attachment, Key, Rank
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import Steps, request_id
from unspool.sources.cursor.paths import clean_path, uri_path
from unspool.sources.cursor.tools import decoded, likeness, of_editor, output_of, path_of
from unspool.sources.scribe import Scribe

RANK = Rank.COPY
MODES = {1: "ask", 2: "agent", 5: "plan"}
AUTO = "default"
"""Instead of a model: Cursor chose one, and does not tell which."""
_EPOCH_MS = 946_684_800_000
"""The year 2000. A smaller number is the clock of the window, which starts anew with it."""
_ATTACHED = {
    "fileSelections": "file", "selections": "selection", "terminalSelections": "selection",
    "folderSelections": "folder", "selectedDocs": "doc", "selectedImages": "image",
    "images": "image",
}  # fmt: skip
"""What the person put in: the lists of a bubble, or of its `context`, and the kind of attachment."""

Number = int | float | None


class Timing(msgspec.Struct):
    clientStartTime: Number = None
    clientRpcSendTime: Number = None
    clientEndTime: Number = None


class Count(msgspec.Struct):
    inputTokens: Number = None
    outputTokens: Number = None


class ModelInfo(msgspec.Struct):
    modelName: str | None = None


class Thinking(msgspec.Struct):
    text: str | None = None


class Tool(msgspec.Struct):
    """A call and its result. Most bubbles carry one without a name, which is a placeholder:
    `{"additionalData": {}}` (320 of 873 real ones)."""

    name: str | None = None
    toolCallId: str | None = None
    modelCallId: str | None = None
    status: str | None = None
    userDecision: str | None = None
    rawArgs: Any = None
    params: Any = None
    result: Any = None
    error: Any = None
    additionalData: Any = None


class Bubble(msgspec.Struct):
    type: int | str | None = None
    text: str | None = None
    rawText: str | None = None
    richText: Any = None
    initText: Any = None
    thinking: Thinking | None = None
    toolFormerData: Tool | None = None
    tokenCount: Count | None = None
    modelInfo: ModelInfo | None = None
    modelType: str | None = None
    modelCallId: str | None = None
    createdAt: Any = None
    timingInfo: Timing | None = None
    turnDurationMs: Number = None
    unifiedMode: int | str | None = None
    requestId: str | None = None
    usageUuid: str | None = None
    serverBubbleId: str | None = None
    checkpointId: str | None = None
    thinkingDurationMs: Number = None
    isRefunded: bool | None = None
    errorDetails: Any = None
    workspaceUris: Any = None
    codeBlocks: Any = None
    context: Any = None
    images: Any = None
    fileSelections: Any = None
    folderSelections: Any = None
    selections: Any = None
    selectedDocs: Any = None
    selectedImages: Any = None

    @property
    def is_prompt(self) -> bool:
        return self.type in (1, "user")

    @property
    def call(self) -> Tool | None:
        tool = self.toolFormerData
        return tool if tool is not None and tool.name else None

    @property
    def request(self) -> str:
        return request_id(self.requestId) or request_id(self.usageUuid)

    @property
    def model(self) -> str:
        name = self.modelInfo.modelName if self.modelInfo is not None else self.modelType
        return name if name and name != AUTO else ""

    @property
    def sent(self) -> int | None:
        """When the request was sent, which only its first answer tells. `clientStartTime` is a moment
        before 0.50 alone; since then it is the window's clock (1136746.9, sent at 1748179903865)."""
        timing = self.timingInfo or Timing()
        return _moment(timing.clientRpcSendTime) or _moment(timing.clientStartTime)

    @property
    def created(self) -> int | None:
        return parse_time(self.createdAt)

    @property
    def time(self) -> int | None:
        return self.created or self.sent

    @property
    def began(self) -> int | None:
        """When the run was sent that begins with this bubble."""
        return self.sent or self.created

    @property
    def thought(self) -> str:
        return (self.thinking.text if self.thinking else None) or ""

    @property
    def is_empty(self) -> bool:
        """A call that was still `loading` was cut off, and says no more than an empty bubble."""
        said = self.words or self.thought or (self.is_prompt and self.context)
        return not said and (self.call is None or self.call.status == "loading")

    @property
    def is_notice(self) -> bool:
        return bool(self.errorDetails) and self.is_empty

    @property
    def error(self) -> tuple[str, str]:
        """(request, words) of a notice in place of an answer: `{"requestId": …, "error": {"details":
        {"title": "You've hit your usage limit", "detail": "Get Cursor Pro …"}}}`."""
        notice = dict_of(self.errorDetails)
        details = field_of(notice.get("error"), "details")
        holder = details if isinstance(details, dict) else {"title": notice.get("message")}
        words = [holder.get("title"), holder.get("detail")]
        request = notice.get("requestId", notice.get("generationUUID"))
        return request_id(request), "\n\n".join(w for w in words if isinstance(w, str) and w)

    @property
    def words(self) -> str:
        """User words may stand only in the rich text, or, in chats of 2023 and 2024, in `initText`."""
        for plain in (self.text, self.rawText):
            if plain and plain.strip():
                return plain
        if not self.is_prompt:
            return ""
        return rich_text(self.richText) or rich_text(self.initText)


BUBBLE = Shape(Bubble)
TOOL = Shape(Tool)


def _moment(milliseconds: Number) -> int | None:
    is_moment = milliseconds is not None and milliseconds >= _EPOCH_MS
    return parse_time(milliseconds) if is_moment else None


def mode_name(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return MODES.get(value, str(value)) if isinstance(value, int) else str(value)


def rich_text(value: Any) -> str:
    """The text of an editor's state: Lexical's `{root: {children: […]}}`, or since 3.7 ProseMirror's
    `{type: "doc", content: […]}`. Paragraphs are lines, mentions stand as they were written."""
    tree = decoded(value)
    top = tree.get("root", tree) if isinstance(tree, dict) else None
    text = "\n".join(map(_inline, _children(top)))
    return text if text.strip() else ""


def _inline(node: dict[str, Any]) -> str:
    if node.get("type") in ("linebreak", "hardBreak"):
        return "\n"
    text = node.get("text")
    return text if isinstance(text, str) else "".join(map(_inline, _children(node)))


def _children(node: Any) -> list[dict[str, Any]]:
    return dicts_of(dict_of(node).get("children", field_of(node, "content")))


def attachments_of(bubble: Bubble) -> tuple[Attachment, ...]:
    """Files, selections, folders, documents and images that the person put in."""
    attachments: list[Attachment] = []
    own = {name: getattr(bubble, name, None) for name in _ATTACHED}
    for holder in (dict_of(bubble.context), own):
        for name, kind in _ATTACHED.items():
            for item in dicts_of(holder.get(name)):
                place = item.get("uri") or item.get("path", item.get("relativePath"))
                lines, text = dict_of(item.get("range")), item.get("text", item.get("rawText"))
                first, last = lines.get("selectionStartLineNumber"), lines.get("positionLineNumber")
                attachments.append(
                    Attachment(
                        kind=kind,
                        name=str_of(item.get("name", item.get("docId"))) if kind == "doc" else "",
                        path=uri_path(place),
                        text=str_of(text) if kind == "selection" else "",
                        start_line=first if isinstance(first, int) else None,
                        end_line=last if isinstance(last, int) else None,
                    )
                )
    return tuple(dict.fromkeys(attachments))


class Chat:
    """The bubbles of one composer, or of one abandoned run of it."""

    def __init__(self, key: Key, origin: str, changes: Changes, mode: str = "") -> None:
        self.key = key
        self.origin = origin
        self.roots: list[str] = []
        """Folders that bubbles say they were asked in."""
        self.paths: set[str] = set()
        """Files that tools and context name."""
        self.root_name = ""
        """What the folder is called, where its path is not told."""
        self.request = ""
        self.sent: int | None = None
        """The request under way, and when it was sent."""
        self.ended: int | None = None
        """When the request under way was over."""
        self.last: int | None = None
        """The last moment that anything tells."""
        self._model = ""
        self._is_abandoned = False
        self._changes = changes
        self._mode = mode
        self._steps = Steps()

    def aside(self) -> "Chat":
        """For a run that was abandoned: what it says changes nothing here but the place of the work."""
        aside = Chat(self.key, self.origin, self._changes, self._mode)
        aside._is_abandoned = True
        aside.roots, aside.paths = self.roots, self.paths
        return aside

    def ask(self, bubble: Bubble, request: str, sent: int | None) -> None:
        """A prompt begins a turn; `request` and `sent` may be known from its answer."""
        self._steps.close()
        self.request, self.sent, self.ended = request, sent, None
        self._model = bubble.model
        self.last = sent or self.last

    def read(
        self, bubble: Bubble, ident: str, offset: int, after: str | None, answered: bool = False
    ) -> list[AnyFact]:
        """The facts of a bubble; none where it says nothing."""
        time = self.sent if bubble.is_prompt else bubble.time
        scribe = Scribe(
            self.key, self.origin, offset, time=time, entry=f"bubble:{ident}", after=after, rank=RANK
        )  # fmt: skip
        # Where the work is done, for composers that do not name their folder.
        if not self.roots:
            self.roots += [
                clean_path(uri) for uri in map(str_of, list_of(bubble.workspaceUris)) if uri
            ]
        tool, attachments = bubble.call, attachments_of(bubble)
        if tool is not None:
            self.paths.add(path_of(decoded(tool.params or tool.rawArgs)))
        self.paths.update(a.path for a in attachments if a.kind in ("file", "selection"))
        if bubble.is_prompt:
            text = bubble.words
            if text or attachments or answered:
                mode = mode_name(bubble.unifiedMode) or self._mode
                scribe.message(
                    id=ident, role="user", text=text, attachments=attachments, mode=mode,
                    request=self.request, withdrawn=self._is_abandoned, extra=_ids(bubble),
                )  # fmt: skip
        else:
            # `timingInfo` stands on the first answer of a request, and tells the end of the whole.
            timing = bubble.timingInfo
            self.ended = _moment(timing.clientEndTime if timing else None) or self.ended
            if bubble.turnDurationMs and self.sent is not None:
                self.ended = self.sent + int(bubble.turnDurationMs * 1000)
            moments = [at for at in (self.last, time, self.ended) if at is not None]
            self.last = max(moments, default=None)
            thinking, text = bubble.thought, bubble.words
            if thinking or text:
                group = bubble.modelCallId or ""
                step = self._steps.part("thinking" if thinking else "text", ident, group)
                if thinking and text:
                    self._steps.part("text", ident, group)
                self._say(scribe, bubble, step, text=text, thinking=thinking, extra=_ids(bubble))
        if tool is not None:  # seen on bubbles of the person's too
            self._call(scribe, bubble, tool, ident)
        elif bubble.errorDetails and bubble.error[1]:
            scribe.message(
                id=f"{ident}:error", role="system", kind="error", text=bubble.error[1],
                request=bubble.error[0] or bubble.request or self.request, after=None,
            )  # fmt: skip
        # The last bubble of a request has its count, all others 0, which is unknown. A second count
        # of the same request replaces the first: 13962/50, then 14192/218 (test_tokens_count_once).
        count = bubble.tokenCount or Count()
        given, taken = int(count.inputTokens or 0), int(count.outputTokens or 0)
        request, step = bubble.request or self.request, self._steps.step
        if (given or taken) and (request or step):
            scribe.usage(
                on="request" if request else "message", subject=request or step,
                prompt=given or None, completion=taken or None,
            )  # fmt: skip
        return scribe.facts

    def _say(self, scribe: Scribe, bubble: Bubble, step: str, **fields: Any) -> None:
        scribe.message(
            id=step, role="assistant", model=bubble.model or self._model,
            request=bubble.request or self.request, withdrawn=self._is_abandoned, **fields,
        )  # fmt: skip

    def _call(self, scribe: Scribe, bubble: Bubble, tool: Tool, ident: str) -> None:
        name, call = tool.name or "", tool.toolCallId or f"{ident}:tool"
        step = self._steps.part("call", ident, tool.modelCallId or "")
        self._say(scribe, bubble, step)
        # `rawArgs` is what the model wrote, `params` what Cursor made of it. Since 3.7 the former is
        # empty for some tools; what was sent to the model (`agentKv`) then knows better than `params`.
        given = "" if tool.rawArgs in (None, "", "{}") else arguments_text(tool.rawArgs)
        fields: dict[str, Any] = {
            "id": call, "message": step, "name": name,
            "like": likeness(name, tool.params or tool.rawArgs),
            "extra": {"user_decision": tool.userDecision} if tool.userDecision else None,
        }  # fmt: skip
        scribe.call(**fields, arguments=given)
        if not given and (tool.params or tool.rawArgs):
            instead = arguments_text(tool.params or tool.rawArgs)
            scribe.call(**fields, arguments=instead, rank=Rank.ECHO)
        if tool.status or tool.result or tool.error:
            text, details = output_of(tool.result) if tool.result else (None, None)
            if tool.error and text is None:
                text, details = output_of(tool.error)
            failed, status = of_editor(tool)
            files = tuple(self._changes.of_tool(tool, name, ident))
            scribe.returned(
                call=call, name=name, text=text, details=details, failed=failed, status=status,
                files=files,
            )  # fmt: skip

    def files(self, bubble: Bubble, ident: str, offset: int) -> list[AnyFact]:
        """Files that the bubble changed without a tool, by the code blocks of its text."""
        scribe = Scribe(self.key, self.origin, offset, entry=f"bubble:{ident}:files")
        for touch in self._changes.of_bubble(bubble.codeBlocks):
            scribe.mark("file", touch, rank=RANK)
        return scribe.facts


def _ids(bubble: Bubble) -> dict[str, Any] | None:
    ids = {
        "server_bubble_id": bubble.serverBubbleId, "checkpoint_id": bubble.checkpointId,
        "thinking_ms": bubble.thinkingDurationMs, "refunded": bubble.isRefunded,
    }  # fmt: skip
    return {name: value for name, value in ids.items() if value} or None
