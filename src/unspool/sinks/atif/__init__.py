"""ATIF, the Agent Trajectory Interchange Format (v1.0 to v1.8), written and read.

One `<id>.trajectory.json` per conversation, media beside it as `images/<hash>.<ext>`. `docs/atif.md`.

OPTIONS:

- `atif_version`  "1.5" … "1.8"; absent: 1.7
- `subagents`     "embedded" (in `subagent_trajectories`) or "files" (siblings, by `trajectory_path`);
                  absent: embedded. Below 1.7 always files.
"""

from unspool.sinks.atif.reader import claims, read
from unspool.sinks.atif.writer import write

__all__ = ["FAMILIES", "MANY_FILES", "NAME", "claims", "read", "write"]

NAME = "atif"
MANY_FILES = True
FAMILIES = True
