"""Rules: whether a document is valid ATIF, and good ATIF. `docs/atif.md` lists every rule.

Stricter than Harbor's validator and independent of it: an error is what a producer can always avoid,
a warning what real conversations contain. All findings are told, each with its path.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from unspool.io.door import clean_text
from unspool.io.folders import is_folder, walk
from unspool.io.origins import open_origin, read_head
from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of
from unspool.sinks.atif import model
from unspool.sinks.atif.lenient import AGENT_ONLY, LLM_ONLY
from unspool.sinks.atif.model import AUDIO_ALIASES, AUDIO_TYPES, IMAGE_TYPES
from unspool.sinks.atif.reader import claims, documents_in
from unspool.sinks.atif.steps import TOTALS
from unspool.sinks.atif.versions import (
    AUDIO,
    NEWEST,
    OBSERVATION_ANYWHERE,
    PARTS,
    PREFIX,
    REF_IDS,
    SINCE,
    VERSIONS,
    older,
)  # fmt: skip

Json = dict[str, Any]
Level = Literal["error", "warning"]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Finding(msgspec.Struct, frozen=True):
    level: Level
    rule: str
    path: str
    """As in `$.steps[3].tool_calls[0].arguments`."""
    message: str


class Verdict(msgspec.Struct):
    """All findings on one file."""

    file: str
    errors: int
    warnings: int
    findings: list[Finding]


def check_paths(paths: Iterable[str]) -> Iterator[Verdict]:
    """A verdict on every file, and on every ATIF file below every folder."""
    for argument in paths:
        named = not is_folder(argument)
        for path, _ in walk(argument):
            try:
                if not named and not claims(read_head(path)):
                    continue
            except OSError:
                continue
            try:
                findings = check_file(Path(path))
            except OSError as error:
                findings = [Finding("error", "unreadable", "$", error.strerror or str(error))]
            errors = sum(1 for finding in findings if finding.level == "error")
            yield Verdict(path, errors, len(findings) - errors, findings)


def check_file(path: Path) -> list[Finding]:
    """All findings on a file with one document, or with several in an array or by their ids."""
    try:
        with open_origin(str(path)) as file:
            value = json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return [Finding("error", "not-utf8", "$", f"byte {error.start} is not UTF-8")]
    except ValueError as error:
        return [Finding("error", "not-json", "$", str(error))]
    except RecursionError:
        return [Finding("error", "not-json", "$", "nested too deep to be read")]
    try:
        several = dict(documents_in(value))
        if "" in several or not several:
            return check(value, path.parent)
        findings = []
        for name, document in several.items():
            place = f"[{name}]" if isinstance(value, list) else f"[{json.dumps(name)}]"
            for finding in check(document, path.parent):
                within = f"${place}{finding.path[1:]}"
                findings.append(msgspec.structs.replace(finding, path=within))
        return findings
    except RecursionError:
        return [Finding("error", "not-json", "$", "nested too deep to be checked")]


def check(document: Any, folder: Path | None = None) -> list[Finding]:
    """All findings on a document; with its folder, also on the files that it names."""
    findings: dict[Finding, None] = {}
    # Numbers and texts that are no JSON, wherever they stand.
    waiting = [(document, "$")]
    while waiting:
        item, path = waiting.pop()
        at, wrong = clean_text(path), None
        if isinstance(item, dict):
            for key in item:
                if _SURROGATE.search(key):
                    wrong = Finding("error", "lone-surrogate", at, f"in the key {key!a}")
            waiting += [(below, f"{path}.{key}") for key, below in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [(item[n], f"{path}[{n}]") for n in reversed(range(len(item)))]
        elif isinstance(item, float) and not math.isfinite(item):
            wrong = Finding("error", "not-finite", at, f"{item} is no JSON number")
        elif isinstance(item, str) and not item.isascii() and _SURROGATE.search(item):
            message = "half of a character pair, which no UTF-8 can hold"
            wrong = Finding("error", "lone-surrogate", at, message)
        if wrong is not None:
            findings[wrong] = None
    _Check(document, "$", folder, findings, embedded=False)
    return sorted(findings, key=lambda finding: finding.level)  # errors first


class _Check:
    """One document, gone through from top to bottom; those embedded in it by another of this."""

    def __init__(
        self,
        document: Any,
        path: str,
        folder: Path | None,
        findings: dict[Finding, None],
        embedded: bool,
    ) -> None:
        self.folder = folder
        self.findings = findings
        if not isinstance(document, dict):
            self.error("wrong-type", path, f"must be an object, is {_kind(document)}")
            return
        self.document: Json = document
        self.steps = [dict_of(s) for s in list_of(document.get("steps"))]
        self.refs: list[tuple[str, Json]] = []
        """Where a result refers to a sub-agent."""
        self.media: list[tuple[str, str]] = []
        """Where a content part names a file."""
        label = document.get("schema_version")
        version = str(label or "").removeprefix(PREFIX)
        if label is None:
            self.error("missing", f"{path}.schema_version", "required, but missing")
        elif not isinstance(label, str) or not label.startswith(PREFIX) or version not in VERSIONS:
            at = f"{path}.schema_version"
            self.error("unknown-version", at, f"{label!r} is no version of ATIF")
        self.version = version if version in VERSIONS else NEWEST

        self._fields(document, path, model.Document, ("agent", "steps"))
        agent = document.get("agent") or {}
        if self._fields(agent, f"{path}.agent", model.Agent, ("name", "version")):
            self._not_empty(agent, f"{path}.agent", ("name", "version"))
        if document.get("session_id") in (None, ""):
            if older(self.version, "1.7"):
                self.error("missing", f"{path}.session_id", f"required in {self.version}")
            elif not embedded:
                self.warning("no-session", f"{path}.session_id", "a root should name its run")
        if document.get("steps") == []:
            self.error("no-steps", f"{path}.steps", "at least one step is needed")
        self.last_time: int | None = None
        for number, step in enumerate(list_of(document.get("steps"))):
            self._step(step, number, f"{path}.steps[{number}]")
        if document.get("final_metrics") is not None:
            self._final(document["final_metrics"], f"{path}.final_metrics")
        # Sub-agents and what refers to them, and the files that the document names.
        places: dict[str, str] = {}
        for number, sub in enumerate(list_of(self.document.get("subagent_trajectories"))):
            at = f"{path}.subagent_trajectories[{number}]"
            ident = field_of(sub, "trajectory_id")
            if not isinstance(ident, str) or not ident:
                self.error("missing", f"{at}.trajectory_id", "required in an embedded trajectory")
            elif ident in places:
                message = f"{ident!r} is another's as well"
                self.error("duplicate-trajectory", f"{at}.trajectory_id", message)
            else:
                places[ident] = at
        referred: set[str] = set()
        for at, ref in self.refs:
            ident, file = ref.get("trajectory_id"), ref.get("trajectory_path")
            if isinstance(ident, str):
                referred.add(ident)
                if ident not in places and not file:
                    message = f"{ident!r} is not embedded here"
                    self.error("dangling-reference", f"{at}.trajectory_id", message)
            if isinstance(file, str) and not self._exists(file):
                message = f"the file {file!r} is not there"
                self.error("missing-file", f"{at}.trajectory_path", message)
        for ident, at in places.items():
            if ident not in referred:
                self.warning("unreferred", at, f"no result refers to the sub-agent {ident!r}")
        for at, media in self.media:
            if media.startswith("data:"):
                self.error("data-uri", at, "ATIF refers to media files and holds no media itself")
            elif not self._exists(media):
                self.error("missing-media", at, f"the file {media!r} is not there")
        following = self.document.get("continued_trajectory_ref")
        if isinstance(following, str) and not self._exists(following):
            at = f"{path}.continued_trajectory_ref"
            self.warning("missing-continuation", at, f"{following!r} is not there")
        for number, sub in enumerate(list_of(document.get("subagent_trajectories"))):
            _Check(sub, f"{path}.subagent_trajectories[{number}]", folder, findings, embedded=True)

    def error(self, rule: str, path: str, message: str) -> None:
        self._add("error", rule, path, message)

    def warning(self, rule: str, path: str, message: str) -> None:
        self._add("warning", rule, path, message)

    def _add(self, level: Level, rule: str, path: str, message: str) -> None:
        # A document's own keys stand in paths, and may be what no output can hold.
        self.findings[Finding(level, rule, clean_text(path), clean_text(message))] = None

    def _fields(
        self, value: Any, path: str, kind: type[msgspec.Struct], required: tuple[str, ...] = ()
    ) -> bool:
        """The fields of one object by the struct of the format; False where it is none."""
        if not isinstance(value, dict):
            self.error("wrong-type", path, f"must be an object, is {_kind(value)}")
            return False
        for name in required:
            if value.get(name) is None:
                self.error("missing", f"{path}.{name}", "required, but missing")
        types = {field.name: field.type for field in msgspec.structs.fields(kind)}
        since = SINCE.get(kind.__name__, {})
        for name, item in value.items():
            if name not in types:
                self.error("unknown-field", f"{path}.{name}", "not a field of ATIF")
            elif item is None:
                continue
            elif not _is(item, types[name]):
                wanted = _word(types[name])
                self.error("wrong-type", f"{path}.{name}", f"must be {wanted}, is {_kind(item)}")
            elif name in since:
                self._since(since[name], f"{path}.{name}")
        return True

    def _since(self, version: str, path: str) -> None:
        if older(self.version, version):
            message = f"came with {version}, but the document declares {self.version}"
            self.error("newer-than-declared", path, message)

    def _not_empty(self, value: Json, path: str, names: tuple[str, ...]) -> None:
        for name in names:
            if value.get(name) == "":
                self.error("empty", f"{path}.{name}", "must not be empty")

    def _step(self, step: Any, number: int, path: str) -> None:
        if not self._fields(step, path, model.Step, ("step_id", "source", "message")):
            return
        ident = step.get("step_id")
        if isinstance(ident, int) and not isinstance(ident, bool) and ident != number + 1:
            self.error("step-order", f"{path}.step_id", f"is {ident}, must be {number + 1}")
        if isinstance(step.get("timestamp"), str):
            self._time(step["timestamp"], f"{path}.timestamp")

        source, count = step.get("source"), step.get("llm_call_count")
        if isinstance(source, str) and source not in ("system", "user", "agent"):
            message = f"{source!r} is not system, user or agent"
            self.error("unknown-source", f"{path}.source", message)
        if isinstance(count, int) and count < 0:
            self.error("negative", f"{path}.llm_call_count", "cannot be negative")
        if source in ("system", "user"):
            for name in AGENT_ONLY:
                if step.get(name) is not None:
                    self.error("agent-only", f"{path}.{name}", f"not allowed on a {source} step")
            if source == "user" and step.get("observation") is not None:
                at = f"{path}.observation"
                self.warning("user-observation", at, "belongs on an agent or system step")
        elif source == "agent" and count == 0 and not isinstance(count, bool):
            for name in LLM_ONLY:
                if step.get(name) is not None:
                    message = "not allowed where llm_call_count is 0"
                    self.error("no-llm-call", f"{path}.{name}", message)

        self._content(step.get("message"), f"{path}.message")
        for place, call in enumerate(list_of(step.get("tool_calls"))):
            at, names = (
                f"{path}.tool_calls[{place}]",
                ("tool_call_id", "function_name", "arguments"),
            )
            if self._fields(call, at, model.ToolCall, names):
                self._not_empty(call, at, names[:2])
        if isinstance(step.get("metrics"), dict):
            self._metrics(step["metrics"], f"{path}.metrics")
        if isinstance(step.get("observation"), dict):
            self._fields(
                step["observation"], f"{path}.observation", model.Observation, ("results",)
            )
            if source != "agent":
                self._since(OBSERVATION_ANYWHERE, f"{path}.observation")
        results = list_of(field_of(step.get("observation"), "results"))
        for place, result in enumerate(results):
            self._result(result, f"{path}.observation.results[{place}]")
        self._answers(step, results, path)

        managed = field_of(step.get("extra"), "context_management")
        if managed is not None:
            at = f"{path}.extra.context_management"
            if not isinstance(field_of(managed, "type"), str):
                self.warning("context-management", at, "should be an object with a type")
            elif source != "system":
                self.warning("context-management", at, "belongs on a system step")

    def _time(self, text: str, path: str) -> None:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            self.error("timestamp", path, f"{text!r} is no ISO 8601 time")
            return
        if moment.tzinfo is None:
            self.warning("no-time-zone", path, f"{text!r} names no time zone")
        when = parse_time(text.replace("Z", "+00:00"))
        if when is not None:
            if self.last_time is not None and when < self.last_time:
                self.warning("time-goes-back", path, "is before the step before it")
            self.last_time = max(when, self.last_time or when)

    def _answers(self, step: Json, results: list[Any], path: str) -> None:
        """Every call once, with one result, and no result of another step's call."""
        ids = [call.get("tool_call_id") for call in dicts_of(step.get("tool_calls"))]
        for number, ident in enumerate(ids):
            if isinstance(ident, str) and ident in ids[:number]:
                at = f"{path}.tool_calls[{number}].tool_call_id"
                self.error("duplicate-call", at, f"{ident!r} is the id of another call of the step")
        answered: set[str] = set()
        for number, result in enumerate(results):
            source = field_of(result, "source_call_id")
            if not isinstance(source, str):
                continue
            at = f"{path}.observation.results[{number}].source_call_id"
            if source not in ids:
                self.error("unknown-call", at, f"{source!r} is no tool_call_id of the same step")
            elif source in answered:
                self.error("two-results", at, f"the call {source!r} has a result already")
            answered.add(source)
        for number, ident in enumerate(ids):
            if isinstance(ident, str) and ident not in answered:
                message = f"the call {ident!r} has no result"
                self.warning("no-result", f"{path}.tool_calls[{number}]", message)

    def _result(self, result: Any, path: str) -> None:
        if not self._fields(result, path, model.Result):
            return
        self._content(result.get("content"), f"{path}.content")
        for number, ref in enumerate(list_of(result.get("subagent_trajectory_ref"))):
            at = f"{path}.subagent_trajectory_ref[{number}]"
            if not self._fields(ref, at, model.Ref):
                continue
            self.refs.append((at, ref))
            if not ref.get("trajectory_id") and not ref.get("trajectory_path"):
                message = "has neither trajectory_id nor trajectory_path"
                self.error("unresolvable-reference", at, message)
            if older(self.version, REF_IDS) and ref.get("session_id") is None:
                self.error("missing", f"{at}.session_id", f"required up to {self.version}")

    def _content(self, content: Any, path: str) -> None:
        if not isinstance(content, list):
            return
        self._since(PARTS, path)
        for number, part in enumerate(content):
            at = f"{path}[{number}]"
            file = field_of(field_of(part, "source"), "path")
            if isinstance(file, str):
                self.media.append((f"{at}.source.path", file))
            if not self._fields(part, at, model.Part, ("type",)) or part.get("type") is None:
                continue
            kind = part["type"]
            if kind == "text":
                if part.get("text") is None:
                    self.error("missing", f"{at}.text", "required in a text part")
                if part.get("source") is not None:
                    self.error("wrong-part", f"{at}.source", "not allowed in a text part")
            elif kind in ("image", "audio"):
                if kind == "audio":
                    self._since(AUDIO, at)
                if part.get("text") is not None:
                    self.error("wrong-part", f"{at}.text", f"not allowed in an {kind} part")
                if part.get("source") is None:
                    self.error("missing", f"{at}.source", f"required in an {kind} part")
                else:
                    self._source(part["source"], f"{at}.source", kind)
            else:
                self.error("wrong-part", f"{at}.type", "is not text, image or audio")

    def _source(self, source: Any, path: str, kind: str) -> None:
        if not self._fields(source, path, model.Media, ("media_type", "path")):
            return
        if kind == "image" and "duration_sec" in source:
            self.error("unknown-field", f"{path}.duration_sec", "not a field of ATIF")
        media_type = source.get("media_type")
        if isinstance(media_type, str):
            if kind == "audio":
                spelt = media_type.strip().lower()
                is_known = AUDIO_ALIASES.get(spelt, spelt) in AUDIO_TYPES
            else:
                is_known = media_type in IMAGE_TYPES
            if not is_known:
                message = f"{media_type!r} is no {kind} type of ATIF"
                self.error("media-type", f"{path}.media_type", message)
        duration = source.get("duration_sec")
        if _is(duration, float) and duration < 0:
            self.error("negative", f"{path}.duration_sec", "cannot be negative")

    def _metrics(self, metrics: Json, path: str) -> None:
        self._fields(metrics, path, model.Metrics)
        names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
        self._figures(metrics, path, names, "cached_tokens", "prompt_tokens")
        for kind in ("prompt", "completion"):
            ids, tokens = metrics.get(f"{kind}_token_ids"), _number(metrics.get(f"{kind}_tokens"))
            if isinstance(ids, list) and tokens is not None and len(ids) != tokens:
                message = f"{len(ids)} ids for {tokens} tokens"
                self.warning("token-ids", f"{path}.{kind}_token_ids", message)
        logprobs, ids = metrics.get("logprobs"), metrics.get("completion_token_ids")
        if isinstance(logprobs, list) and isinstance(ids, list) and len(logprobs) != len(ids):
            message = f"{len(logprobs)} of them for {len(ids)} tokens"
            self.warning("token-ids", f"{path}.logprobs", message)

    def _final(self, final: Any, path: str) -> None:
        if not self._fields(final, path, model.FinalMetrics):
            return
        names = (*(name for name, _ in TOTALS), "total_steps")
        self._figures(final, path, names, "total_cached_tokens", "total_prompt_tokens")
        count = _number(final.get("total_steps"))
        if count is not None and count != len(self.steps):
            report = self.warning if self.document.get("notes") else self.error
            message = f"is {count}, there are {len(self.steps)} steps"
            report("total-steps", f"{path}.total_steps", message)
        for name, of_step in TOTALS:
            total = _number(final.get(name))
            if total is not None:
                self._total(total, of_step, f"{path}.{name}")

    def _figures(
        self, value: Json, path: str, names: tuple[str, ...], part: str, whole: str
    ) -> None:
        """None is negative, and what was cached is a part of the prompt."""
        for name in names:
            number = _number(value.get(name))
            if number is not None and number < 0:
                self.error("negative", f"{path}.{name}", f"{number} is negative")
        some, every = _number(value.get(part)), _number(value.get(whole))
        if some is not None and every is not None and some > every:
            self.error(
                "cached", f"{path}.{part}", f"{some} of {every} {whole}: it is a part of them"
            )

    def _total(self, total: float, name: str, path: str) -> None:
        """The sum of the steps that are not copied; sub-agents' may be counted in."""
        values = [
            _number(field_of(step.get("metrics"), name))
            for step in self.steps
            if (step.get("source") == "agent" or step.get("metrics"))
            and not step.get("is_copied_context")
        ]
        figures = [value for value in values if value is not None]
        if not figures:
            return
        least = math.fsum(figures)
        most = math.fsum([least, *_below(self.document, name)])
        if any(math.isclose(total, one, rel_tol=1e-6, abs_tol=1e-9) for one in (least, most)):
            return
        shown = str(int(least)) if least == int(least) else f"{least:.6g}"
        # Sub-agents in other files, and steps without figures, may account for what is above the sum.
        outside = any(ref.get("trajectory_path") for _, ref in self.refs)
        if total > least and (len(figures) < len(values) or outside):
            self.warning("total", path, f"is {total}, the figures steps add up to {shown}")
        else:
            self.error("total", path, f"is {total}, the steps add up to {shown}")

    def _exists(self, name: str) -> bool:
        """Whether a path beside the document leads somewhere; URLs are taken as they are."""
        try:
            return self.folder is None or "://" in name or (self.folder / name).exists()
        except (OSError, ValueError):
            return False


