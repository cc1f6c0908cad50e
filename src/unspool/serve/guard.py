"""Who may ask, and what every answer says about safety.

A server on loopback can be reached by every page in the browser: by a foreign page that sends requests
(so the origin is checked), and by a page whose name was turned to this machine (so the host is).
"""

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "unspool_token"
LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
LONGEST_QUERY = 8192
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types unspool",
    )
)
SAFE = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Stands before the application and lets through only who may ask."""

    def __init__(
        self, application: Application, port: int, names: Iterable[str], token: str | None
    ) -> None:
        self.application = application
        self.hosts = {f"{name}:{port}" for name in (*LOCAL_NAMES, *names)}
        if port == 80:
            self.hosts |= {*LOCAL_NAMES, *names}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks WebSocket
            await send({"type": "websocket.close", "code": 1003})
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        if self.token is not None:
            given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")
            if given is not None and self._is_token(given):
                await self._remember(scope, send)
                return
            if not self._is_token(_bearer(headers)) and not self._is_token(_cookie(headers)):
                await _answer(send, 401, "a token is needed: open the address that unspool printed")
                return

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SAFE]
            await send(message)

        await self.application(scope, receive, send_safely)

    def _refused(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        if headers.get(b"host", "").lower() not in self.hosts:
            return 421, "this server is not known by that name"
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            return 403, "not for other pages"
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link from elsewhere may be followed, but no page may embed or fetch anything here.
            navigates = headers.get(b"sec-fetch-mode") == "navigate"
            if not navigates or headers.get(b"sec-fetch-dest") != "document":
                return 403, "not for other pages"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this server only answers questions"
        if len(scope["query_string"]) > LONGEST_QUERY:
            return 414, "the question is too long"
        if headers.get(b"content-length", "0") != "0" or b"transfer-encoding" in headers:
            return 413, "a question has no body"
        return None

    def _is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    async def _remember(self, scope: Scope, send: Send) -> None:
        """The token goes from the address into a cookie, so that no link or history holds it."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in pairs if name != "token"])
        place = "/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [
            (b"location", place.encode("ascii", "ignore")),
            (b"set-cookie", cookie.encode()),
            *SAFE,
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _bearer(headers: dict[bytes, str]) -> str:
    kind, _, token = headers.get(b"authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _cookie(headers: dict[bytes, str]) -> str:
    try:
        known = SimpleCookie(headers.get(b"cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return known.value if known is not None else ""


async def _answer(send: Send, status: int, text: str) -> None:
    body = f'{{"error":"{text}"}}'.encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *SAFE,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
