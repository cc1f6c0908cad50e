"""Law ten: what was captured while it happened gives the same rows as reading the files afterwards."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.harness import CASES
from unspool.hooks.spool import Layout
from unspool.io.origins import Origin
from unspool.live.intake import make_arrival
from unspool.live.logs import log_line, log_path
from unspool.live.queue import Arrival, SqliteQueue
from unspool.live.writer import Writer
from unspool.sources.hooklogs import read_log
from unspool.store.conversations import unpack
from unspool.store.events import stamp
from unspool.store.opening import reading, writing
from unspool.store.survey import survey
from unspool.store.sync import Sync

ASIDE = {
    "messages": ("id",),
    "texts": ("id",),
    "tool_calls": ("id",),
    "files_touched": ("id",),
    "problems": ("id", "origin_id"),
    "origins": ("id", "name", "mtime_ns", "records", "first_seen", "last_read"),
    "conversation_origins": ("origin_id",),
}
"""Row numbers, times of reading, and how many records were read (a half line counts when it is met)."""
NOT_COMPARED = (
    "raw_traces",
    "facts",
    "changes",
    "activity",
    "cursors",
    "sqlite",
    "indexed",
    "words",
    "pieces",
)


def rows(path: Path) -> dict[str, list[str]]:
    """All that a store says, as text, table by table."""
    found: dict[str, list[str]] = {}
    with reading(path) as connection:
        connection.row_factory = sqlite3.Row
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            if table.startswith(NOT_COMPARED):
                continue
            if table == "trajectories":
                found[table] = sorted(
                    msgspec.json.encode(unpack(row["data"]), order="sorted").decode()
                    for row in connection.execute("SELECT data FROM trajectories")
                )
                continue
            found[table] = sorted(
                json.dumps(
                    {k: row[k].hex() if isinstance(row[k], bytes) else row[k] for k in row.keys()  # noqa: SIM118 - a Row
                     if k not in ASIDE.get(table, ())},
                    sort_keys=True,
                )
                for row in connection.execute(f"SELECT * FROM {table}")
                if "/logs/database_trace/" not in str(dict(row).get("path"))
            )  # fmt: skip
    return found


def differences(live: dict[str, list[str]], batch: dict[str, list[str]]) -> list[str]:
    return [
        f"{name} {table}: {row[:500]}"
        for table in {**live, **batch}
        for name, one, other in (("live", live, batch), ("batch", batch, live))
        for row in one.get(table, [])
        if one.get(table, []).count(row) != other.get(table, []).count(row)
    ]


class Capture:
    """A store that is filled live, piece by piece."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "live" / "conversations.db"
        self.layout = Layout.beside(self.store)
        self.layout.make()
        self.home = folder / "home"
        self.queue = SqliteQueue(self.layout.live / "queue.db")
        self.arrived: list[Arrival] = []

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        with writing(self.store) as connection, tempfile.TemporaryDirectory() as folder:
            yield Writer(connection, self.layout, Path(folder))

    def arrive(self, *arrivals: Arrival) -> None:
        self.queue.put(arrivals)
        self.arrived += arrivals

    def step(self, writer: Writer) -> None:
        writer.begin()
        while writer.take_events(self.queue).events:
            pass
        changed = survey(writer.connection, [str(self.home)]).changed
        if changed:
            writer.take_files(changed)
        _, faults = writer.bring_up_to_date(writer.dirty())
        assert faults == []

    def batch(self, folder: Path) -> Path:
        """A fresh sync over the files and the dated hook logs."""
        once: dict[str, Arrival] = {}
        for arrival in self.arrived:
            once.setdefault(arrival.event_id, arrival)
        for arrival in sorted(
            once.values(), key=lambda one: (stamp(one.received_ns), one.event_id)
        ):
            file = Path(log_path(self.layout, arrival))
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "ab") as log:
                log.write(log_line(arrival))
        store = folder / "batch" / "s.db"
        with writing(store) as connection:
            Sync(connection).run([str(self.home), str(self.layout.live / "logs")])
        return store


