"""Media: attachments as content parts, their bytes as files beside the document."""

import base64
import binascii
import hashlib
import mimetypes
from typing import Any, Literal

import msgspec

from unspool.facts import Attachment
from unspool.sinks.atif.model import ALIASES, AUDIO_TYPES, IMAGE_TYPES, Content, Media, Part

Layout = list[int | Literal["media"]]

JOINT = "\n\n"
"""What stands between two text parts when they are read as one text."""

FROM_PART = "atif_part"
"""The key in an attachment's `extra` that says: it was a content part, with this path."""


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
        part, file = _place(attachment, files)
        if part is not None:
            media.append(part)
        extra = dict(attachment.extra or {})
        kept = extra.pop(FROM_PART, "")
        duration = extra.get("duration_sec")
        told = _to_attachment(attachment.kind, Media(attachment.media_type, kept, duration))
        if not kept or msgspec.structs.replace(attachment, data="") != told:
            bare = msgspec.structs.replace(attachment, data="", extra=extra or None)
            where = {"file": file or kept} if file or kept else {}
            described.append({**msgspec.to_builtins(bare), **where})
    if layout is not None and (parts := _laid_out(text, media, layout)) is not None:
        return parts, described
    if not media:
        return text, described
    return [*([Part("text", text=text)] if text else []), *media], described


def _place(attachment: Attachment, files: Files) -> tuple[Part | None, str]:
    """The part for an attachment, if ATIF has one; and the file that its bytes went to."""
    media_type = attachment.media_type.strip().lower().partition(";")[0]
    if not media_type:
        name = attachment.name or attachment.path or attachment.uri.partition("?")[0]
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    media_type = ALIASES.get(media_type, media_type)
    suffix = IMAGE_TYPES.get(media_type) or AUDIO_TYPES.get(media_type)
    try:
        data = base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    extra, path = attachment.extra or {}, ""
    if data:
        folder = "images" if media_type.startswith("image/") else "attachments"
        guessed = suffix or (mimetypes.guess_extension(media_type) or ".bin").lstrip(".")
        source = path = files.add(folder, data, guessed)
    elif isinstance(extra.get(FROM_PART), str):
        source = extra[FROM_PART]
    else:
        # A path on the machine that was recorded leads nowhere for the reader.
        local = attachment.uri.startswith(("file:", "data:", "vscode"))
        source = attachment.uri if "://" in attachment.uri and not local else ""
    if suffix is None or not source:
        return None, path
    duration = extra.get("duration_sec")
    media = Media(media_type, source, duration if isinstance(duration, int | float) else None)
    return Part("audio" if media_type in AUDIO_TYPES else "image", source=media), path


def from_content(content: Content) -> tuple[str, list[Attachment], Layout | None]:
    """Text, media and, where it is not one text and then the media, the layout that joins them."""
    if isinstance(content, str):
        return content, [], None
    text = JOINT.join(part.text or "" for part in content if part.type == "text")
    media = [_to_attachment(part.type, part.source) for part in content if part.source is not None]
    layout: Layout = [len(p.text or "") if p.type == "text" else "media" for p in content]
    plain: Layout = [len(text)] if text else []
    plain += ["media"] * len(media)
    return text, media, None if media and layout == plain else layout


def _to_attachment(kind: str, source: Media) -> Attachment:
    remote = "://" in source.path
    extra: dict[str, Any] = {FROM_PART: source.path}
    if source.duration_sec is not None:
        extra["duration_sec"] = source.duration_sec
    return Attachment(
        kind=kind,
        path="" if remote else source.path,
        uri=source.path if remote else "",
        media_type=source.media_type,
        extra=extra,
    )


def _laid_out(text: str, media: list[Part], layout: Layout) -> list[Part] | None:
    """The parts as they were; None where the text or the media are no longer those."""
    parts: list[Part] = []
    pictures = list(media)
    at, joint = 0, ""
    for entry in layout:
        if isinstance(entry, int):
            if not text.startswith(joint, at):
                return None
            at += len(joint)
            parts.append(Part("text", text=text[at : at + entry]))
            at, joint = at + entry, JOINT
        elif pictures:
            parts.append(pictures.pop(0))
        else:
            return None
    return parts if at == len(text) and not pictures else None
