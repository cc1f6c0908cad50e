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
from unspool.hooks.agents import Agent, commands_in

BOM = "\ufeff"
HOOKS = "hooks"


class Settings:
    """One agent's file, as text and as what it says."""

    def __init__(self, agent: Agent, path: str, data: bytes | None) -> None:
        self.agent = agent
        self.path = path
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
        return [command for item in self._items(event) for command in commands_in(item)]

    def _items(self, event: str) -> list[Any]:
        items: list[Any] = (self.value or {}).get(HOOKS, {}).get(event, [])
        return items

    def places(self, event: str, command: str) -> list[tuple[int, int]]:
        """(number in the list of the event, number in its group) of a command."""
        return [
            (number, within)
            for number, item in enumerate(self._items(event))
            for within, one in enumerate(commands_in(item))
            if one == command
        ]

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing but what a new file of ours has beside the hooks."""
        return self.value is None or self.value == dict(self.agent.skeleton)

    def add(self, event: str, command: str) -> None:
        """As the last entry of the event, so that no other one changes its place."""
        entry = self.agent.entry(command, event)
        if self.value is None:
            self.value = {**self.agent.skeleton, HOOKS: {event: [entry]}}
            self.text = json.dumps(self.value, ensure_ascii=False, indent=2) + "\n"
            return
        wanted = copy.deepcopy(self.value)
        wanted.setdefault(HOOKS, {}).setdefault(event, []).append(entry)
        if HOOKS not in self.value:
            text = jsontext.append(self.text, (), HOOKS, wanted[HOOKS])
        elif event not in self.value[HOOKS]:
            text = jsontext.append(self.text, (HOOKS,), event, [entry])
        else:
            text = jsontext.append(self.text, (HOOKS, event), None, entry)
        self._edit(text, wanted)

    def take_out(self, commands: Iterable[tuple[str, str]]) -> None:
        """Remove entries by event and exact command, and what is empty without them."""
        for event, command in commands:
            for number, within in reversed(self.places(event, command)):
                group: jsontext.Path = (HOOKS, event, number)
                if len(commands_in(_at(self.value, group))) > 1:
                    self._remove((*group, HOOKS, within))  # somebody put a hook into our group
                    continue
                self._remove(group)
                for above in ((HOOKS, event), (HOOKS,)):
                    if not _at(self.value, above):
                        self._remove(above)

    def _remove(self, path: jsontext.Path) -> None:
        wanted = copy.deepcopy(self.value)
        holder, step = _at(wanted, path[:-1]), path[-1]
        number = step if isinstance(step, int) else list(holder).index(step)
        del holder[step]
        self._edit(jsontext.remove(self.text, path[:-1], number), wanted)

    def _edit(self, text: str, wanted: Any) -> None:
        if self._parse(text) != wanted:
            raise self._refused("an entry cannot be changed without changing another")
        self.text, self.value = text, wanted

    def _parse(self, text: str) -> Any:
        try:
            return jsontext.parse(text)
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
        value = tomllib.loads(text) if path.suffix == ".toml" else jsontext.parse(text)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _at(value: Any, path: jsontext.Path) -> Any:
    for step in path:
        value = value[step]
    return value
