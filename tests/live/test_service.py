"""The service's files, as text: no test starts one."""

import configparser
import plistlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_extract import ENV
from unspool.errors import UsageError
from unspool.live.service import service

COMMAND = ["/opt/my tools/python", "-m", "unspool", "watch", "--store", '/data/100%/"x" $HOME.db']


def test_systemd(tmp_path: Path) -> None:
    made = service(COMMAND, tmp_path, {}, "linux")
    assert made.path == tmp_path / ".config/systemd/user/unspool-watch.service"
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(made.text)
    assert unit["Service"]["ExecStart"].startswith('"/opt/my tools/python" "-m"')
    assert unit["Service"]["ExecStart"].endswith('"/data/100%%/\\"x\\" $$HOME.db"')
    assert unit["Install"]["WantedBy"] == "default.target"
    other = service(COMMAND, tmp_path, {"XDG_CONFIG_HOME": "/c"}, "linux")
    assert other.path == Path("/c/systemd/user/unspool-watch.service")


def test_launchd(tmp_path: Path) -> None:
    made = service(COMMAND, tmp_path, {}, "darwin")
    read = plistlib.loads(made.text.encode())
    assert read["ProgramArguments"] == COMMAND
    assert read["RunAtLoad"] is True
    assert made.path.name == f"{read['Label']}.plist"


def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="systemd"):
        service(COMMAND, tmp_path, {}, "win32")


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_install_and_remove(tmp_path: Path) -> None:
    env = {**ENV, "HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    command = [sys.executable, "-m", "unspool", "service"]
    file = tmp_path / ".config/systemd/user/unspool-watch.service"
    enabled = file.parent / "default.target.wants" / file.name  # as `systemctl enable` does
    enabled.parent.mkdir(parents=True)
    enabled.symlink_to(file)
    for args, is_there in (
        (["install", "--dry-run"], False),
        (["install"], True),
        (["remove"], False),
    ):
        done = subprocess.run([*command, *args], env=env, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert file.exists() is is_there
    assert not enabled.is_symlink()
