"""Reader: ATIF documents, of any version and from any producer, as trajectories.

Keys that ATIF does not know (VS Code and NVIDIA's toolkit write some) go to the nearest `extra`. What
is of a wrong type or against the rules is left out, and is a problem. What the writer would not give
back of a document by itself, its trajectory keeps as a residue (`extras.py`): of lawful documents, and
not of our own, which tell everything.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import Attachment, Problem, Role
from unspool.io.door import clean, read_json, recover_json, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.structs import convert
from unspool.io.values import dict_of, dicts_of
from unspool.prompts.outcomes import exit_code
from unspool.reduce.totals import number_segments, number_turns
from unspool.reduce.usage import Runs, add_model_usage
from unspool.sinks import Family
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import (
    CALL_WORDS,
    RESULT_WORDS,
    USAGE_WORDS,
    Words,
    difference,
    fill,
    keep_residue,
    split,
    utc,
)
from unspool.sinks.atif.media import from_content
from unspool.sinks.atif.model import FOREIGN, Json, documents_in, is_document, older, version_of
from unspool.sinks.atif.rules import check
from unspool.sinks.atif.steps import INHERITED, LISTS, MANAGED, MANAGING, managed_kind
from unspool.sinks.atif.versions import to_newest
from unspool.sinks.atif.writer import Writing, session_of
from unspool.trajectory import Link, Mark, Message, ToolCall, ToolFunction, Trajectory, Usage

_MARK = re.compile(rb'"(?:schema_version"\s*:\s*"%b|steps"\s*:\s*\[)' % model.PREFIX.encode())
"""The label, or the list of steps."""
MEDIA_BYTES = 64 * 1024 * 1024
"""Media files longer than this are referred to, not taken along."""

UNLAWFUL = {
    *("wrong-type", "missing", "no-steps", "step-order", "unknown-source", "timestamp", "negative"),
    *("agent-only", "no-llm-call", "unknown-call", "wrong-part", "media-type"),
    *("duplicate-trajectory", "unresolvable-reference"),
}
"""Rules that make a document none of ATIF: it is read as far as it goes, and not written back as it
was. The others are only bad style."""
SPARED = [("missing", "$.schema_version"), ("missing", "$.session_id"), ("no-steps", "$.steps")]
"""Only our rules miss the label, and the run in an old document; VS Code leaves documents in which no
step was made."""


def claims(head: Head) -> bool:
    """A JSON object with ATIF's label, or with its steps; also several, in an array or by their ids."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data[:1] not in (b"{", b"[") or not _MARK.search(data):
        return False
    value = recover_json(data) or (head.objects[0] if head.objects else None)
    return any(True for _ in documents_in(value))


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
        tally.lose(given.code or "not-a-trajectory", origin.path, 0, sample(data))
    for number, name, document in documents:
        tally.records += 1
        # An id for a document that has none: where it was found.
        stem = origin.name.removesuffix(".json").removesuffix(".trajectory")
        parts = (stem, str(number + 1) if number else "", name)
        ident = "/".join(part for part in parts if part)
        try:
            reading = Reading(document, ident, Path(origin.path).parent)
        except RecursionError:
            tally.lose("too-deep", origin.path, 0, sample(data))
            continue
        if reading.wrong:
            more = f" and {len(reading.wrong) - 5} more" if len(reading.wrong) > 5 else ""
            paths = f"{', '.join(reading.wrong[:5])}{more}"
            tally.lose("invalid-field", origin.path, 0, sample(paths))
        elif not reading.trajectories:
            tally.noise += 1  # begun, but no step was made: VS Code's logger leaves such
        for trajectory in reading.trajectories:
            trajectory.file_path = trajectory.file_path or origin.path
            yield trajectory
    yield from tally.take_flaws()


