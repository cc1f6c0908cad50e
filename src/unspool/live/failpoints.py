"""Failpoints: where a test may kill a process, to see that nothing is lost or doubled.

`UNSPOOL_FAILPOINT=intake-queued:3` kills the process, as `kill -9` does, when it gets there for the
third time. Without the variable a failpoint costs one look at a global.
"""

import os
import signal

VARIABLE = "UNSPOOL_FAILPOINT"
_name, _, _times = os.environ.get(VARIABLE, "").partition(":")
_left = int(_times or 1)


def reach(name: str) -> None:
    global _left
    if name == _name:
        _left -= 1
        if not _left:
            os.kill(os.getpid(), signal.SIGKILL)
