"""Scopes: what is being recorded here and now, in this task or thread.

A scope lives in a context variable, so that concurrent tasks never see each other's. New threads
begin without one: `bind` and `Executor` carry it over.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from unspool.record.plain import text_of

P = ParamSpec("P")
T = TypeVar("T")


class Scope(NamedTuple):
    """An open conversation or tool call, inside another one or not."""

    owner: object
    span: object
    session: str
    call: str
    parent: "Scope | None"


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

    recorder: object
    inside: tuple[str, str] | None = None
    """The session and the tool call of what happens inside of it, where it is a scope."""

    def start(self) -> None:
        """Record the beginning."""

    def finish(self, error: BaseException | None) -> None:
        """Record the end."""

    def __enter__(self) -> Self:
        self.start()
        if self.inside is not None:
            _current.set(Scope(self.recorder, self, *self.inside, _current.get()))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Back to the scope around. No token: a generator may be left in another context.
        scope = _current.get()
        while scope is not None and scope.span is not self:
            scope = scope.parent
        if scope is not None:
            _current.set(scope.parent)
        self.finish(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)


def error_status(error: BaseException | str) -> str:
    """cancelled, interrupted or failed."""
    if type(error).__name__ == "CancelledError":
        return "cancelled"
    return "interrupted" if isinstance(error, KeyboardInterrupt | GeneratorExit) else "failed"


def error_data(error: BaseException | str) -> dict[str, Any]:
    if isinstance(error, str):
        return {"message": error}
    return {"type": type(error).__name__, "message": text_of(error)}
