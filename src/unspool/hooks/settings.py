"""The hooks in one settings file: added to its text and taken out again, everything else kept.

Every change is checked: the file parsed before and after, and the difference is what was meant.
"""

import copy
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unspool.errors import HooksRefused
from unspool.hooks import jsontext
from unspool.hooks.agents import Agent

BOM = "\ufeff"
HOOKS = "hooks"

Created = list[list[str]]
"""Paths of members that were not there before: `["hooks"]`, `["hooks", "Stop"]`."""


class Settings:
    """One agent's file, as text and as what it says."""

    def __init__(self, agent: Agent, path: str, data: bytes | None) -> None:
        self.agent = agent
        self.path = path
        self.created: Created = []
        self.bom = False
        if data is None:
            self.text = ""
            self.value: dict[str, Any] | None = None
            return
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise self._refused("it is not UTF-8") from None
        self.bom = text.startswith(BOM)
        self.text = text.removeprefix(BOM)
        if not self.text.strip():
            raise self._refused("it is empty")
        self.value = self._parse(self.text)
        self._check_shape(self.value)

    @property
    def data(self) -> bytes | None:
        """The file as it is now; None where nothing is left that was not ours."""
        if self.value is None:
            return None
        return (BOM * self.bom + self.text).encode()

    def commands(self, event: str) -> list[str]:
        """The commands that run at an event."""
        items = ((self.value or {}).get(HOOKS) or {}).get(event) or []
        return [command for item in items for command in self.agent.command_of(item)]

    def places(self, event: str, command: str) -> list[tuple[int, int]]:
        """(number in the list of the event, number in its group) of a command."""
        items = ((self.value or {}).get(HOOKS) or {}).get(event) or []
        return [
            (number, within)
            for number, item in enumerate(items)
            for within, one in enumerate(self.agent.command_of(item))
            if one == command
        ]

    def add(self, event: str, command: str) -> None:
        """As the last entry of the event, so that no other one changes its place."""
        entry = self.agent.entry(command, event)
        if self.value is None:
            self.value = {**self.agent.skeleton, HOOKS: {event: [entry]}}
            self.created += [[HOOKS], [HOOKS, event]]
            self.text = json.dumps(self.value, ensure_ascii=False, indent=2) + "\n"
            return
        wanted = copy.deepcopy(self.value)
        hooks = wanted.get(HOOKS)
        if hooks is None:
            wanted[HOOKS] = {event: [entry]}
            self.created += [[HOOKS], [HOOKS, event]]
            self._edit(jsontext.append(self.text, (), HOOKS, wanted[HOOKS]), wanted)
        elif event not in hooks:
            hooks[event] = [entry]
            self.created.append([HOOKS, event])
            self._edit(jsontext.append(self.text, (HOOKS,), event, hooks[event]), wanted)
        else:
            hooks[event].append(entry)
            self._edit(jsontext.append(self.text, (HOOKS, event), None, entry), wanted)

    def take_out(
        self, commands: Iterable[tuple[str, str]], created: Created, existed: bool
    ) -> None:
        """Remove entries by event and exact command, and what was made for them and is empty now."""
        if self.value is None:
            return
        for event, command in commands:
            self._take_out(event, command)
        for path in sorted(created, key=len, reverse=True):
            holder: Any = self.value
            for name in path[:-1]:
                holder = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and path[-1] in holder and not holder[path[-1]]:
                wanted = copy.deepcopy(self.value)
                inner: Any = wanted
                for name in path[:-1]:
                    inner = inner[name]
                del inner[path[-1]]
                name = path[-1]
                text = jsontext.remove(
                    self.text,
                    tuple(path[:-1]),
                    lambda _, child: child.key == name,  # noqa: B023 - used at once
                )
                self._edit(text, wanted)
        if not existed and not self.value.get(HOOKS):
            rest = {name: value for name, value in self.value.items() if name != HOOKS}
            if rest == dict(self.agent.skeleton):
                self.value = None

    def _take_out(self, event: str, command: str) -> None:
        assert self.value is not None
        items = (self.value.get(HOOKS) or {}).get(event) or []
        for number in reversed(range(len(items))):
            found = self.agent.command_of(items[number])
            if command not in found:
                continue
            wanted = copy.deepcopy(self.value)
            if set(found) == {command}:
                del wanted[HOOKS][event][number]
                text = _without(self.text, (HOOKS, event), [number])
            else:  # somebody put a hook into our group
                handlers = wanted[HOOKS][event][number][HOOKS]
                ours = [n for n, one in enumerate(handlers) if one.get("command") == command]
                for n in reversed(ours):
                    del handlers[n]
                text = _without(self.text, (HOOKS, event, number, HOOKS), ours)
            self._edit(text, wanted)

    def _edit(self, text: str, wanted: dict[str, Any]) -> None:
        if self._parse(text) != wanted:
            raise self._refused("an entry cannot be changed without changing another")
        self.text, self.value = text, wanted

    def _parse(self, text: str) -> Any:
        try:
            return jsontext.parse(text).value
        except jsontext.NotJson as error:
            raise self._refused(str(error)) from None

    def _check_shape(self, value: Any) -> None:
        hooks = value.get(HOOKS) if isinstance(value, dict) else None
        if not isinstance(value, dict):
            raise self._refused("it is no object")
        if HOOKS in value and not isinstance(hooks, dict):
            raise self._refused('its "hooks" are no object')
        for event, items in (hooks or {}).items():
            known = (*self.agent.events, *self.agent.gates)
            if not isinstance(items, list) and any(event == one.name for one in known):
                raise self._refused(f'its "hooks" for {event} are no list')

    def _refused(self, why: str) -> HooksRefused:
        return HooksRefused(
            f"{self.agent.name}: {self.path} cannot be read as settings ({why});"
            " it stays as it is, mend it and try again"
        )


def said_by(path: Path) -> dict[str, Any]:
    """What another file of an agent says; nothing where it cannot be read."""
    try:
        text = path.read_text("utf-8-sig")
        value = tomllib.loads(text) if path.suffix == ".toml" else jsontext.parse(text).value
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _without(text: str, path: jsontext.Path, numbers: list[int]) -> str:
    return jsontext.remove(text, path, lambda number, _: number in numbers)
