"""Bubbles: the pieces that Cursor's editor shows of a conversation.

Type 1 is the person's, type 2 the model's: a thought, a text or a tool with its result, each a
bubble of its own. What they state is told in `composers.py`.
"""

from typing import Any

import msgspec

from unspool.facts import Attachment, Rank
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.sources.cursor.entries import AUTO, digest, notifies, request_id
from unspool.sources.cursor.paths import uri_path
from unspool.sources.cursor.tools import Called, Tool, decoded

RANK = Rank.COPY
MODES = {0: "", 1: "ask", 2: "agent", 3: "edit", 4: "custom", 5: "plan", 6: "debug"}
_SUMMARIZED = 22
"""The capability of the bubble that stands where the context was summarized."""
_EPOCH_MS = 946_684_800_000
"""The year 2000. A smaller number is the clock of the window, which starts anew with it."""
_ATTACHED = {
    "fileSelections": "file", "selections": "selection", "terminalSelections": "selection",
    "folderSelections": "folder", "selectedDocs": "doc", "selectedImages": "image",
    "images": "image", "attachedFileCodeChunksUris": "file",
    "attachedFileCodeChunksMetadataOnly": "file",
}  # fmt: skip
"""What was sent along: the lists of a bubble, or of its `context`, and the kind of attachment. The last
two, of 0.50 to 2.0, name them again and those that were open, by paths within the project."""

Number = int | float | None


class Timing(msgspec.Struct):
    clientStartTime: Number = None
    clientRpcSendTime: Number = None
    clientEndTime: Number = None


class Count(msgspec.Struct):
    inputTokens: Number = None
    outputTokens: Number = None


class Asked(msgspec.Struct):
    """As much of a bubble as tells what was asked."""

    type: int | str | None = None
    text: str | None = None
    rawText: str | None = None
    richText: Any = None
    initText: Any = None
    delegate: Any = None
    requestId: str | None = None
    usageUuid: str | None = None
    capabilityType: int | None = None

    @property
    def is_prompt(self) -> bool:
        return self.type in (1, "user")

    @property
    def is_compaction(self) -> bool:
        """`{"type": 2, "capabilityType": 22, "text": "Chat context summarized."}` are words of the
        editor's own; without them it did not come to a summary."""
        return self.capabilityType == _SUMMARIZED and bool(self.text)

    @property
    def words(self) -> str:
        """User words may stand only in the rich text, or, in chats of 2023 and 2024, in `initText` or
        `{"delegate": {"a": …}}`."""
        for plain in (self.text, self.rawText):
            if plain and plain.strip():
                return plain
        if not self.is_prompt:
            return ""
        rich = rich_text(self.richText) or rich_text(self.initText)
        return rich or str_of(field_of(self.delegate, "a"))


class Spoken(Asked):
    """As much of a bubble as tells whether another one says the same."""

    thinking: Any = None
    createdAt: Any = None
    toolFormerData: Called | None = None

    @property
    def thought(self) -> str:
        """`{"text": …, "signature": …}`, or the text alone."""
        return str_of(self.thinking) or str_of(field_of(self.thinking, "text"))

    @property
    def request(self) -> str:
        return request_id(self.requestId) or request_id(self.usageUuid)

    @property
    def created(self) -> int | None:
        return parse_time(self.createdAt)

    @property
    def content(self) -> bytes:
        return digest(f"{self.is_prompt}\0{self.words}\0{self.thought}")


decode_spoken = msgspec.json.Decoder(Spoken).decode


