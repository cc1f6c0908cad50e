"""Histories of prompts: what an agent keeps of all that was typed, whatever the session.

    {"session_id":"01a1…","ts":1794821498,"text":"fix it"}                         Codex, history.jsonl
    {"sessionId":"851b…","messageId":0,"message":"/stats","timestamp":"…"}         Gemini CLI, logs.json

It is all that is left of a session whose own file is gone.
"""

from collections.abc import Iterator

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.scribe import Scribe, title_of


class Prompt(msgspec.Struct, gc=False):
    session_id: str = ""
    sessionId: str = ""
    text: str = ""
    message: str = ""
    ts: int | float | None = None
    timestamp: str | None = None


_PROMPT = Shape(Prompt)


def read_history(origin: Origin, tally: Tally, recover: bool, product: str) -> Iterator[AnyFact]:
    for offset, _, prompt in iter_json_lines(origin, _PROMPT, tally, recover):
        session, text = prompt.session_id or prompt.sessionId, prompt.text or prompt.message
        if not session or not text:
            tally.unrecognise("prompt without a session", origin.path, offset)
            continue
        time = parse_time(prompt.ts or prompt.timestamp)
        scribe = Scribe((product, session), origin.path, offset, time=time, rank=Rank.INDEX)
        kind = "command" if prompt.message.startswith("/") else ""
        scribe.message(role="user", text=text, kind=kind)
        scribe.note("title", title_of(text), Rank.LAST_RESORT)
        yield from scribe.facts
