"""Cursor's stores, alone and together: one conversation each, nothing twice."""

import hashlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import KV, bubble, fill, rows_of, tool, write_editor
from tests.harness import facts_of, origins_of, plain, reduce_all, reread
from tests.test_cursor_sent import blobs, state
from unspool import sources
from unspool.facts import Problem
from unspool.io.origins import Tally, read_head
from unspool.trajectory import Trajectory

CID = "11111111-aaaa-4bbb-8ccc-000000000001"
COMPOSER = {
    "composerId": CID,
    "name": "Mend the parser",
    "createdAt": 1760000000000,
    "lastUpdatedAt": 1760000600000,
    "unifiedMode": "agent",
    "contextUsagePercent": 45,
    "totalLinesAdded": 20,
    "totalLinesRemoved": 3,
    "filesChangedCount": 1,
    "modelConfig": {"modelName": "default"},
    "usageData": {"big-model": {"costInCents": 12, "amount": 3}},
}
BUBBLES = (
    bubble("b9-user", 1, "mend the parser", createdAt="2025-10-09T08:53:20.000Z", requestId="gen-1",
           context={"fileSelections": [{"uri": {"fsPath": "/w/p/parse.py"}}]}),
    bubble("b3-think", 2, thinking={"text": "Where is it?"}, createdAt="2025-10-09T08:53:22.000Z"),
    bubble("b7-text", 2, "I will look.", createdAt="2025-10-09T08:53:24.000Z",
           modelInfo={"modelName": "big-model-2"}, tokenCount={"inputTokens": 100, "outputTokens": 10}),
    tool("b1-read", "read_file_v2", "call-1", {"targetFile": "/w/p/parse.py"}, {"contents": "x = 1\n"},
         modelCallId="mc-1"),
    tool("b2-edit", "edit_file_v2", "call-2", {"relativeWorkspacePath": "parse.py"},
         {"beforeContentId": "composer.content.old", "afterContentId": "composer.content.new"},
         modelCallId="mc-1", userDecision="accepted"),
    bubble("b0-done", 2, "Mended.", tokenCount={"inputTokens": 160, "outputTokens": 30}),
    bubble("b4-more", 1, "", richText=json.dumps({"root": {"children": [
        {"type": "paragraph", "children": [{"type": "text", "text": "thank "}, {"text": "you"}]}]}})),
    bubble("b5-none", 2, "", capabilityType=22),
)  # fmt: skip
CONTENTS = {"composer.content.old": "a\nb\nc\n", "composer.content.new": "a\nB\nc\nd\n"}


def conversations(folder: Path) -> list[Trajectory]:
    return reduce_all(facts_of(origins_of(folder)))


def only(folder: Path) -> Trajectory:
    (made,) = conversations(folder)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_editor(
        tmp_path / "Cursor/User/globalStorage/state.vscdb",
        {**rows_of(COMPOSER, *BUBBLES), **CONTENTS},
    )
    return tmp_path


def test_bubbles_follow_the_headers_and_make_steps(home: Path) -> None:
    made = only(home)
    assert [(m.role, m.content, m.thinking) for m in made.messages] == [
        ("user", "mend the parser", None),
        ("assistant", "I will look.", "Where is it?"),
        ("tool", "x = 1\n", None),
        ("tool", made.messages[3].content, None),
        ("assistant", "Mended.", None),
        ("user", "thank you", None),
    ]
    assert [c.id for c in made.messages[1].tool_calls or ()] == ["call-1", "call-2"]
    assert made.messages[1].model == "big-model-2"
    assert made.messages[4].model == "big-model"
    assert made.messages[0].mode == "agent"
    assert (made.messages[0].attachments or [])[0].path == "/w/p/parse.py"
    assert made.partial is None


def test_the_composer_tells_name_mode_context_lines_and_cost(home: Path) -> None:
    made = only(home)
    assert (made.title, made.session_id) == ("Mend the parser", CID)
    assert made.metadata["composer_mode"] == "agent"
    assert made.metadata["context_usage"] == 45
    assert (made.metadata["total_lines_added"], made.metadata["files_changed"]) == (20, 1)
    assert made.usage is not None
    assert made.usage.cost_usd == 0.12
    # 100 + 60 and 10 + 20: what a count grew by, not the sum of the counts.
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (160, 30)
    assert made.started_at == "2025-10-09T08:53:20.000Z"


