"""The daemon as a service of the user's: systemd on Linux, launchd on macOS.

Only a file is written, and the command that starts it is said; nothing is started behind the user's
back.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from unspool.errors import UsageError

LABEL = "io.unspool.watch"
UNIT = "unspool-watch.service"


class Service(NamedTuple):
    path: Path
    text: str
    start: list[str]
    """What the user types to start it now and with every login,"""
    stop: list[str]
    """and what ends it when its file is gone."""
    links: tuple[Path, ...] = ()
    """What starting it with every login leaves beside the file."""


def service(
    command: list[str],
    home: Path,
    env: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
) -> Service:
    """The service that runs the command."""
    if platform == "darwin":
        path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        return Service(
            path,
            _plist(command, home / "Library" / "Logs" / "unspool.log"),
            [f"launchctl bootstrap gui/{os.getuid()} {path}"],
            [f"launchctl bootout gui/{os.getuid()}/{LABEL}"],
        )
    if platform.startswith("linux"):
        config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
        units = config / "systemd" / "user"
        return Service(
            units / UNIT,
            _unit(command),
            ["systemctl --user daemon-reload", f"systemctl --user enable --now {UNIT}"],
            # Not `disable`: of a unit without a file it only says that there is none.
            [f"systemctl --user stop {UNIT}", "systemctl --user daemon-reload"],
            (units / "default.target.wants" / UNIT,),
        )
    raise UsageError("there are services for Linux (systemd) and macOS (launchd) only")


def _unit(command: list[str]) -> str:
    quoted = " ".join(_quoted(word) for word in command)
    return f"""\
[Unit]
Description=unspool keeps coding conversations current

[Service]
ExecStart={quoted}
Restart=on-failure
RestartSec=10
Nice=10
UMask=0077

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """As systemd reads it: `%` and `$` mean something there, in quotes too."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"'


def _plist(command: list[str], log: Path) -> str:
    words = "\n".join(f"        <string>{escape(word)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{LABEL}</string>
    <key>ProgramArguments</key>
    <array>
{words}
    </array>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>ProcessType</key>
    <string>Background</string>
    <key>StandardErrorPath</key>
    <string>{escape(str(log))}</string>
</dict>
</plist>
"""