class Reading:
    """One document, with what is embedded in it, on its way in."""

    def __init__(self, given: Json, ident: str = "", folder: Path | None = None) -> None:
        given = clean(given)
        to_newest(given)
        settle(given, model.Document, version_of(given))
        self.folder = folder
        self.wrong = [
            finding.path
            for finding in check(given)
            if finding.rule in UNLAWFUL and (finding.rule, finding.path) not in SPARED
        ]
        """The paths of what is against the rules."""
        self.trajectories: list[Trajectory] = []
        """The document's own first, then those of its sub-agents."""
        self._read(given, ident, "")
        for trajectory in self.trajectories:
            if trajectory.source == FOREIGN:
                for message in trajectory.messages:
                    message.attachments = [
                        self.with_bytes(attachment, attachment.path)
                        for attachment in message.attachments or ()
                    ] or None

    def _read(self, given: Json, ident: str, session: str) -> list[Trajectory]:
        """The document's trajectory and those below it; `session` is that of the whole document."""
        document: model.Document = convert(given, model.Document, [])
        if not document.steps:
            return []
        # The trajectory's id, the run's where it has none; never one that is taken already.
        own = document.trajectory_id or ("" if session else document.session_id) or ident
        taken = {trajectory.conversation_id for trajectory in self.trajectories}
        while own in taken:
            own = f"{ident}/{own}" if ident and ident != own else f"{own}'"
        trajectory = Trajectory(
            conversation_id=own,
            messages=[],
            source=FOREIGN,
            agent=document.agent.name,
            agent_version=document.agent.version,
            session_id=document.session_id,
            tool_definitions=document.agent.tool_definitions,
        )
        if trajectory.agent_version == model.NAMELESS:
            trajectory.agent_version = None
        self.trajectories.append(trajectory)
        fill(trajectory, *split(document.extra))
        session = session or session_of(trajectory)
        children: list[Trajectory] = []
        below: list[Trajectory] = []
        embedded: dict[str, str] = {}
        """The id that references have → that of the conversation."""
        for number, sub in enumerate(dicts_of(given.get("subagent_trajectories")), 1):
            family = self._read(sub, f"{own}/{number}", session)
            for child in family[:1]:
                children.append(child)
                embedded.setdefault(str(sub.get("trajectory_id") or ""), child.conversation_id)
            below += family
        reader = MessageReader(self, trajectory, document, embedded)
        ties = {child.conversation_id: Link(child.conversation_id) for child in children}
        for link in reader.links:
            tie = ties.setdefault(link.conversation_id, link)
            tie.tool_call_id = tie.tool_call_id or link.tool_call_id
        if trajectory.source == FOREIGN:
            for child in children:
                child.parent = Link(own, tool_call_id=ties[child.conversation_id].tool_call_id)
            trajectory.children = list(ties.values()) or None
            trajectory.marks = reader.marks or None
            final = document.final_metrics or model.FinalMetrics()
            reported = Usage(
                **{name: getattr(final, total) for total, name in model.TOTALS.items()}
            )
            trajectory.usage = reported if reported != Usage() else None
            times = [message.timestamp for message in trajectory.messages if message.timestamp]
            trajectory.started_at = min(times, default=None)
            trajectory.ended_at = max(times, default=None)
            add_model_usage(trajectory, Runs())
        number_turns(trajectory.messages)
        number_segments(trajectory)
        if trajectory.source == FOREIGN and not self.wrong:
            writing = Writing(Family(trajectory, tuple(below)), model.NEWEST, session=session)
            _keep_difference(trajectory, reader.heads, writing.build(writing.root), given)
            order = [child.conversation_id for child in children]
            keep_residue(trajectory, children=order if len(order) > 1 else None)
        return [trajectory, *below]

    def resolve(self, ref: model.Ref, embedded: dict[str, str]) -> str:
        """The id of the conversation that a reference means."""
        if ref.trajectory_id:
            return embedded.get(ref.trajectory_id, ref.trajectory_id)
        try:
            beside = msgspec.json.decode(self._bytes_beside(ref.trajectory_path or ""))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            beside = None
        named = beside if is_document(beside) else {}
        ids = (named.get("trajectory_id"), named.get("session_id"), ref.session_id)
        return next((ident for ident in ids if isinstance(ident, str) and ident), "")

    def with_bytes(self, attachment: Attachment, path: str) -> Attachment:
        data = base64.b64encode(self._bytes_beside(path)).decode()
        return msgspec.structs.replace(attachment, data=data) if data else attachment

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


