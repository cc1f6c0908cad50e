"""Reader: ATIF documents, of any version and from any producer, as trajectories.

What the writer would not give back by itself, a trajectory keeps as its residue (`extras.py`).
"""

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unspool.facts import NOBODY, Attachment, Problem
from unspool.io.door import clean, read_json, recover_json, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.values import dicts_of
from unspool.prompts.outcomes import exit_code
from unspool.sinks import Family
from unspool.sinks.atif.extras import KeptRefs, difference, keep_residue, parted, residue_of, utc
from unspool.sinks.atif.lenient import Tidied, is_document
from unspool.sinks.atif.media import FROM_PART, from_content
from unspool.sinks.atif.model import (
    OURS,
    Content,
    Document,
    Metrics,
    Ref,
    Result,
    Step,
)
from unspool.sinks.atif.model import ToolCall as AtifCall
from unspool.sinks.atif.steps import (
    CALL_WORDS,
    INHERITED,
    LISTS,
    MANAGED,
    MANAGING,
    RESULT_WORDS,
    TOTALS,
    WORDS,
    managed_kind,
    unwrap_definitions,
)  # fmt: skip
from unspool.sinks.atif.versions import PREFIX, to_newest, version_of
from unspool.sinks.atif.writer import FOREIGN, Writing, derive, session_of
from unspool.trajectory import Link, Mark, Message, ToolCall, ToolFunction, Trajectory, Usage

_LABEL = re.compile(rb'"schema_version"\s*:\s*"' + PREFIX.encode())
_STEPS = re.compile(rb'"steps"\s*:\s*\[')
MEDIA_BYTES = 64 * 1024 * 1024
"""Media files longer than this are referred to, not taken along."""

Json = dict[str, Any]


