"""Time inside is microseconds since 1970 in UTC; ISO text stands only at the edges.

And stamps: dates as scripts write them before what they log (ISO, `date`, `date -R`, epochs).
"""

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Plain numbers are seconds, milliseconds, microseconds or nanoseconds by their size; the limits
# lie near the years 1970 and 5138, so no real time is taken for another unit.
_SECONDS_LIMIT = 100_000_000_000
_MILLIS_LIMIT = _SECONDS_LIMIT * 1000
_MICROS_LIMIT = _MILLIS_LIMIT * 1000


def parse_time(value: object) -> int | None:
    """Microseconds since 1970 from ISO text or an epoch number; None where it is neither."""
    if type(value) is int or type(value) is float:
        return _from_number(value)
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        text = value.strip()
        if text.isdigit():
            return _from_number(int(text)) if len(text) >= 9 else None
        if text[-4:] in (" UTC", " GMT"):
            text = text[:-4] + "+00:00"
        try:
            return _from_datetime(datetime.fromisoformat(text))
        except ValueError:
            return None
    return _from_datetime(moment)


def _from_number(value: float) -> int | None:
    if not 0 < value < _MICROS_LIMIT * 1000:
        return None
    if value < _SECONDS_LIMIT:
        return int(value * 1_000_000)
    if value < _MILLIS_LIMIT:
        return int(value * 1000)
    if value < _MICROS_LIMIT:
        return int(value)
    return int(value / 1000)


def _from_datetime(moment: datetime) -> int | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        since = moment - _EPOCH
    except OverflowError:
        return None
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros if micros > 0 else None


_SECONDS = tuple(f":{second:02d}." for second in range(60))
_MILLIS = tuple(f"{milli:03d}Z" for milli in range(1000))


def format_time(micros: int | None) -> str | None:
    """ISO text in UTC with a Z; milliseconds unless the time is finer than that."""
    if micros is None:
        return None
    day, rest = divmod(micros, 86_400_000_000)
    date = _date_text(day)
    if date is None:
        return None
    minute, rest = divmod(rest, 60_000_000)
    second, rest = divmod(rest, 1_000_000)
    if rest % 1000:
        return f"{date}{_minute_text(minute)}{_SECONDS[second]}{rest:06d}Z"
    return date + _minute_text(minute) + _SECONDS[second] + _MILLIS[rest // 1000]


@lru_cache(maxsize=24 * 60)
def _minute_text(minute: int) -> str:
    return f"T{minute // 60:02d}:{minute % 60:02d}"


@lru_cache(maxsize=64)
def _date_text(day: int) -> str | None:
    try:
        moment = _EPOCH + timedelta(days=day)
    except OverflowError:
        return None
    return moment.date().isoformat() if moment.year >= 1000 else None


_AGO = re.compile(r"^(\d{1,9})\s*(min|h|d|w)$")
_AGO_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_moment(text: str) -> int | None:
    """What a person writes for a time: 2026-03-01, 2026-03-01T10:00:00Z, or 3d, 12h, 2w ago.

    Without a zone it is in this machine's, like every time that unspool shows.
    """
    text = text.strip()
    if ago := _AGO.match(text):
        return int((time.time() - int(ago[1]) * _AGO_SECONDS[ago[2]]) * 1_000_000)
    try:
        moment = datetime.fromisoformat(text)
        text = moment.astimezone().isoformat() if moment.tzinfo is None else text
    except (ValueError, OverflowError, OSError):  # no such text, or no such time in the zone
        pass
    return parse_time(text)


_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?"
    r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?"
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_NAMED = re.compile(
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* +(?P<day>\d{1,2})|(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2})"
    r"[a-z]*)(?:,? (?P<year>\d{4}))?,? (?:at )?(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?: ?(?P<half>[AP]M))?(?: (?P<zone>[A-Z]{2,5}|[+-]\d{4}))?(?: (?P<year2>\d{4}))?"
)
"""`Sun Nov 15 22:45:01 UTC 2026`, `Sun 15 Nov 2026 10:45:01 PM CET`, `15 Nov 2026 22:45:01 +0000`."""
_NUMBERED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d)(?: ?([AP]M))?")
"""`11/15/2026, 10:45:01 PM`: month first, as JavaScript writes it, unless that is no month."""
_NUMBER = re.compile(r"(?<![\d.])(\d{10}(?:\.\d+)?|\d{13})(?![\d.])")
_EARLIEST, _LATEST = 1_600_000_000_000_000, 2_600_000_000_000_000
"""Numbers outside of 2020 to 2052 are no time: a process, a size, a part of an id."""
_UTC = ("Z", "UTC", "GMT")


class Moment(NamedTuple):
    """A time, and whether its text tells the zone; without one it is read as UTC."""

    time: int
    zoned: bool


def find_moment(text: str) -> Moment | None:
    """The first date in a text that a script wrote before a record."""
    if match := _ISO.search(text):
        return _of_iso(match)
    if match := _NAMED.search(text):
        at = _MONTHS.find(match["month"] or match["month2"])
        year = match["year"] or match["year2"]
        if at < 0 or at % 3 or not year:
            return None
        zone = match["zone"] or ""
        has_zone = zone in _UTC or zone[:1] in ("+", "-")
        ahead = timedelta()
        if has_zone and zone not in _UTC:
            ahead = timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[3:]))
        parts = (int(year), at // 3 + 1, int(match["day"] or match["day2"]))
        return _built(
            parts, match["hour"], match["minute"], match["second"], match["half"], has_zone, ahead
        )
    if match := _NUMBERED.search(text):
        month, day = int(match[1]), int(match[2])
        if month > 12:
            month, day = day, month
        return _built((int(match[3]), month, day), match[4], match[5], match[6], match[7], False)
    if match := _NUMBER.search(text):
        time = parse_time(float(match[1]) if "." in match[1] else int(match[1]))
        return Moment(time, True) if time is not None and _EARLIEST < time < _LATEST else None
    return None


def _of_iso(match: re.Match[str]) -> Moment | None:
    year, month, day, clock, fraction, zone = match.groups()
    zone = "Z" if zone in _UTC else zone or ""
    time = parse_time(f"{year}-{month}-{day}T{clock}{'.' + fraction if fraction else ''}{zone}")
    return Moment(time, bool(zone)) if time is not None else None


def _built(
    date: tuple[int, int, int], hour: str, minute: str, second: str, half: str | None,
    has_zone: bool, ahead: timedelta = timedelta(),
) -> Moment | None:  # fmt: skip
    hours = int(hour) % 12 + (12 if half == "PM" else 0) if half else int(hour)
    try:
        zone = timezone(ahead) if ahead else UTC
        moment = datetime(*date, hours, int(minute), int(second), tzinfo=zone)
    except ValueError:
        return None
    time = parse_time(moment.isoformat())
    return Moment(time, has_zone) if time is not None else None
