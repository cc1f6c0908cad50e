"""Response parts: what of an answer is text, thinking, tool calls, edits, or kept as it is.

{"value": "I will read it.", "supportHtml": false}         markdown: without a kind on the disk
{"kind": "markdownContent", "content": {"value": "…"}}     the same as VS Code has it in memory
{"kind": "inlineReference", "inlineReference": {…uri}}     a link in the middle of the words
{"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "…", …}
"""

from typing import Any

import msgspec

from unspool.io.values import dict_of, field_of, str_of
from unspool.sources.vscode_chat import edits
from unspool.sources.vscode_chat.fields import DISPLAY, TOOL_NAMES, bare_call_id
from unspool.sources.vscode_chat.uris import markdown, name_of, uri_of

_TEXT_KINDS = frozenset(("markdownContent", "markdownVuln"))
_TOOLS = frozenset(("toolInvocationSerialized", "toolInvocation"))
ASKED = frozenset(
    ("confirmation", "elicitation2", "elicitationSerialized", "questionCarousel", "planReview")
)
"""Kinds in which a person was asked something."""
_APART = frozenset(
    ("command", "confirmation", "systemNotification",
     "warning", "info", "progressTask", "progressTaskSerialized")
)  # fmt: skip
"""Kinds that the person sees as blocks of their own, and that the model did not say: what follows is a
new paragraph."""
_KEPT = frozenset(
    ("treeData", "multiDiffData", "reference", "extensions", "pullRequest", "hook",
     "autoModeResolution", *ASKED, *_APART, *edits.KINDS)
)  # fmt: skip
_TOOL_FIELDS = ("subAgentInvocationId", "toolCallId", "toolId")
_PLACEHOLDER = "http://_vscodecontentref_/"


class Tool(msgspec.Struct, gc=False):
    """A tool part: the n-th of them."""

    number: int
    part: dict[str, Any]
    native: str
    """The id that the part gives the call."""
    id: str
    """The same without VS Code's suffix."""
    name: str
    """The name that the model knows the tool by."""


class Thought(msgspec.Struct, gc=False):
    """A piece of thinking, and what its part says beside it."""

    text: str
    about: dict[str, Any]


class Words(msgspec.Struct, gc=False):
    """Markdown, and what its part says beside the text."""

    text: str
    about: dict[str, Any]


class Kept(msgspec.Struct, gc=False):
    """A part that has no other place in a message."""

    part: dict[str, Any]
    text: str = ""
    """Of an inline reference: the link that stands in the words for it."""
    plain: bool = False
    """An inline reference of which that link tells everything."""
    apart: bool = False
    """Shown as a block of its own."""


Flow = Tool | Thought | Words | Kept


class Run(msgspec.Struct):
    """What the parts tell of one run of a sub-agent."""

    tools: list[Tool] = []
    texts: list[str] = []


