"""The spool: a folder where hooks lay down payloads, and the shell command that does it.

    live/spool/tmp/    payloads being written
    live/spool/new/    whole payloads, one file each; a rename brings them here
    live/hooks.json    what was installed where (`manifest.py`)
    live/backups/      files as they were before the first change

The time of arrival is the file's mtime, which the rename keeps. Names come from mktemp: they are
unique across weeks of backlog, which process ids are not.
"""

import shlex
from pathlib import Path

import unspool

FOLDER_MODE = 0o700
FILE_MODE = 0o600
HALF_WRITTEN_SECONDS = 3600
"""A file in `tmp` that is older is of a hook that was killed: nobody will rename it."""


class Layout:
    """Where everything that is live lies: the folder `live` beside the store."""

    def __init__(self, live: Path) -> None:
        self.live = live
        self.spool = live / "spool"
        self.tmp = self.spool / "tmp"
        self.new = self.spool / "new"
        self.manifest = live / "hooks.json"
        self.backups = live / "backups"

    @classmethod
    def beside(cls, store: Path) -> "Layout":
        return cls(store.absolute().parent / "live")

    def make(self) -> None:
        """All folders, for their owner only."""
        self.live.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.live, self.spool, self.tmp, self.new, self.backups):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            if folder.stat().st_mode & 0o077:
                folder.chmod(FOLDER_MODE)


ANYBODY = "any"
"""Cursor, VS Code and Copilot CLI read Claude Code's settings too, and Cursor runs equal commands once:
those agents share one command, and what they hand over says by itself whose it is."""


PROGRAM = Path(unspool.__file__).absolute()
"""A file that goes when unspool is uninstalled: then nobody would ever empty the spool."""


def hand_over(
    spool: Path, agent: str = ANYBODY, answer: str = "{}", program: Path = PROGRAM
) -> str:
    """The command of a hook: lays the payload into the spool, says `{}`, and always ends well.

    No script and no Python, so that nothing can go missing: without the spool, or without unspool,
    it does nothing.
    Whatever it did not keep it reads to the end, else an agent that still writes gets EPIPE.
    No variable has a name: Gemini CLI replaces each `$name` in its settings by the environment's.
    `/bin/sh` by name, since Codex runs commands with the user's own shell, which may be fish.
    """
    label = "${CURSOR_VERSION:+cursor.}any" if agent == ANYBODY else agent
    say = f'printf "{answer}";' if answer else ""
    script = (
        'umask 077;{ [ -e "$1" ]&&[ -d "$0/new" ]'
        f'&&set -- "$1" "$(mktemp "$0/tmp/{label}.XXXXXXXXXX")"'
        '&&[ "$2" ]&&cat>"$2"&&mv "$2" "$0/new/"||{ [ -z "$2" ]||rm -f "$2";cat>/dev/null;};}'
        f" 2>/dev/null;{say}exit 0"
    )
    return f"/bin/sh -c '{script}' {shlex.quote(str(spool))} {shlex.quote(str(program))}"


def agent_hint(name: str) -> str | None:
    """Which agent the name of a payload tells of: `codex.kU3…` is Codex; `any.kU3…` leaves it open."""
    agent = name.partition(".")[0]
    return None if agent == ANYBODY else agent
