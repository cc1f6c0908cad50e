"""Response parts: what of an answer is text, thinking, tool calls, edits, or kept as it is."""

from typing import Any

import msgspec

from unspool.sources.vscode_chat import edits
from unspool.sources.vscode_chat.fields import DISPLAY, bare_call_id
from unspool.sources.vscode_chat.uris import markdown, name_of, uri_of

TEXT_KINDS = frozenset(("markdownContent", "markdownVuln"))
SPOKEN = frozenset(("warning", "info", "progressTask", "progressTaskSerialized"))
"""Kept, and also part of the text where no model round tells it: VS Code copies them with it."""

ASKED = frozenset(
    ("confirmation", "elicitation2", "elicitationSerialized", "questionCarousel", "planReview")
)
"""Kinds in which a person was asked something."""

APART = frozenset(("command", "confirmation", "systemNotification"))
"""Kinds that VS Code shows and copies as blocks of their own: what follows is a new paragraph."""

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


class Tool(msgspec.Struct, gc=False):
    """A tool part: the n-th of them."""

    number: int


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
    link: bool = False
    """An inline reference that the text holds as a link: kept where the text is another's."""
    text: str = ""
    """What it adds to the words: a link, a warning."""
    spoken: bool = False
    """Its words are the program's, not the model's."""
    apart: bool = False
    """Shown as a block of its own."""


Flow = Tool | Thought | Words | Kept


class Parts:
    """The parts of one response, sorted by what they are, in their order."""

    def __init__(self, response: Any) -> None:
        self.flow: list[Flow] = []
        """Everything in its order."""
        self.tools: list[dict[str, Any]] = []
        self.side: dict[str, list[dict[str, Any]]] = {}
        """Sub-agent run → the tool parts that were made in it."""
        self.edits: list[dict[str, Any]] = []
        self.vulnerabilities: list[Any] = []
        self.cleared: list[dict[str, Any]] = []
        """Words that were taken back, and why, as often as that was."""
        self.unknown: list[str] = []
        self.wrong = 0
        """Elements that are no parts at all."""
        self.model = ""
        self._known: dict[str, list[dict[str, Any]]] = {}
        """Tool parts by their ids."""
        if response is not None and not isinstance(response, list):
            response = [response]
        for part in response or ():
            self._take(part)

    def _take(self, part: Any) -> None:
        if isinstance(part, str):
            self._write(part, {})
            return
        if not isinstance(part, dict):
            self.wrong += 1
            return
        kind = part.get("kind")
        if not isinstance(kind, str):
            self._take_bare(part)
        elif kind in TEXT_KINDS:
            text = _with_references(markdown(part.get("content")) or markdown(part), part)
            self._write(text, _about_text(part))
            if isinstance(part.get("vulnerabilities"), list):
                self.vulnerabilities += part["vulnerabilities"]
        elif kind == "thinking":
            self._think(part)
        elif kind in TOOLS:
            self._call(part)
        elif kind == "inlineReference":
            self.flow.append(Kept(part, link=is_plain(part), text=link_text(part)))
        elif kind == "clearToPreviousToolInvocation":
            self._clear(part)
        elif kind in DISPLAY:
            self.flow.append(Kept(compact(part)))
        else:
            self._keep(kind, part)

    def _clear(self, part: dict[str, Any]) -> None:
        """What was said since the last call was filtered out of what the person sees."""
        called = (n for n, item in enumerate(self.flow) if isinstance(item, Tool))
        since = max(called, default=-1) + 1
        said = (item.text for item in self.flow[since:] if isinstance(item, Words | Kept))
        text = "".join(said)
        held = {"reason": part.get("reason"), "text": text}
        self.cleared.append({k: v for k, v in held.items() if v is not None and v != ""})
        self.flow[since:] = [left for item in self.flow[since:] if (left := _cleared(item))]

    def _call(self, part: dict[str, Any]) -> None:
        run = part.get("subAgentInvocationId")
        if isinstance(run, str) and run and not is_sub_agent(part):
            self.side.setdefault(bare_call_id(run), []).append(part)
            return
        ident = str(part.get("toolCallId"))
        if part in self._known.get(ident, ()):
            return  # the same once more
        self._known.setdefault(ident, []).append(part)
        self.flow.append(Tool(len(self.tools)))
        self.tools.append(part)

    def _take_bare(self, part: dict[str, Any]) -> None:
        """Without a kind it is markdown if it has a value, else (in exports) a file tree."""
        if isinstance(part.get("value"), str):
            self._write(part["value"], _about_text(part))
        elif "label" in part or "children" in part:
            self.flow.append(Kept({"kind": "treeData", "treeData": part}))
        else:
            self._keep("no kind", part)

    def _keep(self, kind: str, part: dict[str, Any]) -> None:
        spoken = kind in SPOKEN
        text = markdown(part.get("content")) if spoken else ""
        self.flow.append(Kept(part, text=text, spoken=spoken, apart=kind in APART))
        if kind in edits.KINDS:
            self.edits.append(part)
        elif kind == "autoModeResolution":
            self.model = self.model or _resolved(part)
        elif kind not in KEPT:
            self.unknown.append(kind)

    def _write(self, text: str, about: dict[str, Any]) -> None:
        self.flow.append(Words(text, about))

    def _think(self, part: dict[str, Any]) -> None:
        value = part.get("value")
        text = "".join(v for v in value if isinstance(v, str)) if isinstance(value, list) else value
        about = {k: v for k, v in part.items() if k not in ("kind", "value") and _says(v)}
        self.flow.append(Thought(text if isinstance(text, str) else "", about))

    @property
    def kept(self) -> list[dict[str, Any]]:
        return [held.part for held in self.flow if isinstance(held, Kept)]


def _cleared(item: Flow) -> Flow | None:
    """What is left of an item when the words since the last call are taken back."""
    if isinstance(item, Kept) and item.text:
        return Kept(item.part) if item.spoken else None
    return None if isinstance(item, Words) else item


def _says(value: Any) -> bool:
    return value not in (None, False, "", [], {})


def _about_text(part: dict[str, Any]) -> dict[str, Any]:
    """What a markdown part says beside its text; what is as it usually is, is left out, and so are
    the targets of its links, which stand in the text."""
    if len(part) == 1:
        return {}
    held = part.get("content")
    made = {**held, **part} if isinstance(held, dict) else dict(part)
    for name in ("kind", "content", "value", "uris"):
        made.pop(name, None)
    if isinstance(made.get("vulnerabilities"), list):
        del made["vulnerabilities"]
    return {name: value for name, value in made.items() if _says(value)}


def compact(part: dict[str, Any]) -> dict[str, Any]:
    """A part that only moves the display, with addresses and markdown as plain texts."""
    made: dict[str, Any] = {}
    for name, value in part.items():
        if name == "uri" and (uri := uri_of(value)):
            value = uri
        elif name == "content" and isinstance(value, dict) and (text := markdown(value)):
            value = text
        if value is not None and value is not False and value != "":
            made[name] = value
    return made


def is_plain(part: dict[str, Any]) -> bool:
    """Whether a link tells all that the reference does: it is to no place inside a file."""
    target = part.get("inlineReference")
    plain = isinstance(target, str) or (isinstance(target, dict) and "scheme" in target)
    return plain and not part.keys() - {"kind", "inlineReference", "name"}


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
