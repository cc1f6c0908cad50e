"""The agents that have hooks: one row each, all that differs between them as data.

Only events that cannot decide anything are installed: a silent or missing listener at a gate
(PreToolUse, PermissionRequest …) has blocked every tool call of other people's users.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unspool.hooks.spool import ANYBODY

Version = tuple[int, ...]
Entry = dict[str, Any]

ALWAYS: Version = ()
SECONDS = 5
"""How long an agent waits for a hook at most. It takes a few milliseconds."""
ASK_SECONDS = 10


class Event(NamedTuple):
    name: str
    since: Version = ALWAYS
    """The first version that knows it. An unknown name makes an old Claude Code drop all settings."""
    until: Version | None = None
    """The first version that does without it."""


def _events(*names: str, since: Version = ALWAYS) -> tuple[Event, ...]:
    return tuple(Event(name, since) for name in names)


class Agent(NamedTuple):
    name: str
    title: str
    programs: tuple[str, ...]
    """What its command is called."""
    homes: tuple[str, ...]
    """Folders below the user's home that tell that it is here; the first is where its settings lie."""
    home_variable: str | None
    """The variable that names another folder instead of the first."""
    user_file: str
    project_file: str
    events: tuple[Event, ...]
    entry: Callable[[str, str], Entry]
    """(command, event) → what is put into the list of an event."""
    command_of: Callable[[Any], list[str]]
    """The commands in what stands in such a list."""
    gates: tuple[Event, ...] = ()
    no_gate: str | None = None
    """Why gates are refused: the agent has no answer that decides nothing."""
    skeleton: Mapping[str, Any] = {}
    """What a new file holds beside the hooks."""
    command_name: str = ANYBODY
    silent_before: Version = ALWAYS
    """Older versions get no answer at all: they do not know `{}`."""
    trust: str | None = None
    """What the person has to do before the agent runs new hooks."""
    shared_project: bool = True
    """Whether the file of a project is usually committed."""
    assumed: Version = ALWAYS
    """The version that it is taken for where it does not say: only what every later one knows."""

    @property
    def is_plugin(self) -> bool:
        return self.user_file.endswith(".js")

    def folder(self) -> Path:
        if self.home_variable and (named := os.environ.get(self.home_variable)):
            return Path(named)
        top, _, rest = self.homes[0].partition("/")
        if top == ".config" and (named := os.environ.get("XDG_CONFIG_HOME")):
            return Path(named, rest)
        return Path.home() / self.homes[0]

    def file(self, project: Path | None) -> Path:
        return self.folder() / self.user_file if project is None else project / self.project_file

    def program(self) -> str | None:
        """The command, also where its installer puts it without telling the PATH."""
        for name in self.programs:
            for folder in (None, *_program_folders()):
                if found := shutil.which(name, path=str(folder) if folder else None):
                    return found
        return None

    def is_here(self) -> bool:
        folders = (self.folder(), *(Path.home() / home for home in self.homes))
        return any(folder.is_dir() for folder in folders) or self.program() is not None

    def version(self) -> Version | None:
        """What `--version` says; None where there is no command, or it does not answer."""
        program = self.program()
        if program is None:
            return None
        try:
            run = subprocess.run(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ASK_SECONDS,
                text=True,
                errors="replace",
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r"\d+(?:\.\d+)+", run.stdout)
        return tuple(int(part) for part in match[0].split(".")) if match else None

    def wanted(self, version: Version | None, gates: bool) -> list[str]:
        """The events that this version knows; of an unknown version only those that each knows."""
        at = version if version is not None else self.assumed
        return [
            event.name
            for event in (*self.events, *(self.gates if gates else ()))
            if event.since <= at and (event.until is None or at < event.until)
        ]


def _program_folders() -> tuple[Path, ...]:
    home = Path.home()
    return (
        home / ".local" / "bin",
        home / ".claude" / "local",
        home / ".opencode" / "bin",
        Path("/opt/homebrew/bin"),
        Path("/usr/local/bin"),
        Path("/Applications/Cursor.app/Contents/Resources/app/bin"),
    )


def _grouped(command: str, event: str, seconds: int = SECONDS) -> Entry:
    return {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}


def _codex(command: str, event: str) -> Entry:
    # Codex caps SessionEnd at three seconds, and says so at each start where it is asked for more.
    return _grouped(command, event, 3 if event == "SessionEnd" else SECONDS)


def _gemini(command: str, event: str) -> Entry:
    milliseconds = SECONDS * 1000
    hook = {"name": "unspool", "type": "command", "command": command, "timeout": milliseconds}
    return {"matcher": "*", "hooks": [hook]}


def _cursor(command: str, event: str) -> Entry:
    return {"command": command, "timeout": SECONDS}


def _copilot(command: str, event: str) -> Entry:
    # Both read `command`; of the time-out VS Code reads the one name, Copilot CLI the other.
    return {"type": "command", "command": command, "timeout": SECONDS, "timeoutSec": SECONDS}


def _flat_commands(item: Any) -> list[str]:
    return [item["command"]] if isinstance(item, dict) and "command" in item else []


