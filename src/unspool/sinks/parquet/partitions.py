"""Partitions: the folder that a conversation's rows go to, named as Hive names them.

`project=%2Fhome%2Fann%2Fshop`: what is no letter, digit, `_`, `.` or `-` is written as its bytes, which
every reader undoes; unknown is what Hive calls it, and comes back as null.
"""

from hashlib import sha256
from urllib.parse import quote

from unspool.io.door import clean_text
from unspool.io.times import format_time, parse_time
from unspool.trajectory import Trajectory, Workspace

UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 180
"""Of a longer value the beginning and a hash: file names end at 255 bytes."""


def partition_of(trajectory: Trajectory, key: str) -> str:
    return f"{key}={_quoted(_value(trajectory, key))}"


def _value(trajectory: Trajectory, key: str) -> str | None:
    if key == "source":
        return trajectory.source
    if key == "project":
        workspace = trajectory.workspace or Workspace()
        return workspace.path or workspace.name or workspace.repository
    time = parse_time(trajectory.started_at) or parse_time(trajectory.ended_at)
    return (format_time(time) or "")[:7]


def _quoted(value: str | None) -> str:
    if not value:
        return UNKNOWN
    name = quote(clean_text(value), safe="").replace("~", "%7E")
    if len(name) > LONGEST:
        beginning = name[:LONGEST]
        cut = beginning.rfind("%", -2)  # not inside of `%2F`
        digest = sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
        name = f"{beginning[:cut] if cut >= 0 else beginning}-{digest}"
    # Windows drops dots at the end of a name.
    return f"{name[:-1]}%2E" if name.endswith(".") else name
