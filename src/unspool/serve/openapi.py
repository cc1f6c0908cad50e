"""The description of the API, made from the table of endpoints and the structs of its answers."""

import inspect
import itertools
from functools import cache
from typing import Any

import msgspec

import unspool
from unspool.serve.answers import Refusal
from unspool.serve.endpoints import ENDPOINTS
from unspool.serve.queries import EventsQuery, ExportQuery, ListQuery, NoQuery, SearchQuery

STREAMS = (
    (
        "/api/conversation/export", "It, with its sub-agents, as a file of any format",
        ExportQuery, "application/octet-stream",
    ),
    (
        "/api/export", "All conversations that are chosen, as JSON lines", ListQuery,
        "application/x-ndjson",
    ),
    (
        "/api/search/stream", "Hits as they are found, one JSON object a line", SearchQuery,
        "application/x-ndjson",
    ),
    (
        "/api/events", "Changes of the store as server-sent events", EventsQuery,
        "text/event-stream",
    ),
)  # fmt: skip


@cache
def description() -> dict[str, Any]:
    types = [Refusal, *(endpoint.answer for endpoint in ENDPOINTS)]
    _, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        ref = {"$ref": f"#/components/schemas/{endpoint.answer.__name__}"}
        paths[endpoint.path] = _path(
            endpoint.summary, endpoint.query, {"application/json": {"schema": ref}}
        )
    for path, summary, query, media in STREAMS:
        paths[path] = _path(summary, query, {media: {"schema": {"type": "string"}}})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "unspool",
            "version": unspool.__version__,
            "description": "Reads the conversations of this machine's coding agents.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components},
    }


def _path(summary: str, query: type[NoQuery], content: dict[str, Any]) -> dict[str, Any]:
    refusal = {
        "description": "Refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    return {
        "get": {
            "summary": summary,
            "parameters": _parameters(query),
            "responses": {
                "200": {"description": "Answered", "content": content},
                "400": refusal,
                "404": refusal,
            },
        }
    }


def _parameters(query: type[NoQuery]) -> list[dict[str, Any]]:
    (_ref,), components = msgspec.json.schema_components([query])
    schema = components[query.__name__]
    required = set(schema.get("required", ()))
    notes = _notes(query)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": kind,
            **({"description": notes[name]} if name in notes else {}),
        }
        for name, kind in schema["properties"].items()
    ]


def _notes(query: type) -> dict[str, str]:
    """What is written below a field says what it means."""
    notes: dict[str, str] = {}
    for owner in reversed(query.__mro__):
        if not issubclass(owner, NoQuery):
            continue
        lines = [line.strip() for line in inspect.getsource(owner).splitlines()]
        for line, after in itertools.pairwise(lines):
            if ": " in line and after.startswith('"""') and after.endswith('"""'):
                notes[line.partition(":")[0]] = after.strip('"')
    return notes
