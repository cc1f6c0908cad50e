"""Events of OpenCode, as the plugin that `unspool hooks install` writes lays them down.

    {"hook_event_name":"chat.message","session_id":"ses_…","cwd":"/w","at":1794821498153,
     "input":{"sessionID":"ses_…"},"output":{"message":{"id":"msg_…"},"parts":[{"type":"text","text":"…"}]}}
    {"hook_event_name":"tool.execute.after","session_id":"ses_…",
     "input":{"tool":"bash","callID":"call_1","args":{…}},"output":{"output":"…"}}

Messages and calls have the ids that they have in the database.
"""

import msgspec

from unspool.facts import Rank
from unspool.io.structs import Shape
from unspool.io.values import dict_of
from unspool.sources.hook_payloads import Dialect, Payload, happened
from unspool.sources.opencode.sessions import NAME, Message, Part, is_typed
from unspool.sources.scribe import Scribe, title_of


class Prompt(msgspec.Struct, gc=False):
    """The `output` of `chat.message`."""

    message: Message | None = None
    parts: list[Part] | None = None


_PROMPT = Shape(Prompt)


def _is_own(payload: Payload) -> bool:
    return str(payload["session_id"]).startswith("ses_")


def _prompt(payload: Payload, scribe: Scribe) -> None:
    prompt = _PROMPT.convert(payload.get("output"))
    text = "\n".join(part.text or "" for part in prompt.parts or () if is_typed(part))
    if text and prompt.message is not None:
        scribe.message(id=prompt.message.id, role="user", text=text, typed=text)
        scribe.note("title", title_of(text), Rank.LAST_RESORT)


def _returned(payload: Payload, scribe: Scribe) -> None:
    given, output = dict_of(payload.get("input")), dict_of(payload.get("output"))
    call, text = given.get("callID"), output.get("output")
    if not isinstance(call, str) or not call:
        return
    name = str(given.get("tool") or "")
    arguments = msgspec.json.encode(given.get("args") or {}).decode()
    scribe.call(id=call, name=name, arguments=arguments)
    scribe.returned(call=call, name=name, text=text if isinstance(text, str) else None)


DIALECT = Dialect(
    product=NAME,
    is_own=_is_own,
    events={
        "session.created": happened("start"),
        "chat.message": _prompt,
        "tool.execute.after": _returned,
        "session.idle": happened("turn_end"),
        "session.compacted": happened("compaction"),
    },
)
