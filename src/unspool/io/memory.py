"""Memory: what was let go of is given back to the system.

The C library keeps freed pages that lie between used ones, so a long conversation that is turned from
one form into another, piece by piece, would still be in memory twice.
"""

import os
from typing import Any


def give_back() -> None:
    """Some milliseconds: for once in many megabytes."""
    import ctypes

    if os.name != "posix":
        return  # CDLL(None) is a question that only they answer
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
