"""Rules: whether a document is valid ATIF, and good ATIF. `docs/atif.md` lists every rule.

Stricter than Harbor's validator and independent of it: an error is what a producer can always avoid,
a warning what real conversations contain. All findings are told, each with its path.
"""

import json
import math
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from unspool.io.door import clean_text
from unspool.io.origins import open_origin
from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.sinks.atif import model
from unspool.sinks.atif.model import (
    AGENT_ONLY,
    LLM_ONLY,
    PREFIX,
    SINCE,
    TOTALS,
    Json,
    documents_in,
    is_media_type,
    older,
    version_of,
)

Level = Literal["error", "warning"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_EMPTY = ("name", "version", "tool_call_id", "function_name")
_ANY_NUMBER = ("step_id", "reasoning_effort")


class Finding(msgspec.Struct, frozen=True):
    level: Level
    rule: str
    path: str
    """As in `$.steps[3].tool_calls[0].arguments`."""
    message: str


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
    checking = _Check(folder)
    checking.check_values(document)
    checking.check_document(document, "$")
    return sorted(checking.findings, key=lambda finding: finding.level)  # errors first


class _Check:
    """One document, gone through from top to bottom, and then those embedded in it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.findings: dict[Finding, None] = {}

    def error(self, rule: str, path: str, message: str, level: Level = "error") -> None:
        # A document's own keys stand in paths, and may be what no output can hold.
        self.findings[Finding(level, rule, clean_text(path), clean_text(message))] = None

    def warning(self, rule: str, path: str, message: str) -> None:
        self.error(rule, path, message, "warning")

    def check_values(self, document: Any) -> None:
        """Numbers and texts that are no JSON, wherever they stand."""
        waiting = [(document, "$")]
        while waiting:
            item, path = waiting.pop()
            if isinstance(item, dict):
                for key in filter(_SURROGATE.search, item):
                    self.error("lone-surrogate", path, f"in the key {key!a}")
                waiting += [(below, f"{path}.{key}") for key, below in reversed(item.items())]
            elif isinstance(item, list):
                waiting += [(item[n], f"{path}[{n}]") for n in reversed(range(len(item)))]
            elif isinstance(item, float) and not math.isfinite(item):
                self.error("not-finite", path, f"{item} is no JSON number")
            elif isinstance(item, str) and not item.isascii() and _SURROGATE.search(item):
                message = "half of a character pair, which no UTF-8 can hold"
                self.error("lone-surrogate", path, message)

    def check_document(self, document: Any, path: str, embedded: bool = False) -> None:
        label = field_of(document, "schema_version")
        self.version = version_of(document)
        self._fields(document, path, model.Document)
        if not isinstance(document, dict):
            return
        self.document: Json = document
        self.steps = [dict_of(s) for s in list_of(document.get("steps"))]
        self.refs: list[tuple[str, Json]] = []
        """Where a result refers to a sub-agent."""
        self.media: list[tuple[str, str]] = []
        """Where a content part names a file."""
        if label is None:
            self.error("missing", f"{path}.schema_version", "required, but missing")
        elif label != PREFIX + self.version:
            at = f"{path}.schema_version"
            self.error("unknown-version", at, f"{label!r} is no version of ATIF")
        if document.get("session_id") in (None, ""):
            if older(self.version, model.IDS):
                self.error("missing", f"{path}.session_id", f"required in {self.version}")
            elif not embedded:
                self.warning("no-session", f"{path}.session_id", "a root should name its run")
        if document.get("steps") == []:
            self.error("no-steps", f"{path}.steps", "at least one step is needed")
        self.last_time: int | None = None
        for number, step in enumerate(self.steps):
            self._step(step, number, f"{path}.steps[{number}]")
        if isinstance(document.get("final_metrics"), dict):
            self._final(document["final_metrics"], f"{path}.final_metrics")
        self._ties(document, path)
        for at, media in self.media:
            if media.startswith("data:"):
                self.error("data-uri", at, "ATIF refers to media files and holds no media itself")
            elif not self._exists(media):
                self.error("missing-media", at, f"the file {media!r} is not there")
        following = document.get("continued_trajectory_ref")
        if isinstance(following, str) and not self._exists(following):
            at = f"{path}.continued_trajectory_ref"
            self.warning("missing-continuation", at, f"{following!r} is not there")
        for number, sub in enumerate(list_of(document.get("subagent_trajectories"))):
            self.check_document(sub, f"{path}.subagent_trajectories[{number}]", embedded=True)

    def _ties(self, document: Json, path: str) -> None:
        """Sub-agents and what refers to them."""
        places: dict[str, str] = {}
        for number, sub in enumerate(list_of(document.get("subagent_trajectories"))):
            at = f"{path}.subagent_trajectories[{number}]"
            ident = field_of(sub, "trajectory_id")
            if not isinstance(ident, str) or not ident:
                self.error("missing", f"{at}.trajectory_id", "required in an embedded trajectory")
            elif ident in places:
                message = f"{ident!r} is another's as well"
                self.error("duplicate-trajectory", f"{at}.trajectory_id", message)
            else:
                places[ident] = at
        for at, ref in self.refs:
            ident, file = ref.get("trajectory_id"), ref.get("trajectory_path")
            if not ident and not file:
                message = "has neither trajectory_id nor trajectory_path"
                self.error("unresolvable-reference", at, message)
            if older(self.version, model.IDS) and ref.get("session_id") is None:
                self.error("missing", f"{at}.session_id", f"required up to {self.version}")
            if isinstance(ident, str) and ident not in places and not file:
                message = f"{ident!r} is not embedded here"
                self.error("dangling-reference", f"{at}.trajectory_id", message)
            if isinstance(file, str) and not self._exists(file):
                message = f"the file {file!r} is not there"
                self.error("missing-file", f"{at}.trajectory_path", message)
        referred = [ref.get("trajectory_id") for _, ref in self.refs]
        for ident, at in places.items():
            if ident not in referred:
                self.warning("unreferred", at, f"no result refers to the sub-agent {ident!r}")

    def _fields(self, value: Any, path: str, kind: type[msgspec.Struct]) -> None:
        """The fields of one object, and of those in it, by the structs of the format."""
        if not isinstance(value, dict):
            self.error("wrong-type", path, "is no object")
            return
        fields = model.fields_of(kind)
        for name, field in fields.items():
            if field.required and value.get(name) is None:
                self.error("missing", f"{path}.{name}", "required, but missing")
        since = SINCE.get(kind.__name__, {})
        for name, item in value.items():
            at, number = f"{path}.{name}", _number(item)
            if name not in fields:
                self.error("unknown-field", at, "not a field of ATIF")
                continue
            if item is None:
                continue
            field = fields[name]
            try:
                msgspec.convert(item, field.type)
            except (msgspec.ValidationError, ValueError, OverflowError) as error:
                self.error("wrong-type", at, str(error))
                continue
            if name in since:
                self._since(since[name], at)
            if item == "" and name in _NOT_EMPTY:
                self.error("empty", at, "must not be empty")
            if number is not None and number < 0 and name not in _ANY_NUMBER:
                self.error("negative", at, f"{number} is negative")
            if field.struct is None or field.struct is model.Document:
                continue  # an embedded document is checked by itself, at its own version
            if isinstance(item, list):
                for place, below in enumerate(item):
                    self._fields(below, f"{at}[{place}]", field.struct)
            elif isinstance(item, dict):
                self._fields(item, at, field.struct)

    def _since(self, version: str, path: str) -> None:
        if older(self.version, version):
            message = f"came with {version}, but the document declares {self.version}"
            self.error("newer-than-declared", path, message)

    def _step(self, step: Json, number: int, path: str) -> None:
        ident = step.get("step_id")
        if isinstance(ident, int) and not isinstance(ident, bool) and ident != number + 1:
            self.error("step-order", f"{path}.step_id", f"is {ident}, must be {number + 1}")
        if isinstance(step.get("timestamp"), str):
            self._time(step["timestamp"], f"{path}.timestamp")

        source, count = step.get("source"), step.get("llm_call_count")
        if isinstance(source, str) and source not in ("system", "user", "agent"):
            message = f"{source!r} is not system, user or agent"
            self.error("unknown-source", f"{path}.source", message)
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
        if isinstance(step.get("metrics"), dict):
            self._metrics(step["metrics"], f"{path}.metrics")
        if isinstance(step.get("observation"), dict) and source != "agent":
            self._since(model.OBSERVATION_ANYWHERE, f"{path}.observation")
        results = list_of(field_of(step.get("observation"), "results"))
        for place, result in enumerate(results):
            at = f"{path}.observation.results[{place}]"
            self._content(field_of(result, "content"), f"{at}.content")
            for count, ref in enumerate(list_of(field_of(result, "subagent_trajectory_ref"))):
                if isinstance(ref, dict):
                    self.refs.append((f"{at}.subagent_trajectory_ref[{count}]", ref))
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

    def _content(self, content: Any, path: str) -> None:
        if not isinstance(content, list):
            return
        self._since(model.PARTS, path)
        for number, part in enumerate(content):
            at = f"{path}[{number}]"
            kind, source = field_of(part, "type"), field_of(part, "source")
            file, media_type = field_of(source, "path"), str_of(field_of(source, "media_type"))
            if isinstance(file, str):
                self.media.append((f"{at}.source.path", file))
            if kind not in ("text", "image", "audio"):
                if kind is not None:
                    self.error("wrong-part", f"{at}.type", "is not text, image or audio")
                continue
            needed, forbidden = ("text", "source") if kind == "text" else ("source", "text")
            if part.get(needed) is None:
                self.error("missing", f"{at}.{needed}", f"required in a part of type {kind}")
            if part.get(forbidden) is not None:
                message = f"not allowed in a part of type {kind}"
                self.error("wrong-part", f"{at}.{forbidden}", message)
            if kind == "audio":
                self._since(model.AUDIO, at)
            elif "duration_sec" in dict_of(source):
                self.error("unknown-field", f"{at}.source.duration_sec", "not a field of ATIF")
            if media_type and not is_media_type(media_type, kind):
                message = f"{media_type!r} is no {kind} type of ATIF"
                self.error("media-type", f"{at}.source.media_type", message)

    def _metrics(self, metrics: Json, path: str) -> None:
        self._cached(metrics, path, "")
        for kind in ("prompt", "completion"):
            ids, tokens = metrics.get(f"{kind}_token_ids"), _number(metrics.get(f"{kind}_tokens"))
            if isinstance(ids, list) and tokens is not None and len(ids) != tokens:
                message = f"{len(ids)} ids for {tokens} tokens"
                self.warning("token-ids", f"{path}.{kind}_token_ids", message)
        logprobs, ids = metrics.get("logprobs"), metrics.get("completion_token_ids")
        if isinstance(logprobs, list) and isinstance(ids, list) and len(logprobs) != len(ids):
            message = f"{len(logprobs)} of them for {len(ids)} tokens"
            self.warning("token-ids", f"{path}.logprobs", message)

    def _final(self, final: Json, path: str) -> None:
        self._cached(final, path, "total_")
        count = _number(final.get("total_steps"))
        if count is not None and count != len(self.steps):
            report = self.warning if self.document.get("notes") else self.error
            message = f"is {count}, there are {len(self.steps)} steps"
            report("total-steps", f"{path}.total_steps", message)
        own = [step for step in self.steps if not step.get("is_copied_context")]
        own = [step for step in own if step.get("source") == "agent" or step.get("metrics")]
        # Sub-agents in other files, and steps without figures, may account for what is above the sum.
        outside = any(ref.get("trajectory_path") for _, ref in self.refs)
        for name, of_step in TOTALS.items():
            total = _number(final.get(name))
            values = [_number(field_of(step.get("metrics"), of_step)) for step in own]
            figures = [value for value in values if value is not None]
            if total is None or not figures:
                continue
            # The sum of the steps that are not copied; sub-agents' may be counted in.
            least = math.fsum(figures)
            sums = (least, math.fsum([least, *_below(self.document, of_step)]))
            if any(math.isclose(total, one, rel_tol=1e-6, abs_tol=1e-9) for one in sums):
                continue
            shown = str(int(least)) if least == int(least) else f"{least:.6g}"
            if total > least and (len(figures) < len(values) or outside):
                message = f"is {total}, the steps with figures add up to {shown}"
                self.warning("total", f"{path}.{name}", message)
            else:
                self.error("total", f"{path}.{name}", f"is {total}, the steps add up to {shown}")

    def _cached(self, figures: Json, path: str, prefix: str) -> None:
        part, whole = f"{prefix}cached_tokens", f"{prefix}prompt_tokens"
        cached, prompt = _number(figures.get(part)), _number(figures.get(whole))
        if cached is not None and prompt is not None and cached > prompt:
            message = f"{cached} of {prompt} {whole}: it is a part of them"
            self.error("cached", f"{path}.{part}", message)

    def _exists(self, name: str) -> bool:
        """Whether a path beside the document leads somewhere; URLs are taken as they are."""
        try:
            return self.folder is None or "://" in name or (self.folder / name).exists()
        except (OSError, ValueError):
            return False


def _below(document: Json, name: str) -> list[float]:
    """The same figure of all embedded sub-agents, as their totals or their steps tell it."""
    total = next(total for total, of_step in TOTALS.items() if of_step == name)
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


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