def payloads_of(case: Path) -> list[dict[str, Any]]:
    """The payloads of a case's hook logs."""
    found: list[dict[str, Any]] = []
    for file in sorted((case / "input").rglob("*")):
        if file.is_file():
            logged = read_log(Origin(str(file), file.name, size=file.stat().st_size))
            found += [one.value for one in logged if one.value is not None]
    return [one for one in found if "session_id" in one or "conversation_id" in one]


HOOK_CASES = [
    case
    for source in (
        "claude_code",
        "cursor",
        "codex",
        "gemini_cli",
        "qwen_code",
        "copilot_cli",
        "copilot_vscode",
        "opencode",
    )
    for case in sorted((CASES / source).iterdir())
    if "hooks" in case.name or (case / "input" / "hooks.jsonl").exists()
]
SPOOLED_AS = {
    "codex": "codex",
    "gemini_cli": "gemini-cli",
    "qwen_code": "qwen-code",
    "opencode": "opencode",
}
"""Whose hooks say who they are; of others the payload tells."""


def arrivals_of(case: Path) -> list[Arrival]:
    base = 1_760_000_000_000_000_000
    agent = SPOOLED_AS.get(case.parent.name, "any")
    return [
        make_arrival(
            json.dumps(payload).encode(), f"{agent}.{number}", base + number * 1_500_000_000
        )
        for number, payload in enumerate(payloads_of(case))
    ]


@settings(
    max_examples=4,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
@pytest.mark.parametrize("case", HOOK_CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_hooks_and_transcripts_in_any_order(case: Path, data: st.DataObject) -> None:
    """Events come shuffled and in any groups; lines of the transcripts in any portions between them."""
    arrivals = data.draw(st.permutations(arrivals_of(case)))
    logs = [file for file in sorted((case / "input").rglob("*.jsonl")) if is_transcript(file)]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        capture = Capture(folder)
        with capture.writer() as writer:
            while arrivals or logs:
                take = data.draw(st.integers(min(len(arrivals), 1), len(arrivals)))
                capture.arrive(*arrivals[:take])
                arrivals = arrivals[take:]
                if logs:
                    grow(capture.home, case / "input", logs, data)
                capture.step(writer)
        assert differences(rows(capture.store), rows(capture.batch(folder))) == []
        capture.queue.close()


def is_transcript(file: Path) -> bool:
    head = file.read_bytes()[:4096]
    return (b'"uuid"' in head or b'"parentId"' in head) and b"hook_event_name" not in head


def grow(home: Path, top: Path, files: list[Path], data: st.DataObject) -> None:
    """One of the files gets some more of its lines, or all that are left."""
    file = data.draw(st.sampled_from(files))
    target = home / file.relative_to(top)
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_bytes().splitlines(keepends=True)
    before = target.read_bytes().count(b"\n") if target.exists() else 0
    upto = data.draw(st.integers(min(before + 1, len(lines)), len(lines)))
    with open(target, "ab") as log:
        log.write(b"".join(lines[before:upto]))
    if upto >= len(lines):
        files.remove(file)


GROWING = ["plain", "subagents", "compaction", "parallel_tools", "rewind", "nested_agents"]


@pytest.mark.parametrize("name", GROWING)
def test_transcripts_line_by_line(name: str, tmp_path: Path) -> None:
    case = CASES / "claude_code" / name / "input"
    capture = Capture(tmp_path)
    with capture.writer() as writer:
        for file in sorted(case.rglob("*")):
            target = capture.home / file.relative_to(case)
            if file.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix != ".jsonl":
                shutil.copy(file, target)
                continue
            for line in file.read_bytes().splitlines(keepends=True):
                half = len(line) // 2  # the file is looked at while a line is being written
                for part in (line[:half], line[half:]):
                    with open(target, "ab") as log:
                        log.write(part)
                    capture.step(writer)
    assert differences(rows(capture.store), rows(capture.batch(tmp_path))) == []
    capture.queue.close()
