"""Figures for people: sizes, counts, durations and times, short enough for a margin."""

from datetime import UTC, datetime, timedelta

from unspool.io.times import parse_time


def count(number: int | None) -> str:
    """1234 → 1.2k, for tokens and the like; empty where unknown."""
    if number is None:
        return ""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size * 0.9995:
            value = number / size
            return f"{value:.1f}{letter}" if value < 9.95 else f"{value:.0f}{letter}"
    return str(number)


def size(number_bytes: int | None) -> str:
    if number_bytes is None:
        return ""
    value = float(number_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(milliseconds: float | None) -> str:
    if milliseconds is None or milliseconds < 0:
        return ""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def between_ms(start: str | None, end: str | None) -> float | None:
    """Milliseconds from one ISO time to another; None where one is unknown."""
    first, last = parse_time(start), parse_time(end)
    if first is None or last is None or last < first:
        return None
    return (last - first) / 1000


def local(stamp: str | None) -> datetime | None:
    """An ISO time in this machine's time zone."""
    micros = parse_time(stamp)
    if micros is None:
        return None
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def day_and_time(stamp: str | None) -> str:
    moment = local(stamp)
    return moment.strftime("%Y-%m-%d %H:%M") if moment else ""


def clock(stamp: str | None) -> str:
    moment = local(stamp)
    return moment.strftime("%H:%M") if moment else ""


def ago(stamp: str | None, now: datetime) -> str:
    """How long ago: "3 h ago"; the day itself from a week on."""
    moment = local(stamp)
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if seconds < -60 or seconds > 7 * 86400:
        return moment.strftime("%Y-%m-%d")
    if seconds < 60:
        return "now"
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name} ago"
    return ""
