"""Versions: what an older ATIF cannot hold goes to the nearest `extra` that it has, and comes back.

Documents are built and read at the newest version. `to_version` moves what is newer than the wanted
one into `extra.unspool.newer` of the step, or of the document; `to_newest` puts it back.
"""

from typing import Any

from unspool.io.values import dict_of, dicts_of
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import restore
from unspool.sinks.atif.media import JOINT
from unspool.sinks.atif.model import OURS, SINCE, Json, older

NEWER = "newer"


def to_version(document: Json, version: str) -> None:
    """Make the newest version's document one of that version."""
    for step in document["steps"]:
        newer: Json = {}
        _lower(step, model.Step, version, "", newer)
        _keep(step, newer)
    newer = {}
    if older(version, model.IDS) and (ident := document.pop("trajectory_id", None)):
        # Up to 1.6 the session id is what a reference finds a trajectory by.
        if document.get("session_id") not in (None, ident):
            newer = {"/session_id": document["session_id"], "/trajectory_id": ident}
        document["session_id"] = ident
    _lower(document, model.Document, version, "", newer)
    _keep(document["agent"] if older(version, SINCE["Document"]["extra"]) else document, newer)


def _keep(holder: Json, newer: Json) -> None:
    if newer:
        extra = dict_of(holder.get("extra"))
        holder["extra"] = {**extra, OURS: {**dict_of(extra.get(OURS)), NEWER: newer}}


def to_newest(document: Json) -> None:
    """The way back, for documents that went the way there, and for those in them."""
    steps = dicts_of(document.get("steps"))
    agent = dict_of(document.get("agent"))
    for target, holder in [
        (document, document),
        (document, agent),
        *zip(steps, steps, strict=True),
    ]:
        extra = dict_of(holder.get("extra"))
        ours = dict_of(extra.get(OURS))
        newer = ours.pop(NEWER, None)
        if isinstance(newer, dict):
            if not ours:
                del extra[OURS]
            if not extra:
                del holder["extra"]
            restore(target, newer)
            document["schema_version"] = model.PREFIX + model.NEWEST
    for embedded in dicts_of(document.get("subagent_trajectories")):
        to_newest(embedded)


def _lower(value: Any, kind: type, version: str, path: str, newer: Json) -> None:
    """Take out of an object, and of those in it, what the version has no field for."""
    if not isinstance(value, dict):
        return
    since = SINCE.get(kind.__name__, {})
    if kind is model.Step and value.get("source") != "agent":
        since = {**since, "observation": model.OBSERVATION_ANYWHERE}
    for name, field in model.fields_of(kind).items():
        at, item = f"{path}/{name}", value.get(name)
        if name in value and name in since and older(version, since[name]):
            newer[at] = value.pop(name)
        elif field.struct is model.Part and isinstance(item, list):
            # Parts that the version does not know go out of the content, which is kept whole.
            plain = older(version, model.PARTS)
            unknown = (
                {"image", "audio"} if plain else {"audio"} if older(version, model.AUDIO) else {}
            )
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
