"""Reader: ATIF documents, of any version and from any producer, as trajectories.

What the writer would not give back by itself, a trajectory keeps as its residue (`extras.py`).
"""

import base64
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, Problem
from unspool.io.door import clean, read_json, recover_json, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.sinks import Family
from unspool.sinks.atif.calls import unwrap_definitions
from unspool.sinks.atif.document import FOREIGN, derive
from unspool.sinks.atif.extras import difference, keep_residue, parted
from unspool.sinks.atif.lenient import Tidied, is_document
from unspool.sinks.atif.media import FROM_PART
from unspool.sinks.atif.messages import MessageReader
from unspool.sinks.atif.model import OURS, Document, FinalMetrics, Ref
from unspool.sinks.atif.versions import PREFIX, to_newest, version_of
from unspool.sinks.atif.writer import Draft, Writing
from unspool.trajectory import Link, Trajectory, Usage

_LABEL = re.compile(rb'"schema_version"\s*:\s*"' + PREFIX.encode())
_STEPS = re.compile(rb'"steps"\s*:\s*\[')
MEDIA_BYTES = 64 * 1024 * 1024
"""Media files longer than this are referred to, not taken along."""

Json = dict[str, Any]


def claims(head: Head) -> bool:
    """A JSON object with ATIF's label, or with its steps; also several, in an array or by their ids."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data[:1] not in (b"{", b"[") or not (_LABEL.search(data) or _STEPS.search(data)):
        return False
    value = recover_json(data) or (head.objects[0] if head.objects else None)
    return any(True for _ in documents_in(value))


def documents_in(value: Any) -> Iterator[tuple[str, Json]]:
    """(name, document): the value itself, or each element of an array or of an object by ids."""
    if is_document(value):
        yield "", value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if is_document(item):
                yield str(number), item
    elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
        for name, item in value.items():
            if is_document(item):
                yield name, item


def read(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """The trajectories of a file: each document's, and those of the sub-agents embedded in it."""
    with open_origin(origin.path) as file:
        data = file.read().removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
    values, code = _parse(data)
    documents = [(n, name, d) for n, value in enumerate(values) for name, d in documents_in(value)]
    if code or not documents:
        tally.records += 1
        tally.problems += 1
        yield _problem(origin, code or "not-a-trajectory", data)
    for number, name, document in documents:
        tally.records += 1
        # An id for a document that has none: where it was found.
        stem = origin.name.removesuffix(".json").removesuffix(".trajectory")
        parts = (stem, str(number + 1) if number else "", name)
        ident = "/".join(part for part in parts if part)
        try:
            reading = Reading(document, ident, Path(origin.path).parent)
        except RecursionError:
            tally.problems += 1
            yield _problem(origin, "too-deep", data)
            continue
        if reading.wrong:
            tally.problems += 1
            yield _problem(origin, "invalid-field", _listed(reading.wrong).encode())
        elif not reading.trajectories:
            tally.noise += 1  # begun, but no step was made: VS Code's logger leaves such
        for trajectory in reading.trajectories:
            trajectory.file_path = trajectory.file_path or origin.path
            yield trajectory


def _parse(data: bytes) -> tuple[list[Any], str]:
    """The JSON values of a file (one, as a rule), and what is wrong with it."""
    try:
        return [msgspec.json.decode(data)], ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        saved = read_json(data)
        return saved.values, saved.code


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(paths[:5]) + more


def _problem(origin: Origin, code: str, data: bytes) -> Problem:
    return Problem(key=NOBODY, origin=origin.path, offset=0, code=code, sample=sample(data))


