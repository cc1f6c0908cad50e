"""The agent never notices: every agent × everything that can happen to the spool.

What is run is what `unspool hooks install` wrote into the agent's own file: a command by `/bin/sh`, or
OpenCode's plugin in Node. It is asked what the agent sees: what was printed, and how it ended.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.harness import obey_modes
from tests.hooks.conftest import Installer
from tests.hooks.test_spool import PAYLOAD, fire
from unspool.hooks import install, manifest, plugin, spool
from unspool.hooks.agents import AGENTS
from unspool.hooks.install import wish
from unspool.hooks.spool import Layout


@contextmanager
def daemon_dead(layout: Layout, program: Path) -> Iterator[None]:
    yield  # nobody reads the spool


@contextmanager
def spool_missing(layout: Layout, program: Path) -> Iterator[None]:
    shutil.rmtree(layout.live)
    yield


@contextmanager
def spool_read_only(layout: Layout, program: Path) -> Iterator[None]:
    for folder in (layout.tmp, layout.new):
        folder.chmod(0o500)
    yield
    for folder in (layout.tmp, layout.new):
        folder.chmod(0o700)


@contextmanager
def spool_full(layout: Layout, program: Path) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(layout.spool)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    layout.make()
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(layout.spool)], check=True)


@contextmanager
def unspool_uninstalled(layout: Layout, program: Path) -> Iterator[None]:
    program.unlink()
    yield


Happening = Callable[[Layout, Path], AbstractContextManager[None]]
ARRIVES: dict[Happening, int] = {
    daemon_dead: 1, spool_missing: 0, spool_read_only: 0, spool_full: 0, unspool_uninstalled: 0,
}  # fmt: skip
NODE = """
const { Unspool } = await import(process.argv[1])
const hooks = await Unspool({ directory: "/work" })
const input = { sessionID: "s1", tool: "bash" }, output = { output: "x".repeat(300000) }
await hooks["tool.execute.after"](input, output)
process.stdout.write(JSON.stringify({ input, length: output.output.length }))
"""
"""What it prints is what OpenCode goes on with."""


@pytest.mark.parametrize("happening", ARRIVES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", AGENTS)
def test_what_the_agent_sees(
    home: Path,
    layout: Layout,
    agent_is_here: Installer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    happening: Happening,
) -> None:
    program = home / "site-packages" / "unspool.py"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr(spool.hand_over, "__defaults__", (spool.ANYBODY, "{}", program))
    monkeypatch.setattr(plugin, "PROGRAM", program)
    agent_is_here(name, "")
    change = install.install(layout, wish(layout, AGENTS[name], None, False))
    (entry,) = manifest.load(layout).installed
    with happening(layout, program):
        if AGENTS[name].is_plugin:
            goes_on = '{"input":{"sessionID":"s1","tool":"bash"},"length":300000}'
            assert _in_node(change.path) == (0, goes_on, "")
        else:
            for command in set(entry.commands.values()):
                assert fire(command, before=obey_modes) == (0, b"{}", b"")
        folders = [folder for folder in (layout.new, layout.tmp) if folder.is_dir()]
        arrived = [path for folder in folders for path in folder.iterdir()]
        assert len(arrived) == ARRIVES[happening]
        if arrived and not AGENTS[name].is_plugin:
            assert arrived[0].read_bytes() == PAYLOAD
        elif arrived:
            assert json.loads(arrived[0].read_bytes())["hook_event_name"] == "tool.execute.after"


def _in_node(path: Path) -> tuple[int, str, str]:
    node = shutil.which("node", path=f"/usr/local/bin:{os.defpath}")
    if node is None:
        pytest.skip("Node is not here")
    module = path.with_suffix(".mjs")  # OpenCode reads a plugin as a module whatever its name
    shutil.copy(path, module)
    done = subprocess.run(
        [node, "--input-type=module", "-e", NODE, str(module)],
        capture_output=True,
        text=True,
        preexec_fn=obey_modes,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