def settle(
    value: Json,
    kind: type[msgspec.Struct],
    version: str,
    above: Json | None = None,
    place: str = "",
) -> None:
    """Move the keys that ATIF does not know, of an object and of those in it, to the nearest `extra`;
    those of an object that has none go to the one above, by its place there."""
    fields = model.fields_of(kind)
    for name, field in fields.items():
        inner = value.get(name)
        items = enumerate(inner) if isinstance(inner, list) else [("", inner)]
        for number, item in items:
            if field.struct is not None and isinstance(item, dict):
                settle(item, field.struct, version, value, f"{name}.{number}".rstrip("."))
    if kind is model.Ref and value.keys() == {"session_id"}:
        # Up to 1.6 a session's id alone was enough, and VS Code writes such.
        value["trajectory_id"] = value["session_id"]
    strays = {key: value.pop(key) for key in [*value] if key not in fields}
    since = model.SINCE.get(kind.__name__, {}).get("extra", model.VERSIONS[0])
    if strays and "extra" in fields and not older(version, since):
        value["extra"] = {**strays, **dict_of(value.get("extra"))}
    elif above is not None:
        above |= {f"{place}.{key}": item for key, item in strays.items()}


def _keep_difference(
    trajectory: Trajectory, heads: list[Message], written: Json, given: Json
) -> None:
    """Keep in the trajectory, and in the message that each step begins with, what the writer would
    not give back of the document."""
    if len(written["steps"]) == len(given["steps"]) == len(heads):
        for head, step, wanted in zip(heads, written["steps"], given["steps"], strict=True):
            if changes := difference(step, wanted):
                keep_residue(head, **changes)
    version = version_of(given)
    told = {"schema_version", "steps"}
    if "subagent_trajectories" in written:
        told.add("subagent_trajectories")
    if older(version, model.IDS):
        told.add("trajectory_id")
    changes = difference(
        {key: value for key, value in written.items() if key not in told},
        {key: value for key, value in given.items() if key not in told},
    )
    keep_residue(trajectory, version=version, **changes)


ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


