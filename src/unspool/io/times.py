"""Time inside is microseconds since 1970 in UTC; ISO text stands only at the edges.

And stamps: dates as scripts write them before what they log (ISO, `date`, `date -R`, epochs).
"""

import re
import time
from datetime import UTC, datetime, timedelta
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
    if not isinstance(value, str):
        return _from_number(value) if type(value) is int or type(value) is float else None
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


@lru_cache(maxsize=256)  # what is told of a record bears its time, too
def format_time(micros: int | None) -> str | None:
    """ISO text in UTC with a Z; milliseconds unless the time is finer than that."""
    if micros is None:
        return None
    minute, rest = divmod(micros, 60_000_000)
    text = _minute_text(minute)
    if text is None:
        return None
    second, rest = divmod(rest, 1_000_000)
    if rest % 1000:
        return f"{text}{_SECONDS[second]}{rest:06d}Z"
    return text + _SECONDS[second] + _MILLIS[rest // 1000]


@lru_cache(maxsize=24 * 60)
def _minute_text(minute: int) -> str | None:
    try:
        moment = _EPOCH + timedelta(minutes=minute)
    except OverflowError:
        return None
    return moment.isoformat()[:16] if moment.year >= 1000 else None


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


_CLOCK = (
    r",? (?:at )?(?P<hour>\d{1,2})(?P<rest>:\d\d:\d\d)(?: ?(?P<half>[AP]M))?"
    r"(?: (?P<zone>[A-Z]{2,5}|[+-]\d{4}))?(?: (?P<year2>\d{4}))?"
)
_MONTH = r"(?P<month>[A-Z][a-z]{2})[a-z]*"
_DAY = r"(?P<day>\d{1,2})"
_YEAR = r"(?:,? (?P<year>\d{4}))?"
_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?"
    r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?"
)
_DATES = (
    # Sun Nov 15 22:45:01 UTC 2026
    re.compile(rf"{_MONTH} +{_DAY}{_YEAR}{_CLOCK}"),
    # Sun 15 Nov 2026 10:45:01 PM CET, 15 Nov 2026 22:45:01 +0000
    re.compile(rf"{_DAY} {_MONTH}{_YEAR}{_CLOCK}"),
    # 11/15/2026, 10:45:01 PM: month first, as JavaScript writes it, unless that is no month
    re.compile(rf"(?P<month>\d{{1,2}})/{_DAY}/(?P<year>\d{{4}}){_CLOCK}"),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
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
        year, month, day, clock, fraction, zone = match.groups()
        return _moment(f"{year}-{month}-{day}T{clock}.{fraction or '0'}", zone or "")
    for date in _DATES:
        if match := date.search(text):
            return _of_named(match.groupdict())
    if match := _NUMBER.search(text):
        time = parse_time(float(match[1]) if "." in match[1] else int(match[1]))
        return Moment(time, True) if time is not None and _EARLIEST < time < _LATEST else None
    return None


def _of_named(part: dict[str, str | None]) -> Moment | None:
    named, day, hour = part["month"] or "", int(part["day"] or 0), int(part["hour"] or 0)
    month = _MONTHS.index(named) + 1 if named in _MONTHS else int(named) if named.isdigit() else 0
    if month > 12:
        month, day = day, month
    if part["half"] is not None:
        hour = hour % 12 + (12 if part["half"] == "PM" else 0)
    year = part["year"] or part["year2"]
    return _moment(f"{year}-{month:02d}-{day:02d}T{hour:02d}{part['rest']}", part["zone"] or "")


def _moment(text: str, zone: str) -> Moment | None:
    """Of names of zones only those that mean one everywhere count."""
    offset = "Z" if zone in _UTC else zone if zone.startswith(("+", "-")) else ""
    time = parse_time(text + offset)
    return Moment(time, bool(offset)) if time is not None else None
