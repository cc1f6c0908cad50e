"""Locks for what several threads write, which a forked process finds free."""

import os
import threading
from weakref import WeakSet

_known: "WeakSet[threading.RLock]" = WeakSet()
_forking = threading.Lock()
_held: "list[threading.RLock]" = []


def new_lock() -> "threading.RLock":
    """A lock that its own thread may take again: the garbage collector may close a forgotten
    stream, which is then recorded, in the middle of any other record."""
    lock = threading.RLock()
    _known.add(lock)
    return lock


def _hold_all() -> None:
    """Before a fork: nobody is in the middle of a record, here or in the child's copy."""
    _forking.acquire()
    _held.extend(_known)
    for lock in _held:
        lock.acquire()


def _free_all() -> None:
    for lock in _held:
        lock.release()
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_free_all, after_in_child=_free_all)
