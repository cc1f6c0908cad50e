"""Dates as scripts write them before what they log."""

import pytest

from unspool.io.times import find_moment, format_time

NIGHT = "2026-11-15T22:45:01.000Z"


@pytest.mark.parametrize(
    ("text", "time", "zoned"),
    [
        ("2026-11-15T22:45:01Z ", NIGHT, True),
        ("[2026-11-15 22:45:01] PreToolUse: ", NIGHT, False),
        ("2026-11-15 22:45:01,250 INFO ", "2026-11-15T22:45:01.250Z", False),
        ("2026-11-15T23:45:01.000+01:00", NIGHT, True),
        ("2026-11-15 23:45:01 +0100", NIGHT, True),
        ("2026/11/15 22:45:01 hook", NIGHT, False),
        ("Sun Nov 15 22:45:01 UTC 2026: ", NIGHT, True),
        ("Sun Nov 15 22:45:01 2026 ", NIGHT, False),
        ("Sun Nov  1 22:45:01 CET 2026", "2026-11-01T22:45:01.000Z", False),
        ("Sun 15 Nov 2026 10:45:01 PM UTC - ", NIGHT, True),
        ("Sun, 15 Nov 2026 23:45:01 +0100 ", NIGHT, True),
        ("Sun, 15 Nov 2026 19:15:01 -0330 ", NIGHT, True),
        ("November 15, 2026 at 10:45:01 PM", NIGHT, False),
        ("11/15/2026, 10:45:01 PM | ", NIGHT, False),
        ("15/11/2026 22:45:01", NIGHT, False),
        ("1794782701 ", NIGHT, True),
        ("[1794782701.250] ", "2026-11-15T22:45:01.250Z", True),
        ("1794782701250: ", "2026-11-15T22:45:01.250Z", True),
    ],
)
def test_a_date_is_found(text: str, time: str, zoned: bool) -> None:
    found = find_moment(text)
    assert found is not None
    assert (format_time(found.time), found.zoned) == (time, zoned)


@pytest.mark.parametrize(
    "text", ["", "PreToolUse", "12:45:01", "session 12345678901234567890", "Mon Xyz 31 10:00:00 2026",
             "31/31/2026 10:00:00", "version 2.1.150", "pid 1234567890"],
)  # fmt: skip
def test_no_date_is_made_up(text: str) -> None:
    assert find_moment(text) is None
