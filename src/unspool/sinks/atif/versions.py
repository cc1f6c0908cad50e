"""Versions: what an older ATIF cannot hold goes to the nearest `extra` that it has, and comes back.

Documents are built and read at the newest version. `to_version` moves what is newer than the wanted
one into `extra.unspool.newer` of the step, or of the document; `to_newest` puts it back.
"""

from collections.abc import Iterator
from typing import Any

from unspool.io.values import field_of
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import restore
from unspool.sinks.atif.media import JOINT, cut
from unspool.sinks.atif.model import OURS

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8")
DEFAULT = "1.7"
NEWEST = "1.8"
PREFIX = "ATIF-v"

NEWER, CONTENTS = "newer", "newer_contents"

Json = dict[str, Any]

SINCE = {
    "Document": {
        "extra": "1.1",
        "continued_trajectory_ref": "1.5",
        "trajectory_id": "1.7",
        "subagent_trajectories": "1.7",
    },
    "Agent": {"tool_definitions": "1.5"},
    "Step": {"is_copied_context": "1.5", "llm_call_count": "1.7"},
    "Metrics": {"completion_token_ids": "1.3", "prompt_token_ids": "1.4"},
    "ToolCall": {"extra": "1.7"},
    "Result": {"extra": "1.7"},
    "Ref": {"trajectory_id": "1.7"},
}
"""Struct of the model → field → the version that brought it."""
OBSERVATION_ANYWHERE = "1.2"
"""Before it, only agent steps had observations."""
PARTS, AUDIO, REF_IDS = "1.6", "1.8", "1.7"


def older(version: str, than: str) -> bool:
    return VERSIONS.index(version) < VERSIONS.index(than)


def version_of(document: Json) -> str:
    """The version that the document declares; the newest where it declares none that is known."""
    label = str(document.get("schema_version"))
    version = label.removeprefix(PREFIX)
    return version if label.startswith(PREFIX) and version in VERSIONS else NEWEST


def to_version(document: Json, version: str) -> Json:
    """The document as that version has it."""
    document["schema_version"] = PREFIX + version
    if version == NEWEST:
        return document
    for step in document["steps"]:
        newer: Json = {}
        contents: Json = {}
        for path, holder, key in list(_contents(step)):
            # Parts that the version does not know go out of the content, their places are kept.
            parts = holder[key]
            if not isinstance(parts, list) or not older(version, AUDIO):
                continue
            plain = older(version, PARTS)
            if not plain and not any(part.get("type") == "audio" for part in parts):
                continue
            kinds = ("text",) if plain else ("text", "image")
            contents[path] = [
                len(part.get("text") or "")
                if part.get("type") == "text"
                else ("media" if part.get("type") in kinds else part)
                for part in parts
            ]
            kept = [part for part in parts if part.get("type") in kinds]
            holder[key] = JOINT.join(part.get("text") or "" for part in kept) if plain else kept
        _lower(step, model.Step, version, "", newer)
        if step.get("source") != "agent" and older(version, OBSERVATION_ANYWHERE):
            # Whole, with what was moved out of it put back first: its inner paths go with it.
            inner = [path for path in newer if path.startswith("/observation/")]
            restore(step, {path: newer.pop(path) for path in inner})
            if "observation" in step:
                newer["/observation"] = step.pop("observation")
        if newer:
            keep(step, NEWER, newer)
        if contents:
            keep(step, CONTENTS, contents)
    newer = {}
    if older(version, "1.7"):
        ident = document.get("trajectory_id")
        if ident and document.get("session_id") != ident:
            # Up to 1.6 the session id is what a reference finds a trajectory by.
            newer["/session_id"] = document.get("session_id")
            newer["/trajectory_id"] = ident
            document["session_id"] = ident
        document.pop("trajectory_id", None)
    _lower(document, model.Document, version, "", newer)
    if newer:
        holder = document if not older(version, SINCE["Document"]["extra"]) else document["agent"]
        keep(holder, NEWER, newer)
    return document


def to_newest(document: Json) -> Json:
    """The way back, for documents that went the way there."""
    holders = [document, *(s for s in document["steps"] if isinstance(s, dict))]
    for holder in holders:
        extra = holder.get("extra")
        if holder is document and not extra and isinstance(holder.get("agent"), dict):
            _take_back(document, holder["agent"])
        elif isinstance(extra, dict):
            _take_back(holder, holder)
    return document


def _lower(value: Any, kind: type, version: str, path: str, newer: Json) -> None:
    """Take out of an object, and of those in it, what the version has no field for."""
    if not isinstance(value, dict):
        return
    if kind is model.Ref and older(version, REF_IDS) and value.get("trajectory_id") is not None:
        ident = value.pop("trajectory_id")
        if value.get("session_id") not in (None, ident):
            newer[f"{path}/session_id"] = value["session_id"]
            newer[f"{path}/trajectory_id"] = ident
        value["session_id"] = ident
    since = SINCE.get(kind.__name__, {})
    for name, field in model.fields_of(kind).items():
        at, item = f"{path}/{name}", value.get(name)
        if name in value and name in since and older(version, since[name]):
            newer[at] = value.pop(name)
        elif field.struct in (None, model.Step, model.Document, model.Part):
            continue  # steps and embedded documents are lowered by themselves
        elif isinstance(item, list):
            for number, below in enumerate(item):
                _lower(below, field.struct, version, f"{at}/{number}", newer)
        else:
            _lower(item, field.struct, version, at, newer)


def keep(holder: Json, key: str, value: Any) -> None:
    """Put what ATIF, or an older version of it, has no place for into the `extra` of an object."""
    extra = holder["extra"] = dict(holder.get("extra") or {})
    ours = extra.get(OURS, {})
    if not isinstance(ours, dict):  # somebody else's
        ours = {"extra": {OURS: ours}}
    extra[OURS] = {**ours, key: value}


def _take_back(target: Json, holder: Json) -> None:
    ours = (holder.get("extra") or {}).get(OURS)
    if not isinstance(ours, dict) or not ours.keys() & {NEWER, CONTENTS}:
        return
    ours = dict(ours)
    newer, contents = ours.pop(NEWER, None), ours.pop(CONTENTS, None)
    extra = {key: value for key, value in holder["extra"].items() if key != OURS}
    if ours:
        extra[OURS] = ours
    holder.pop("extra")
    if extra:
        holder["extra"] = extra
    if isinstance(contents, dict):
        for path, place, key in list(_contents(target)):
            if isinstance(contents.get(path), list):
                place[key] = _raised(place[key], contents[path])
    if isinstance(newer, dict):
        restore(target, newer)


def _contents(step: Json) -> Iterator[tuple[str, Json, str]]:
    """Where a step may hold content parts."""
    if "message" in step:
        yield "/message", step, "message"
    results = field_of(step.get("observation"), "results")
    for number, result in enumerate(results or ()):
        if isinstance(result, dict) and "content" in result:
            yield f"/observation/results/{number}/content", result, "content"


def _raised(content: Any, layout: list[Any]) -> Any:
    """The parts as they were; the content as it is where it no longer fits its layout."""
    if isinstance(content, str):
        texts = cut(content, [entry for entry in layout if isinstance(entry, int)])
        if texts is None:
            return content
        rest: list[Any] = [{"type": "text", "text": text} for text in texts]
    else:
        rest = list(content) if isinstance(content, list) else []
    parts = [
        entry if isinstance(entry, dict) else rest.pop(0)
        for entry in layout
        if rest or isinstance(entry, dict)
    ]
    return [*parts, *rest]
