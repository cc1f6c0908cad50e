"""Response parts that are no calls: words, thinking, and what was kept beside them, in their order."""

from typing import Any

from unspool.sinks.chat_json.prompts import uri_of
from unspool.sources.vscode_chat.fields import DISPLAY

Part = dict[str, Any]


def thinking_parts(text: str, thoughts: Any) -> list[Part]:
    """The thinking, with what its parts said of themselves: the text stands in the first of them
    that has no words of its own."""
    made: list[Part] = []
    abouts = _objects(thoughts)
    if text and all("value" in about for about in abouts):
        abouts = [{}, *abouts]
    for about in abouts:
        made.append({"value": text, **about, "kind": "thinking"})
        text = "" if "value" not in about else text
    return made


def thinking_id(thoughts: Any, number: int) -> str:
    found = (about.get("id") for about in _objects(thoughts))
    return next((ident for ident in found if isinstance(ident, str)), f"thinking_{number}")


def text_parts(text: str, extra: Part) -> list[Part]:
    """The words; what was said of parts of them goes with parts that are empty."""
    found = extra.get("vulnerabilities")
    abouts = _objects(extra.get("markdown")) or ([{}] if text or found else [])
    values = [text, *("" for _ in abouts[1:])]
    made: list[Part] = []
    for about, value in zip(abouts, values, strict=False):
        if isinstance(found, list) and found and not made:
            held = {"content": {"value": value}, "vulnerabilities": found}
            made.append({**about, "kind": "markdownVuln", **held})
        elif "kind" in about or {"inlineReferences", "fromSubagent"} & about.keys():
            made.append({**about, "kind": "markdownContent", "content": {"value": value}})
        else:
            made.append({**about, "value": value})
    return made


def cleared_parts(cleared: Any) -> list[Part]:
    """Words that were taken back, and right behind them that they were: VS Code shows neither."""
    made: list[Part] = []
    for held in _objects(cleared):
        if isinstance(held.get("text"), str):
            made.append({"value": held["text"]})
        reason = {"reason": held["reason"]} if "reason" in held else {}
        made.append({"kind": "clearToPreviousToolInvocation", **reason})
    return made


def woven(calls: list[list[Part]], extra: Part) -> tuple[list[Part], list[Part]]:
    """(those that were kept from before the first call, the parts of the calls and between them those
    that were kept, where they stood)."""
    kept = extra.get("parts")
    kept = kept if isinstance(kept, list) else []
    places = extra.get("parts_at")
    if not isinstance(places, list) or len(places) != len(kept):
        places = [len(calls)] * len(kept)
    between: list[list[Part]] = [[] for _ in range(len(calls) + 1)]
    for part, at in zip(kept, places, strict=True):
        # One without a kind VS Code takes for a tree.
        if isinstance(part, dict) and isinstance(part.get("kind", ""), str):
            inside = isinstance(at, int) and 0 <= at <= len(calls)
            between[at if inside else len(calls)].append(_expanded(part))
    made: list[Part] = []
    for call, behind in zip(calls, between[1:], strict=True):
        made = [*made, *call, *behind]
    return between[0], made


def is_text(part: Part) -> bool:
    return part.get("kind") == "markdownContent"


def _expanded(part: Part) -> Part:
    """Addresses and markdown as VS Code writes them."""
    if part.get("kind") not in DISPLAY:
        return part
    made = dict(part)
    if isinstance(made.get("uri"), str):
        made["uri"] = uri_of(made["uri"])
    if isinstance(made.get("content"), str):
        made["content"] = {"value": made["content"]}
    return made


def _objects(value: Any) -> list[Part]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
