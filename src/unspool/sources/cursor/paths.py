"""Paths: where Cursor keeps things, and one spelling for the paths that it writes in many ways."""

import ntpath
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import unquote

import msgspec

DESCRIPTION = "workspace.json"
_DRIVE = re.compile(r"^/?([A-Za-z]):[\\/]")


def clean_path(text: str) -> str:
    """`file:///c%3A/dev/x`, `/c:/dev/x` and `c:\\dev\\x` are one path, written as the system does."""
    if text.startswith("file://"):
        text = unquote(text[len("file://") :])
        if not text.startswith("/"):
            text = text[text.find("/") :] if "/" in text else text
    match = _DRIVE.match(text)
    if match:
        rest = text[match.end() :].replace("/", "\\")
        text = f"{match[1].lower()}:\\{rest}"
    return text.rstrip("/\\") or text


def uri_path(value: Any) -> str:
    """The path of a `uri`: text, or an object of the editor's; empty where it is neither."""
    if isinstance(value, dict):
        value = value.get("fsPath", value.get("path"))
    return clean_path(value) if isinstance(value, str) else ""


def is_absolute(path: str) -> bool:
    """Whether it names a place: some records have only the last part of the project's folder."""
    return path.startswith("/") or path[1:3] == ":\\"


def parents_of(path: str) -> list[str]:
    """The path and the folders above it."""
    place = PureWindowsPath(path) if path[1:2] == ":" else PurePosixPath(path)
    return [path, *map(str, place.parents)]


def file_name(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("/\\"))[-1] if path else ""


def folder_of(paths: list[str]) -> str | None:
    """The innermost folder that holds all these files, but no root of a disk."""
    windows = [path for path in paths if path[1:3] == ":\\"]
    plain = [path for path in paths if path[:1] == "/"]
    module: Any = ntpath if len(windows) > len(plain) else posixpath
    absolute = windows if module is ntpath else plain
    if len(absolute) < 2:
        return None
    try:
        shared: str = module.commonpath([module.dirname(path) for path in absolute])
    except ValueError:
        return None
    return shared if len(shared) > 3 else None


def workspace_folder(path: str) -> str | None:
    """The project that a workspace's storage belongs to: `workspace.json` beside the database."""
    try:
        value = msgspec.json.decode(Path(path).with_name(DESCRIPTION).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    uri = value.get("folder", value.get("workspace")) if isinstance(value, dict) else None
    return clean_path(uri) if isinstance(uri, str) else None


def user_folder(home: Path, env: Mapping[str, str], platform: str) -> Path:
    """Where the editor keeps its stores."""
    if platform == "darwin":
        return home / "Library" / "Application Support" / "Cursor" / "User"
    if platform == "win32":
        roaming = env.get("APPDATA")
        return (Path(roaming) if roaming else home / "AppData" / "Roaming") / "Cursor" / "User"
    config = env.get("XDG_CONFIG_HOME")
    return (Path(config) if config else home / ".config") / "Cursor" / "User"


def is_cursor_folder(parts: tuple[str, ...]) -> bool:
    """Whether a path runs through one of Cursor's own folders."""
    return any(part == "Cursor" or part == ".cursor" for part in parts)