def _grouped_commands(item: Any) -> list[str]:
    handlers = item.get("hooks") if isinstance(item, dict) else None
    if not isinstance(handlers, list):
        return []
    return [command for handler in handlers for command in _flat_commands(handler)]


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            programs=("claude",),
            homes=(".claude",),
            home_variable="CLAUDE_CONFIG_DIR",
            user_file="settings.json",
            project_file=".claude/settings.local.json",
            events=(
                # From the changelog; PostToolUseFailure as it first stands in the package.
                Event("SessionStart", (1, 0, 62)),
                Event("UserPromptSubmit", (1, 0, 54)),
                Event("PostToolUse", (1, 0, 38)),
                Event("PostToolUseFailure", (2, 0, 56)),
                Event("PermissionDenied", (2, 1, 89)),
                Event("Notification", (1, 0, 38)),
                Event("Stop", (1, 0, 38)),
                Event("StopFailure", (2, 1, 78)),
                Event("SubagentStart", (2, 0, 43)),
                Event("SubagentStop", (1, 0, 41)),
                Event("PreCompact", (1, 0, 48), until=(2, 1, 76)),
                Event("PostCompact", (2, 1, 76)),
                Event("PostModelSwitch", (2, 1, 325)),
                Event("InstructionsLoaded", (2, 1, 69)),
                Event("CwdChanged", (2, 1, 83)),
                Event("SessionEnd", (1, 0, 85)),
            ),
            entry=_grouped,
            command_of=_grouped_commands,
            gates=_events("PreToolUse", since=(1, 0, 38)),
            silent_before=(2, 1, 73),
            assumed=(1, 0, 85),
            shared_project=False,
        ),
        Agent(
            name="cursor",
            title="Cursor",
            programs=("cursor", "cursor-agent"),
            homes=(".cursor",),
            home_variable=None,
            user_file="hooks.json",
            project_file=".cursor/hooks.json",
            events=(
                # By what is written about it: no Cursor was run with these.
                *_events("beforeSubmitPrompt", "afterFileEdit", "stop", since=(1, 7)),
                *_events(
                    "afterShellExecution",
                    "afterMCPExecution",
                    "afterAgentResponse",
                    "afterAgentThought",
                    since=(2, 0),
                ),
                *_events(
                    "sessionStart",
                    "sessionEnd",
                    "postToolUse",
                    "postToolUseFailure",
                    "subagentStop",
                    "preCompact",
                    since=(2, 4),
                ),
            ),
            entry=_cursor,
            command_of=_flat_commands,
            no_gate="Cursor blocks a call whose hook does not allow it, and unspool allows nothing",
            skeleton={"version": 1},
            assumed=(1, 7),
        ),
        Agent(
            name="copilot",
            title="Copilot CLI and VS Code",
            programs=("copilot", "code"),
            homes=(".copilot", ".config/Code", "Library/Application Support/Code"),
            home_variable="COPILOT_HOME",
            user_file="hooks/unspool.json",
            project_file=".github/hooks/unspool.json",
            events=_events(
                "SessionStart",
                "UserPromptSubmit",
                "PostToolUse",
                "PostToolUseFailure",
                "Stop",
                "SubagentStop",
                "PreCompact",
                "SessionEnd",
                "ErrorOccurred",
                since=(1, 0, 6),  # by the packages: older ones know only names like sessionEnd
            ),
            entry=_copilot,
            command_of=_flat_commands,
            gates=_events("PreToolUse", since=(1, 0, 6)),
            skeleton={"version": 1},
            assumed=(1, 0, 6),
        ),
        Agent(
            name="codex",
            title="Codex",
            programs=("codex",),
            homes=(".codex",),
            home_variable="CODEX_HOME",
            user_file="hooks.json",
            project_file=".codex/hooks.json",
            events=(
                *_events("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"),
                # By the packages: not in 0.128, and the last one not in 0.140.
                *_events("PostCompact", "SubagentStop", since=(0, 140)),
                *_events("SessionEnd", since=(0, 150)),
            ),
            entry=_codex,
            command_of=_grouped_commands,
            gates=_events("PreToolUse"),
            command_name="codex",
            trust="Codex runs new hooks only after you trust them: start codex, type /hooks, press t",
        ),
        Agent(
            name="gemini-cli",
            title="Gemini CLI",
            programs=("gemini",),
            homes=(".gemini",),
            home_variable=None,
            user_file="settings.json",
            project_file=".gemini/settings.json",
            events=_events(
                "SessionStart",
                "BeforeAgent",
                "AfterAgent",
                "AfterTool",
                "PreCompress",
                "Notification",
                "SessionEnd",
                since=(0, 26),
            ),
            entry=_gemini,
            command_of=_grouped_commands,
            gates=_events("BeforeTool", since=(0, 26)),
            command_name="gemini-cli",
            assumed=(0, 26),
        ),
        Agent(
            name="opencode",
            title="OpenCode",
            programs=("opencode",),
            homes=(".config/opencode",),
            home_variable="OPENCODE_CONFIG_DIR",
            user_file="plugins/unspool.js",
            project_file=".opencode/plugins/unspool.js",
            events=_events(
                "chat.message",
                "tool.execute.after",
                "session.created",
                "session.idle",
                "session.error",
                "session.compacted",
                "session.deleted",
                "permission.asked",
                "permission.updated",
                "permission.replied",
            ),
            entry=lambda command, event: {},
            command_of=lambda item: [],
            gates=_events("tool.execute.before"),
            command_name="opencode",
        ),
    )
}
