"""Media: attachments as content parts, their bytes as files beside the document."""

import base64
import binascii
import hashlib
import mimetypes
from typing import Any, Literal

import msgspec

from unspool.facts import Attachment
from unspool.sinks.atif.model import AUDIO_ALIASES, AUDIO_TYPES, IMAGE_TYPES, Content, Media, Part

Layout = list[int | Literal["media"]]

JOINT = "\n\n"
"""What stands between two text parts when they are read as one text."""

FROM_PART = "atif_part"
"""The key in an attachment's `extra` that says: it was a content part, with this path."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


class Files:
    """The files that go beside the documents of one family, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, bytes] = {}

    def add(self, folder: str, data: bytes, suffix: str) -> str:
        name = f"{folder}/{hashlib.sha256(data).hexdigest()}.{suffix}"
        self.by_name[name] = data
        return name


def to_content(
    text: str, attachments: list[Attachment], files: Files, layout: Layout | None = None
) -> tuple[Content, list[dict[str, Any]]]:
    """The content with its media parts; and all attachments described, without their bytes."""
    media: list[Part] = []
    described: list[dict[str, Any]] = []
    for attachment in attachments:
        part, name = _place(attachment, files)
        if part is not None:
            media.append(part)
        description = describe(attachment, name)
        if description is not None:
            described.append(description)
    if layout is not None and (parts := _laid_out(text, media, layout)) is not None:
        return parts, described
    if not media:
        return text, described
    return [*([Part("text", text=text)] if text else []), *media], described


def _place(attachment: Attachment, files: Files) -> tuple[Part | None, str]:
    """The part for an attachment, if ATIF has one; and the file that its bytes went to."""
    data = _bytes_of(attachment)
    media_type = media_type_of(attachment, data)
    suffix = IMAGE_TYPES.get(media_type) or AUDIO_TYPES.get(media_type)
    path = ""
    if data is not None:
        folder = media_type.partition("/")[0]
        guessed = suffix or (mimetypes.guess_extension(media_type) or ".bin").lstrip(".")
        path = files.add("images" if folder == "image" else "attachments", data, guessed)
    source = path or _reference(attachment)
    if suffix is None or not source:
        return None, path
    duration = (attachment.extra or {}).get("duration_sec")
    media = Media(media_type, source, duration if isinstance(duration, int | float) else None)
    return Part("audio" if media_type in AUDIO_TYPES else "image", source=media), path


def _reference(attachment: Attachment) -> str:
    """Where the bytes lie elsewhere: a URL, or the path of the part that it was read from.

    A path on the machine that was recorded is none: nothing lies there for the reader.
    """
    kept = (attachment.extra or {}).get(FROM_PART)
    if isinstance(kept, str) and kept:
        return kept
    remote = "://" in attachment.uri and not attachment.uri.startswith(("file:", "data:", "vscode"))
    return attachment.uri if remote else ""


def _bytes_of(attachment: Attachment) -> bytes | None:
    data = attachment.data
    if not data and attachment.uri.startswith("data:"):
        head, _, data = attachment.uri.partition(",")
        if not head.endswith(";base64"):
            return None
    if not data:
        return None
    try:
        return base64.b64decode(data, validate=True) or None
    except (binascii.Error, ValueError):
        return None


def media_type_of(attachment: Attachment, data: bytes | None) -> str:
    """The type in the spelling that ATIF knows; by the first bytes where nothing says it."""
    media_type = attachment.media_type.strip().lower().partition(";")[0]
    if not media_type and attachment.uri.startswith("data:"):
        media_type = attachment.uri[5:].partition(",")[0].partition(";")[0].lower()
    if not media_type and data is not None:
        media_type = next((name for magic, name in _MAGIC if data.startswith(magic)), "")
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            media_type = "image/webp"
    if not media_type:
        name = attachment.name or attachment.path or attachment.uri.partition("?")[0]
        media_type = mimetypes.guess_type(name)[0] or (
            "" if data is None else "application/octet-stream"
        )
    return AUDIO_ALIASES.get(media_type, "image/jpeg" if media_type == "image/jpg" else media_type)


def describe(attachment: Attachment, file: str) -> dict[str, Any] | None:
    """The attachment in words; None where the part alone says all of it."""
    extra = dict(attachment.extra or {})
    kept = extra.pop(FROM_PART, "")
    bare = msgspec.structs.replace(attachment, data="", extra=extra or None)
    if attachment.uri.startswith("data:"):
        bare = msgspec.structs.replace(bare, uri="")
    if kept and kept in (attachment.path, attachment.uri) and not extra.keys() - {"duration_sec"}:
        from_part = Attachment(
            attachment.kind,
            path=attachment.path,
            uri=attachment.uri,
            media_type=attachment.media_type,
            extra=extra or None,
        )
        if from_part == bare:
            return None
    described: dict[str, Any] = msgspec.to_builtins(bare)
    return {**described, "file": file or kept} if file or kept else described


def from_content(content: Content) -> tuple[str, list[Attachment], list[Any] | None]:
    """Text, media and, where it is not the plain one, the layout that joins them again."""
    if isinstance(content, str):
        return content, [], None
    texts = [part.text or "" for part in content if part.type == "text"]
    layout = [len(part.text or "") if part.type == "text" else "media" for part in content]
    # The plain layout is one text, unless it is empty, and then the media.
    plain = "media" in layout and "media" not in layout[:1] * len(texts) and 0 not in layout
    plain = plain and len(texts) < 2
    media = [_to_attachment(part) for part in content if part.type != "text"]
    return JOINT.join(texts), media, None if plain else layout


def _to_attachment(part: Part) -> Attachment:
    source = part.source or Media("", "")
    remote = "://" in source.path
    extra: dict[str, Any] = {FROM_PART: source.path}
    if source.duration_sec is not None:
        extra["duration_sec"] = source.duration_sec
    return Attachment(
        kind=part.type,
        path="" if remote else source.path,
        uri=source.path if remote else "",
        media_type=source.media_type,
        extra=extra,
    )


def cut(text: str, lengths: list[int]) -> list[str] | None:
    """The texts that were joined; None where the text is no longer theirs."""
    texts: list[str] = []
    at = 0
    for length in lengths:
        if texts and not text.startswith(JOINT, at):
            return None
        at += len(JOINT) if texts else 0
        texts.append(text[at : at + length])
        at += length
    return texts if at == len(text) else None


def _laid_out(text: str, media: list[Part], layout: Layout) -> list[Part] | None:
    """The parts as they were; None where the text or the media are no longer those."""
    texts = cut(text, [entry for entry in layout if isinstance(entry, int)])
    if texts is None or layout.count("media") != len(media):
        return None
    words, pictures = iter(texts), iter(media)
    return [
        next(pictures) if entry == "media" else Part("text", text=next(words)) for entry in layout
    ]
