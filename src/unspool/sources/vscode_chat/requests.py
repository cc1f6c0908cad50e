"""One request of a chat: the person's message, the answer in its rounds, and all that came with it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Attachment, Marked, MessageSeen, Noted, UsageReported
from unspool.io.structs import REST
from unspool.io.times import parse_time
from unspool.sources.vscode_chat import fields, prompts
from unspool.sources.vscode_chat.calls import call_facts, orphan_facts
from unspool.sources.vscode_chat.model import Agent, Round
from unspool.sources.vscode_chat.parts import ASKED, answers
from unspool.sources.vscode_chat.placing import own_thinking
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.turns import Turn
from unspool.sources.vscode_chat.uris import uri_of
from unspool.sources.vscode_chat.variables import attachments_of, entries_of

_STATUS = {0: "cancelled", 2: "cancelled", 3: "failed", 4: "cancelled"}
_SILENT = frozenset(
    ("response_id", "model_id", "details", "timings", "elapsed_ms", "waited_ms", *fields.METADATA)
)
"""What a request may tell about an answer that nobody gave."""
_MANY = 2**60
"""More tokens than this are not a count."""
_EPOCHS = 1e11
"""Waiting times above this are time stamps: a bug of the mutation log's writer."""


def request_facts(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    """Everything that one request states."""
    yield from _context_facts(turn, scribe)
    yield _user_fact(turn, scribe)
    yield from _answer_facts(turn, scribe)
    if turn.duration_ms is not None:
        yield scribe.write(
            Noted, on="message", subject=turn.last_id, name="duration_ms", value=turn.duration_ms
        )
    yield from orphan_facts(turn, scribe)
    yield from _usage_facts(turn, scribe, turn.last_id)
    yield from _mark_facts(turn, scribe)


def _context_facts(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    text, images = prompts.rendered(turn.metadata.renderedGlobalContext or [])
    if text:
        yield scribe.write(
            MessageSeen, id=f"{turn.id}/context", role="user", kind="injected", text=text,
            time=turn.time, request=turn.id, attachments=tuple(images),
        )  # fmt: skip


def _user_fact(turn: Turn, scribe: Scribe) -> MessageSeen:
    request = turn.request
    typed = prompts.typed_text(request.message)
    sent, images = prompts.rendered(turn.metadata.renderedUserMessage or [])
    extra = _extra(fields.USER, request)
    if request.agent is not None:
        extra["agent"] = _agent(request.agent)
    if request.rest:
        extra[fields.NATIVE] = {"request": request.rest}
    if found := prompts.mentions(request.message):
        extra["mentions"] = found
    if request.isSystemInitiated:
        extra["system_initiated"] = True
        if sent and typed and sent != typed:
            extra["shown"] = typed
    attached = attachments_of(entries_of(request.variableData))
    return scribe.write(
        MessageSeen, id=turn.id, role="user", text=sent or typed, time=turn.time,
        typed=None if request.isSystemInitiated else typed,
        kind="notification" if request.isSystemInitiated else "",
        mode=turn.mode, request=turn.id, status=turn.removed,
        attachments=_without_repeats(attached, images), extra=extra or None,
        withdrawn=turn.withdrawn, edition=turn.edition,
    )  # fmt: skip


def _agent(agent: Agent) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(agent)
    for name in (*fields.PARTICIPANT, REST):
        made.pop(name, None)
    return {**made, **(agent.rest or {})}


def _without_repeats(
    attached: tuple[Attachment, ...], images: list[Attachment]
) -> tuple[Attachment, ...]:
    """An attached image is in the rendered message again."""
    known = {attachment.sha256 for attachment in attached if attachment.sha256}
    return (*attached, *(i for i in images if not i.sha256 or i.sha256 not in known))


def _extra(names: dict[str, str], holder: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for ours, theirs in names.items():
        value = getattr(holder, theirs)
        if value is None or value == "" or value == [] or value == {}:
            continue
        made[ours] = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
    return made


def _answer_facts(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    """The assistant's messages: one for every round."""
    if not turn.rounds:
        yield from _single_answer(turn, scribe)
        return
    last = len(turn.rounds) - 1
    for number, (held, calls) in enumerate(zip(turn.rounds, turn.calls, strict=True)):
        ident = turn.round_id(number)
        beside = turn.placed[number]
        extra = beside.extra() | _extra(fields.ROUND, held)
        if extra.get("retries") == 0:
            del extra["retries"]
        if held.rest:
            extra[fields.NATIVE] = {"round": held.rest}
        if ident_of := _thinking_id(held, extra.get("thoughts", [])):
            extra["thoughts"] = [*extra.get("thoughts", []), {"id": ident_of}]
        if number == last:
            extra = _with_native(_last_extra(turn, held.response or ""), extra)
        time = parse_time(held.timestamp) or (turn.ended if number == last else None)
        answered = bool(held.response or calls)
        status = turn.status_of(number)
        ending = _ending(turn, answered, status) if number == last else {"status": status}
        text = held.response or (_error_text(turn) if ending.get("kind") == "error" else "")
        yield scribe.write(
            MessageSeen, id=ident, role="assistant", text=text,
            thinking=own_thinking(held) or "\n\n".join(beside.thinking), time=time,
            model=turn.model, request=turn.id, extra=extra or None,
            **ending,
        )  # fmt: skip
        yield from call_facts(turn, scribe, calls, ident)


def _single_answer(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    """No rounds are known: one message out of the parts that bear text."""
    request = turn.request
    calls = [call for group in turn.calls for call in group]
    text = turn.answer.text
    (beside,) = turn.placed
    thinking = "\n\n".join(beside.thinking)
    extra = _with_native(_last_extra(turn, text), beside.extra())
    if not (text or thinking or calls or extra.keys() - _SILENT or _is_judged(turn)):
        return
    ending = _ending(turn, bool(text or calls), turn.removed)
    if not text and ending["kind"] == "error":
        text = _error_text(turn)
    yield scribe.write(
        MessageSeen, id=turn.response_id, role="assistant", text=text, thinking=thinking,
        time=turn.ended or parse_time(request.responseTimestamp), model=turn.model,
        request=turn.id, extra=extra or None, **ending,
    )  # fmt: skip
    yield from call_facts(turn, scribe, calls, turn.response_id)


def _is_judged(turn: Turn) -> bool:
    """Whether an answer without a word was voted on or counted: then there was one."""
    return turn.request.vote is not None or bool(_usage(turn))


def _ending(turn: Turn, answered: bool, removed: str) -> dict[str, str]:
    """Status, stop reason and kind of the last message of an answer."""
    error = turn.error or {}
    status = (
        removed
        or _STATUS.get(1 if turn.state is None else turn.state, "")
        or ("failed" if error else "")
    )
    code = error.get("code")
    stop = code if isinstance(code, str) else ""
    if not stop and turn.metadata.maxToolCallsExceeded is True:
        stop = "max_tool_calls"
    kind = "error" if _error_text(turn) and not answered else ""
    return {"status": status, "stop": stop, "kind": kind}


def _error_text(turn: Turn) -> str:
    message = (turn.error or {}).get("message")
    return message if isinstance(message, str) else ""


def _last_extra(turn: Turn, text: str) -> dict[str, Any]:
    """What is told once about the whole answer; `text` is its last message's."""
    request, result, metadata = turn.request, turn.result, turn.metadata
    made = _extra(fields.ANSWER, request)
    made.pop("vote_down_reason", None)  # goes with the vote
    made |= _extra(fields.RESULT, result)
    made |= _extra(fields.METADATA, metadata)
    if turn.error:
        made["error"] = turn.error
    if made.get("waited_ms", 0) > _EPOCHS or not made.get("waited_ms", 1):
        del made["waited_ms"]
    if turn.state not in (None, 1):
        made["state"] = fields.STATES.get(turn.state or 0, str(turn.state))
    if turn.other_end is not None:
        made["completed_at"] = turn.other_end
    if turn.parts.vulnerabilities:
        made["vulnerabilities"] = turn.parts.vulnerabilities
    if turn.parts.cleared:
        made["cleared"] = turn.parts.cleared
    if metadata.codeBlocks:
        made["code_blocks"] = fields.quoted(metadata.codeBlocks, text)
    native = {k: v for k, v in (("result", result.rest), ("metadata", metadata.rest)) if v}
    if native:
        made[fields.NATIVE] = native
    return made


def _thinking_id(held: Round, thoughts: list[dict[str, Any]]) -> str:
    """The id of a round's thinking, where nothing that was shown has it."""
    found = held.thinking.get("id") if isinstance(held.thinking, dict) else None
    if not isinstance(found, str) or fields.MADE_THINKING.fullmatch(found):
        return ""
    return "" if any(thought.get("id") == found for thought in thoughts) else found


def _with_native(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    native = {**first.get(fields.NATIVE, {}), **second.get(fields.NATIVE, {})}
    return {**first, **second, **({fields.NATIVE: native} if native else {})}


def _usage_facts(turn: Turn, scribe: Scribe, last: str) -> Iterator[AnyFact]:
    if usage := _usage(turn):
        yield scribe.write(
            UsageReported, on="message", subject=last, model=turn.model, time=turn.ended, **usage
        )


def _usage(turn: Turn) -> dict[str, Any]:
    """Tokens of the whole turn where they are told, else of its last model call."""
    request = turn.request
    old = turn.result.usage or {}
    prompt = _first(request.promptTokens, old.get("promptTokens"), turn.metadata.promptTokens)
    completion = _first(
        request.completionTokens, old.get("completionTokens"), turn.metadata.outputTokens
    )
    extra = _extra(fields.USAGE, request)
    if old.get("promptTokenDetails"):
        extra.setdefault("prompt_token_details", old["promptTokenDetails"])
    cached = None
    if totals := request.modelTotals:
        if prompt is not None:
            extra["last_prompt_tokens"] = prompt
        prompt = _sum(totals, "inputTokens")
        completion = _sum(totals, "outputTokens")
        cached = _sum(totals, "cachedTokens")
    if prompt is None and completion is None and not extra:
        return {}
    return {"prompt": prompt, "completion": completion, "cached": cached, "extra": extra or None}


def _sum(totals: list[dict[str, Any]], name: str) -> int | None:
    values = [value for held in totals if (value := _first(held.get(name))) is not None]
    return sum(values) if values else None


def _first(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MANY:
            return int(value)
    return None


def _mark_facts(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    """Edited files, answers that a person gave, pull requests: as they stand in the messages."""
    touched = {id(part): made for part, made in turn.touched}
    for part in (part for placed in turn.placed for part in placed.parts):
        kind = part.get("kind")
        if id(part) in touched:
            yield from _touch_facts(turn, scribe, part, touched[id(part)])
        elif kind == "pullRequest":
            yield scribe.write(Noted, name="references", value=_pull_request(part))
        elif isinstance(kind, str) and kind in ASKED and (found := answers(part)) is not None:
            yield scribe.write(
                Marked, kind="answer", subject=turn.last_id, data=found, time=turn.ended
            )
    edited = {touch["path"] for _, made in turn.touched for touch in made}
    for path, outcome in turn.outcomes.items():
        if path not in edited:
            touch = {"path": path, "operation": "edit", "outcome": outcome}
            yield scribe.write(Marked, kind="file", subject=turn.id, data=touch, time=turn.time)
    for summary in _summaries(turn):
        held = summary.get("toolCallRoundId")
        at = held if isinstance(held, str) else turn.id
        yield scribe.write(Marked, kind="compaction", subject=at, data=summary, time=turn.time)


def _touch_facts(
    turn: Turn, scribe: Scribe, part: dict[str, Any], made: list[dict[str, Any]]
) -> Iterator[AnyFact]:
    owner = turn.owners[id(part)]
    told = turn.round_id(owner.number) if turn.rounds else turn.response_id
    for touch in made:
        if touch["path"] in turn.outcomes:
            touch["outcome"] = turn.outcomes[touch["path"]]
        elif owner.undone or turn.removed == "undone":
            touch["outcome"] = "undone"
        subject = owner.call or told
        yield scribe.write(Marked, kind="file", subject=subject, data=touch, time=turn.ended)


def _pull_request(part: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "pull_request"}
    for name in ("title", "description", "author", "linkTag", "owner", "repo", "pullRequestNumber"):
        if part.get(name) not in (None, ""):
            made[name] = part[name]
    if uri := uri_of(part.get("uri")):
        made["uri"] = uri
    return made


def _summaries(turn: Turn) -> list[dict[str, Any]]:
    """History that was compacted while this request ran; the same summary is kept in two places."""
    held = [*(turn.metadata.summaries or ()), turn.metadata.summary]
    held += [{"toolCallRoundId": r.id, "text": r.summary} for r in turn.rounds if r.summary]
    made: dict[str, dict[str, Any]] = {}
    for value in held:
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            made.setdefault(str(value.get("toolCallRoundId")), value)
    return list(made.values())
