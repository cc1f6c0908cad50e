"""Hooks in the text of settings: added, found and taken out, everything else byte for byte."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as budget

from tests.hooks.settings_texts import texts
from unspool.errors import HooksRefused
from unspool.hooks import jsontext
from unspool.hooks.agents import AGENTS, Agent
from unspool.hooks.settings import Settings

EDITED = [agent for agent in AGENTS.values() if not agent.is_plugin]
COMMAND = "/bin/sh -c 'umask 077;{ t=$(mktemp \"$0/tmp\")' '/home/it'\"'\"'s/live'"


def install(agent: Agent, data: bytes | None) -> Settings:
    file = Settings(agent, "settings.json", data)
    for event in agent.wanted(None, False):
        file.add(event, COMMAND)
    return file


def commands(agent: Agent) -> list[tuple[str, str]]:
    return [(event, COMMAND) for event in agent.wanted(None, False)]


def is_inside(small: bytes, large: bytes) -> bool:
    """Whether nothing of the one is missing in the other, and all is in order."""
    rest = iter(large)
    return all(byte in rest for byte in small)


@pytest.mark.parametrize("agent", EDITED, ids=lambda agent: agent.name)
@budget(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts())
def test_install_then_remove_gives_the_same_bytes(
    agent: Agent, written: tuple[dict[str, Any], bytes]
) -> None:
    value, data = written
    if not all(value.get("hooks", {None: [1]}).values() or [None]):
        return  # an empty list, or none: removing takes it along
    file = install(agent, data)
    after = file.data
    assert after is not None
    expected = copy.deepcopy(value)
    for event, command in commands(agent):
        expected.setdefault("hooks", {}).setdefault(event, []).append(agent.entry(command, event))
    assert jsontext.parse(after.decode("utf-8-sig")) == expected
    assert is_inside(data, after)
    assert (b"\r\n" in after) >= (b"\r\n" in data)
    again = Settings(agent, "settings.json", after)
    for event, command in commands(agent):
        assert again.commands(event)[-1:] == [command]
    again.take_out(commands(agent))
    assert again.data == data


@pytest.mark.parametrize("agent", EDITED, ids=lambda agent: agent.name)
def test_a_new_file_is_gone_afterwards(agent: Agent) -> None:
    file = install(agent, None)
    again = Settings(agent, "settings.json", file.data)
    again.take_out(commands(agent))
    assert again.is_bare


def test_a_hook_put_into_our_group_stays() -> None:
    agent = AGENTS["claude-code"]
    data = install(agent, b'{\n  "a": 1\n}\n').data
    assert data is not None
    theirs = b'{"type": "command", "command": "theirs"},\n          '
    place = data.index(b'{\n            "type"')
    file = Settings(agent, "settings.json", data[:place] + theirs + data[place:])
    file.take_out(commands(agent))
    event = agent.wanted(None, False)[0]
    assert file.commands(event) == ["theirs"]


def test_a_comment_keeps_its_line() -> None:
    agent = AGENTS["cursor"]
    text = b'{\n "hooks": {\n  "stop": [\n   {"command": "beep"} // ding\n  ]\n }\n}\n'
    file = Settings(agent, "hooks.json", text)
    file.add("stop", "x")
    assert file.data is not None
    assert b'{"command": "beep"}, // ding\n   {\n    "command": "x",' in file.data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b'{"hooks": {', "line 1, column 12"),
        (b'{"a": 1}}', "line 1, column 9"),
        (b'{\n"a": 1\n"b": 2}', "line 3, column 1"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": nope}', "line 1, column 7"),
        (b'{"a": "\n"}', "line 1, column 8"),
        (b"[]", "it is no object"),
        (b'{"hooks": []}', 'its "hooks" are no object'),
        (b'{"hooks": {"Stop": {}}}', 'its "hooks" for Stop are no list'),
        ('{"a": 1}'.encode("utf-16"), "it is not UTF-8"),
        (b"[" * 100_000, "it is nested too deep"),
    ],
)
def test_what_cannot_be_parsed_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(HooksRefused) as refused:
        Settings(AGENTS["claude-code"], "/h/settings.json", data)
    text = str(refused.value)
    assert text.startswith(f"claude-code: /h/settings.json cannot be read as settings ({why}")
    assert text.endswith("); it stays as it is, mend it and try again")
