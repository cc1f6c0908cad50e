"""A real server on loopback over a store that holds some of everything."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.conversations import hostile, long, sample
from tests.harness import CASES
from unspool.cli.sync import sync
from unspool.trajectory import Trajectory, encode_trajectory

USED = ("claude_code/rewind", "claude_code/subagents", "claude_code/plain", "copilot_cli", "codex")


def fill(folder: Path, store: Path, more: list[Trajectory] | None = None) -> Path:
    """Conversations of several agents, one of 5,000 messages, and a hostile one."""
    folder.mkdir(parents=True, exist_ok=True)
    root, children = sample()
    made = [root, *children, hostile(), long(), *(more or ())]
    lines = b"".join(encode_trajectory(one) + b"\n" for one in made)
    (folder / "made.jsonl").write_bytes(lines)
    for name in USED:
        shutil.copytree(CASES / name, folder / name, ignore=shutil.ignore_patterns("expected*"))
    sync([str(folder)], store, quiet=True)
    return store


class Server(NamedTuple):
    address: str
    process: subprocess.Popen[str]
    store: Path

    def get(self, path: str, **query: object) -> Any:
        with self.open(path, query) as answer:
            return json.load(answer)

    def open(self, path: str, query: dict[str, object] | None = None, **headers: str) -> Any:
        address = self.address.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(address, headers=headers)
        return urllib.request.urlopen(request, timeout=30)

    def refused(self, path: str, query: dict[str, object] | None = None, **headers: str) -> int:
        """The status of a question that is not answered."""
        try:
            self.open(path, query, **headers).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code if "error" in json.load(error) else 0
        return 200


@contextmanager
def serving(store: Path, *options: str, port: int = 0, daemon: bool = False) -> Iterator[Server]:
    command = [sys.executable, "-m", "unspool", "serve", "--port", str(port), "--store", str(store)]
    command += [] if daemon else ["--no-daemon"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, line
        yield Server(line.split()[1], process, store)
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
