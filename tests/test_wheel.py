"""The wheel that people install holds all that the program needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OFFLINE = (
    "Could not find a version",
    "Temporary failure in name resolution",
    "Failed to establish",
)

pytestmark = pytest.mark.slow


def run(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    # Without PYTHONPATH: what is tried is what was installed.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stdout + done.stderr for sign in OFFLINE):
        pytest.skip("no package index here")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run("cp", "-r", *(ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE", "src")),
        folder, folder=folder)  # fmt: skip
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", ".", folder=folder)
    (made,) = (folder / "dist").glob("unspool-*.whl")
    return made


def test_the_wheel_runs_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", folder=tmp_path)
    install = (tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "-q")
    run(*install, wheel, folder=tmp_path)
    unspool = tmp_path / "venv" / "bin" / "unspool"
    assert run(unspool, "--version", folder=tmp_path).stdout.startswith("unspool, version ")
    example = ROOT / "examples" / "telemetry"
    run(unspool, "extract", example, "-o", "out.jsonl", folder=tmp_path)
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8").startswith('{"conversation_id"')
    assert "conv-1" in run(unspool, "list", "out.jsonl", folder=tmp_path).stdout
    run(unspool, "export", "conv-1", "--from", "out.jsonl", "--to", "markdown", folder=tmp_path)
    assert "conv-1" in (tmp_path / "conv-1.md").read_text(encoding="utf-8")
    run(*install, f"{wheel}[view]", folder=tmp_path)
    run(unspool, "export", "conv-1", "--from", "out.jsonl", "--to", "html", folder=tmp_path)
    assert "<script>" in (tmp_path / "conv-1.html").read_text(encoding="utf-8")