class MessageReader:
    """Adds the messages of one document to its trajectory."""

    def __init__(
        self,
        reading: Reading,
        trajectory: Trajectory,
        document: model.Document,
        embedded: dict[str, str],
    ) -> None:
        self.reading = reading
        self.is_foreign = trajectory.source == FOREIGN
        # By ATIF a step without a model has the agent's; our own documents leave out what is unknown.
        self.default_model = document.agent.model_name if self.is_foreign else None
        self.embedded = embedded
        self.messages = trajectory.messages
        self.heads: list[Message] = []
        """The message that each step begins with."""
        self.marks: list[Mark] = []
        self.links: list[Link] = []
        for step in document.steps:
            self._step(step)

    def _step(self, step: model.Step) -> None:
        extra, rest = split(step.extra)
        managed = extra.get(MANAGING)
        if rest.pop("mark", None):
            return  # our own trajectories tell their marks themselves
        if rest.pop("result", None):
            self._results(step, step.results, [])
            return
        if kind := managed_kind(managed):
            self.marks.append(Mark(kind, len(self.messages), utc(step.timestamp)))
        content, results = step.message, step.results
        message = Message(role=ROLES[step.source], content="", timestamp=utc(step.timestamp))
        calls = [(call.tool_call_id, _call(call)) for call in step.tool_calls or ()]
        if self._is_summary(step, managed):
            message.role, message.kind = "user", "summary"
            content, *results = results[0].content or "", *results[1:]
            if managed == MANAGED["compaction"]:
                del extra[MANAGING]
        elif step.source == "agent":
            message.tool_calls = [call for _, call in calls] or None
            message.model = step.model_name
            if step.model_name is None and step.llm_call_count != 0 and self.default_model:
                message.model, message.model_source = self.default_model, INHERITED
            message.thinking = step.reasoning_content
            message.usage = _usage(step.metrics, step.llm_call_count)
            if step.reasoning_effort is not None:
                extra["reasoning_effort"] = step.reasoning_effort
        self._add(message, step, content, extra, rest)
        self.heads.append(message)
        self._results(step, results, calls)

    def _is_summary(self, step: model.Step, managed: Any) -> bool:
        """By the convention, a replacing compaction has the new context as its observation."""
        return (
            step.source == "system"
            and isinstance(managed, dict)
            and (managed.get("type"), managed.get("boundary")) == ("compaction", "replace")
            and bool(step.results)
            and (bool(step.results[0].content) or not self.is_foreign)
            and not step.results[0].subagent_trajectory_ref
        )

    def _results(
        self, step: model.Step, results: list[model.Result], calls: list[tuple[str, ToolCall]]
    ) -> None:
        for result in results:
            call = next((call for ident, call in calls if ident == result.source_call_id), None)
            extra, rest = split(result.extra)
            message = Message("tool", "", tool_call_id=result.source_call_id)
            if call is not None:
                message.tool_call_id = call.id
            if self.is_foreign:
                kept = [*self._refs(result.subagent_trajectory_ref or [], call)]
            elif call is not None and result.content is None and not result.extra:
                continue  # it only told of a sub-agent: the call has no result
            self._add(message, step, result.content or "", extra, rest, RESULT_WORDS)
            code = exit_code(message)
            if code is not None and message.extra and message.extra.get("exit_code") == code:
                message.extra = {k: v for k, v in message.extra.items() if k != "exit_code"} or None
            if self.is_foreign and kept:
                keep_residue(message, refs=kept)

    def _refs(
        self, refs: list[model.Ref], call: ToolCall | None
    ) -> Iterator[tuple[str, model.Ref]]:
        """Ties a call to the sub-agents that its result refers to; gives the references that nobody
        could write without knowing them: those to other files, and those of no call."""
        for ref in refs:
            child = self.reading.resolve(ref, self.embedded)
            if child:
                self.links.append(Link(child, tool_call_id=call.id if call is not None else None))
            if call is not None:
                call.child_id = call.child_id or child or None
            is_written = call is not None and child in self.embedded.values()
            if not is_written and (ref.trajectory_id or ref.trajectory_path):
                yield child, ref

    def _add(
        self,
        message: Message,
        step: model.Step,
        content: model.Content,
        extra: Json,
        rest: Json,
        words: Words | None = None,
    ) -> None:
        """Add the message with its content, its attachments and the fields of its `extra`."""
        message.content, media, layout = from_content(content)
        message.copied = bool(step.is_copied_context)
        attachments = media if self.is_foreign else []
        for described in dicts_of(rest.pop("attachments", None)):
            file = str(described.pop("file", ""))
            try:
                attachment = msgspec.convert(described, Attachment)
            except msgspec.ValidationError:
                continue
            attachments.append(self.reading.with_bytes(attachment, file))
        message.attachments = attachments or None
        fill(message, extra, rest, words)
        keep_residue(message, layout=layout)
        self.messages.append(message)


def _call(call: model.ToolCall) -> ToolCall:
    extra, rest = split(call.extra)
    raw = call.arguments.get("raw") if rest.pop("raw", None) else None
    arguments = raw if isinstance(raw, str) else msgspec.json.encode(call.arguments).decode()
    function = ToolFunction(str(rest.pop("name", call.function_name)), arguments)
    return fill(ToolCall(id=call.tool_call_id, function=function), extra, rest, CALL_WORDS)


def _usage(metrics: model.Metrics | None, count: int | None) -> Usage | None:
    if metrics is None:
        return None
    extra, rest = split(metrics.extra)
    for name in LISTS:
        if getattr(metrics, name) is not None:
            extra[name] = getattr(metrics, name)
    figures = {name: getattr(metrics, name) for name in model.TOTALS.values()}
    usage = Usage(**figures, requests=count if count is not None and count > 1 else None)
    fill(usage, extra, rest, USAGE_WORDS)
    return usage if usage != Usage() else None
