"""Ctrl-C, `kill`, a closed terminal and `kill -9`: nothing stays behind, nothing runs on."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.telemetry import generate

import unspool
from unspool.io.temporary import LOCK, PREFIX, scratch, sweep

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
CONVERSATIONS = 31
STARTED_S = 0.2
"""Before that, Python may not yet have got as far as our first line."""


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry")
    generate(folder, 120_000_000, files=4)
    return folder


def start(telemetry: Path, temporary: Path, *options: str) -> subprocess.Popen[bytes]:
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "unspool", "extract", str(telemetry), *options],
        env={**ENV, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], object], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def in_session(ident: int) -> list[str]:
    """The processes of a session, without those that are only not yet buried."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(") ")[2].split()[:4]
        except OSError:
            continue
        if int(session) == ident and state != "Z":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_leaves_nothing(
    telemetry: Path, tmp_path: Path, number: signal.Signals, code: int, workers: str
) -> None:
    temporary = tmp_path / "temporary"
    rng = random.Random(code + int(workers))
    for turn in range(3):
        folder = tmp_path / f"out-{turn}"
        folder.mkdir()
        out = folder / "o.jsonl"
        process = start(telemetry, temporary, "--workers", workers, "-o", str(out))
        time.sleep(rng.uniform(STARTED_S, 0.6))
        os.killpg(process.pid, number)
        _, error = process.communicate(timeout=30)
        assert b"Traceback" not in error
        assert list(temporary.iterdir()) == []
        if process.returncode != 0:  # else it was done before
            assert (process.returncode, error.strip().splitlines()[-1]) == (
                code,
                b"unspool: stopped",
            )
        if out.exists():  # it came when all was written: then it is whole
            assert out.read_bytes().count(b"\n") == CONVERSATIONS
        else:
            assert list(folder.iterdir()) == []


def test_a_stop_while_modules_are_imported(tmp_path: Path) -> None:
    """At the first import of ours and at later ones; none of them gives a traceback."""
    for name in ("click", "unspool.pipeline.batch", "unspool.pipeline.worker"):
        code = (
            "import sys, os, signal, runpy\n"
            "class Stop:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {name!r}: os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, Stop())\n"
            "sys.argv = ['unspool', 'extract', 'x']\n"
            "runpy.run_module('unspool', run_name='__main__')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True)
        assert (done.returncode, done.stderr) == (130, b"\nunspool: stopped\n")


def test_a_stop_while_a_module_makes_its_classes(tmp_path: Path) -> None:
    """`python -m` ends by SIGINT when the interrupt came out of an exec(), which dataclasses use."""
    (tmp_path / "stopped_in_exec.py").write_text(
        "import os, signal\n"
        "from unspool import cli\n"
        "def run(**options):\n"
        "    exec('import os, signal; os.kill(os.getpid(), signal.SIGTERM)')\n"
        "cli.group.main = run\n"
        "cli.main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "stopped_in_exec"], env=ENV, cwd=tmp_path, stderr=subprocess.PIPE
    )
    assert (ran.returncode, ran.stderr) == (143, b"unspool: stopped\n")


def test_what_is_in_the_background_is_not_stopped(telemetry: Path, tmp_path: Path) -> None:
    """A shell script's `unspool … &` ignores Ctrl-C, as all its commands do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = start(telemetry, tmp_path / "temporary", "-q", "-o", str(tmp_path / "o.jsonl"))
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_driver_takes_its_workers_along(telemetry: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    process = start(telemetry, temporary, "-q", "--workers", "2", "-o", str(tmp_path / "o"))
    assert wait_for(lambda: len(in_session(process.pid)) == 3)
    assert wait_for(lambda: any(temporary.glob(f"*/{LOCK}")))
    process.kill()
    process.wait()
    assert wait_for(lambda: not in_session(process.pid))
    assert len(list(temporary.iterdir())) == 1
    # The next run finds what is left, and that nobody works there any more.
    assert start(telemetry, temporary, "-q", "-o", str(tmp_path / "o")).wait() == 0
    assert list(temporary.iterdir()) == []


def test_only_what_nobody_uses_is_swept(tmp_path: Path) -> None:
    strange = tmp_path / f"{PREFIX}of-another-kind"
    strange.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    with scratch(str(tmp_path)) as used:
        assert not left.exists()
        left.mkdir()
        (left / LOCK).touch()
        sweep.cache_clear()
        sweep(str(tmp_path))
        assert used.exists()
        assert not left.exists()
    assert not used.exists()
    assert strange.exists()
    assert (elsewhere / LOCK).exists()


def test_stopped_while_it_tidies_up(
    telemetry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is removed first; the stop is heard afterwards."""
    clean_up = tempfile.TemporaryDirectory.cleanup
    file = tmp_path / "in.jsonl"
    file.write_bytes(next(iter(sorted(telemetry.iterdir()))).read_bytes()[:2_000_000])

    def disturbed(self: tempfile.TemporaryDirectory[str]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        clean_up(self)

    monkeypatch.setattr(tempfile.TemporaryDirectory, "cleanup", disturbed)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        list(unspool.extract(file))
    assert list(tmp_path.iterdir()) == before


def test_a_stop_while_an_object_is_destroyed_is_not_lost() -> None:
    script = """
import os, signal, time
from unspool.io import signals

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

signals.listen()
try:
    Thing()
    time.sleep(20)
except KeyboardInterrupt:
    signals.go_deaf()
    raise SystemExit(signals.exit_code())
"""
    process = subprocess.run([sys.executable, "-c", script], env=ENV, stderr=subprocess.PIPE)
    assert (process.returncode, process.stderr) == (143, b"")
