"""Stops: what Ctrl-C, `kill` and a closed terminal do to a command.

Each raises KeyboardInterrupt in the command, so that everything is put away on the way out; while
modules are being imported there is nothing to put away, and the process ends at once. Almost nothing
is imported here: until this module is there, Python answers Ctrl-C in its own way.
"""

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
TOLD = "unspool: stopped"
_heard = int(signal.SIGINT)


def exit_code() -> int:
    """As shells count: 130 after Ctrl-C."""
    return 128 + _heard


def listen() -> None:
    """From now on a stop raises KeyboardInterrupt."""
    _answer(_raise)
    if hasattr(signal, "setitimer"):
        sys.unraisablehook = _raise_later


def go_deaf() -> None:
    """From now on a stop does nothing: the process is on its way out."""
    _answer(signal.SIG_IGN)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


class AtOnce:
    """In here a stop ends the process there and then."""

    def __enter__(self) -> None:
        self._before = _answer(_leave)

    def __exit__(self, *_: object) -> None:
        for number, answer in self._before.items():
            signal.signal(number, answer)


class Later:
    """In here a stop has to wait: something is made that must be known to be put away again."""

    def __enter__(self) -> None:
        # By answers, not by a mask: that is one thread's, and another would take the signal.
        self._waiting: list[int] = []
        heard = [number for number in STOPS if callable(signal.getsignal(number))]
        self._before = _answer(lambda number, frame: self._waiting.append(number), heard)

    def __exit__(self, *_: object) -> None:
        for number, answer in self._before.items():
            signal.signal(number, answer)
        for number in self._waiting:
            signal.raise_signal(number)


def _answer(answer: "Any", heard: "list[int] | None" = None) -> "dict[int, Any]":
    """What each was answered with before."""
    if heard is None:
        # What is ignored stays so: `nohup`, and what a script puts into the background.
        heard = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        return {number: signal.signal(number, answer) for number in heard}
    except ValueError:
        return {}  # only the main thread hears them


def _raise(number: int, frame: "FrameType | None") -> None:
    global _heard
    _heard = number
    raise KeyboardInterrupt


def _raise_later(lost: "Any") -> None:
    """A stop that comes while Python destroys an object cannot be raised there: it would be printed,
    and lost. It is raised once more, ten milliseconds later."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    heard = _heard
    signal.signal(signal.SIGALRM, lambda number, frame: _raise(heard, frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _leave(number: int, frame: "FrameType | None") -> None:
    os.write(2, f"\n{TOLD}\n".encode())
    os._exit(128 + number)
