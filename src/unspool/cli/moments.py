"""Times on the command line: a day, a moment, or how long ago."""

import re
import time
from datetime import datetime
from typing import Any

import click

from unspool.io.times import parse_time

_AGO = re.compile(r"^(\d+)\s*(min|h|d|w)$")
_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Moment(click.ParamType[int]):
    """A time: 2026-03-01, 2026-03-01T10:00:00Z, an epoch number, or 3d, 12h, 2w ago.

    Without a zone it is this machine's, as in all that is shown.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if ago := _AGO.match(value.strip()):
            return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1_000_000)
        found = parse_time(_in_this_zone(value.strip()))
        if found is None:
            self.fail(
                f"{value!r} is not a time like 2026-03-01, 2026-03-01T10:00:00Z or 3d", param, ctx
            )
        return found


def _in_this_zone(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone().isoformat() if moment.tzinfo is None else text
    except (ValueError, OverflowError, OSError):  # no such text, or no such time in the zone
        return text