class Reading:
    """One document, with what is embedded in it, on its way in."""

    def __init__(self, document: Json, ident: str = "", folder: Path | None = None) -> None:
        tidied = Tidied(clean(document))
        self.wrong = tidied.wrong
        self.folder = folder
        self.trajectories: list[Trajectory] = []
        """The document's own first, then those of its sub-agents."""
        self._ids: set[str] = set()
        self._inner: dict[str, list[Trajectory]] = defaultdict(list)
        """Conversation → what was embedded in its document."""
        self._wanted: list[tuple[Trajectory, Json]] = []
        if tidied.document["steps"]:
            self._read(tidied.document, ident, None)
            for trajectory, wanted in reversed(self._wanted):
                self._keep_residue(trajectory, wanted)
            for trajectory in self.trajectories:
                self._load_media(trajectory)

    def _read(self, wanted: Json, ident: str, parent: Trajectory | None) -> Trajectory:
        document = msgspec.convert(self._newest(wanted), Document, strict=False)
        # The trajectory's id, the run's where it has none; never one that is taken already.
        own = document.trajectory_id or (document.session_id if parent is None else "") or ident
        while own in self._ids:
            own = f"{ident}/{own}" if ident and ident != own else f"{own}'"
        self._ids.add(own)
        trajectory = Trajectory(
            conversation_id=own,
            messages=[],
            source=FOREIGN,
            session_id=document.session_id,
        )
        self.trajectories.append(trajectory)
        self._wanted.append((trajectory, wanted))
        inner: dict[str, Trajectory] = {}
        for number, sub in enumerate(wanted.get("subagent_trajectories") or ()):
            name = f"{trajectory.conversation_id}/{number + 1}"
            child = self._read(sub, name, trajectory)
            self._inner[trajectory.conversation_id].append(child)
            inner.setdefault(str(sub.get("trajectory_id") or ""), child)
            trajectory.children = [*(trajectory.children or []), Link(child.conversation_id)]
            child.parent = child.parent or Link(trajectory.conversation_id)
        reader = MessageReader(document, lambda ref: self._resolve(ref, inner))
        reader.build()
        trajectory.messages = reader.messages
        trajectory.marks = reader.marks or None
        # What the document tells beside its steps.
        agent = document.agent
        trajectory.agent = agent.name
        trajectory.agent_version = None if agent.version == "unknown" else agent.version
        trajectory.tool_definitions = agent.tool_definitions
        trajectory.extra, _, rest = parted(document.extra, {})
        if isinstance(key := rest.pop("flat_tools", None), str):
            trajectory.tool_definitions = unwrap_definitions(agent.tool_definitions or [], key)
        unset = rest.get("unset")
        if isinstance(unset, list):
            rest.pop("unset")
            for name in unset:
                if name in ("agent", "session_id"):
                    setattr(trajectory, name, None)
        types = {field.name: field.type for field in msgspec.structs.fields(trajectory)}
        strays: Json = {}
        for name, value in rest.items():
            try:
                found = msgspec.convert(value, types[name])
            except (KeyError, msgspec.ValidationError):
                strays[name] = value
                continue
            self._set(trajectory, name, found)
        if strays:
            trajectory.extra = {**(trajectory.extra or {}), OURS: strays}
        if trajectory.source == FOREIGN and document.final_metrics is not None:
            trajectory.usage = trajectory.usage or _usage(document.final_metrics)
        self._tie(trajectory, reader.links, {t.conversation_id: t for t in inner.values()})
        derive(trajectory)
        return trajectory

    def _newest(self, wanted: Json) -> Json:
        """The document with what an older version had no field for; lawful, whatever that is."""
        copy: Json = msgspec.json.decode(msgspec.json.encode(wanted))
        newest = to_newest(copy)
        return newest if newest == wanted else Tidied(newest).document

    def _resolve(self, ref: Ref, inner: dict[str, Trajectory]) -> tuple[str, bool]:
        if ref.trajectory_id and ref.trajectory_id in inner:
            return inner[ref.trajectory_id].conversation_id, True
        if ref.trajectory_id:
            return ref.trajectory_id, False
        beside = self._peek(ref.trajectory_path) if ref.trajectory_path else ""
        return beside or ref.session_id or "", False

    def _peek(self, path: str) -> str:
        """The id of the document in a file beside this one."""
        data = self._bytes_beside(path)
        if not data:
            return ""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        ids = (
            [value.get(key) for key in ("trajectory_id", "session_id")]
            if is_document(value)
            else []
        )
        return next((ident for ident in ids if isinstance(ident, str) and ident), "")

    def _load_media(self, trajectory: Trajectory) -> None:
        for message in trajectory.messages:
            for number, attachment in enumerate(message.attachments or ()):
                data = self._bytes_beside(str((attachment.extra or {}).get(FROM_PART) or ""))
                if data and message.attachments is not None:
                    text = base64.b64encode(data).decode()
                    message.attachments[number] = msgspec.structs.replace(attachment, data=text)

    def _bytes_beside(self, path: str) -> bytes:
        """The bytes of a file that the document names, if it lies beside or below the document."""
        if self.folder is None or not path or "://" in path or path.startswith("data:"):
            return b""
        try:
            file = (self.folder / path).resolve()
            if not file.is_relative_to(self.folder.resolve()) or not file.is_file():
                return b""
            return file.read_bytes() if file.stat().st_size <= MEDIA_BYTES else b""
        except (OSError, ValueError):
            return b""

    def _set(self, trajectory: Trajectory, name: str, value: Any) -> None:
        if name == "marks":
            more = value or []
            places = {(mark.kind, mark.index) for mark in more}
            marks = [m for m in trajectory.marks or () if (m.kind, m.index) not in places]
            trajectory.marks = sorted([*marks, *more], key=lambda mark: mark.index) or None
        elif name == "children":
            # What tells more takes the place of what only a reference told: the order stays.
            ties = {
                tie.conversation_id: tie for tie in (*(trajectory.children or ()), *(value or ()))
            }
            trajectory.children = list(ties.values()) or None
        else:
            setattr(trajectory, name, value)

    def _tie(self, trajectory: Trajectory, links: list[Link], inner: dict[str, Trajectory]) -> None:
        """The ties that references tell, on both sides where both are here."""
        for link in links:
            children = {tie.conversation_id: tie for tie in trajectory.children or ()}
            tie = children.get(link.conversation_id)
            if tie is None:
                trajectory.children = [*(trajectory.children or []), link]
            elif tie.tool_call_id is None:
                tie.tool_call_id = link.tool_call_id
            child = inner.get(link.conversation_id)
            if child is not None and child.parent is not None and not child.parent.tool_call_id:
                child.parent.tool_call_id = link.tool_call_id
        if trajectory.children:  # some are told by references, some by our own fields: one order
            places = {ident: number for number, ident in enumerate(inner)}
            trajectory.children.sort(key=lambda tie: places.get(tie.conversation_id, len(places)))

    def _keep_residue(self, trajectory: Trajectory, wanted: Json) -> None:
        """What the writer would not give back of the document."""
        version = version_of(wanted)
        family = Family(trajectory, self._below(trajectory))
        within = trajectory is not self.trajectories[0]
        session = Writing(Family(self.trajectories[0])).session if within else None
        writing = Writing(family, version, session=session)
        if within and trajectory.parent is not None:
            writing.root.call = trajectory.parent.tool_call_id
        draft = writing.draft(writing.root, inside=within)
        newest = self._newest(wanted)
        if len(draft.made["steps"]) == len(newest["steps"]):
            _keep_steps(trajectory, draft, newest["steps"])
        written_back = writing.finish(draft)
        if writing.in_files or "subagent_trajectories" in written_back:
            written_back.pop("subagent_trajectories", None)
            wanted = {k: v for k, v in wanted.items() if k != "subagent_trajectories"}
        if trajectory.source != FOREIGN and trajectory.children and "final_metrics" in wanted:
            # The cost of sub-agents in other files is counted in, and is known again with them.
            totals = {**(written_back.get("final_metrics") or {})}
            totals["total_cost_usd"] = wanted["final_metrics"].get("total_cost_usd")
            written_back["final_metrics"] = {k: v for k, v in totals.items() if v is not None}
        changes = difference(written_back, wanted)
        # The label is always ours to write; what differs within steps differs at this version only.
        label = "/schema_version"
        changes.get("set", {}).pop(label, None)
        if label in changes.get("unset", ()):
            changes["unset"].remove(label)
        for name in ("set", "unset"):
            if name in changes and not changes[name]:
                del changes[name]
        if any(p.startswith("/steps/") for name in ("set", "unset") for p in changes.get(name, ())):
            changes["version"] = version
        embedded = [child.conversation_id for child in self._inner[trajectory.conversation_id]]
        written = [child.id for child in writing.root.children]
        if len(embedded) > 1 and (trajectory.source == FOREIGN or written != embedded):
            changes["children"] = embedded  # linking puts them in another order
        if changes:
            trajectory.extra = keep_residue(trajectory.extra, **changes)

    def _below(self, trajectory: Trajectory) -> tuple[Trajectory, ...]:
        """All trajectories that were embedded in the document of this one."""
        below: list[Trajectory] = []
        for child in self._inner[trajectory.conversation_id]:
            below += [child, *self._below(child)]
        return tuple(below)


def _keep_steps(trajectory: Trajectory, draft: Draft, wanted: list[Json]) -> None:
    for written, step, place in zip(draft.made["steps"], wanted, draft.places, strict=True):
        changes = difference(written, step)
        if changes and place is not None:
            message = trajectory.messages[place]
            message.extra = keep_residue(message.extra, **changes)


def _usage(metrics: FinalMetrics) -> Usage | None:
    usage = Usage(
        prompt_tokens=metrics.total_prompt_tokens,
        completion_tokens=metrics.total_completion_tokens,
        cached_tokens=metrics.total_cached_tokens,
        cost_usd=metrics.total_cost_usd,
    )
    return usage if usage != Usage() else None
