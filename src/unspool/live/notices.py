"""Notices: the system says which files change, where `watchfiles` is installed. They only save time.

    pip install 'unspool[watchfiles]'

Polling goes on as ever: some file systems never say anything, and a system has a limit on how much it
watches. So whatever goes wrong here is no trouble.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

try:
    import watchfiles
except ImportError:
    watchfiles = None  # type: ignore[assignment]

STEP_MS = 100
LOST_SECONDS = 60.0
"""After so long folders that have come since are watched, too."""


def follow(tops: Iterable[str], noticed: Callable[[str], None], stop: threading.Event) -> None:
    """Tells of every file below the tops that changes, from a thread of its own."""
    if watchfiles is not None:
        threading.Thread(
            target=_follow, args=(list(tops), noticed, stop), name="notices", daemon=True
        ).start()


def _follow(tops: list[str], noticed: Callable[[str], None], stop: threading.Event) -> None:
    while not stop.is_set():
        there = [top for top in tops if Path(top).exists()]
        try:
            for changes in watchfiles.watch(
                *there, step=STEP_MS, debounce=STEP_MS, stop_event=stop, raise_interrupt=False,
                ignore_permission_denied=True, yield_on_timeout=True, rust_timeout=5000,
            ):  # fmt: skip
                for _, path in changes:
                    noticed(path)
                if there != [top for top in tops if Path(top).exists()]:
                    break  # an agent was installed, or its folder is gone
        except Exception:  # limits of the system, folders that go while they are watched
            stop.wait(LOST_SECONDS)
        if not there:
            stop.wait(LOST_SECONDS)