def _below(document: Json, name: str) -> list[float]:
    """The same figure of all embedded sub-agents, as their totals or their steps tell it."""
    total = next(total for total, of_step in TOTALS if of_step == name)
    figures: list[float] = []
    for sub in dicts_of(document.get("subagent_trajectories")):
        own_total = _number(field_of(sub.get("final_metrics"), total))
        if own_total is None:
            values = [
                _number(field_of(field_of(s, "metrics"), name)) for s in list_of(sub.get("steps"))
            ]
            figures += [*(value for value in values if value is not None), *_below(sub, name)]
        else:
            figures.append(own_total)
            if name != "cost_usd":  # a cost has its sub-agents' in it already
                figures += _below(sub, name)
    return figures


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of the type that the format's struct has; what a list of objects, or an
    object, holds is checked where it stands."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        return any(_is(value, one) for one in args if one is not NoneType)
    if origin is Literal:
        return isinstance(value, str)
    if origin is list:
        nested = isinstance(args[0], type(model.Step) | str)
        return isinstance(value, list) and (nested or all(_is(item, args[0]) for item in value))
    if origin is dict or isinstance(kind, type(model.Step)):
        return isinstance(value, dict)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _word(kind: Any) -> str:
    """What a value of the type is called."""
    if get_origin(kind) in (UnionType, Union):
        words = [_word(one) for one in get_args(kind) if one is not NoneType]
        return words[0] if len(words) == 1 else " or ".join(re.sub(" of .*", "", w) for w in words)
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        plural = {int: "integers", float: "numbers"}.get(of, "objects")
        return "an array" if isinstance(of, type(model.Step)) else f"an array of {plural}"
    if isinstance(kind, type(model.Step)) or get_origin(kind) is dict:
        return "an object"
    return {int: "an integer", float: "a number", bool: "true or false"}.get(kind, "a string")


def _kind(value: Any) -> str:
    """What a value is called that is not what it should be."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array of something else" if value else "an array"
    names = {dict: "an object", str: "a string", bool: "true or false"}
    return names.get(type(value), f"the number {value}")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
