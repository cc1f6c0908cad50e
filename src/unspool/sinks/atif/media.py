"""Media: attachments as content parts, their bytes as files beside the document."""

import base64
import binascii
import hashlib
import mimetypes

import msgspec

from unspool.facts import Attachment
from unspool.sinks.atif.extras import Layout, residue_of
from unspool.sinks.atif.model import ALIASES, AUDIO_TYPES, IMAGE_TYPES, Content, Json, Media, Part
from unspool.trajectory import Message

DURATION = "duration_sec"

JOINT = "\n\n"
"""What stands between two text parts when they are read as one text."""


Files = dict[str, bytes]
"""The files that go beside the documents of one family, by name."""


def to_content(message: Message, files: Files, from_parts: bool) -> tuple[Content, Json]:
    """The content with its media parts; and, for its `extra`, the attachments described, without
    their bytes.

    `from_parts` says that the attachments were read from the parts of somebody else's document.
    """
    media: list[Part] = []
    described: list[Json] = []
    for attachment in message.attachments or ():
        part, file = _place(attachment, files, from_parts)
        if part is not None:
            media.append(part)
        if part is None or not from_parts:
            bare = msgspec.to_builtins(msgspec.structs.replace(attachment, data=""))
            described.append({**bare, "file": file} if file else bare)
    more = {"attachments": described} if described else {}
    layout = residue_of(message.extra).layout
    if layout is not None and (parts := _laid_out(message.content, media, layout)) is not None:
        return parts, more
    if not media:
        return message.content, more
    text = [Part(type="text", text=message.content)] if message.content else []
    return [*text, *media], more


def _place(attachment: Attachment, files: Files, from_parts: bool) -> tuple[Part | None, str]:
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
    path = ""
    if data:
        folder = "images" if media_type.startswith("image/") else "attachments"
        guessed = suffix or (mimetypes.guess_extension(media_type) or ".bin").lstrip(".")
        source = path = f"{folder}/{hashlib.sha256(data).hexdigest()}.{guessed}"
        files[path] = data
    elif from_parts and attachment.path:
        source = attachment.path
    else:
        # A path on the machine that was recorded leads nowhere for the reader.
        local = attachment.uri.startswith(("file:", "data:", "vscode"))
        source = attachment.uri if "://" in attachment.uri and not local else ""
    if suffix is None or not source:
        return None, path
    duration = (attachment.extra or {}).get(DURATION)
    media = Media(media_type, source, duration if isinstance(duration, int | float) else None)
    return Part(type="audio" if media_type in AUDIO_TYPES else "image", source=media), path


def from_content(content: Content) -> tuple[str, list[Attachment], Layout | None]:
    """Text, media and, where it is not one text and then the media, the layout that joins them."""
    if isinstance(content, str):
        return content, [], None
    text = JOINT.join(part.text or "" for part in content if part.type == "text")
    media = [_attachment(part.type, part.source) for part in content if part.source is not None]
    layout: Layout = [len(p.text or "") if p.type == "text" else "media" for p in content]
    plain: Layout = [len(text)] if text else []
    plain += ["media"] * len(media)
    return text, media, None if media and layout == plain else layout


def _attachment(kind: str, source: Media) -> Attachment:
    remote = "://" in source.path
    return Attachment(
        kind=kind,
        path="" if remote else source.path,
        uri=source.path if remote else "",
        media_type=source.media_type,
        extra=None if source.duration_sec is None else {DURATION: source.duration_sec},
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
            parts.append(Part(type="text", text=text[at : at + entry]))
            at, joint = at + entry, JOINT
        elif pictures:
            parts.append(pictures.pop(0))
        else:
            return None
    return parts if at == len(text) and not pictures else None
