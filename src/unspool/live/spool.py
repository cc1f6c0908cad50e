"""The spool as the intake sees it: waits until a hook has laid something there.

Linux says so at once (inotify), and an idle daemon sleeps meanwhile. Where the system says nothing
(macOS here, a folder shared over the network or with a container), the time of the folder is looked
at ten or twenty times a second.
"""

import ctypes
import os
import select
import sys
import threading
import time
from typing import Any

from unspool.hooks.spool import Layout

LOOK_SECONDS = 1.0
"""The spool is listed so often whatever is said of it; an intake without a store looks at its files
then, and asks the queue what the store has."""
SPOOL_SECONDS = 0.05
"""The spool is looked at so often, and what comes within this time goes into the queue together;"""
QUIET_SPOOL_SECONDS = 0.1
"""where nothing came for a while it is looked at so often."""
QUIET_SECONDS = 10.0
SETTLED_NS = 1_000_000_000
_MOVED_TO = 0x80
"""From Linux's <sys/inotify.h>."""


class Spool:
    def __init__(self, layout: Layout, stop: threading.Event) -> None:
        self.path = str(layout.new)
        self.stop = stop
        self._changed_at = -1
        self._moved = time.monotonic()
        self._libc: Any = None
        self._notices = self._watch = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None)
            self._notices = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watch_folder()
        self._was_told = True

    def wait(self, came: bool) -> None:
        """Until something may lie there, a second at most. `came`: whether the last look found some."""
        if self._notices < 0:
            self._poll()
            return
        is_fresh = self._watch_folder()
        if came:
            if not (self._was_told or is_fresh or self._is_told(0)):
                self.close()  # it came without a word
            time.sleep(SPOOL_SECONDS)
        self._was_told = self._notices >= 0 and self._is_told(LOOK_SECONDS)

    def wake(self) -> None:
        """Ends a wait, from another thread: that the folder is no longer watched is told, too."""
        if self._notices >= 0:
            self._libc.inotify_rm_watch(self._notices, self._watch)

    def close(self) -> None:
        if self._notices >= 0:
            os.close(self._notices)
            self._notices = -1

    def _watch_folder(self) -> bool:
        """The same folder may be watched again and again; whether it is another one now."""
        if self._notices < 0:
            return False
        before = self._watch
        folder = os.fsencode(self.path)
        self._watch = self._libc.inotify_add_watch(self._notices, folder, _MOVED_TO)
        return self._watch != before

    def _is_told(self, seconds: float) -> bool:
        notices = select.poll()
        notices.register(self._notices, select.POLLIN)
        is_told = bool(notices.poll(seconds * 1000))
        if is_told:
            os.read(self._notices, 65536)
        return is_told

    def _poll(self) -> None:
        until = time.monotonic() + LOOK_SECONDS
        while not self.stop.is_set() and time.monotonic() < until:
            is_quiet = time.monotonic() - self._moved > QUIET_SECONDS
            time.sleep(QUIET_SPOOL_SECONDS if is_quiet else SPOOL_SECONDS)
            if self._has_changed():
                return

    def _has_changed(self) -> bool:
        """A rename into the folder changes the folder's time, which ticks every few milliseconds: one
        that is younger than a second may be another's, too."""
        try:
            changed_at = os.stat(self.path).st_mtime_ns  # noqa: PTH116 - twenty times a second
        except OSError:
            return False  # no hooks are installed
        is_same = changed_at == self._changed_at
        if not is_same:
            self._moved = time.monotonic()
        self._changed_at = changed_at
        return not is_same or time.time_ns() - changed_at < SETTLED_NS
