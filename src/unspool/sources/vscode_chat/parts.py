"""Response parts: what of an answer is text, thinking, tool calls, edits, or kept as it is."""

from typing import Any

from unspool.chat_fields import bare_call_id
from unspool.sources.vscode_chat import edits
from unspool.sources.vscode_chat.uris import markdown, name_of, uri_of

DROPPED = frozenset(
    (
        "progressMessage",
        "codeblockUri",
        "undoStop",
        "prepareToolInvocation",
        "changesSummary",
        "disabledClaudeHooks",
        "mcpServersStarting",
        "mcpServersStartingSlow",
        "mcpAuthenticationRequired",
        "voiceProgress",
    )
)
"""Kinds that only move the display."""

TEXT_KINDS = frozenset(("markdownContent", "markdownVuln"))
SPOKEN = frozenset(("warning", "info", "progressTask", "progressTaskSerialized"))
"""Kept, and also part of the text where no model round tells it: VS Code copies them with it."""

ASKED = frozenset(
    ("confirmation", "elicitation2", "elicitationSerialized", "questionCarousel", "planReview")
)
"""Kinds in which a person was asked something."""

KEPT = frozenset(
    (
        "command",
        "treeData",
        "multiDiffData",
        "reference",
        "extensions",
        "pullRequest",
        "hook",
        "autoModeResolution",
        "systemNotification",
        *ASKED,
        *SPOKEN,
        *edits.KINDS,
    )
)
_PLACEHOLDER = "http://_vscodecontentref_/"
TOOLS = frozenset(("toolInvocationSerialized", "toolInvocation"))


class Parts:
    """The parts of one response, sorted by what they are, in their order."""

    def __init__(self, response: Any) -> None:
        self.blocks: list[str] = []
        """Texts, cut apart where a tool was called."""
        self.tail = 0
        """The number of the block behind the last tool call."""
        self.thinking: list[tuple[int, str]] = []
        """(how many tool parts stood before it, text)."""
        self.tools: list[dict[str, Any]] = []
        self.side: dict[str, list[dict[str, Any]]] = {}
        """Sub-agent run → the tool parts that were made in it."""
        self.kept: list[dict[str, Any]] = []
        self.links: list[dict[str, Any]] = []
        """Inline references: in the text where there are no rounds, kept beside it where there are."""
        self.edits: list[dict[str, Any]] = []
        self.vulnerabilities: list[Any] = []
        self.unknown: list[str] = []
        self.wrong = 0
        """Elements that are no parts at all."""
        self.model = ""
        self._open = False
        if response is not None and not isinstance(response, list):
            response = [response]
        for part in response or ():
            self._take(part)

    def _take(self, part: Any) -> None:
        if isinstance(part, str):
            self._say(part)
            return
        if not isinstance(part, dict):
            self.wrong += 1
            return
        kind = part.get("kind")
        if not isinstance(kind, str):
            self._take_bare(part)
        elif kind in TEXT_KINDS:
            self._say(_with_references(markdown(part.get("content")) or markdown(part), part))
            if isinstance(part.get("vulnerabilities"), list):
                self.vulnerabilities += part["vulnerabilities"]
        elif kind == "thinking":
            self._think(part.get("value"))
        elif kind in TOOLS:
            self._call(part)
        elif kind == "inlineReference":
            self.links.append(part)
            self._say(link_text(part))
        elif kind == "clearToPreviousToolInvocation":
            del self.blocks[self.tail :]
            self._open = False
        elif kind not in DROPPED:
            self._keep(kind, part)

    def _call(self, part: dict[str, Any]) -> None:
        run = part.get("subAgentInvocationId")
        if isinstance(run, str) and run and not is_sub_agent(part):
            self.side.setdefault(bare_call_id(run), []).append(part)
            return
        self.tools.append(part)
        self._open = False
        self.tail = len(self.blocks)

    def _take_bare(self, part: dict[str, Any]) -> None:
        """Without a kind it is markdown if it has a value, else (in exports) a file tree."""
        if isinstance(part.get("value"), str):
            self._say(part["value"])
        elif "label" in part or "children" in part:
            self.kept.append({"kind": "treeData", "treeData": part})
        else:
            self._keep("no kind", part)

    def _keep(self, kind: str, part: dict[str, Any]) -> None:
        self.kept.append(part)
        if kind in edits.KINDS:
            self.edits.append(part)
        elif kind in SPOKEN:
            self._say(markdown(part.get("content")))
        elif kind == "autoModeResolution":
            self.model = self.model or _resolved(part)
        elif kind not in KEPT:
            self.unknown.append(kind)

    def _say(self, text: str) -> None:
        if self._open:
            self.blocks[-1] += text
        elif text:
            self.blocks.append(text)
            self._open = True

    def _think(self, value: Any) -> None:
        text = "".join(v for v in value if isinstance(v, str)) if isinstance(value, list) else value
        if isinstance(text, str) and text:
            self.thinking.append((len(self.tools), text))

    @property
    def text(self) -> str:
        return "\n\n".join(block.strip("\n") for block in self.blocks)

    @property
    def last_text(self) -> str:
        """What was said after the last tool call."""
        return "\n\n".join(block.strip("\n") for block in self.blocks[self.tail :])


def _with_references(text: str, part: dict[str, Any]) -> str:
    """Links that stand for inline references lead to what they are references to."""
    held = part.get("inlineReferences")
    for name, reference in held.items() if isinstance(held, dict) else ():
        uri = uri_of(reference.get("inlineReference")) if isinstance(reference, dict) else ""
        if uri:
            text = text.replace(f"{_PLACEHOLDER}{name}", uri)
    return text


def is_sub_agent(part: dict[str, Any]) -> bool:
    """Whether the part is the call that started a sub-agent."""
    specific = part.get("toolSpecificData")
    return isinstance(specific, dict) and specific.get("kind") == "subagent"


def _resolved(part: dict[str, Any]) -> str:
    inner = part.get("resolved")
    found = part.get("resolvedModel") or (inner.get("id") if isinstance(inner, dict) else None)
    return found if isinstance(found, str) else ""


def link_text(part: dict[str, Any]) -> str:
    """An inline reference as a Markdown link."""
    target = part.get("inlineReference")
    uri = uri_of(target)
    name = part.get("name")
    if not isinstance(name, str) or not name:
        name = target.get("name") if isinstance(target, dict) else ""
    name = name if isinstance(name, str) and name else name_of(uri)
    return f"[{name}]({uri})" if uri else name


def answers(part: dict[str, Any]) -> dict[str, Any] | None:
    """What a person answered to a part that asked; None where nobody has."""
    kind = part.get("kind")
    asked = {k: markdown(part[k]) for k in ("title", "message") if markdown(part.get(k))}
    made: dict[str, Any] = {"asked_by": kind, **asked}
    if kind in ("questionCarousel", "planReview") and part.get("data") is not None:
        made["answer"] = part["data"]
        if isinstance(part.get("questions"), list):
            made["questions"] = part["questions"]
        return made
    if kind == "confirmation" and part.get("isUsed") is True:
        return {**made, "answer": part.get("selectedButton", part.get("data", True))}
    if kind in ("elicitation2", "elicitationSerialized") and part.get("state") not in (
        None,
        "pending",
    ):
        made["answer"] = part["state"]
        if part.get("acceptedResult") is not None:
            made["result"] = part["acceptedResult"]
        return made
    return None
