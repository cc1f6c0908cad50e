"""Attachments: what came with a person's message, or back from a tool, beside its text."""

import base64
import binascii
import hashlib
from typing import Any

from unspool.facts import Attachment
from unspool.sources.copilot_cli.envelope import whole_number
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import plain

DATA_LIMIT = 16 * 1024 * 1024
"""Longest base64 text that travels with an attachment; a longer one becomes a bare reference."""


def attachments(value: Any, lookup: Lookup) -> tuple[Attachment, ...]:
    items = value if isinstance(value, list) else ()
    return tuple(attachment(item, lookup) for item in items if isinstance(item, dict))


def attachment(item: dict[str, Any], lookup: Lookup) -> Attachment:
    """A file, a folder, a selection, a reference on GitHub, or bytes (by an asset's id, too)."""
    asset = lookup.assets.get(plain(item.get("assetId")), {}) if item.get("assetId") else {}
    selection = item.get("selection")
    lines = selection if isinstance(selection, dict) else item.get("lineRange")
    start, end = (_line(lines, name) for name in ("start", "end"))
    data = plain(item.get("data") or asset.get("data"))
    size, digest = _measure(data)
    text = item.get("text") or item.get("content")
    known = ("type", "displayName", "name", "path", "filePath", "url", "data", "mimeType", "text",
             "content", "selection", "lineRange")  # fmt: skip
    rest = {name: part for name, part in item.items() if name not in known}
    return Attachment(
        kind=plain(item.get("type")) or "file",
        name=plain(item.get("displayName") or item.get("name") or item.get("title")),
        path=plain(item.get("path") or item.get("filePath")),
        uri=plain(item.get("url")),
        media_type=plain(item.get("mimeType") or asset.get("mimeType")),
        size_bytes=size if data else whole_number(asset.get("byteLength")),
        sha256=digest,
        text=text if isinstance(text, str) else "",
        data=data if len(data) <= DATA_LIMIT else "",
        start_line=start,
        end_line=end,
        extra=rest or None,
    )


def _line(lines: Any, name: str) -> int | None:
    value = lines.get(name) if isinstance(lines, dict) else None
    return whole_number(value.get("line") if isinstance(value, dict) else value)


def _measure(data: str) -> tuple[int | None, str]:
    if not data:
        return None, ""
    try:
        raw = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return None, ""
    return len(raw), hashlib.sha256(raw).hexdigest()
