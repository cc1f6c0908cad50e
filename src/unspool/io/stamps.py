"""Stamps: dates as scripts write them before what they log: ISO, `date`, `date -R`, epochs."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from unspool.io.times import parse_time

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
_EPOCH = re.compile(r"(?<![\d.])(\d{10}(?:\.\d+)?|\d{13})(?![\d.])")
_EARLIEST, _LATEST = 1_600_000_000_000_000, 2_600_000_000_000_000
"""Numbers outside of 2020 to 2052 are no time: a process, a size, a part of an id."""
_UTC = ("Z", "UTC", "GMT")


class Moment(NamedTuple):
    """A time, and whether its text tells the zone; without one it is read as UTC."""

    time: int
    zoned: bool


def find_moment(text: str) -> Moment | None:
    """The first date in a text that a script wrote before a record."""
    if found := _ISO.search(text):
        return _of_iso(found)
    if found := _NAMED.search(text):
        at = _MONTHS.find(found["month"] or found["month2"])
        year = found["year"] or found["year2"]
        if at < 0 or at % 3 or not year:
            return None
        zone = found["zone"] or ""
        told = zone in _UTC or zone[:1] in ("+", "-")
        ahead = timedelta()
        if told and zone not in _UTC:
            ahead = timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[3:]))
        parts = (int(year), at // 3 + 1, int(found["day"] or found["day2"]))
        return _built(
            parts, found["hour"], found["minute"], found["second"], found["half"], told, ahead
        )
    if found := _NUMBERED.search(text):
        month, day = int(found[1]), int(found[2])
        if month > 12:
            month, day = day, month
        return _built((int(found[3]), month, day), found[4], found[5], found[6], found[7], False)
    if found := _EPOCH.search(text):
        time = parse_time(float(found[1]) if "." in found[1] else int(found[1]))
        return Moment(time, True) if time is not None and _EARLIEST < time < _LATEST else None
    return None


def _of_iso(found: re.Match[str]) -> Moment | None:
    year, month, day, clock, fraction, zone = found.groups()
    zone = "Z" if zone in _UTC else zone or ""
    time = parse_time(f"{year}-{month}-{day}T{clock}{'.' + fraction if fraction else ''}{zone}")
    return Moment(time, bool(zone)) if time is not None else None


def _built(
    date: tuple[int, int, int], hour: str, minute: str, second: str, half: str | None,
    told: bool, ahead: timedelta = timedelta(),
) -> Moment | None:  # fmt: skip
    hours = int(hour) % 12 + (12 if half == "PM" else 0) if half else int(hour)
    try:
        zone = timezone(ahead) if ahead else UTC
        moment = datetime(*date, hours, int(minute), int(second), tzinfo=zone)
    except ValueError:
        return None
    time = parse_time(moment.isoformat())
    return Moment(time, told) if time is not None else None