def test_an_edit_has_the_lines_of_a_diff_and_the_verdict(home: Path) -> None:
    (touch,) = only(home).files or ()
    assert (touch.path, touch.lines_added, touch.lines_removed) == ("parse.py", 2, 1)
    assert (touch.outcome, touch.tool_call_id) == ("accepted", "call-2")


def test_a_transcript_and_hooks_of_the_same_conversation_add_only_what_they_know(
    home: Path,
) -> None:
    alone = only(home)
    folder = home / ".cursor/projects/w-p/agent-transcripts" / CID
    folder.mkdir(parents=True)
    lines = [
        {"role": "user", "message": {"content": [
            {"type": "text", "text": "<user_query>\nmend the parser\n</user_query>"}]}},
        {"role": "assistant", "message": {"content": [
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "name": "Read", "input": {"path": "/w/p/parse.py"}},
            {"type": "tool_use", "name": "StrReplace",
             "input": {"path": "/w/p/parse.py", "old_string": "b", "new_string": "B\nd"}}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "Mended."}]}},
        {"type": "turn_ended", "status": "success"},
    ]  # fmt: skip
    (folder / f"{CID}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    base = {"conversation_id": CID, "generation_id": "gen-1", "cursor_version": "3.8.1",
            "workspace_roots": ["/w/p"]}  # fmt: skip
    events = [
        {"hook_event_name": "beforeSubmitPrompt", "prompt": "mend the parser"},
        {"hook_event_name": "preToolUse", "tool_name": "Read", "tool_use_id": "other-1",
         "tool_input": {"file_path": "/w/p/parse.py"}},
        {"hook_event_name": "postToolUse", "tool_name": "Read", "tool_use_id": "other-1",
         "tool_input": {"file_path": "/w/p/parse.py"}, "tool_output": "x", "duration": 7},
        {"hook_event_name": "afterFileEdit", "file_path": "/w/p/parse.py",
         "edits": [{"old_string": "b", "new_string": "B\nd"}]},
        {"hook_event_name": "afterAgentResponse", "text": "Mended."},
        {"hook_event_name": "stop", "status": "completed"},
    ]  # fmt: skip
    (home / "hooks.jsonl").write_text("".join(json.dumps({**base, **e}) + "\n" for e in events))
    made = only(home)
    assert _said(made) == _said(alone)
    assert [c.id for m in made.messages for c in m.tool_calls or ()] == ["call-1", "call-2"]
    assert (made.messages[1].tool_calls or [])[0].duration_ms == 7
    assert made.workspace is not None
    assert (made.workspace.path, made.workspace.name) == ("/w/p", "p")
    assert made.workspace.hash == hashlib.sha256(b"/w/p").hexdigest()[:16]
    assert made.agent_version == "3.8.1"
    assert len(made.files or ()) == 1
    assert [(mark.kind, mark.index) for mark in made.marks or ()] == [("turn_end", 5)] * 2


def _said(made: Trajectory) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in made.messages]


def test_the_laws_hold_for_databases_too(home: Path) -> None:
    facts = facts_of(origins_of(home))
    expected = plain(reduce_all(facts))
    shuffled = list(facts)
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        assert plain(reduce_all(shuffled)) == expected
    kept = [(source, reread(fact)) for source, fact in facts]
    assert plain(reduce_all([*kept, *facts])) == expected
    places = [(*fact.place, type(fact).__name__, fact.key) for _, fact in facts]
    assert len(places) == len(set(places))
    shutil.copytree(home / "Cursor", home / "copy" / "Cursor")
    assert [_said(made) for made in conversations(home)] == [_said(t) for t in reduce_all(facts)]


def test_every_row_is_accounted_for(home: Path) -> None:
    tally = Tally()
    facts_of(origins_of(home), tally)
    assert (tally.records, tally.noise, tally.problems) == (9, 1, 0)


