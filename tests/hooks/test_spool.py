"""The hand-over: real shells run the command of a hook, whatever has happened to the spool."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import obey_modes
from unspool.hooks.agents import AGENTS
from unspool.hooks.spool import ANYBODY, Layout, agent_hint, hand_over

SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "fish", "busybox") if shutil.which(name)]
NAMES = sorted({agent.command_name for agent in AGENTS.values() if not agent.is_plugin})
PAYLOAD = b'{"session_id":"s1","hook_event_name":"Stop","text":"' + b"x" * 300_000 + b'"}\n'
"""More than a pipe holds: whoever does not read it all makes the agent's write fail."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    place = Layout(tmp_path / 'it\'s $a `place` "with" \\ names' / "live")
    place.make()
    return place


def shell_command(shell: str, command: str) -> list[str]:
    program = shutil.which(shell) or shell
    return [program, "sh", "-c", command] if shell == "busybox" else [program, "-c", command]


def fire(
    command: str,
    payload: bytes = PAYLOAD,
    shell: str = "sh",
    before: Callable[[], None] | None = None,
    **environment: str,
) -> tuple[int, bytes, bytes]:
    """What an agent sees of a hook; fails where not all of the payload could be handed over."""
    process = subprocess.Popen(
        shell_command(shell, command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    assert process.stdin is not None
    process.stdin.write(payload)  # BrokenPipeError: the hook did not drain its input
    out, err = process.communicate()
    return process.returncode, out, err


def arrived(layout: Layout) -> list[bytes]:
    return [path.read_bytes() for path in layout.new.iterdir()]


def leave(layout: Layout) -> None:
    """All is well; nobody has to be there to read the spool."""


def lose_all(layout: Layout) -> None:
    shutil.rmtree(layout.live)


def lose_new(layout: Layout) -> None:
    layout.new.rmdir()


def lose_tmp(layout: Layout) -> None:
    layout.tmp.rmdir()


def make_read_only(layout: Layout) -> None:
    layout.tmp.chmod(0o500)


def make_new_read_only(layout: Layout) -> None:
    layout.new.chmod(0o500)


def make_file(layout: Layout) -> None:
    lose_all(layout)
    layout.live.mkdir()
    layout.spool.write_text("no folder")


def link_elsewhere(layout: Layout) -> None:
    layout.spool.rename(layout.live / "moved")
    layout.spool.symlink_to("moved")


def link_to_nothing(layout: Layout) -> None:
    shutil.rmtree(layout.spool)
    layout.spool.symlink_to("/nowhere/at/all")


def give_away(layout: Layout) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    for folder in (layout.tmp, layout.new):
        os.chown(folder, 65534, 65534)


FAILURES = {
    leave: 1, lose_all: 0, lose_new: 0, lose_tmp: 0, make_read_only: 0, make_new_read_only: 0,
    make_file: 0, link_elsewhere: 1, link_to_nothing: 0, give_away: 0,
}  # fmt: skip
"""What happened to the spool → how many payloads arrive."""


@pytest.mark.parametrize("happened", FAILURES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", NAMES)
def test_agent_never_notices(
    layout: Layout, name: str, shell: str, happened: Callable[[Layout], None]
) -> None:
    command = hand_over(layout.spool, name)
    happened(layout)
    assert fire(command, shell=shell, before=obey_modes) == (0, b"{}", b"")
    expected = FAILURES[happened]
    if expected:
        assert arrived(layout) == [PAYLOAD]
    elif layout.new.is_dir():
        assert not arrived(layout)
    if layout.tmp.is_dir():
        assert not list(layout.tmp.iterdir())
    for folder in (layout.tmp, layout.new):
        if folder.is_dir():
            folder.chmod(0o700)


@pytest.mark.parametrize("shell", SHELLS)
def test_full_disk(layout: Layout, shell: str) -> None:
    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    result = fire(hand_over(layout.spool), shell=shell, before=fill)
    assert result == (0, b"{}", b"")
    assert not arrived(layout)
    assert not list(layout.tmp.iterdir())


@pytest.mark.parametrize("shell", SHELLS)
def test_after_unspool_was_uninstalled(layout: Layout, tmp_path: Path, shell: str) -> None:
    """Nobody would ever empty the spool."""
    program = tmp_path / "site-packages" / "unspool" / "__init__.py"
    program.parent.mkdir(parents=True)
    program.touch()
    command = hand_over(layout.spool, program=program)
    fire(command, shell=shell)
    assert len(arrived(layout)) == 1
    program.unlink()
    assert fire(command, shell=shell) == (0, b"{}", b"")
    assert len(arrived(layout)) == 1


def test_without_any_program(layout: Layout) -> None:
    assert fire(hand_over(layout.spool), b"{}", PATH="/nowhere") == (0, b"{}", b"")
    assert not arrived(layout)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_it_is_the_name_of_a_variable(layout: Layout, name: str) -> None:
    """Gemini CLI replaces `$name` and `${name}` in its settings by what the environment has."""
    script = hand_over(Path("/s"), name).replace("${CURSOR_VERSION:+cursor.}", "")
    assert set(re.findall(r"\$\{?(\w+)", script)) == {"0", "1", "2"}


def test_old_claude_code_gets_no_answer(layout: Layout) -> None:
    command = hand_over(layout.spool, answer="")
    assert fire(command) == (0, b"", b"")
    lose_all(layout)
    assert fire(command) == (0, b"", b"")


def test_only_its_owner_reads_a_payload(layout: Layout) -> None:
    before = time.time()
    fire(hand_over(layout.spool))
    (path,) = layout.new.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert before - 1 < path.stat().st_mtime < time.time() + 1
    for folder in (layout.live, layout.spool, layout.new, layout.tmp, layout.backups):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_name_tells_the_agent(layout: Layout) -> None:
    fire(hand_over(layout.spool, ANYBODY))
    fire(hand_over(layout.spool, ANYBODY), CURSOR_VERSION="3.24.18")
    fire(hand_over(layout.spool, "codex"), CURSOR_VERSION="3.24.18")
    hints = sorted(str(agent_hint(path.name)) for path in layout.new.iterdir())
    assert hints == ["None", "codex", "cursor"]


def test_agents_that_read_each_other_share_one_command() -> None:
    shared = {AGENTS[name].command_name for name in ("claude-code", "cursor", "copilot")}
    assert shared == {ANYBODY}


def test_payloads_of_any_size_and_kind(layout: Layout) -> None:
    payloads = [b"", b"\0\xff{", b'{"a":1}\n{"b":2}\n', b'{"big":"' + b"y" * (64 << 20) + b'"}']
    for payload in payloads:
        assert fire(hand_over(layout.spool), payload) == (0, b"{}", b"")
    assert sorted(arrived(layout)) == sorted(payloads)


def test_killed_half_way_leaves_nothing_in_new(layout: Layout) -> None:
    process = subprocess.Popen(
        ["sh", "-c", hand_over(layout.spool)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(b'{"half":')
    process.stdin.flush()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not any(p.stat().st_size for p in layout.tmp.iterdir()):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    assert not arrived(layout)
    assert [path.read_bytes() for path in layout.tmp.iterdir()] == [b'{"half":']
    assert fire(hand_over(layout.spool)) == (0, b"{}", b"")
    assert arrived(layout) == [PAYLOAD]


def test_a_thousand_at_once(layout: Layout) -> None:
    script = (
        'for n in $(seq 1000); do printf \'{"n":%d}\' "$n" | sh -c "$HOOK" & done >"$OUT"; wait'
    )
    out = layout.live / "out"
    subprocess.run(
        ["bash", "-c", script],
        env={"PATH": "/usr/bin:/bin", "HOOK": hand_over(layout.spool), "OUT": str(out)},
        check=True,
        stderr=subprocess.PIPE,
    )
    assert sorted(json.loads(data)["n"] for data in arrived(layout)) == list(range(1, 1001))
    assert out.read_bytes() == b"{}" * 1000
    assert not list(layout.tmp.iterdir())
