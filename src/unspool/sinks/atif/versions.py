"""Versions: what an older ATIF cannot hold goes to the nearest `extra` that it has, and comes back.

Documents are built and read at the newest version. `to_version` moves what is newer than the wanted
one into `extra.unspool.newer` of the step, or of the document; `to_newest` puts it back.
"""

from typing import Any

from unspool.io.values import field_of
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import restore
from unspool.sinks.atif.media import JOINT
from unspool.sinks.atif.model import OURS

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8")
DEFAULT = "1.7"
NEWEST = "1.8"
PREFIX = "ATIF-v"

NEWER = "newer"

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
        _lower(step, model.Step, version, "", newer)
        if newer:
            keep(step, NEWER, newer)
    newer = {}
    if older(version, "1.7"):
        _find_by_session(document, newer, "")
    _lower(document, model.Document, version, "", newer)
    if newer:
        holder = document if not older(version, SINCE["Document"]["extra"]) else document["agent"]
        keep(holder, NEWER, newer)
    return document


def to_newest(document: Json) -> Json:
    """The way back, for documents that went the way there."""
    holders = [(step, step) for step in document["steps"]]
    for target, holder in [(document, document), (document, document["agent"]), *holders]:
        ours = field_of(holder.get("extra"), OURS)
        newer = field_of(ours, NEWER)
        if isinstance(newer, dict):
            extra = {key: value for key, value in holder.pop("extra").items() if key != OURS}
            if rest := {key: value for key, value in ours.items() if key != NEWER}:
                extra[OURS] = rest
            if extra:
                holder["extra"] = extra
            restore(target, newer)
    return document


def _find_by_session(value: Json, newer: Json, path: str) -> None:
    """Up to 1.6 the session id is what a reference finds a trajectory by."""
    ident = value.pop("trajectory_id", None)
    if ident:
        if value.get("session_id") not in (None, ident):
            newer |= {f"{path}/session_id": value["session_id"], f"{path}/trajectory_id": ident}
        value["session_id"] = ident


def _lower(value: Any, kind: type, version: str, path: str, newer: Json) -> None:
    """Take out of an object, and of those in it, what the version has no field for."""
    if not isinstance(value, dict):
        return
    if kind is model.Ref and older(version, REF_IDS):
        _find_by_session(value, newer, path)
    since = SINCE.get(kind.__name__, {})
    if kind is model.Step and value.get("source") != "agent":
        since = {**since, "observation": OBSERVATION_ANYWHERE}
    for name, field in model.fields_of(kind).items():
        at, item = f"{path}/{name}", value.get(name)
        if name in value and name in since and older(version, since[name]):
            newer[at] = value.pop(name)
        elif field.struct is model.Part and isinstance(item, list):
            # Parts that the version does not know go out of the content, which is kept whole.
            plain = older(version, PARTS)
            unknown = ("image", "audio") if plain else ("audio",) if older(version, AUDIO) else ()
            known = [part for part in item if part.get("type") not in unknown]
            if plain or len(known) < len(item):
                newer[at] = item
                texts = (part.get("text") or "" for part in known)
                value[name] = JOINT.join(texts) if plain else known
        elif field.struct in (None, model.Step, model.Document):
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