class Bubble(Spoken):
    ident: str = msgspec.field(default="", name="bubbleId")
    toolFormerData: Tool | None = None
    tokenCount: Count | None = None
    modelInfo: Any = None
    modelType: str | None = None
    modelCallId: str | None = None
    timingInfo: Timing | None = None
    turnDurationMs: Number = None
    unifiedMode: int | str | None = None
    serverBubbleId: str | None = None
    checkpointId: str | None = None
    thinkingDurationMs: Number = None
    isRefunded: bool | None = None
    isSimulatedMsg: bool | None = None
    grouping: Any = None
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
    attachedFileCodeChunksUris: Any = None
    attachedFileCodeChunksMetadataOnly: Any = None

    @property
    def call(self) -> Tool | None:
        tool = self.toolFormerData
        return tool if tool is not None and tool.name else None

    @property
    def is_notification(self) -> bool:
        """Cursor itself asked: its row says so, or its header (`grouping`)."""
        told = self.isSimulatedMsg or field_of(self.grouping, "isSimulatedMsg") is True
        return told or notifies(self.words)

    @property
    def model(self) -> str:
        told = field_of(self.modelInfo, "modelName") if self.modelInfo else self.modelType
        name = str_of(told)
        return name if name != AUTO else ""

    @property
    def sent(self) -> int | None:
        """When the request was sent, which only its first answer tells. `clientStartTime` is a moment
        before 0.50 alone; since then it is the window's clock (1136746.9, sent at 1748179903865)."""
        timing = self.timingInfo or Timing()
        return _moment(timing.clientRpcSendTime) or _moment(timing.clientStartTime)

    @property
    def ended(self) -> int | None:
        """When the whole request was over, told by its first answer too."""
        return _moment((self.timingInfo or Timing()).clientEndTime)

    @property
    def time(self) -> int | None:
        return self.created or self.sent

    @property
    def began(self) -> int | None:
        """When the run was sent that begins with this bubble."""
        return self.sent or self.created

    @property
    def place(self) -> tuple[float, bool]:
        """Where it stands among others; those without a time come last."""
        return (float("inf"), False) if self.created is None else (self.created, not self.is_prompt)

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
    def extra(self) -> dict[str, Any] | None:
        ids = {
            "server_bubble_id": self.serverBubbleId, "checkpoint_id": self.checkpointId,
            "thinking_ms": self.thinkingDurationMs, "refunded": self.isRefunded,
        }  # fmt: skip
        return {name: value for name, value in ids.items() if value} or None


BUBBLE = Shape(Bubble)


def _moment(milliseconds: Number) -> int | None:
    is_moment = milliseconds is not None and milliseconds >= _EPOCH_MS
    return parse_time(milliseconds) if is_moment else None


def mode_name(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return MODES.get(value, str(value)) if isinstance(value, int) else str(value)


def rich_text(value: Any) -> str:
    """The text of an editor's state: Lexical's `{root: {children: […]}}`, or since 3.7 ProseMirror's
    `{type: "doc", content: […]}`. Paragraphs are lines, mentions stand as they were written. In some
    bubbles it is the plain text."""
    tree = decoded(value)
    top = tree.get("root", tree) if isinstance(tree, dict) else None
    text = tree if isinstance(tree, str) else "\n".join(map(_inline, _children(top)))
    return text if text.strip() else ""


def _inline(node: dict[str, Any]) -> str:
    if node.get("type") in ("linebreak", "hardBreak"):
        return "\n"
    text = node.get("text")
    return text if isinstance(text, str) else "".join(map(_inline, _children(node)))


def _children(node: Any) -> list[dict[str, Any]]:
    return dicts_of(dict_of(node).get("children", field_of(node, "content")))


def attachments_of(bubble: Bubble) -> tuple[Attachment, ...]:
    """Files, selections, folders, documents and images that were sent along."""
    attachments: list[Attachment] = []
    own = {name: listed for name in _ATTACHED if (listed := getattr(bubble, name, None))}
    for holder in filter(None, (dict_of(bubble.context), own)):
        for name, kind in _ATTACHED.items():
            for item in dicts_of(holder.get(name)):
                within = item.get("relativeWorkspacePath", item.get("relativePath"))
                path = uri_path(item.get("uri") or item.get("path", within))
                if name.startswith("attached") and any(
                    a.path and (a.path.endswith(path) or path.endswith(a.path)) for a in attachments
                ):
                    continue
                lines, text = dict_of(item.get("range")), item.get("text", item.get("rawText"))
                first, last = lines.get("selectionStartLineNumber"), lines.get("positionLineNumber")
                attachments.append(
                    Attachment(
                        kind=kind,
                        name=str_of(item.get("name", item.get("docId"))) if kind == "doc" else "",
                        path=path,
                        text=str_of(text) if kind == "selection" else "",
                        start_line=first if isinstance(first, int) else None,
                        end_line=last if isinstance(last, int) else None,
                    )
                )
    return tuple(dict.fromkeys(attachments))
