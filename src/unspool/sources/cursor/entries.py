"""Entries: ids for records that have none, and the words of a person out of what was sent.

A record is what it says, and which time it says so in its origin: two copies of a log, or a log and
a longer copy of it, then share their records.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta, timezone

from unspool.facts import Key
from unspool.io.times import parse_time

LAST = 9

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_QUERY = re.compile(r"<user_query>(.*)</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>(.*?)</timestamp>", re.DOTALL)
_ZONE = re.compile(r"\s*\(?(?:UTC|GMT)([+-]\d{1,2})?(?::(\d\d))?\)?\s*$")
_FORMATS = ("%A, %b %d, %Y, %I:%M %p", "%A, %B %d, %Y, %I:%M %p", "%A %b %d, %Y %I:%M %p")


class Entries:
    """Counts what an origin said before."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._times: dict[str, int] = {}

    def of(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()[:20]
        number = self._times[digest] = self._times.get(digest, -1) + 1
        return f"{self._prefix}:{digest}:{number}" if number else f"{self._prefix}:{digest}"


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def request_id(value: object) -> str:
    """The id of a generation, which hooks, bubbles and the list of generations share; newer builds
    hang a counter on its uuid."""
    ident = value if isinstance(value, str) else ""
    match = _UUID.match(ident)
    return match[0] if match else ident


def rank_of(key: Key, name: str, value: object, rank: int) -> int:
    """A conversation is its own session only where nobody names another."""
    return LAST if name == "session_id" and value == key[1] else rank


def typed_words(text: str) -> str | None:
    """What stands in `<user_query>`; None where the text has no such tag. May hold the tag itself."""
    match = _QUERY.search(text)
    return match[1].strip() if match else None


def sent_time(text: str) -> int | None:
    """The time that Cursor wrote into the message: ISO, or `Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)`."""
    match = _TIMESTAMP.search(text)
    if match is None:
        return None
    said = match[1].strip()
    plain = parse_time(said)
    if plain is not None:
        return plain
    zone = _ZONE.search(said)
    offset = timedelta()
    if zone is not None:
        said = said[: zone.start()]
        offset = timedelta(hours=int(zone[1] or 0), minutes=int(zone[2] or 0))
    for form in _FORMATS:
        try:
            moment = datetime.strptime(said, form).replace(tzinfo=timezone(offset))
        except ValueError:
            continue
        return parse_time(moment.astimezone(UTC).isoformat())
    return None
