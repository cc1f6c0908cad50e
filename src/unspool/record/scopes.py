"""Scopes: what is being recorded here and now, in this task or thread.

A scope lives in a context variable, so that concurrent tasks never see each other's. New threads
begin without one: `bind` and `Executor` carry it over.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from unspool.record.plain import text_of

P = ParamSpec("P")
T = TypeVar("T")


class Scope:
    """An open conversation or tool call, inside another one or not."""

    __slots__ = ("call", "owner", "parent", "session", "span")

    def __init__(
        self, owner: object, span: object, session: str, call: str, parent: "Scope | None"
    ) -> None:
        self.owner = owner
        self.span = span
        self.session = session
        self.call = call
        self.parent = parent


_current: ContextVar[Scope | None] = ContextVar("unspool_recorder_scope", default=None)


def current_scope(owner: object) -> Scope | None:
    """The innermost scope of this recorder."""
    scope = _current.get()
    while scope is not None and scope.owner is not owner:
        scope = scope.parent
    return scope


def bind(function: Callable[P, T]) -> Callable[P, T]:
    """The function, to be called in another thread under the scope of the caller of `bind`."""
    scope = _current.get()

    def bound(*args: P.args, **kwargs: P.kwargs) -> T:
        def call() -> T:
            _current.set(scope)
            return function(*args, **kwargs)

        return copy_context().run(call)

    return bound


class Executor(ThreadPoolExecutor):
    """A thread pool whose work is recorded where it was submitted."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(copy_context().run, fn, *args, **kwargs)


class Span:
    """Something with a beginning and an end, for `with` and for `async with`."""

    _scoped = False

    def _scope(self) -> Scope:
        raise NotImplementedError

    def start(self) -> None:
        """Record the beginning."""

    def finish(self, error: BaseException | None) -> None:
        """Record the end."""

    def __enter__(self) -> Self:
        self.start()
        if self._scoped:
            _current.set(self._scope())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scoped:
            # Back to the scope around. No token: a generator may be left in another context.
            scope = _current.get()
            while scope is not None and scope.span is not self:
                scope = scope.parent
            if scope is not None:
                _current.set(scope.parent)
        self.finish(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


def enclosing() -> Scope | None:
    return _current.get()


def error_status(error: BaseException | str) -> str:
    """cancelled, interrupted or failed."""
    if type(error).__name__ == "CancelledError":
        return "cancelled"
    return "interrupted" if isinstance(error, KeyboardInterrupt | GeneratorExit) else "failed"


def error_data(error: BaseException | str) -> dict[str, Any]:
    if isinstance(error, str):
        return {"message": error}
    return {"type": type(error).__name__, "message": text_of(error)}
