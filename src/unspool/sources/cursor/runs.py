"""Runs: which call of the turn an event without an id tells of again.

A shell command, an MCP call or a file edit is told by the tool hooks, and once more by an event of
its own while it runs, or right behind it. An edit that was refused has no such event: counting
alone would give it that of the next edit of the file.
"""


class Run:
    """One call that the tool hooks told of."""

    __slots__ = ("events", "failed", "ident", "like", "running", "step")

    def __init__(self, like: str, ident: str, step: str) -> None:
        self.like = like
        self.ident = ident
        self.step = step
        self.running = True
        self.failed = False
        self.events: set[str] = set()


class Runs:
    """The calls of the turn that is under way."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def clear(self) -> None:
        self._runs.clear()

    def began(self, like: str, ident: str, step: str) -> None:
        if ident:
            self._runs.append(Run(like, ident, step))

    def ended(self, ident: str, failed: bool) -> None:
        for run in self._runs:
            if run.ident == ident:
                run.running, run.failed = False, failed

    def again(self, like: str, event: str) -> Run | None:
        """The call that an event tells of: the first that runs, else the last that ended well."""
        found = [r for r in self._runs if r.like == like and event not in r.events]
        going = [run for run in found if run.running]
        done = [run for run in found if not run.running and not run.failed]
        run = going[0] if going else done[-1] if done else None
        if run is not None:
            run.events.add(event)
        return run
