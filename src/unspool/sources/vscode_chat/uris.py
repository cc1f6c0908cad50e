"""URIs, locations and markdown strings in the many ways in which VS Code writes them."""

from typing import Any
from urllib.parse import quote, unquote, urlsplit

from unspool.io.values import str_of

_PLAIN = "/:@!$&'()*+,;=-._~"


def markdown(value: Any) -> str:
    """The text of a string or of a markdown object."""
    if isinstance(value, dict):
        value = value.get("value")
    return str_of(value)


def uri_of(value: Any) -> str:
    """The URI of a URI object, a location, a reference to either, or a text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    for name in ("external", "uri", "targetUri", "resource", "location", "reference"):
        inner = value.get(name)
        if inner is not None and (inner_uri := uri_of(inner)):
            return inner_uri
    scheme, path = value.get("scheme"), value.get("path")
    if not isinstance(scheme, str) or not isinstance(path, str):
        return ""
    authority = value.get("authority")
    uri = f"{scheme}:"
    if isinstance(authority, str) and (authority or scheme == "file"):
        uri += f"//{authority}"
    elif scheme == "file":
        uri += "//"
    uri += quote(path, safe=_PLAIN)
    for mark, name in (("?", "query"), ("#", "fragment")):
        if isinstance(value.get(name), str) and value[name]:
            uri += mark + quote(value[name], safe=_PLAIN + "?")
    return uri


def path_of(value: Any) -> str:
    """The path of a file on disk (or in a notebook); empty where the URI is of something else."""
    if isinstance(value, dict) and value.get("scheme") == "file" and not value.get("authority"):
        held = value.get("path")
        if isinstance(held, str):
            return _local(held)
    uri = uri_of(value)
    if ":" not in uri:
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme not in ("file", "vscode-notebook-cell", "vscode-remote", "untitled"):
        # One letter is no scheme but a drive.
        return uri if len(parts.scheme) <= 1 else ""
    path = unquote(parts.path)
    if parts.scheme == "file" and parts.netloc:
        return f"//{parts.netloc}{path}"
    return _local(path)


def _local(path: str) -> str:
    """`/c:/x` is `c:/x` on the disk."""
    return path[1:] if len(path) > 2 and path[0] == "/" and path[2] == ":" else path


def lines_of(value: Any) -> tuple[int | None, int | None]:
    """(first, last line) of a location or a range."""
    if not isinstance(value, dict):
        return None, None
    span = value.get("range", value)
    if not isinstance(span, dict):
        return None, None
    return integer(span.get("startLineNumber")), integer(span.get("endLineNumber"))


def integer(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**60 else None


def name_of(uri: str) -> str:
    """The last part of a URI's path, to call it by."""
    path = unquote(uri.split("#", 1)[0].split("?", 1)[0]).rstrip("/")
    return path.replace("\\", "/").rpartition("/")[2] or uri
