"""Folders of VS Code's user data: where chats lie, and which workspace a chat belongs to."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from unspool.sources.vscode_chat.uris import path_of

CHAT_FOLDERS = frozenset(
    ("chatSessions", "emptyWindowChatSessions", "transferredChatSessions", "backgroundSessions")
)
PRODUCTS = (
    *("Code", "Code - Insiders", "Code - OSS", "VSCodium", "VSCodium - Insiders"),
    *("Windsurf", "Windsurf - Next", "Trae", "Kiro", "Positron"),  # forks with the same layout
)
SERVERS = (".vscode-server", ".vscode-server-insiders", ".vscodium-server")
STORES = ("workspaceStorage", "globalStorage")
"""The rest of a `User` folder (settings, edit history) holds no chats and may be large."""
DESCRIPTION = "workspace.json"


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """The stores of all products, of a portable one, and of servers that a window connects to."""
    return [user / store for user in user_folders(home, env, platform) for store in STORES]


def user_folders(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    if platform == "darwin":
        base = home / "Library" / "Application Support"
    elif platform == "win32":
        base = Path(env["APPDATA"]) if env.get("APPDATA") else home / "AppData" / "Roaming"
    else:
        base = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else home / ".config"
    folders = [base / product / "User" for product in PRODUCTS]
    folders += [home / server / "data" / "User" for server in SERVERS if platform != "win32"]
    folders.append(home / ".local" / "share" / "code-server" / "User")
    if env.get("VSCODE_PORTABLE"):
        folders.append(Path(env["VSCODE_PORTABLE"]) / "user-data" / "User")
    return folders


def folder_of(path: str) -> str:
    """The folder that was open where the chat was stored; empty where none is told."""
    folder, name = os.path.split(path)
    above, folder_name = os.path.split(folder)
    if folder_name in CHAT_FOLDERS:
        return workspace_of(os.path.join(above, DESCRIPTION))  # noqa: PTH118 - for every chat
    stores = ("state.vscdb", "state.vscdb.backup")
    return workspace_of(os.path.join(folder, DESCRIPTION)) if name in stores else ""  # noqa: PTH118


def workspace_of(description: str) -> str:
    try:
        with open(description, "rb") as file:
            value = msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    if not isinstance(value, dict):
        return ""
    for name in ("folder", "workspace", "configuration"):
        if isinstance(value.get(name), str | dict) and (path := path_of(value[name])):
            return path
    return ""
