"""The web application: the page, the API, and the server that runs them."""

import asyncio
import errno
import hashlib
import socket
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import msgspec

from unspool.errors import (
    AmbiguousId,
    MissingExtra,
    TookTooLong,
    UnknownConversation,
    UnspoolError,
    UsageError,
)
from unspool.serve import conversation, page
from unspool.serve.conversations import iter_chosen
from unspool.serve.endpoints import ENDPOINTS, Endpoint, encode
from unspool.serve.events import Bell
from unspool.serve.findings import filters_of, make_hit
from unspool.serve.guard import Guard
from unspool.serve.openapi import description
from unspool.serve.patterns import SECONDS as PATTERN_SECONDS
from unspool.serve.patterns import PatternSearch
from unspool.serve.queries import EventsQuery, ExportQuery, ListQuery, NoQuery, SearchQuery
from unspool.serve.readers import Readers

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:  # pragma: no cover - an installation without the extra
    raise MissingExtra("the server needs: pip install 'unspool[serve]'") from error

_STATUS: dict[type[UnspoolError], int] = {
    UnknownConversation: 404,
    AmbiguousId: 409,
    UsageError: 400,
    TookTooLong: 503,
}
_FOREVER = "public, max-age=31536000, immutable"
Q = TypeVar("Q", bound=NoQuery)


def make_app(
    path: Path, bell: Bell, port: int, names: tuple[str, ...] = (), token: str | None = None
) -> Guard:
    readers = Readers(path, lambda: bell.closed)

    def answering(endpoint: Endpoint) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            query = read_query(request, endpoint.query)
            made = await readers.ask(
                lambda connection: encode(endpoint.handle(connection, query)),
                is_gone=request.is_disconnected,
            )
            return _tagged(request, made, "application/json")

        return answer

    async def export_one(request: Request) -> Response:
        query = read_query(request, ExportQuery)
        made = await readers.ask(lambda connection: conversation.download(connection, query), 60)
        name = {"Content-Disposition": f'attachment; filename="{made.name}"'}
        return Response(made.data, media_type=made.media_type, headers=name)

    async def export_chosen(request: Request) -> Response:
        query = read_query(request, ListQuery)
        name = {"Content-Disposition": 'attachment; filename="conversations.jsonl"'}
        lines = iter_chosen(readers, query)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=name)

    async def search_stream(request: Request) -> Response:
        query = read_query(request, SearchQuery)
        chosen = await readers.ask(lambda connection: filters_of(connection, query))
        hunt = PatternSearch(path, query.q, chosen, query.limit)
        return StreamingResponse(_hits(request, hunt), media_type="application/x-ndjson")

    async def events(request: Request) -> Response:
        after = read_query(request, EventsQuery).after
        known = request.headers.get("last-event-id", "")
        if after is None and known.isdecimal() and len(known) < 16:
            after = int(known)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            bell.listen(after), media_type="text/event-stream", headers=headers
        )

    async def openapi(request: Request) -> Response:
        return _tagged(request, encode(description()), "application/json")

    async def view(request: Request) -> Response:
        path, asked = request.url.path, dict(request.query_params)
        try:
            answers = await readers.ask(lambda store: page.first_answers(store, path, asked))
        except UnspoolError:
            answers = {}  # the page itself is there: it asks, and shows what is wrong
        headers = {"Cache-Control": "no-store"}  # gone back to, it is made anew
        return Response(page.make_page(path, answers), media_type=page.HTML, headers=headers)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in page.ASSETS:
            return _refusal(404, "there is no such file")
        # A page of an older server may ask for what is another file by now.
        current = request.path_params["version"] == page.version()
        kept = _FOREVER if current else "no-cache"
        return _tagged(request, page.asset(name), page.media_type(name), kept)

    async def refused(request: Request, error: Exception) -> Response:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
        return _refusal(status, str(error))

    async def broken(request: Request, error: Exception) -> Response:
        if isinstance(error, sqlite3.Error):
            return _refusal(503, f"the store cannot be read just now: {error}")
        return _refusal(500, "a fault of the server: its terminal says which")

    async def unknown(request: Request, error: Exception) -> Response:
        return _refusal(404, "there is nothing at this address")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        readers.close()

    routes = [
        *(Route(endpoint.path, answering(endpoint)) for endpoint in ENDPOINTS),
        Route("/api/conversation/export", export_one),
        Route("/api/export", export_chosen),
        Route("/api/search/stream", search_stream),
        Route("/api/events", events),
        Route("/api/openapi.json", openapi),
        Route("/static/{version}/{name}", static),
        *(Route(path, view) for path in page.FIRST),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={UnspoolError: refused, 404: unknown, Exception: broken},
    )
    return Guard(app, port, names, token)


def read_query(request: Request, kind: type[Q]) -> Q:
    """The parameters of the address; each at most once, and only those that are known."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise UsageError(f"{name} is given twice")
        if value != "":
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from None


def _tagged(request: Request, body: bytes, media_type: str, kept: str = "no-cache") -> Response:
    """With a tag, so that whoever has it already is told so in a few bytes."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": kept}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


def _refusal(status: int, text: str) -> Response:
    return Response(encode({"error": text}), status, media_type="application/json")


async def _hits(request: Request, hunt: PatternSearch) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    end = loop.time() + PATTERN_SECONDS
    late = False
    try:
        while not late:
            try:
                hit = await asyncio.to_thread(hunt.next, 0.5)
            except TimeoutError:
                late = loop.time() > end or await request.is_disconnected()
                continue
            if hit is None:
                break
            yield encode({"id": f"{hit.source}/{hit.conversation_id}", "title": hit.title,
                           "hit": make_hit(hit)}) + b"\n"  # fmt: skip
            late = loop.time() > end
        yield encode({"done": True, "late": late}) + b"\n"
    finally:
        hunt.stop()


def listen(host: str, port: int) -> socket.socket:
    """The socket, taken before anything else is done: a taken port is known at once."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        advice = f"; another one: --port {min(port, 65534) + 1}" if taken else ""
        raise UnspoolError(f"cannot listen on {host}:{port}: {reason}{advice}") from None
    return listener


class _Server(uvicorn.Server):
    """Sends those away who listen for changes when it is told to end: they would never go."""

    bell: Bell

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.bell.close()
        super().handle_exit(sig, frame)


def run(app: Guard, bell: Bell, listener: socket.socket) -> None:
    """Serve until a signal comes."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=32_768,
        lifespan="on",
    )
    server = _Server(config)
    server.bell = bell
    server.run(sockets=[listener])
