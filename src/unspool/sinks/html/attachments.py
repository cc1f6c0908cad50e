"""Attachments: pictures that were kept, texts to open, names of all others."""

import re

from unspool.sinks.html.colours import highlight, language_of
from unspool.sinks.html.markup import Markup, element
from unspool.sinks.html.pieces import CLIP, fold
from unspool.trajectory import Attachment
from unspool.views.characters import one_line
from unspool.views.figures import size

_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def attachment_part(attachment: Attachment) -> Markup:
    name = attachment.name or attachment.path or attachment.uri or attachment.kind
    if attachment.media_type in _PICTURES and _BASE64.fullmatch(attachment.data or ""):
        data = "".join(attachment.data.split())
        source = f"data:{attachment.media_type};base64,{data}"
        picture = element("img", {"src": source, "alt": one_line(name, 200), "loading": "lazy"})
        caption = element("figcaption", None, one_line(name, 200))
        return element("figure", {"class": "picture"}, picture, caption)
    lines = ""
    if attachment.start_line is not None:
        lines = f":{attachment.start_line}"
        if attachment.end_line not in (None, attachment.start_line):
            lines += f"–{attachment.end_line}"
    facts = " · ".join(
        fact
        for fact in (attachment.kind, attachment.media_type, size(attachment.size_bytes))
        if fact
    )
    title = [element("b", None, one_line(name, 120) + lines), " ", element("small", None, facts)]
    if attachment.text.strip():
        code = highlight(attachment.text[:CLIP], language_of(attachment.path or attachment.name))
        return fold(title, element("pre", {"class": "output"}, code), kind="attachment")
    return element("span", {"class": "attachment"}, title)
