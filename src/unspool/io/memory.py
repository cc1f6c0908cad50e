"""Memory: what was freed goes back to the system."""

import ctypes
import sys
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim if sys.platform == "linux" else None
    except (AttributeError, OSError):  # another C library than GNU's
        return None


def give_back() -> None:
    """The allocator of the GNU C library keeps what was freed. After a conversation of hundreds of
    megabytes that is missed by whoever works next: another process, mostly."""
    trim = _trim()
    if trim is not None:
        trim(0)
