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
from unspool.io.values import field_of, list_of

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


def _events(names: str, since: Version = ALWAYS) -> tuple[Event, ...]:
    return tuple(Event(name, since) for name in names.split())


class Switch(NamedTuple):
    """What keeps an agent from running hooks."""

    file: str
    """In its folder, in the project (`./`), in the home (`~/`), or anywhere."""
    keys: tuple[str, ...]
    """The way to a value in it,"""
    off: Any
    """and what that is, or holds, where hooks are off."""


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
    switches: tuple[Switch, ...] = ()
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


def dotted(version: Version | None) -> str | None:
    return ".".join(map(str, version)) if version else None


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


def commands_in(item: Any) -> list[Any]:
    """The command of each handler in what stands in the list of an event: one, or a group of them."""
    handlers = item.get("hooks", [item]) if isinstance(item, dict) else []
    return [field_of(one, "command") for one in list_of(handlers)]


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
            gates=_events("PreToolUse", (1, 0, 38)),
            silent_before=(2, 1, 73),
            switches=(
                Switch("settings.json", ("disableAllHooks",), True),
                Switch("./.claude/settings.json", ("disableAllHooks",), True),
                Switch("./.claude/settings.local.json", ("disableAllHooks",), True),
                *(
                    Switch(f"{folder}/managed-settings.json", (key,), True)
                    for folder in ("/etc/claude-code", "/Library/Application Support/ClaudeCode")
                    for key in ("disableAllHooks", "allowManagedHooksOnly")
                ),
            ),
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
                *_events("beforeSubmitPrompt afterFileEdit stop", (1, 7)),
                *_events("afterShellExecution afterMCPExecution", (2, 0)),
                *_events("afterAgentResponse afterAgentThought", (2, 0)),
                *_events("sessionStart sessionEnd subagentStop preCompact", (2, 4)),
                *_events("postToolUse postToolUseFailure", (2, 4)),
            ),
            entry=_cursor,
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
            # By the packages: older ones know only names like sessionEnd.
            events=_events(
                "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure Stop SubagentStop"
                " PreCompact SessionEnd ErrorOccurred",
                (1, 0, 6),
            ),
            entry=_copilot,
            gates=_events("PreToolUse", (1, 0, 6)),
            skeleton={"version": 1},
            switches=(
                Switch("settings.json", ("disableAllHooks",), True),
                Switch("config.json", ("disableAllHooks",), True),
                Switch("~/.config/Code/User/settings.json", ("chat.useHooks",), False),
                Switch(
                    "~/Library/Application Support/Code/User/settings.json",
                    ("chat.useHooks",),
                    False,
                ),
            ),
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
                *_events("SessionStart UserPromptSubmit PostToolUse Stop"),
                # By the packages: not in 0.128, and the last one not in 0.140.
                *_events("PostCompact SubagentStop", (0, 140)),
                *_events("SessionEnd", (0, 150)),
            ),
            entry=_codex,
            gates=_events("PreToolUse"),
            command_name="codex",
            switches=(
                Switch("config.toml", ("features", "hooks"), False),
                Switch("config.toml", ("features", "codex_hooks"), False),
            ),
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
                "SessionStart BeforeAgent AfterAgent AfterTool PreCompress Notification SessionEnd",
                (0, 26),
            ),
            entry=_gemini,
            gates=_events("BeforeTool", (0, 26)),
            command_name="gemini-cli",
            switches=(
                Switch("settings.json", ("hooksConfig", "enabled"), False),
                Switch("settings.json", ("hooksConfig", "disabled"), "unspool"),
            ),
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
                "chat.message tool.execute.after session.created session.idle session.error"
                " session.compacted session.deleted permission.asked permission.updated"
                " permission.replied"
            ),
            entry=lambda command, event: {},
            gates=_events("tool.execute.before"),
            command_name="opencode",
        ),
    )
}
