"""The page: its files, and for every view the scripts and the answers that it begins with.

A browser that had to ask for the page, then for its scripts, then for those that they import, and then
for the rows, would show the rows four answers later. So the page names all scripts of its view, and
holds what the view asks for first.
"""

import hashlib
import sqlite3
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

import msgspec

from unspool.errors import UnspoolError
from unspool.serve.endpoints import ENDPOINTS, encode
from unspool.store.changes import last_change

_SHARED = ("page.css", "reader.js")
"""Of the exported page: a conversation looks the same in both."""
_OWN = (
    "app.css", "app.js", "common.js", "list.js", "conversation.js", "now.js", "notices.js", "search.js",
    "figures.js", "alignment.js", "icon.svg",
)  # fmt: skip
ASSETS = frozenset((*_SHARED, *_OWN))
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HTML = "text/html; charset=utf-8"
ROWS = 100
"""Of the list, as `list.js` asks for them."""

FIRST = {
    "/": ("list", "conversations", "conversations/outline"),
    "/conversation": ("conversation", "conversation"),
    "/now": ("now", "now"),
    "/search": ("search",),
    "/figures": ("figures",),
    "/alignment": ("alignment",),
}
"""Every view: its script, and what it asks for first."""
_ENDPOINTS = {endpoint.path.removeprefix("/api/"): endpoint for endpoint in ENDPOINTS}


@cache
def asset(name: str) -> bytes:
    folder = files("unspool.sinks.html" if name in _SHARED else "unspool.serve")
    return folder.joinpath(name if name in _SHARED else f"static/{name}").read_bytes()


@cache
def version() -> str:
    """Stands in the address of every file, so that a browser keeps them until one of them changes."""
    whole = b"".join(asset(name) for name in sorted(ASSETS))
    return hashlib.blake2b(whole, digest_size=8).hexdigest()


@cache
def _template() -> Template:
    return Template(files("unspool.serve").joinpath("static/index.html").read_text("utf-8"))


def first_answers(
    connection: sqlite3.Connection, view: str, asked: dict[str, str]
) -> dict[str, msgspec.Raw]:
    """What the view at this address asks for first, and how far the store had come by then."""
    _, *names = FIRST[view]
    answers = {"seq": msgspec.Raw(encode(last_change(connection)))}
    for name in names:
        endpoint = _ENDPOINTS[name]
        given: dict[str, object] = {
            key: asked[key] for key in endpoint.query.__struct_fields__ if asked.get(key)
        }
        if view == "/":
            given["limit"] = ROWS
        try:
            query = msgspec.convert(given, endpoint.query, strict=False)
            answers[name] = msgspec.Raw(encode(endpoint.handle(connection, query)))
        except (UnspoolError, msgspec.ValidationError):
            break  # the page asks by itself, and shows why it is refused
    return answers


def make_page(view: str, answers: dict[str, msgspec.Raw]) -> bytes:
    static = f"/static/{version()}"
    preloads = "\n".join(
        f'<link rel="modulepreload" href="{static}/{name}.js">'
        for name in ("common", "notices", FIRST[view][0])
    )
    # Whatever a conversation says, it does not end the element.
    given = encode(answers).replace(b"<", b"\\u003c").decode()
    return _template().substitute(static=static, preloads=preloads, given=given).encode()


def media_type(name: str) -> str:
    return TYPES[Path(name).suffix]
