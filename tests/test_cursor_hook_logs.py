"""Logs of Cursor's hooks as scripts write them: over many lines, under headings, by local clocks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import bubble, rows_of, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

BASE = {"conversation_id": "c", "generation_id": "g", "cursor_version": "3.8"}
EVENTS = [
    {**BASE, "hook_event_name": "beforeSubmitPrompt", "prompt": 'mend {it}, "now"'},
    {**BASE, "hook_event_name": "afterAgentResponse", "text": "}{ mended\n{"},
    {**BASE, "hook_event_name": "stop", "status": "completed"},
]

Write = Callable[[int, dict[str, Any]], str]
LOGS: dict[str, Write] = {
    "a line each": lambda n, e: f"{json.dumps(e)}\n",
    "many lines": lambda n, e: f"{json.dumps(e, indent=2)}\n",
    "many lines and a rule": lambda n, e: f"{json.dumps(e, indent=2)}\n---\n",
    "a date and many lines": lambda n, e: f"[2026-01-01 10:00:0{n}Z] {json.dumps(e, indent=2)}\n",
    "under a heading": lambda n, e: f"== 2026-01-01T10:00:0{n}Z ==\n{json.dumps(e, indent=4)}\n\n",
    "in a fence": lambda n, e: f"## {n}\n\n```json\n{json.dumps(e, indent=1)}\n```\n",
}


def only(folder: Path, tally: Tally | None = None) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder), tally or Tally()))
    return made


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_read_however_it_is_written(tmp_path: Path, name: str) -> None:
    text = "".join(LOGS[name](number, event) for number, event in enumerate(EVENTS))
    (tmp_path / "audit.log").write_text(text)
    tally = Tally()
    made = only(tmp_path, tally)
    assert [(m.role, m.content) for m in made.messages] == [
        ("user", 'mend {it}, "now"'),
        ("assistant", "}{ mended\n{"),
    ]
    assert [mark.kind for mark in made.marks or ()] == ["turn_end"]
    assert (tally.records, tally.problems) == (3, 0)
    if "2026" in text:
        assert [m.timestamp for m in made.messages] == [
            "2026-01-01T10:00:00.000Z",
            "2026-01-01T10:00:01.000Z",
        ]


def test_an_object_that_never_ends_is_told(tmp_path: Path) -> None:
    cut = json.dumps(EVENTS[1], indent=2)[:-10]
    (tmp_path / "audit.log").write_text(f"{json.dumps(EVENTS[0], indent=2)}\n{cut}")
    tally = Tally()
    assert [m.role for m in only(tmp_path, tally).messages][:1] == ["user"]
    assert tally.problems == 1


@pytest.mark.parametrize(("hours", "zone"), [(0, "+00:00"), (2, "+02:00"), (-7, "-07:00")])
def test_a_local_clock_is_set_by_the_bubbles(tmp_path: Path, hours: int, zone: str) -> None:
    """Scripts write the date of their machine; the editor's stores have true times."""
    rows = rows_of(
        {"composerId": "c"},
        bubble("1", 1, 'mend {it}, "now"', createdAt="2026-01-01T10:00:00.100Z", requestId="g"),
        bubble("2", 2, "}{ mended\n{", createdAt="2026-01-01T10:00:01.100Z"),
        bubble("3", 1, "thanks", createdAt="2026-01-01T10:05:00.000Z", requestId="h"),
    )
    write_editor(tmp_path / "Cursor/User/globalStorage/state.vscdb", rows)
    text = "".join(
        f"[2026-01-01 {10 + hours:02d}:00:0{n}] {json.dumps(e)}\n" for n, e in enumerate(EVENTS)
    )
    (tmp_path / "audit.log").write_text(text)
    made = only(tmp_path)
    assert (made.started_at, made.ended_at) == (
        "2026-01-01T10:00:00.000Z",
        "2026-01-01T10:05:00.000Z",
    )
    assert [(m.kind, m.index, m.timestamp) for m in made.marks or ()] == [
        ("turn_end", 2, "2026-01-01T10:00:02.000Z")
    ]
    assert made.metadata["time_zone"] == zone


def test_a_local_clock_alone_says_so(tmp_path: Path) -> None:
    text = "".join(f"[2026-01-01 10:00:0{n}] {json.dumps(e)}\n" for n, e in enumerate(EVENTS))
    (tmp_path / "audit.log").write_text(text)
    assert only(tmp_path).metadata["time_zone"] == "unknown"


def test_a_log_without_roots_knows_its_project(tmp_path: Path) -> None:
    """The beta of 2025 names no folder: the project keeps the log, else the files are in it."""
    base = {"conversation_id": "c", "generation_id": "g"}
    edits = [{"old_string": "", "new_string": "hot"}]
    lines: list[dict[str, Any]] = [
        {**base, "prompt": "hi"},
        {**base, "file_path": "/w/tea/cup.py", "edits": edits},
        {**base, "file_path": "/w/tea/src/pot.py", "edits": edits},
    ]
    kept, rooted = tmp_path / "project/.cursor", tmp_path / "rooted"
    for folder in (tmp_path / "any", kept, rooted):
        folder.mkdir(parents=True)
        more = {"workspace_roots": ["/w"]} if folder == rooted else {}
        text = "".join(json.dumps({**line, **more}) + "\n" for line in lines)
        (folder / "hooks.log").write_text(text)
    (kept / "hooks.json").write_text("{}")
    places = [made.workspace for made in map(only, (tmp_path / "any", kept, rooted))]
    expected = ["/w/tea", str(tmp_path / "project"), "/w"]
    assert [place and place.path for place in places] == expected