def test_what_the_headers_dropped_is_a_branch_and_what_they_do_not_list_yet_goes_on(
    tmp_path: Path,
) -> None:
    def at(second: int) -> dict[str, str]:
        return {"createdAt": f"2025-10-09T08:00:{second:02d}.000Z"}

    write_editor(
        tmp_path / "state.vscdb",
        rows_of(
            COMPOSER,
            bubble("1", 1, "one", **at(1)),
            bubble("2", 2, "two", **at(2)),
            bubble("5", 1, "instead", **at(5)),
            bubble("6", 2, "fine", **at(6)),
            bubble("3", 1, "regretted", **at(3)),
            bubble("4", 2, "too late", **at(4)),
            bubble("7", 1, "just sent", **at(7)),
            listed=4,
        ),
    )
    said = ["one", "two", "regretted", "too late", "instead", "fine"]
    spoken = [("beforeSubmitPrompt", "prompt"), ("afterAgentResponse", "text")]
    events = [(*spoken[n % 2], words) for n, words in enumerate(said)]
    lines = [
        {
            "conversation_id": CID,
            "generation_id": f"g{n // 2}",
            "hook_event_name": event,
            name: said,
        }
        for n, (event, name, said) in enumerate(events)
    ]
    for hooks in (False, True):
        if hooks:
            (tmp_path / "hooks.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        made = only(tmp_path)
        assert [m.content for m in made.messages] == ["one", "two", "instead", "fine", "just sent"]
        branches = made.branches or []
        assert [[m.content for m in b.messages] for b in branches] == [["regretted", "too late"]]
        assert branches[0].index == 2


def test_orphans_without_a_time_or_older_than_all_are_branches_and_lost_bubbles_are_told(
    tmp_path: Path,
) -> None:
    early = {"createdAt": "2025-10-09T07:00:00.000Z"}
    rows = rows_of(
        COMPOSER,
        bubble("1", 1, "one", createdAt="2025-10-09T08:00:00.000Z"),
        bubble("2", 2, "two", createdAt="2025-10-09T08:00:01.000Z"),
        bubble("3", 2, "gone"),
        bubble("5", 1, "no time"),
        bubble("4", 2, "none either"),
        bubble("6", 1, "earlier", **early),
        bubble("7", 2, "", **early),
        bubble("8", 2, "and its answer", **early),
        listed=3,
    )
    del rows[f"bubbleId:{CID}:3"]
    write_editor(tmp_path / "state.vscdb", rows)
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert [m.content for m in made.messages] == ["one", "two"]
    assert [(b.index, [m.content for m in b.messages]) for b in made.branches or ()] == [
        (0, ["earlier", "and its answer"]),
        (2, ["no time", "none either"]),
    ]
    assert tally.problems == 1


def test_bubbles_without_a_composer_row_and_sub_agents_by_their_call(tmp_path: Path) -> None:
    task = "task-call_9\nfc_9"
    write_editor(
        tmp_path / "state.vscdb",
        {
            **rows_of(
                COMPOSER, bubble("1", 1, "go"), tool("2", "task_v2", task[5:], {"prompt": "dig"})
            ),
            f"bubbleId:{task}:1": bubble("1", 1, "dig", createdAt="2025-10-09T08:00:01.000Z"),
            f"bubbleId:{task}:0": bubble("0", 2, "dug", createdAt="2025-10-09T08:00:02.000Z"),
        },
    )
    parent, child = sorted(conversations(tmp_path), key=lambda t: t.conversation_id != CID)
    assert [m.content for m in child.messages] == ["dig", "dug"]
    assert child.parent is not None
    assert (child.parent.conversation_id, child.parent.tool_call_id) == (CID, task[5:])
    assert [link.conversation_id for link in parent.children or ()] == [task]


def test_results_that_bubbles_lack_come_from_what_was_sent_to_the_model(tmp_path: Path) -> None:
    part = {"type": "tool-result", "toolCallId": "call-8", "toolName": "Shell", "result": "ok then"}
    sent = {"role": "tool", "content": [part]}
    write_editor(
        tmp_path / "state.vscdb",
        {
            **rows_of(
                {**COMPOSER, "conversationState": state(sent)},
                bubble("1", 1, "go"),
                tool("2", "run_terminal_cmd", "call-8", {"command": "ls"}),
            ),
            **blobs(sent),
            "agentKv:blob:eeee": b"\x0a\x02hi",
        },
    )
    assert [m.content for m in only(tmp_path).messages if m.role == "tool"] == ["ok then"]


def test_tools_of_the_first_agents_stand_with_the_composer(tmp_path: Path) -> None:
    kept = {"2": {"tool": 15, "name": "run_terminal_cmd", "toolCallId": "t", "status": "completed",
                  "params": "{\"command\": \"ls\"}", "result": "{\"output\": \"a b\"}"}}  # fmt: skip
    write_editor(
        tmp_path / "state.vscdb",
        rows_of(
            {**COMPOSER, "capabilities": [{"type": 15, "data": {"bubbleDataMap": json.dumps(kept)}}]},
            bubble("1", 1, "list", _v=2), bubble("2", 2, "", _v=2),
        ),
    )  # fmt: skip
    assert [m.content for m in only(tmp_path).messages] == ["list", "", "a b"]


def test_broken_and_deleted_rows_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    write_editor(
        tmp_path / "state.vscdb",
        {
            **rows_of(COMPOSER, bubble("1", 1, "one"), bubble("2", 2, "two")),
            f"bubbleId:{CID}:2": '{"type": 2, "text": "tw',
            "composerData:gone": None,
            "composerData:bad": "[1]",
        },
    )
    facts = facts_of(origins_of(tmp_path), tally := Tally())
    assert [m.content for m in reduce_all(facts)[0].messages] == ["one"]
    codes = sorted(fact.code for _, fact in facts if isinstance(fact, Problem))
    assert codes == ["truncated-json", "wrong-types"]
    assert tally.problems == 2


def test_a_damaged_database_is_a_problem(home: Path) -> None:
    path = home / "Cursor/User/globalStorage/state.vscdb"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    codes = [f.code for _, f in facts_of(origins_of(home)) if isinstance(f, Problem)]
    assert codes == ["unreadable-database"]


def test_a_locked_database_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.io.databases.BUSY_MS", 50)
    path = tmp_path / "state.vscdb"
    connection = sqlite3.connect(path)
    connection.execute(KV.format("cursorDiskKV"))
    connection.commit()
    connection.execute("BEGIN EXCLUSIVE")
    codes = [f.code for _, f in facts_of(origins_of(tmp_path)) if isinstance(f, Problem)]
    connection.close()
    assert codes == ["unreadable-database"]


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA wal_autocheckpoint=0")
connection.executescript(sys.stdin.readline().strip())
connection.commit()
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_database_that_another_process_holds_open_is_read_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "Cursor/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    rows = rows_of(COMPOSER, bubble("1", 1, "still in the log"))
    script = KV.format("cursorDiskKV") + ";"
    for key, value in rows.items():
        script += f"INSERT INTO cursorDiskKV VALUES ('{key}', '{json.dumps(value)}');"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        holder.stdin.write(script + "\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "ready\n"
        before = sorted(p.name for p in path.parent.iterdir())
        assert [m.content for m in only(tmp_path).messages] == ["still in the log"]
        assert sorted(p.name for p in path.parent.iterdir()) == before
    finally:
        holder.stdin.close()
        holder.wait(10)


def test_a_log_without_its_shared_memory_is_read_and_nothing_is_left_behind(tmp_path: Path) -> None:
    live = tmp_path / "live.vscdb"
    connection = sqlite3.connect(live)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute(KV.format("cursorDiskKV"))
    fill(connection, "cursorDiskKV", rows_of(COMPOSER, bubble("1", 1, "copied")))
    connection.commit()
    folder = tmp_path / "backup" / "Cursor"
    folder.mkdir(parents=True)
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{live}{suffix}", folder / f"state.vscdb{suffix}")
    connection.close()
    before = sorted(p.name for p in folder.iterdir())
    assert [m.content for m in only(folder).messages] == ["copied"]
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_database_of_vs_code_is_not_cursors(tmp_path: Path) -> None:
    path = tmp_path / "Code/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute(KV.format("ItemTable"))
    connection.execute("INSERT INTO ItemTable VALUES ('interactive.sessions', '[]')")
    connection.commit()
    connection.close()
    assert sources.recognise(read_head(str(path))) != "cursor"


GENERATIONS = [
    {
        "unixMs": 1731800000000,
        "generationUUID": "g-1",
        "type": "composer",
        "textDescription": "first",
    },
    {
        "unixMs": 1731800100000,
        "generationUUID": "g-2",
        "type": "composer",
        "textDescription": "again",
    },
    {
        "unixMs": 1731800200000,
        "generationUUID": "g-3",
        "type": "composer",
        "textDescription": "again",
    },
    {
        "unixMs": 1760000100000,
        "generationUUID": "g-4",
        "type": "composer",
        "textDescription": "later",
    },
]
OLD = {
    "composerId": "old-1", "name": "Old one", "createdAt": 1731799990000,
    "conversation": [
        bubble("u1", 1, "first"), bubble("a1", 2, "Sure.", codeBlocks=[
            {"uri": {"path": "/c:/w/x.ts"}, "version": 0, "codeBlockIdx": 0}]),
        bubble("u2", 1, "again"), bubble("a2", 2, "Done."),
    ],
    "codeBlockData": {"file:///c%3A/w/x.ts": [{"version": 0, "content": "…", "status": "rejected"}]},
}  # fmt: skip
TABS = {"tabs": [{"tabId": "tab-1", "chatTitle": "A chat", "lastSendTime": 1731800300000, "bubbles": [
    {"type": "user", "id": "t1", "text": "why?"},
    {"type": "ai", "id": "t2", "rawText": "Because.", "modelType": "old-model", "requestId": "r-1"},
    {"type": "user", "id": "t3", "text": "", "fileSelections": [{"uri": {"path": "/c:/w/x.ts"}}]},
]}]}  # fmt: skip
ITEMS: dict[str, Any] = {
    "aiService.prompts": [
        {"text": "first", "commandType": 4},
        {"text": "nowhere else", "commandType": 2},
    ],
    "aiService.generations": GENERATIONS,
    "composer.composerData": {"allComposers": [OLD, COMPOSER], "selectedComposerIds": ["sel-1"]},
    "workbench.panel.aichat.view.aichat.chatdata": TABS,
    "workbench.panel.composerChatViewPane.abc": {"workbench.panel.aichat.view.sel-2": {}},
}


def _workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "Cursor/User/workspaceStorage/abc123"
    write_editor(folder / "state.vscdb", {}, ITEMS)
    (folder / "workspace.json").write_text(json.dumps({"folder": "file:///c%3A/w"}))
    return folder


def test_a_workspace_holds_old_chats_and_generations_give_them_their_times(tmp_path: Path) -> None:
    made = {t.conversation_id: t for t in conversations(_workspace(tmp_path))}
    old, tab = made["old-1"], made["tab-1"]
    assert [(m.content, m.timestamp) for m in old.messages if m.role == "user"] == [
        ("first", "2024-11-16T23:33:20.000Z"),
        ("again", None),  # sent twice, and nothing tells which of the two this is
    ]
    assert [(f.path, f.outcome, f.index) for f in old.files or ()] == [
        ("c:\\w\\x.ts", "rejected", 1)
    ]
    assert old.workspace is not None
    assert old.workspace.path == "c:\\w"
    assert [(m.content, m.model) for m in tab.messages] == [
        ("why?", None),
        ("Because.", "old-model"),
    ]
    assert CID not in made  # under way when g-4 was made, but that is no evidence
    left = made["prompts-abc123"]
    assert [(m.content, m.timestamp) for m in left.messages] == [
        ("nowhere else", None),
        ("later", "2025-10-09T08:55:00.000Z"),
    ]
    assert "prompts-without-conversation" in (left.partial or [])


def test_the_global_database_beside_it_has_the_conversations_of_the_prompts(tmp_path: Path) -> None:
    _workspace(tmp_path)
    write_editor(
        tmp_path / "Cursor/User/globalStorage/state.vscdb",
        rows_of(COMPOSER, bubble("1", 1, "later")),
    )
    made = {t.conversation_id: t for t in conversations(tmp_path)}
    assert [m.content for m in made["prompts-abc123"].messages] == ["nowhere else"]
    (said,) = made[CID].messages
    assert (said.id, said.request_id, said.timestamp) == ("1", None, None)
    assert made[CID].workspace is not None
    assert made[CID].workspace.path == "c:\\w"


def test_values_as_files_read_like_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "abc123"
    folder.mkdir()
    for key, value in ITEMS.items():
        (folder / f"{key}.json").write_text(json.dumps(value))
    (folder / "workspace.json").write_text(json.dumps({"folder": "file:///c%3A/w"}))
    table = conversations(_workspace(tmp_path / "other"))
    files = conversations(folder)
    assert [_said(t) for t in files] == [_said(t) for t in table]


HEADS = (
    "CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, createdAt INTEGER,"
    " lastUpdatedAt INTEGER, isArchived INTEGER, isSubagent INTEGER, value TEXT)"
)


def test_heads_in_a_table_of_their_own(tmp_path: Path) -> None:
    path = write_editor(
        tmp_path / "state.vscdb", rows_of({"composerId": CID}, bubble("1", 1, "hi"))
    )
    connection = sqlite3.connect(path)
    connection.execute(HEADS)
    head = {"name": "Named", "workspaceIdentifier": {"id": "x", "uri": {"fsPath": "/w/q"}}}
    connection.execute(
        "INSERT INTO composerHeaders VALUES (?, 'x', 1, 2, 0, 0, ?)", (CID, json.dumps(head))
    )
    connection.commit()
    connection.close()
    made = only(tmp_path)
    assert made.title == "Named"
    assert made.workspace is not None
    assert made.workspace.path == "/w/q"


def test_a_head_may_name_the_workspace_by_its_folder(tmp_path: Path) -> None:
    """Workspaces of several folders have no path of their own; since 3.12 their databases list none."""
    user = tmp_path / "Cursor/User"
    rows = rows_of({"composerId": "a", "workspaceIdentifier": {"id": "0a1b"}}, bubble("1", 1, "hi"))
    rows |= rows_of({"composerId": "b"}, bubble("2", 1, "ho"))
    path = write_editor(user / "globalStorage/state.vscdb", rows)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(HEADS)
        connection.execute("INSERT INTO composerHeaders VALUES ('b', '2c3d', 1, 2, 0, 0, '{}')")
    for name, folder in (("0a1b", "/w/p"), ("2c3d", "/w/q")):
        place = user / "workspaceStorage" / name / "workspace.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"folder": f"file://{folder}"}))
    found = {t.conversation_id: t.workspace and t.workspace.path for t in conversations(tmp_path)}
    assert found == {"a": "/w/p", "b": "/w/q"}


def test_the_context_of_a_request_tells_the_project(tmp_path: Path) -> None:
    rows = rows_of({"composerId": CID}, bubble("1", 1, "hi"), bubble("2", 2, "Hello."))
    rows[f"messageRequestContext:{CID}:1"] = {
        "projectLayouts": [json.dumps({"rootPath": "/w/q"})], "cursorRules": [], "todos": [{}, {}],
    }  # fmt: skip
    write_editor(tmp_path / "state.vscdb", rows)
    made = only(tmp_path)
    assert [m.content for m in made.messages] == ["hi", "Hello."]
    assert made.workspace is not None
    assert made.workspace.path == "/w/q"
    assert (made.messages[0].extra or {})["request_context"] == {"projectLayouts": 1, "todos": 2}


def test_a_task_names_the_composer_that_it_started(tmp_path: Path) -> None:
    child = {"composerId": "child-1"}
    write_editor(
        tmp_path / "state.vscdb",
        {
            **rows_of(COMPOSER, bubble("1", 1, "go"),
                      tool("2", "task_v2", "call-3", {"prompt": "dig"}, {"agentId": "child-1"})),
            **rows_of(child, bubble("3", 1, "dig")),
        },
    )  # fmt: skip
    made = {t.conversation_id: t for t in conversations(tmp_path)}
    assert made["child-1"].parent is not None
    assert made["child-1"].parent.tool_call_id == "call-3"
