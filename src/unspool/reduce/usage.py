"""Usage: tokens and cost of messages, requests, runs and the conversation.

    {"type": "session.start"} … {"type": "session.shutdown", "modelMetrics": {…}}    run 1, reported
    {"type": "session.resume"} … killed                                             run 2: the sum of
                                                                                    its messages
(cases/copilot_cli/three_runs, two_programs_at_once)

A conversation is carried on in run segments, each of which may report what it used.
A report covers what lies between the start or resumption of its run (or the report before it) and
itself. Where a second program took the conversation up while a first one had it (`concurrent`),
both report: between them they cover it from where the first began. What no report covers is the sum
of the calls known for that time, or of the messages: a run that ended without a report used
something all the same.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import ne
from typing import Any, NamedTuple

import msgspec

from unspool.facts import CONCURRENT, Marked, Noted, Rank, UsageReported
from unspool.io.times import format_time
from unspool.reduce.drafts import Assembly
from unspool.reduce.echoes import NEAR
from unspool.trajectory import Message, Trajectory, Usage

OPENERS = frozenset(("start", "resume"))


TOKENS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
    "requests",
)


def total(usages: Sequence[Usage]) -> Usage | None:
    """The sum; a figure that nobody knows stays unknown."""
    if not usages:
        return None
    sums: list[Any] = []
    for column in zip(*map(msgspec.structs.astuple, usages), strict=True):
        unknown = column.count(None)
        if unknown == len(usages):
            sums.append(None)
        else:
            sums.append(sum([n for n in column if n is not None] if unknown else column))
        if len(sums) == len(TOKENS):
            break  # what is behind them is no figure
    return Usage(*sums) if sums.count(None) < len(sums) else None


class Span(NamedTuple):
    """What one report covers: places in the order, and times."""

    start: float
    end: float
    since: int | None
    until: int | None

    def has_time(self, time: int | None) -> bool:
        if time is None or self.until is None:
            return False
        return (self.since or 0) <= time <= self.until


class Runs:
    """The usage of a conversation beside that of its messages, and what each report covers."""

    def __init__(
        self,
        messages: Sequence[Message] = (),
        places: Sequence[float] = (),
        usage: Sequence[tuple[float, UsageReported]] = (),
        marks: Sequence[tuple[float, Marked]] = (),
        following: Sequence[tuple[float, Noted]] = (),
    ) -> None:
        self.places = places
        self.following = following
        self.requests = [r for _, r in usage if r.on == "request"]
        self.conversation = [r for _, r in usage if r.on == "conversation"]
        counted = [
            p for p, r in usage if r.on == "conversation" and Rank.EXTRACT <= r.rank < Rank.ECHO
        ]
        self.later = (
            [
                message.usage
                for message, place in zip(messages, places, strict=True)
                if place > max(counted) and message.usage is not None and not message.copied
            ]
            if counted
            else []
        )
        """What came behind the last account of the conversation: the program crashed, or still runs."""
        self.segments = [r for _, r in usage if r.on == "segment" and r.rank <= Rank.ITSELF]
        self.echoed = [r for _, r in usage if r.on == "segment" and r.rank > Rank.ITSELF]
        """Runs as another store tells of them: they fill in what the messages leave open."""
        self.opened = sum(1 for _, mark in marks if mark.kind in OPENERS)
        spans = _spans(usage, marks)
        self.reported = len(spans)
        self._spans = spans
        self.calls = [r for p, r in usage if _is_own(r) and not self._covers(p)]
        """Calls beside the messages (a sub-agent's, say) that no report covers."""
        self.told = [
            r
            for _, r in usage
            if r.on in ("call", "message")
            and not _is_own(r)
            and not any(span.has_time(r.time) for span in spans)
        ]
        """The same from another channel, which tells of all calls."""
        # A call that both tell of is one: what the log does not tell of it, the other may.
        told = {report.subject: report for report in self.told}
        known = {report.subject for report in self.calls} & told.keys()
        self.calls = [_filled(r, told[r.subject]) if r.subject in known else r for r in self.calls]
        self.told = [report for report in self.told if report.subject not in known]
        if self.echoed:
            fill_last_gap(messages, places, usage)
        self._messages = messages

    def _covers(self, place: float) -> bool:
        """Whether a report does."""
        return any(span.start <= place <= span.end for span in self._spans)

    @cached_property
    def rest(self) -> list[tuple[str, Usage]]:
        """(model, usage) of what no report covers: another channel's, where it tells no less."""
        own = [
            (message.model or "", message.usage)
            for message, place in zip(self._messages, self.places, strict=True)
            if message.usage is not None and not message.copied and not self._covers(place)
        ]
        own += [(report.model, to_usage(report)) for report in self.calls]
        if not self.told:
            return own
        told = [(report.model, to_usage(report)) for report in self.told]
        known = total([usage for _, usage in told]) or Usage()
        least = total([usage for _, usage in own]) or Usage()
        enough = (known.completion_tokens or 0) >= (least.completion_tokens or 0)
        return told if enough else own


def fill_last_gap(
    messages: Sequence[Message],
    places: Sequence[float],
    usage: Sequence[tuple[float, UsageReported]],
) -> None:
    """Where one answer of a run does not tell how long it became, and the run as a whole does, the rest
    is its (cases/claude_code/stream_totals). Which answers the run counts is told by what went in: one
    that was cut off is none of them."""
    start, gaps = float("-inf"), list[Usage]()
    for end, report in sorted(
        ((p, r) for p, r in usage if r.on == "segment" and r.rank > Rank.ITSELF),
        key=lambda placed: placed[0],
    ):
        used = [
            message.usage
            for message, place in zip(messages, places, strict=True)
            if start < place <= end and message.usage is not None and not message.copied
        ]
        start = end
        here = [usage for usage in used if usage.completion_tokens is None]
        gaps += here
        told = total([usage for usage in used if usage.completion_tokens is not None]) or Usage()
        went_in = (report.prompt or 0) - (told.prompt_tokens or 0)
        came_out = (report.completion or 0) - (told.completion_tokens or 0)
        # Runs without times may be told side by side, all ends behind all answers.
        for told_open in (here, gaps):
            fitting = [usage for usage in told_open if usage.prompt_tokens == went_in]
            if len(fitting) == 1 and came_out > 0:
                fitting[0].completion_tokens = came_out
                gaps = [usage for usage in gaps if usage is not fitting[0]]
                break


_FIGURES = ("model", "prompt", "completion", "cached", "cache_write", "reasoning", "requests")


def _filled(report: UsageReported, other: UsageReported) -> UsageReported:
    gaps = (name for name in _FIGURES if getattr(report, name) in (None, ""))
    return msgspec.structs.replace(report, **{name: getattr(other, name) for name in gaps})


def _is_own(report: UsageReported) -> bool:
    return report.on == "call" and report.rank == 0


def _spans(
    usage: Sequence[tuple[float, UsageReported]], marks: Sequence[tuple[float, Marked]]
) -> list[Span]:
    events: dict[float, tuple[str, int | None]] = {}
    for place, mark in marks:
        if mark.kind in OPENERS:
            beside = (mark.data or {}).get(CONCURRENT)
            events[place] = ("beside" if beside else "open", mark.time)
    for place, report in usage:
        if report.on == "segment" and report.rank <= Rank.ITSELF:
            events[place] = ("report", report.time)
    spans: list[Span] = []
    last: tuple[float, int | None] = (float("-inf"), None)
    running: list[tuple[float, int | None]] = []
    for place, (kind, time) in sorted(events.items()):
        if kind == "report":
            start, since = running.pop() if running else last
            spans.append(Span(start, place, since, time))
            last = (place, time)
        else:
            running = [*(running if kind == "beside" else ()), (place, time)]
    return spans


def assign_usage(assembly: Assembly, messages: list[Message]) -> list[tuple[float, UsageReported]]:
    """Give every message its usage; the reports that are on no message seen come back."""
    if not assembly.usage:
        return []
    settled = settle_usage(assembly.usage)
    by_subject: dict[str, list[UsageReported]] = {}
    for _, report in settled:
        if report.on == "message":
            subject = assembly.joined.get(report.subject, report.subject)
            by_subject.setdefault(subject, []).append(report)
    for name in ("id", "request_id"):
        for message in messages if by_subject else ():
            subject = getattr(message, name) or ""
            if subject in by_subject and message.role == "assistant":
                reports = by_subject.pop(subject)
                add_to_message(message, [to_usage(report) for report in reports])
    by_time = [report for _, report in settled if report.on == "answer"]
    if by_time:
        _give_by_time(messages, by_time)
    left = {report.subject for reports in by_subject.values() for report in reports}
    return [
        (place, report)
        for place, report in settled
        if report.on not in ("message", "answer") or report.subject in left
    ]


def _give_by_time(messages: list[Message], reports: list[UsageReported]) -> None:
    """To the first answer behind each report, within a minute, unless that tells another count
    (case `copilot_cli/store_tokens`):

        {"created_at":"…:07.114Z","input_tokens":900,"output_tokens":12}                 the store
        {"type":"assistant.message","timestamp":"…:07.120Z","data":{"outputTokens":12}}   the log
    """
    answers = [m for m in messages if m.role == "assistant" and not m.kind and m.timestamp]
    for report in sorted(reports, key=lambda report: (report.time or 0, report.subject)):
        since = format_time(report.time) or ""
        until = format_time((report.time or 0) + NEAR) or ""
        behind = next((m for m in answers if since <= (m.timestamp or "") <= until), None)
        if behind is not None:
            known = behind.usage.completion_tokens if behind.usage is not None else None
            if known is None or known == report.completion:
                add_to_message(behind, [to_usage(report)])
                answers.remove(behind)


def add_to_message(message: Message, usages: list[Usage]) -> None:
    """Parts add up; what a request reports beside the message itself fills the gaps."""
    made = usages[0] if len(usages) == 1 else total(usages)
    if message.usage is None or made is None:
        message.usage = message.usage or made
        return
    _fill(message.usage, made)


_WHOLE = ("message", "request")
"""What one model answers: a report on it tells the model, it does not split by it."""


def settle_usage(
    reports: Iterable[tuple[float, UsageReported]],
) -> list[tuple[float, UsageReported]]:
    """Per subject (and model): the lowest rank, then the last in order."""
    best: dict[tuple[str, str, str], tuple[float, UsageReported]] = {}
    for place, report in reports:
        key = (report.on, report.subject, report.model if report.on not in _WHOLE else "")
        known = best.get(key)
        if known is None or report.rank <= known[1].rank:
            best[key] = (place, report)
    return list(best.values())


def to_usage(report: UsageReported) -> Usage:
    return Usage(
        prompt_tokens=report.prompt,
        completion_tokens=report.completion,
        cached_tokens=report.cached,
        cache_write_tokens=report.cache_write,
        reasoning_tokens=report.reasoning,
        cost_usd=report.cost_usd,
        requests=report.requests,
        extra=report.extra,
    )


def add_usage(trajectory: Trajectory, runs: Runs) -> None:
    """Totals: what was reported for the conversation, and what came behind that, else its runs and
    what they leave out.

    A report of rank EXTRACT or above may be older than the last answers, or hold sub-agents and calls
    beside the conversation: where every answer tells its own tokens, their sum is better
    (cases/copilot_cli/runs_with_accounts).
    """
    if trajectory.usage is None:
        own = [m.usage for m in trajectory.messages if m.usage is not None and not m.copied]
        silent: list[Usage] = []
        if runs.requests:
            given = {m.request_id for m in trajectory.messages if m.usage is not None}
            silent = [to_usage(r) for r in runs.requests if r.subject not in given]
        reported = [to_usage(r) for r in runs.segments]
        beside = bool(reported or runs.calls or runs.told)
        rest = [usage for _, usage in runs.rest] if beside else []
        accounted = bool(runs.conversation or runs.segments)
        own_suffice = accounted and _tells_all(trajectory.messages)
        if own_suffice:
            trajectory.metadata.pop("usage_includes_subagents", None)
        trajectory.usage = total_of(
            [to_usage(r) for r in runs.conversation if r.rank < Rank.EXTRACT],
            own if own_suffice else [],
            [*(to_usage(r) for r in runs.conversation), *(runs.later if runs.conversation else ())],
            [*reported, *rest],
            [*own, *silent],
            [to_usage(r) for r in runs.echoed],
        )
        if runs.echoed and trajectory.usage is not None:
            _raise_to(total([to_usage(r) for r in runs.echoed]), trajectory.usage, own)
        if (
            runs.conversation
            and trajectory.usage is not None
            and trajectory.usage.completion_tokens
        ):
            # A program may forget a run in its account, but none is less than what its answers tell
            # (case `copilot_cli/account_too_small`).
            said = sum(usage.completion_tokens or 0 for usage in own)
            trajectory.usage.completion_tokens = max(trajectory.usage.completion_tokens, said)
        if trajectory.usage is not None and reported and rest and not runs.conversation:
            known = {"runs": max(runs.opened, runs.reported), "runs_reported": runs.reported}
            trajectory.usage.extra = known
    add_model_usage(trajectory, runs)


def _raise_to(echoed: Usage | None, made: Usage, own: list[Usage]) -> None:
    """Where some answers do not tell a figure, what their runs tell together is no less."""
    for name in TOKENS:
        if echoed is not None and any(getattr(usage, name) is None for usage in own):
            known = (getattr(made, name), getattr(echoed, name))
            setattr(made, name, max((k for k in known if k is not None), default=None))


def _tells_all(messages: list[Message]) -> bool:
    """Whether every answer says what went in and what came out."""
    answers = [m for m in messages if m.role == "assistant" and not m.kind and not m.copied]
    known = [m.usage for m in answers if m.usage is not None]
    whole = [u for u in known if u.prompt_tokens is not None and u.completion_tokens is not None]
    return bool(answers) and len(whole) == len(answers)


def total_of(*levels: list[Usage]) -> Usage | None:
    """Figure by figure, what the highest level that knows it says."""
    sums = [known for known in map(total, levels) if known is not None]
    if not sums:
        return None
    made = Usage()
    for known in sums:
        _fill(made, known)
    return made


def _fill(usage: Usage, other: Usage) -> None:
    for name in TOKENS:
        if getattr(usage, name) is None:
            setattr(usage, name, getattr(other, name))


def give_to_requests(messages: list[Message], reports: list[UsageReported]) -> None:
    """What is known of a whole request goes to its last answer, if its messages know nothing."""
    by_request = {r.subject: r for r in reports if r.on == "request"}
    for message in reversed(messages) if by_request else ():
        if message.role != "assistant" or message.request_id is None:
            continue
        report = by_request.pop(message.request_id, None)
        same = [m for m in messages if m.request_id == message.request_id]
        if report is not None and not any(m.usage is not None for m in same):
            message.usage = to_usage(report)


def add_model_usage(trajectory: Trajectory, runs: Runs) -> None:
    """Models used, the primary one, switches, and tokens by model."""
    models: list[str] = []
    by_model: dict[str, list[Usage]] = {}
    for message in trajectory.messages:
        if message.role != "assistant" or not message.model or message.copied:
            continue
        models.append(message.model)
        if message.usage is not None:
            by_model.setdefault(message.model, []).append(message.usage)
    reported: dict[str, list[Usage]] = {}
    # An account of the whole holds the runs that are told beside it. It may hold sub-agents, too, which
    # the conversation's own tokens do not.
    accounts = runs.conversation or runs.segments
    counted = total([to_usage(report) for report in accounts]) or Usage()
    if trajectory.usage is not None and _tells_all(trajectory.messages):
        same = counted.prompt_tokens == trajectory.usage.prompt_tokens
        accounts = accounts if same else []
    for report in (*accounts, *(() if models else runs.echoed)):
        if report.model:
            reported.setdefault(report.model, []).append(to_usage(report))
    if not runs.conversation and (reported or runs.calls or runs.told):
        only = models[0] if len(set(models)) == 1 else ""
        for model, usage in runs.rest:
            if model or only:  # a summary need not say which model wrote it
                reported.setdefault(model or only, []).append(usage)
    used = list(dict.fromkeys([*models, *reported]))
    made: dict[str, Any] = {}
    if used:
        made["models_used"] = used
        made["primary_model"] = max(used, key=models.count)
        made["model_switches"] = sum(map(ne, models, models[1:]))
    if trajectory.usage is not None:
        known = (trajectory.usage.prompt_tokens, trajectory.usage.completion_tokens)
        if any(value is not None for value in known):
            made["total_tokens"] = sum(value or 0 for value in known)
    sums = {model: total(usages) for model, usages in (reported or by_model).items()}
    tokens = {model: msgspec.to_builtins(usage) for model, usage in sums.items() if usage}
    if tokens:
        made["by_model"] = tokens
    trajectory.model_usage = {**made, **(trajectory.model_usage or {})} or None
