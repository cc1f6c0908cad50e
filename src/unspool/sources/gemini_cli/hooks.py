"""Hook payloads of Gemini CLI: events of its own, each with a time, and no ids of calls.

    {"hook_event_name":"AfterModel","llm_request":{…},"llm_response":{"text":"End of tu",…}}
    {"hook_event_name":"AfterTool","tool_name":"replace","tool_input":{…},"tool_response":{…}}

An answer comes in pieces, and its calls behind it. What a sub-agent does looks like the session's own
doing: all that stands between an `invoke_agent` and its end is passed over.
"""

import hashlib
from collections.abc import Callable

import msgspec

from unspool.facts import Rank
from unspool.io.values import dict_of, dicts_of, list_of, str_of
from unspool.sources import hook_payloads
from unspool.sources.hook_payloads import Dialect, Payload
from unspool.sources.scribe import Scribe

_EVENTS = frozenset((
    "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection", "BeforeTool",
    "AfterTool", "PreCompress",
))  # fmt: skip


def _is_own(payload: Payload) -> bool:
    path = str(payload.get("transcript_path") or "").replace("\\", "/")
    event = payload.get("hook_event_name")
    return (isinstance(event, str) and event in _EVENTS) or "/.gemini/tmp/" in path


def _answered(payload: Payload, scribe: Scribe) -> None:
    request, response = dict_of(payload.get("llm_request")), dict_of(payload.get("llm_response"))
    ident, model, text = (
        payload["answer"],
        str_of(request.get("model")),
        str_of(response.get("text")),
    )
    if text:
        entry = f"{ident}:{payload.get('timestamp')}:{text[:20]}"
        scribe.message(id=ident, role="assistant", text=text, model=model, piece=True, entry=entry)
    else:
        # {"text":"","candidates":[{"content":{"parts":["I should look."]}}]}: reasoning, of which a
        # killed program keeps nothing else (case `hooks_killed`).
        parts = [
            part
            for candidate in dicts_of(response.get("candidates"))
            for part in list_of(dict_of(candidate.get("content")).get("parts"))
        ]
        if thought := "".join(map(str_of, parts)):
            entry = f"{ident}:{payload.get('timestamp')}:thought"
            scribe.message(id=ident, role="assistant", thinking=thought, model=model, entry=entry)
    usage = dict_of(response.get("usageMetadata"))
    names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
    counts = [usage.get(name) for name in names]
    prompt, completion, total = (n if isinstance(n, int) else None for n in counts)
    if completion is None:
        return
    if prompt is not None and total is not None:
        completion = total - prompt  # with the thoughts
    if not text:
        scribe.message(id=ident, role="assistant", model=model)
    scribe.usage(
        subject=ident, model=model, prompt=prompt, completion=completion, rank=Rank.STANDIN
    )


def _follow() -> Callable[[Payload], bool]:
    """The request tells which pieces are one answer, and a call ends it: the request shows neither
    calls nor results, so that answers without words follow one request (case `hooks_wordless`)."""
    running: dict[str, int] = {}
    answers: dict[str, str] = {}
    asked: dict[str, tuple[str, int]] = {}
    """Session → the request, and how many answers to it ended with a call."""

    def counts(payload: Payload) -> bool:
        session, event = payload["session_id"], payload.get("hook_event_name")
        delegates = payload.get("tool_name") == "invoke_agent"
        depth = running.get(session, 0)
        if event == "BeforeTool" and delegates:
            running[session] = depth + 1
        elif event == "AfterTool" and delegates:
            running[session] = depth = max(depth - 1, 0)
        elif event in ("AfterAgent", "BeforeAgent", "SessionStart", "SessionEnd"):
            running[session] = depth = 0
        if depth > 0 and not delegates:
            return False
        if event == "AfterModel":
            request = msgspec.json.encode(payload.get("llm_request"))
            digest = hashlib.sha256(request).hexdigest()[:16]
            before, number = asked.get(session, ("", 0))
            number = number if before == digest else 0
            asked[session] = (digest, number)
            answers[session] = f"hook:{digest}:{number}" if number else f"hook:{digest}"
        elif event == "AfterTool":
            digest, number = asked.get(session, ("", 0))
            asked[session] = (digest, number + 1)
        elif event == "BeforeAgent":
            answers.pop(session, None)
        payload["answer"] = answers.get(session, "")
        return True

    return counts


DIALECT = Dialect(
    product="gemini-cli",
    is_own=_is_own,
    events={
        "SessionStart": hook_payloads.start,
        "BeforeAgent": hook_payloads.prompt,
        "AfterModel": _answered,
        "BeforeTool": hook_payloads.call,
        "AfterTool": hook_payloads.returned,
        # `prompt_response` is all that the turn said, run together: no answer.
        "AfterAgent": hook_payloads.happened("turn_end"),
        "SessionEnd": hook_payloads.end,
    },
    follow=_follow,
)
