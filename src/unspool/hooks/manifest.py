"""The manifest: what was installed where. An entry is ours by its exact command in here alone."""

import hashlib
from pathlib import Path

import msgspec

from unspool.errors import HooksRefused
from unspool.hooks.files import write_private
from unspool.hooks.spool import Layout


class Installed(msgspec.Struct):
    """One file with hooks of ours."""

    agent: str
    path: str
    project: bool = False
    commands: dict[str, str] = {}
    """Event → the command that was written for it."""
    folders: list[str] = []
    """Folders that were made for it, outermost first."""
    before: str | None = None
    """Digest of the file without our hooks, kept in `backups` under it; None: there was no file."""
    after: str = ""
    """Digest of the file with them."""
    former: list[tuple[str, str]] = []
    """Events and commands of an earlier install, until the file is surely without them."""


class Manifest(msgspec.Struct):
    version: int = 1
    installed: list[Installed] = []

    def of(self, agent: str, path: Path) -> Installed | None:
        found = (one for one in self.installed if one.agent == agent and one.path == str(path))
        return next(found, None)

    def put(self, entry: Installed) -> None:
        self.drop(entry)
        self.installed.append(entry)

    def drop(self, entry: Installed) -> None:
        place = (entry.agent, entry.path)
        self.installed = [one for one in self.installed if (one.agent, one.path) != place]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load(layout: Layout) -> Manifest:
    try:
        return msgspec.json.decode(layout.manifest.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (OSError, msgspec.MsgspecError) as error:
        raise HooksRefused(
            f"{layout.manifest} cannot be read ({error}), and only it tells which hooks are unspool's."
            " Nothing is changed; move it away, then install again"
        ) from None


def save(layout: Layout, manifest: Manifest) -> None:
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_private(layout.manifest, data)


def keep(layout: Layout, data: bytes) -> str:
    """A copy of a file as it was, by its digest."""
    name = digest(data)
    if not (layout.backups / name).exists():
        write_private(layout.backups / name, data)
    return name


def kept(layout: Layout, name: str) -> bytes | None:
    try:
        data = (layout.backups / name).read_bytes()
    except OSError:
        return None
    return data if digest(data) == name else None
