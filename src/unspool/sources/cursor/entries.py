"""What the records of several of Cursor's stores need: places, ids where they have none, the words of a
person out of what was sent, and the steps that their parts make."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any, Literal

from unspool.facts import NOBODY, Key, Problem, Rank
from unspool.io import digests
from unspool.io.door import read_json, sample
from unspool.io.origins import Tally
from unspool.io.times import parse_time
from unspool.io.values import str_of
from unspool.sources.scribe import Scribe

AUTO = "default"
"""Instead of a model: Cursor chose one, and does not tell which."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_QUERY = re.compile(r"<user_query>(.*)</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>(.*?)</timestamp>", re.DOTALL)
_NOTICES = (
    "Perform any necessary follow-up actions in response to the subagent",
    "Briefly inform the user about the task result",
    "The beginning of the above subagent result is already visible",
    "You are the forked subagent;",
    "Your previous response was interrupted. Continue from where you left off.",
)
_SPELLED = re.compile(
    r"([A-Z][a-z]{2})[a-z]* (\d{1,2}), (\d{4}),? (\d{1,2}:\d\d [AP]M)"
    r"(?:\s*\(?(?:UTC|GMT)([+-]\d{1,2})?(?::(\d\d))?)?"
)


class Book:
    """The records of one database: each gets the next offset."""

    def __init__(self, origin: str, tally: Tally) -> None:
        self.origin = origin
        self.tally = tally
        self._offsets = count()

    def scribe(self, key: Key, entry: str = "", **place: Any) -> Scribe:
        return Scribe(key, self.origin, next(self._offsets), entry=entry, **place)

    def parse(self, data: bytes, key: Key = NOBODY) -> Any:
        """The JSON value of a row; None where it is none."""
        read = read_json(data)
        if len(read.values) != 1 or read.lost:
            self.problem(read.code or "invalid-json", data, key)
            return None
        for flaw in read.flaws:  # mended: the record counts
            place = (key, self.origin, next(self._offsets))
            self.tally.flaws.append(Problem(*place, code=flaw.code, sample=flaw.sample))
        return read.values[0]

    def parse_object(self, data: bytes, key: Key = NOBODY) -> dict[str, Any] | None:
        value = self.parse(data, key)
        if value is not None and not isinstance(value, dict):
            self.problem("wrong-types", data, key)
            return None
        return value

    def problem(self, code: str, data: bytes | str, key: Key = NOBODY) -> None:
        """A record that cannot be read, or is not there."""
        self.tally.records += 1
        self.tally.lose(code, self.origin, next(self._offsets), sample(data), key)


class Entries:
    """Ids for records that have none. A record is what it says, and which time it says so in its
    origin: two copies of a log, or a log and a longer copy of it, then share their records."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._times: dict[str, int] = {}

    def of(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()[:20]
        number = self._times[digest] = self._times.get(digest, -1) + 1
        return f"{self._prefix}:{digest}:{number}" if number else f"{self._prefix}:{digest}"


def digest(words: str) -> bytes:
    """What words are known again by, without being kept."""
    return digests.digest(words.strip())


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def request_id(value: object) -> str:
    """The id of a generation, which hooks, bubbles and the list of generations share; newer builds
    hang a counter on its uuid."""
    ident = str_of(value)
    match = _UUID.match(ident)
    return match[0] if match else ident


def number_of(fields: Mapping[str, Any], *names: str) -> float | None:
    """The first of these fields that is a number."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def note_all(scribe: Scribe, notes: Mapping[str, Any], rank: int) -> None:
    """Those that say something. A conversation is its own session only where nobody names another."""
    for name, value in notes.items():
        is_own = name == "session_id" and value == scribe.key[1]
        if value not in (None, ""):
            scribe.note(name, value, Rank.LAST_RESORT if is_own else rank)


def typed_words(text: str) -> str | None:
    """What stands in `<user_query>`; None where the text has no such tag. May hold the tag itself."""
    match = _QUERY.search(text)
    return match[1].strip() if match else None


def notifies(text: str) -> bool:
    """Whether Cursor itself speaks in the person's place: a sub-agent or a background task ended,
    often `<system_notification>…</system_notification>` and one of a few sentences as the query."""
    query = typed_words(text)
    words = _TIMESTAMP.sub("", text).lstrip()
    return words.startswith("<system_notification") or (query or words).startswith(_NOTICES)


def sent_time(text: str) -> int | None:
    """The time that Cursor wrote into the message: ISO, or `Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)`."""
    match = _TIMESTAMP.search(text)
    if match is None:
        return None
    spelled = _SPELLED.search(match[1])
    if spelled is None:
        return parse_time(match[1].strip())
    try:
        moment = datetime.strptime(" ".join(spelled.group(1, 2, 3, 4)), "%b %d %Y %I:%M %p")
    except ValueError:
        return None
    zone = timezone(timedelta(hours=int(spelled[5] or 0), minutes=int(spelled[6] or 0)))
    return parse_time(moment.replace(tzinfo=zone).astimezone(UTC).isoformat())


_ORDER = {"thinking": 0, "text": 1, "call": 2}


class Steps:
    """The step that is open in one conversation: the parts that one model call gave.

    Hooks and bubbles come one by one: a thought, a text, a tool call. A step is at most one stretch
    of thinking, then one text, then calls; calls of one model call share its id where the format has
    it, or run side by side.
    """

    def __init__(self) -> None:
        self.step = ""
        self._stage = -1
        self._group = ""
        self._running: set[str] = set()

    def close(self) -> None:
        """Somebody else spoke, or the turn ended."""
        self.step, self._stage, self._group = "", -1, ""
        self._running.clear()

    def part(self, kind: Literal["thinking", "text", "call"], ident: str, group: str = "") -> str:
        """The step that the part belongs to, named after its first part."""
        if not self.step or not self._goes_on(_ORDER[kind], group):
            self.close()
            self.step = ident
        self._stage = _ORDER[kind]
        self._group = group or self._group
        return self.step

    def began(self, like: str) -> None:
        """A call is running: what is called before it comes back was called beside it."""
        self._running.add(like)

    def ended(self, like: str) -> None:
        self._running.discard(like)

    def _goes_on(self, stage: int, group: str) -> bool:
        if group and self._group:
            return group == self._group
        if stage == _ORDER["call"] == self._stage:
            return bool(self._running)
        return stage > self._stage