class Parts:
    """The parts of one response, sorted by what they are, in their order."""

    def __init__(self, response: Any) -> None:
        self.flow: list[Flow] = []
        self.tools: list[Tool] = []
        self.runs: dict[str, Run] = {}
        """By the id of the sub-agent's invocation."""
        self.vulnerabilities: list[Any] = []
        self.cleared: list[dict[str, Any]] = []
        """Words that were taken back, and why, as often as that was."""
        self.unknown: list[str] = []
        """Kinds that nobody knows, and known ones of parts that are not as their kind is."""
        self.model = ""
        self._by_call: dict[str, list[dict[str, Any]]] = {}
        self._started = ""
        """The sub-agent that was started last."""
        for part in response if isinstance(response, list) else [response or ""]:
            if isinstance(part, dict):
                self._take(part)
            elif isinstance(part, str):
                self._take_words({}, part)
            else:
                self.unknown.append(type(part).__name__)

    def _take(self, part: dict[str, Any]) -> None:
        kind, value = part.get("kind"), part.get("value")
        if not isinstance(kind, str):
            # Without a kind it is markdown if it has a value, else (in exports) a file tree.
            if isinstance(value, str):
                self._take_words(part, value)
            elif "label" in part or "children" in part:
                self.flow.append(Kept({"kind": "treeData", "treeData": part}))
            else:
                self._keep("no kind", part)
        elif kind in _TOOLS:
            self._take_tool(part)
        elif kind in _TEXT_KINDS:
            content = part.get("content", value)
            text = content.get("value") if isinstance(content, dict) else content
            if not isinstance(text, str):
                self._keep(kind, part)
                return
            if isinstance(part.get("vulnerabilities"), list):
                self.vulnerabilities += part["vulnerabilities"]
            self._take_words(part, _with_references(text, part))
        elif kind == "thinking":
            pieces = value if isinstance(value, list) else [value or ""]
            if not all(isinstance(piece, str) for piece in pieces):
                self._keep(kind, part)
                return
            about = {k: v for k, v in part.items() if v and k not in ("kind", "value")}
            self.flow.append(Thought("".join(pieces), about))
        elif kind == "inlineReference":
            self.flow.append(Kept(part, link_text(part), is_plain(part)))
        elif kind == "clearToPreviousToolInvocation":
            self._clear(part)
        elif kind in DISPLAY:
            # A part that only moves the display, with addresses and markdown as plain texts.
            compact = {k: v for k, v in part.items() if v is not False and v not in (None, "")}
            if uri := uri_of(part.get("uri")):
                compact["uri"] = uri
            if text := markdown(part.get("content")):
                compact["content"] = text
            self.flow.append(Kept(compact))
        else:
            self._keep(kind, part)

    def _take_tool(self, part: dict[str, Any]) -> None:
        run, native, name = map(str_of, map(part.get, _TOOL_FIELDS))
        tool = Tool(len(self.tools), part, native, bare_call_id(native), TOOL_NAMES.get(name, name))
        if is_sub_agent(part):
            self._started = run or native
        elif run:
            self.runs.setdefault(bare_call_id(run), Run()).tools.append(tool)
            return
        alike = self._by_call.setdefault(native, [])
        if part not in alike:  # else the same once more
            alike.append(part)
            self.flow.append(tool)
            self.tools.append(tool)

    def _take_words(self, part: dict[str, Any], text: str) -> None:
        """Words of a sub-agent (`fromSubagent` until 1.108, then its run) are not the answer's."""
        run = part.get("subAgentInvocationId")
        if not isinstance(run, str):
            run = self._started if part.get("fromSubagent") is True else ""
        if run:
            self.runs.setdefault(bare_call_id(run), Run()).texts.append(text)
        elif part.get("fromSubagent") is True:
            self.flow.append(Kept(part))
        else:
            self.flow.append(Words(text, _about_text(part)))

    def _clear(self, part: dict[str, Any]) -> None:
        """What was said since the last call was filtered out of what the person sees."""
        calls = (n for n, item in enumerate(self.flow) if isinstance(item, Tool))
        since = max(calls, default=-1) + 1
        tail = self.flow[since:]
        text = "".join(item.text for item in tail if isinstance(item, Words | Kept))
        cleared = {"reason": part.get("reason"), "text": text}
        self.cleared.append({k: v for k, v in cleared.items() if v is not None and v != ""})
        self.flow[since:] = [
            item
            for item in tail
            if not isinstance(item, Words) and not (isinstance(item, Kept) and item.text)
        ]

    def _keep(self, kind: str, part: dict[str, Any]) -> None:
        self.flow.append(Kept(part, apart=kind in _APART))
        if kind == "autoModeResolution":
            model = part.get("resolvedModel") or field_of(part.get("resolved"), "id")
            self.model = self.model or str_of(model)
        elif kind not in _KEPT:
            self.unknown.append(kind)


_TEXT_FIELDS = frozenset(("kind", "content", "value", "uris"))


def _about_text(part: dict[str, Any]) -> dict[str, Any]:
    """What a markdown part says beside its text; what is as it usually is, is left out, and so are
    the targets of its links, which stand in the text."""
    content = part.get("content")
    fields = {**content, **part} if isinstance(content, dict) else part
    about = {name: value for name, value in fields.items() if value and name not in _TEXT_FIELDS}
    if isinstance(about.get("vulnerabilities"), list):
        del about["vulnerabilities"]
    return about


def is_plain(part: dict[str, Any]) -> bool:
    """Whether a link tells all that the reference does: it is to no place inside a file."""
    target = part.get("inlineReference")
    plain = isinstance(target, str) or (isinstance(target, dict) and "scheme" in target)
    return plain and not part.keys() - {"kind", "inlineReference", "name"}


def _with_references(text: str, part: dict[str, Any]) -> str:
    """Links that stand for inline references lead to what they are references to."""
    for name, reference in dict_of(part.get("inlineReferences")).items():
        uri = uri_of(reference.get("inlineReference")) if isinstance(reference, dict) else ""
        if uri:
            text = text.replace(f"{_PLACEHOLDER}{name}", uri)
    return text


def is_sub_agent(part: dict[str, Any]) -> bool:
    """Whether the part is the call that started a sub-agent."""
    specific = part.get("toolSpecificData")
    return isinstance(specific, dict) and specific.get("kind") == "subagent"


def link_text(part: dict[str, Any]) -> str:
    """An inline reference as a Markdown link."""
    target = part.get("inlineReference")
    uri = uri_of(target)
    name = part.get("name")
    if not isinstance(name, str) or not name:
        name = target.get("name") if isinstance(target, dict) else ""
    name = name if isinstance(name, str) and name else name_of(uri)
    return f"[{name}]({uri})" if uri else name


def answer_of(part: dict[str, Any]) -> dict[str, Any] | None:
    """What a person answered to a part that asked; None where nobody was asked or has answered."""
    kind = part.get("kind")
    if not isinstance(kind, str) or kind not in ASKED:
        return None
    if kind in ("questionCarousel", "planReview"):
        given = part.get("data")
    elif kind == "confirmation":
        used = part.get("isUsed") is True
        given = part.get("selectedButton", part.get("data", True)) if used else None
    else:
        given = None if part.get("state") == "pending" else part.get("state")
    if given is None:
        return None
    asked = {k: markdown(part[k]) for k in ("title", "message") if markdown(part.get(k))}
    more = {"questions": part.get("questions"), "result": part.get("acceptedResult")}
    told = {name: value for name, value in more.items() if value is not None}
    return {"asked_by": kind, **asked, "answer": given, **told}
