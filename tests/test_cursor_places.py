"""Where a composer's conversation took place, and which generation its answers belong to."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cursor_stores import KV, bubble, rows_of, tool, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

WORK = (
    tool("2", "read_file", "a", {"targetFile": "/w/p/src/a.py"}, {"contents": ""}),
    tool("3", "read_file", "b", {"targetFile": "/w/p/docs/b.md"}, {"contents": ""}),
)


def made_of(folder: Path, composer: dict[str, Any], *bubbles: dict[str, Any]) -> Trajectory:
    write_editor(folder / "state.vscdb", rows_of({"composerId": "c", **composer}, *bubbles))
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def place(made: Trajectory) -> str | None:
    return made.workspace.path if made.workspace is not None else None


def test_the_folder_is_named_else_told_by_the_bubbles_else_what_the_files_share(
    tmp_path: Path,
) -> None:
    asked = bubble("1", 1, "look", requestId="r")
    told = {**asked, "workspaceUris": ["file:///w/told"]}
    named = {"workspaceIdentifier": {"id": "x", "uri": {"fsPath": "/w/named"}}}
    assert place(made_of(tmp_path / "a", named, told, *WORK)) == "/w/named"
    assert place(made_of(tmp_path / "b", {}, told, *WORK)) == "/w/told"
    guessed = made_of(tmp_path / "c", {}, asked, *WORK)
    assert (place(guessed), guessed.metadata["common_folder"]) == ("/w/p", "/w/p")
    assert place(made_of(tmp_path / "d", {}, asked, WORK[0])) is None


def test_a_folder_of_which_the_name_is_told_is_found_in_the_paths(tmp_path: Path) -> None:
    """1.5 shows the model the root by its name; a run that was abandoned worked there too."""
    composer = {"composerId": "c"}
    rows = rows_of(composer, bubble("1", 1, "look", requestId="r"), bubble("4", 2, "Seen."))
    run = (bubble("5", 2, "Hm", usageUuid="u", timingInfo={"clientRpcSendTime": 1.76e12}), *WORK)
    rows |= {f"bubbleId:c:{each['bubbleId']}": each for each in run}
    layout = {"projectLayouts": [json.dumps({"rootPath": "w"})]}
    write_editor(tmp_path / "state.vscdb", {**rows, "messageRequestContext:c:1": layout})
    (made,) = reduce_all(facts_of(origins_of(tmp_path)))
    assert [m.content for m in made.messages] == ["look", "Seen."]
    assert (place(made), made.metadata["common_folder"]) == ("/w", "/w/p")


def test_answers_belong_to_the_generation_that_asked(tmp_path: Path) -> None:
    bubbles = (
        bubble("1", 1, "look", requestId="r1"), *WORK, bubble("4", 2, "Seen.", usageUuid="own"),
        bubble("5", 1, "and?"), bubble("6", 2, "Nothing."),
    )  # fmt: skip
    made = made_of(tmp_path, {}, *bubbles)
    shown = [(m.content, m.request_id) for m in made.messages if m.role != "tool"]
    assert shown == [
        ("look", "r1"), ("", "r1"), ("", "r1"), ("Seen.", "own"), ("and?", None), ("Nothing.", None),
    ]  # fmt: skip


def test_a_composer_names_the_sub_agents_that_it_started(tmp_path: Path) -> None:
    rows = rows_of(
        {"composerId": "above", "subagentComposerIds": ["below", 5]}, bubble("1", 1, "go")
    )
    rows |= rows_of({"composerId": "below"}, bubble("2", 1, "do it"), bubble("3", 2, "Done."))
    write_editor(tmp_path / "state.vscdb", rows)
    made = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(tmp_path)))}
    assert [link.conversation_id for link in made["above"].children or ()] == ["below"]
    parent = made["below"].parent
    assert parent is not None
    assert parent.conversation_id == "above"


def test_a_sub_agent_belongs_to_the_session_of_the_first_that_was_asked(tmp_path: Path) -> None:
    """Whether it says so itself, or only its parent does."""
    rows = rows_of({"composerId": "top", "subagentComposerIds": ["one", "?"]}, bubble("1", 1, "go"))
    rows |= rows_of({"composerId": "one"}, bubble("2", 1, "do"))
    above = {"parentComposerId": "gone", "rootParentConversationId": "first"}
    rows |= rows_of({"composerId": "other", "subagentInfo": above}, bubble("4", 1, "and you"))
    write_editor(tmp_path / "state.vscdb", rows)
    event = {"hook_event_name": "subagentStart", "conversation_id": "top", "generation_id": "g",
             "subagent_id": "hooked", "tool_call_id": "t", "parent_conversation_id": "top"}  # fmt: skip
    spoken = {"hook_event_name": "afterAgentResponse", "conversation_id": "hooked", "text": "Yes.",
              "generation_id": "h", "session_id": "hooked"}  # fmt: skip
    (tmp_path / "hooks.log").write_text(f"{json.dumps(event)}\n{json.dumps(spoken)}\n")
    made = {t.conversation_id: t.session_id for t in reduce_all(facts_of(origins_of(tmp_path)))}
    assert made == {"top": "top", "one": "top", "other": "first", "hooked": "top"}


def test_answers_are_of_the_model_that_the_prompt_was_sent_to(tmp_path: Path) -> None:
    """The composer knows the last choice only; some versions name the model with the prompt."""
    rows = rows_of(
        {"composerId": "c", "modelConfig": {"modelName": "last"}},
        bubble("1", 1, "one", modelInfo={"modelName": "first"}),
        bubble("2", 2, "a"),
        bubble("3", 2, "b", modelInfo={"modelName": "own"}),
        bubble("4", 1, "two", modelInfo={"modelName": "default"}),
        bubble("5", 2, "c"),
        bubble("6", 1, "three"),
        bubble("7", 2, "d"),
    )
    write_editor(tmp_path / "state.vscdb", rows)
    (made,) = reduce_all(facts_of(origins_of(tmp_path)))
    answers = [m.model for m in made.messages if m.role == "assistant"]
    assert answers == ["first", "own", "last", "last"]


WRITER = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute(sys.argv[2])
put = "INSERT INTO cursorDiskKV VALUES (?, ?)"
heads = []
print("ready", flush=True)
while True:
    head = {"bubbleId": str(len(heads)), "type": 1}
    said = {**head, "text": f"said {len(heads)} " + "x" * 3000}
    heads.append(head)
    composer = {"composerId": "c", "fullConversationHeadersOnly": heads}
    with connection:
        connection.execute(put, (f"bubbleId:c:{head['bubbleId']}", json.dumps(said)))
        connection.execute(put, ("composerData:c", json.dumps(composer)))
"""


def test_a_database_is_read_while_another_process_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "Cursor/state.vscdb"
    path.parent.mkdir()
    command = [sys.executable, "-c", WRITER, str(path), KV.format("cursorDiskKV")]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        seen: list[int] = []
        last = time.monotonic() + 30  # a busy machine may let nobody write for a while
        while len(seen) < 25 and time.monotonic() < last:
            tally = Tally()
            for made in reduce_all(facts_of(origins_of(tmp_path), tally)):
                assert made.branches is None
                words = [m.content.split(" x")[0] for m in made.messages]
                assert words == [f"said {n}" for n in range(len(words))]
                seen.append(len(words))
            assert tally.problems == 0
        assert seen == sorted(seen)
        assert seen[-1] > seen[0] > 0
    finally:
        writer.kill()
        writer.wait()
