"""Generations of a workspace's database find their conversation by id, wherever that was read."""

import json
from pathlib import Path
from typing import Any

from tests.cursor_stores import bubble, rows_of, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.trajectory import Trajectory

G1, G2, G3 = (f"{n}{n}{n}{n}{n}{n}{n}{n}-aaaa-4bbb-8ccc-dddddddddddd" for n in "123")
AT = 1_760_000_000_000
GENERATIONS = [
    {"unixMs": AT, "generationUUID": G1, "type": "composer", "textDescription": "by hook"},
    {"unixMs": AT + 60_000, "generationUUID": G2, "type": "composer", "textDescription": "shortened"},
    {"unixMs": AT + 120_000, "generationUUID": G3, "type": "composer", "textDescription": "nobody's"},
    {"unixMs": AT + 130_000, "generationUUID": "x", "type": "apply", "textDescription": "main.py"},
    {"unixMs": AT + 140_000, "generationUUID": "y", "type": "cmdk"},
    {"unixMs": AT + 150_000, "generationUUID": "z", "type": "chat"},
]  # fmt: skip


def conversations(folder: Path) -> dict[str, Trajectory]:
    return {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}


def write_workspace(home: Path, **more: Any) -> None:
    folder = home / "Cursor/User/workspaceStorage/abc"
    write_editor(folder / "state.vscdb", {}, {"aiService.generations": GENERATIONS, **more})
    (folder / "workspace.json").write_text(json.dumps({"folder": "file:///w/p"}))


def write_hooks(home: Path) -> None:
    base = {"conversation_id": "hooked", "cursor_version": "3.8", "workspace_roots": ["/w/p"]}
    events = [
        {"hook_event_name": "beforeSubmitPrompt", "prompt": "by hook", "generation_id": f"{G1}-3-1v0i"},
        {"hook_event_name": "afterAgentResponse", "text": "Yes.", "generation_id": f"{G1}-3-1v0i"},
        {"hook_event_name": "beforeSubmitPrompt", "prompt": "all of it", "generation_id": G2},
        {"hook_event_name": "stop", "status": "completed", "generation_id": G2},
    ]  # fmt: skip
    (home / "hooks.jsonl").write_text("".join(json.dumps({**base, **e}) + "\n" for e in events))


def test_hooks_get_the_times_of_their_generations_by_id_though_the_words_differ(
    tmp_path: Path,
) -> None:
    write_workspace(tmp_path)
    write_hooks(tmp_path)
    made = conversations(tmp_path)
    assert [(m.content, m.timestamp) for m in made["hooked"].messages] == [
        ("by hook", "2025-10-09T08:53:20.000Z"),
        ("Yes.", None),
        ("all of it", "2025-10-09T08:54:20.000Z"),
    ]
    assert made["hooked"].started_at == "2025-10-09T08:53:20.000Z"
    assert any("workspaceStorage" in path for path in made["hooked"].origins or ())
    left = made["prompts-abc"]
    assert [(m.content, m.turn) for m in left.messages] == [("nobody's", 0)]
    assert left.workspace is not None
    assert left.workspace.path == "/w/p"
    assert left.started_at == left.ended_at == "2025-10-09T08:55:20.000Z"


def test_a_composer_that_was_open_then_gets_none_of_them(tmp_path: Path) -> None:
    head = {"composerId": "open-then", "createdAt": AT - 1000, "lastUpdatedAt": AT + 90_000}
    write_workspace(tmp_path, **{"composer.composerData": {"allComposers": [head]}})
    made = conversations(tmp_path)
    assert set(made) == {"prompts-abc"}
    assert [m.content for m in made["prompts-abc"].messages] == ["by hook", "shortened", "nobody's"]


def test_what_no_conversation_says_is_listed_with_its_repeats(tmp_path: Path) -> None:
    """`apply`, `cmdk` and `chat` are no prompts; words that the global database says are its own."""
    prompts = ["said", "fix", "shortened", "fix", "by hook"]
    listed = [{"text": words, "commandType": 4} for words in prompts]
    write_workspace(tmp_path, **{"aiService.prompts": listed})
    rows = rows_of({"composerId": "c"}, bubble("1", 1, "said"), bubble("2", 2, "Fine."))
    write_editor(tmp_path / "Cursor/User/globalStorage/state.vscdb", rows)
    left = conversations(tmp_path)["prompts-abc"]
    assert [(m.content, m.timestamp) for m in left.messages] == [
        ("fix", None),
        ("shortened", "2025-10-09T08:54:20.000Z"),
        ("fix", None),
        ("by hook", None),  # its generation came before that of "shortened"
        ("nobody's", "2025-10-09T08:55:20.000Z"),
    ]
    assert left.title != "main.py"


def test_beside_the_global_database_only_ids_count(tmp_path: Path) -> None:
    write_workspace(tmp_path)
    said = (bubble("1", 1, "other words", requestId=G1), bubble("2", 2, "Fine."))
    path = tmp_path / "Cursor/User/globalStorage/state.vscdb"
    write_editor(path, rows_of({"composerId": "c"}, *said))
    made = conversations(tmp_path)
    assert [m.content for m in made["prompts-abc"].messages] == ["shortened", "nobody's"]
    assert [(m.content, m.timestamp) for m in made["c"].messages] == [
        ("other words", "2025-10-09T08:53:20.000Z"),
        ("Fine.", None),
    ]