def claims(head: Head) -> bool:
    """A JSON object with ATIF's label, or with its steps; also several, in an array or by their ids."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data[:1] not in (b"{", b"[") or not (b'"schema_version"' in data or b'"steps"' in data):
        return False
    if not (_LABEL.search(data) or _STEPS.search(data)):
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
    given = read_json(data)
    documents = [
        (n, name, d) for n, value in enumerate(given.values) for name, d in documents_in(value)
    ]
    if given.code or not documents:
        tally.records += 1
        tally.problems += 1
        yield _problem(origin, given.code or "not-a-trajectory", data)
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
            paths = reading.wrong
            more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
            yield _problem(origin, "invalid-field", (", ".join(paths[:5]) + more).encode())
        elif not reading.trajectories:
            tally.noise += 1  # begun, but no step was made: VS Code's logger leaves such
        for trajectory in reading.trajectories:
            trajectory.file_path = trajectory.file_path or origin.path
            yield trajectory


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
            child.parent = child.parent or Link(trajectory.conversation_id)
        reader = MessageReader(document, lambda ref: self._resolve(ref, inner))
        trajectory.messages = reader.messages
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
        _fill(trajectory, rest)
        # Our own fields tell more of a mark or tie than steps and references do; the order stays.
        places = {(mark.kind, mark.index) for mark in trajectory.marks or ()}
        marks = [mark for mark in reader.marks if (mark.kind, mark.index) not in places]
        marks += trajectory.marks or []
        if places:
            marks.sort(key=lambda mark: mark.index)
        trajectory.marks = marks or None
        embedded = {child.conversation_id: child for child in self._inner[own]}
        ties: dict[str, Link] = {}
        for tie in (*(trajectory.children or ()), *map(Link, embedded), *reader.links):
            known = ties.setdefault(tie.conversation_id, tie)
            known.tool_call_id = known.tool_call_id or tie.tool_call_id
        for ident, child in embedded.items():
            if child.parent is not None and not child.parent.tool_call_id:
                child.parent.tool_call_id = ties[ident].tool_call_id
        # Those that are embedded in their order, behind them those that are only told of.
        others = [tie for ident, tie in ties.items() if ident not in embedded]
        trajectory.children = [*map(ties.__getitem__, embedded), *others] or None
        if trajectory.source == FOREIGN and document.final_metrics is not None:
            totals = {name: getattr(document.final_metrics, total) for total, name in TOTALS}
            reported = Usage(**totals)
            trajectory.usage = trajectory.usage or (reported if reported != Usage() else None)
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
        ids = (value.get(key) for key in ("trajectory_id", "session_id") if is_document(value))
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

    def _keep_residue(self, trajectory: Trajectory, wanted: Json) -> None:
        """What the writer would not give back of the document."""
        version = version_of(wanted)
        family = Family(trajectory, self._below(trajectory))
        within = trajectory is not self.trajectories[0]
        session = session_of(self.trajectories[0]) if within else None
        writing = Writing(family, version, session=session)
        if within and trajectory.parent is not None:
            writing.root.call = trajectory.parent.tool_call_id
        draft = writing.draft(writing.root, inside=within)
        newest = self._newest(wanted)
        if len(draft.document["steps"]) == len(newest["steps"]):
            for written, step, place in zip(
                draft.document["steps"], newest["steps"], draft.places, strict=True
            ):
                changes = difference(written, step)
                if changes and place is not None:
                    message = trajectory.messages[place]
                    message.extra = keep_residue(message.extra, **changes)
        written_back = writing.finish(draft)
        left_out = {"schema_version"}  # the label is always ours to write
        if writing.in_files or "subagent_trajectories" in written_back:
            left_out.add("subagent_trajectories")
        written_back = {k: v for k, v in written_back.items() if k not in left_out}
        wanted = {k: v for k, v in wanted.items() if k not in left_out}
        if trajectory.source != FOREIGN and trajectory.children and "final_metrics" in wanted:
            # The cost of sub-agents in other files is counted in, and is known again with them.
            totals = {**(written_back.get("final_metrics") or {})}
            totals["total_cost_usd"] = wanted["final_metrics"].get("total_cost_usd")
            written_back["final_metrics"] = {k: v for k, v in totals.items() if v is not None}
        changes = difference(written_back, wanted)
        # What differs within steps differs at this version only.
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


ROLES = {"system": "system", "user": "user", "agent": "assistant"}

Resolve = Callable[[Ref], tuple[str, bool]]
"""A reference → the id of the conversation that it means, and whether that is embedded."""


class MessageReader:
    """Builds the messages of one document."""

    def __init__(self, document: Document, resolve: Resolve) -> None:
        self.resolve = resolve
        ours = (document.extra or {}).get(OURS)
        # By ATIF a step without a model has the agent's; our own documents leave out what is unknown.
        self.is_ours = isinstance(ours, dict) and "source" in ours
        self.default_model = None if self.is_ours else document.agent.model_name
        self.messages: list[Message] = []
        self.marks: list[Mark] = []
        self.links: list[Link] = []
        for step in document.steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        extra, _, rest = parted(step.extra, {})
        managed = (extra or {}).get(MANAGING)
        if isinstance(managed, dict):
            self._mark(step, managed, rest)
            if isinstance(rest.pop("mark", None), str):
                return
            if managed in MANAGED.values():
                extra = {k: v for k, v in (extra or {}).items() if k != MANAGING}
        results = step.observation.results if step.observation else []
        if rest.pop("result", None) is True and len(results) == 1:
            self._result(results[0], step, {})
            return
        if isinstance(managed, dict) and self._is_summary(step, managed):
            role = rest.pop("role", "user")
            message = self._begun(step, results[0].content, extra, rest, role=role, kind="summary")
            message.timestamp = utc(step.timestamp)
            self.messages.append(_fill(message, rest))
            for result in results[1:]:
                self._result(result, step, {})
            return
        if managed in MANAGED.values():
            extra = {**(extra or {}), MANAGING: managed}
        calls = [(call.tool_call_id, _call(call)) for call in step.tool_calls or ()]
        message = self._begun(step, step.message, extra, rest, role=ROLES[step.source])
        message.timestamp = utc(step.timestamp)
        message.tool_calls = [call for _, call in calls] or None
        if step.source == "agent":
            message.model = step.model_name
            if step.model_name is None and step.llm_call_count != 0 and self.default_model:
                message.model, message.model_source = self.default_model, INHERITED
            message.thinking = step.reasoning_content
            if step.reasoning_effort is not None:
                message.extra = {**(message.extra or {}), "reasoning_effort": step.reasoning_effort}
            message.usage = _usage(step.metrics, step.llm_call_count)
        self.messages.append(_fill(message, rest))
        for result in results:
            self._result(result, step, dict(calls))

    def _mark(self, step: Step, managed: dict[str, Any], rest: dict[str, Any]) -> None:
        named = rest.get("mark")
        kind = named if isinstance(named, str) else managed_kind(managed)
        at, end = rest.get("index"), len(self.messages)
        if kind is not None and rest.get("mark") is not False:
            place = at if isinstance(at, int) and isinstance(named, str) and 0 <= at < end else end
            self.marks.append(Mark(kind, place, utc(step.timestamp)))

    def _is_summary(self, step: Step, managed: dict[str, Any]) -> bool:
        """By the convention, a replacing compaction has the new context as its observation."""
        results = step.observation.results if step.observation else []
        return (
            step.source == "system"
            and managed.get("type") == "compaction"
            and managed.get("boundary") == "replace"
            and bool(results)
            and (bool(results[0].content) or (self.is_ours and results[0].content is not None))
            and not results[0].subagent_trajectory_ref
        )

    def _result(self, result: Result, step: Step, calls: dict[str, ToolCall]) -> None:
        extra, words, rest = parted(result.extra, RESULT_WORDS)
        call = calls.get(result.source_call_id or "")
        message = self._begun(step, result.content, extra, rest, role="tool")
        message.tool_call_id = call.id if call is not None else result.source_call_id
        odd = _refs(rest)
        fields = {{"tool_name": "name"}.get(word, word): value for word, value in words.items()}
        message = _fill(_fill(message, fields), rest)
        code = exit_code(message)
        if code is not None and message.extra and message.extra.get("exit_code") == code:
            message.extra = {k: v for k, v in message.extra.items() if k != "exit_code"} or None
        kept: KeptRefs = []
        for ref in [*(result.subagent_trajectory_ref or ()), *odd]:
            child, embedded = self.resolve(ref)
            if not child:
                kept.append(("", ref))
                continue
            self.links.append(Link(child, tool_call_id=call.id if call is not None else None))
            if call is not None:
                call.child_id = call.child_id or child
            if call is None or not embedded:
                kept.append((child, None if embedded else ref))
        if kept:
            message.extra = keep_residue(message.extra, refs=kept)
        if self.is_ours and call is not None and result.content is None and not result.extra:
            # A result that only told of a sub-agent is none: the call has no result.
            refs = residue_of(message.extra).refs
            caller = next(m for m in reversed(self.messages) if call in (m.tool_calls or ()))
            if refs:
                lone = {**residue_of(caller.extra).lone, call.id: refs}
                caller.extra = keep_residue(caller.extra, lone=lone)
            return
        self.messages.append(message)

    def _begun(
        self,
        step: Step,
        content: Content | None,
        extra: dict[str, Any] | None,
        rest: dict[str, Any],
        **fields: Any,
    ) -> Message:
        """A message with its content and attachments, whose bytes are loaded later."""
        text, media, layout = from_content(content if content is not None else "")
        parts = {attachment.path or attachment.uri: attachment for attachment in media}
        attachments: list[Attachment] = []
        for described in map(dict, dicts_of(rest.pop("attachments", None))):
            file = described.pop("file", "")
            try:
                attachment = msgspec.convert(described, Attachment)
            except msgspec.ValidationError:
                continue
            parts.pop(file or attachment.uri, None)
            if file:
                part = {**(attachment.extra or {}), FROM_PART: file}
                attachment = msgspec.structs.replace(attachment, extra=part)
            attachments.append(attachment)
        return Message(
            content=text,
            copied=bool(step.is_copied_context),
            attachments=[*attachments, *parts.values()] or None,
            extra=extra or None if layout is None else keep_residue(extra, layout=layout),
            **fields,
        )


def _refs(rest: dict[str, Any]) -> list[Ref]:
    """References that ATIF would not take, as we wrote them; else they are what they are."""
    try:
        refs = msgspec.convert(rest.get("refs", []), list[Ref])
    except msgspec.ValidationError:
        return []
    rest.pop("refs", None)
    return refs


_Filled = TypeVar("_Filled", Trajectory, Message, ToolCall, Usage)


def _fill(struct: _Filled, fields: dict[str, Any]) -> _Filled:
    """The struct with those fields; what does not fit goes to its `extra` as it is."""
    if not fields:
        return struct
    strays: dict[str, Any] = {}
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}
    for name, value in fields.items():
        try:
            setattr(struct, name, msgspec.convert(value, types[name]))
        except (KeyError, msgspec.ValidationError):
            strays[name] = value
    if strays:
        struct.extra = {**(struct.extra or {}), OURS: strays}
    return struct


def _call(call: AtifCall) -> ToolCall:
    extra, words, rest = parted(call.extra, CALL_WORDS)
    name = rest.pop("name", call.function_name)
    if rest.pop("raw", None) is True and isinstance(call.arguments.get("raw"), str):
        arguments = call.arguments["raw"]
    else:
        arguments = msgspec.json.encode(call.arguments).decode()
    ident = rest.pop("id", call.tool_call_id)
    tool_call = ToolCall(
        id=ident if isinstance(ident, str) else call.tool_call_id,
        function=ToolFunction(name if isinstance(name, str) else call.function_name, arguments),
        extra=extra,
    )
    return _fill(_fill(tool_call, words), rest)


def _usage(metrics: Metrics | None, count: int | None) -> Usage | None:
    if metrics is None:
        return None
    extra, words, rest = parted(metrics.extra, dict.fromkeys(WORDS.values(), int))
    for name in LISTS:
        if getattr(metrics, name) is not None:
            extra = {**(extra or {}), name: getattr(metrics, name)}
    usage = Usage(
        **{name: getattr(metrics, name) for _, name in TOTALS},
        requests=count if count is not None and count > 1 else None,
        extra=extra,
    )
    ours = {word: name for name, word in WORDS.items()}
    usage = _fill(_fill(usage, {ours[word]: value for word, value in words.items()}), rest)
    return usage if usage != Usage() else None
