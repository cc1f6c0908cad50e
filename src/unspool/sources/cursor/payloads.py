"""The payloads of Cursor's hooks: their events in one spelling, their fields, their facts' places."""

from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact, Key, Marked, UsageReported
from unspool.sources.cursor.entries import Steps, request_id
from unspool.sources.cursor.runs import Runs

PRODUCT = "cursor"
RANK = 4
"""Below the stores and the transcript, which hold the conversation itself."""
AGAIN = 5
"""A call that the tool hooks tell better."""
EVENTS = (
    "sessionStart", "sessionEnd", "beforeSubmitPrompt", "afterAgentResponse", "afterAgentThought",
    "preToolUse", "postToolUse", "postToolUseFailure", "beforeShellExecution",
    "afterShellExecution", "beforeMCPExecution", "afterMCPExecution", "beforeReadFile",
    "afterFileEdit", "beforeTabFileRead", "afterTabFileEdit", "subagentStart", "subagentStop",
    "preCompact", "stop", "workspaceOpen",
)  # fmt: skip
_CANONICAL = {name.lower(): name for name in EVENTS} | {
    "userpromptsubmit": "beforeSubmitPrompt",
    "posttooluseerror": "postToolUseFailure",
}
"""Names in any case, and those of Claude Code's hooks, which Cursor runs too."""
_IMPLIED = (
    ("prompt", "beforeSubmitPrompt"),
    ("edits", "afterFileEdit"),
    ("result_json", "afterMCPExecution"),
    ("tool_name", "beforeMCPExecution"),  # its command is the server's
    ("output", "afterShellExecution"),
    ("command", "beforeShellExecution"),
    ("status", "stop"),
    ("content", "beforeReadFile"),
    ("text", "afterAgentResponse"),
)
"""The field that an event has and those below it do not: the 2025 beta wrote no names."""

Payload = dict[str, Any]


def is_payload(value: Payload) -> bool:
    if "cursor_version" in value:
        return True
    if "conversation_id" not in value or "properties" in value:
        return False
    name = value.get("hook_event_name")
    return "generation_id" in value or (isinstance(name, str) and name.lower() in _CANONICAL)


def event_name(payload: Payload) -> str:
    """The event in the newest spelling; what the fields imply where it has no name."""
    given = payload.get("hook_event_name", payload.get("hook_type"))
    if isinstance(given, str) and given:
        return _CANONICAL.get(given.lower(), given)
    return next((event for field, event in _IMPLIED if field in payload), "")


def turn_id(payload: Payload) -> str:
    """The generation. The command line puts the conversation's id there: that tells no turn."""
    ident = request_id(payload.get("generation_id"))
    return ident if ident != payload.get("conversation_id") else ""


class Said:
    """One payload: its fields, and the facts that are made from it."""

    def __init__(
        self,
        payload: Payload,
        event: str,
        key: Key,
        place: dict[str, Any],
        steps: Steps,
        runs: Runs,
        model: str,
    ) -> None:
        self.payload = payload
        self.event = event
        self.key = key
        self.steps = steps
        self.runs = runs
        self.turn = turn_id(payload)
        self.model = model
        self.entry = str(place["entry"])
        self._place = place

    def make(self, what: type[Any], number: int = 10, key: Key | None = None, **fields: Any) -> Any:
        return what(key=key or self.key, number=number, **self._place, **fields)

    def mark(self, number: int = 10, key: Key | None = None, **fields: Any) -> Marked:
        made: Marked = self.make(Marked, number, key, rank=RANK, **fields)
        return made

    def text(self, *names: str) -> str:
        for name in names:
            value = self.payload.get(name)
            if isinstance(value, str) and value:
                return value
        return ""

    def number(self, *names: str) -> float | None:
        for name in names:
            value = self.payload.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None

    def pick(self, *names: str) -> dict[str, Any]:
        """The fields of these names that say something."""
        return {n: v for n in names if (v := self.payload.get(n)) not in (None, "", [], {})}

    def usage(self, rank: int) -> Iterator[AnyFact]:
        """Tokens of the generation; input is told without what the cache gave and took."""
        given = (self.number("input_tokens"), self.number("output_tokens"))
        total = self.number("tokens_used")
        if not any(given) and not total:
            return
        read, written = self.number("cache_read_tokens"), self.number("cache_write_tokens")
        prompt = given[0] + (read or 0) + (written or 0) if given[0] is not None else None
        yield self.make(
            UsageReported, on="request", subject=self.turn or self.entry, rank=rank,
            prompt=_whole(prompt), completion=_whole(given[1]), cached=_whole(read),
            cache_write=_whole(written),
            extra={"total_tokens": int(total)} if total and not any(given) else None,
        )  # fmt: skip


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None else None
