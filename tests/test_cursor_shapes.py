"""Shapes of real Cursor databases, 2023 to 3.7, each in words of our own: what must come of them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.cursor_oracle import load, story, talks
from tests.cursor_stores import bubble, rows_of, tool, write_editor
from tests.harness import corpus, facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

T = 1_748_179_900_000
"""2025-05-25T13:31:40.000Z"""


def at(seconds: float) -> str:
    return f"2025-05-25T13:{31 + int(40 + seconds) // 60:02d}:{int(40 + seconds) % 60:02d}.000Z"


def timing(sent: float, ended: float | None = None, window: float = 4_000.5) -> dict[str, Any]:
    """As since 0.50: `clientStartTime` is the clock of the window."""
    made = {"clientStartTime": window, "clientRpcSendTime": T + sent * 1000}
    return {"timingInfo": made if ended is None else {**made, "clientEndTime": T + ended * 1000}}


def tokens(given: int, taken: int) -> dict[str, Any]:
    return {"tokenCount": {"inputTokens": given, "outputTokens": taken}}


def write(home: Path, rows: dict[str, Any], items: dict[str, Any] | None = None) -> None:
    write_editor(home / "User/globalStorage/state.vscdb", rows)
    if items is not None:
        folder = home / "User/workspaceStorage/abc"
        write_editor(folder / "state.vscdb", {}, items)
        (folder / "workspace.json").write_text(json.dumps({"folder": "file:///w/tea"}))


def made_of(home: Path) -> dict[str, Trajectory]:
    return {t.conversation_id: t for t in reduce_all(facts_of(origins_of(home)))}


def test_times_are_those_of_the_send(tmp_path: Path) -> None:
    """0.50 to 1.5: no bubble has a time, the first answer of a request tells send and end."""
    rows = rows_of(
        {"composerId": "c", "createdAt": T - 80_000_000, "lastUpdatedAt": T + 30_000},
        bubble("1", 1, "boil water"),
        bubble("2", 2, "On it.", usageUuid="g-1", **timing(0, 20, window=9_000_000)),
        tool("3", "read_file", "k", {"target_file": "kettle.md"}, {"contents": "empty"}),
        bubble("4", 2, "It is dry.", usageUuid="g-1"),
        bubble("5", 1, "fill it"),
        bubble("6", 2, "Done.", usageUuid="g-2", **timing(30, 45, window=1_000)),
    )
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    assert [(m.role, m.timestamp) for m in made.messages] == [
        ("user", at(0)), ("assistant", at(0)), ("tool", None), ("assistant", None),
        ("user", at(30)), ("assistant", at(30)),
    ]  # fmt: skip
    assert (made.started_at, made.ended_at) == (at(0), at(45))
    ends = [(m.timestamp, m.index, m.data) for m in made.marks or () if m.kind == "turn_end"]
    assert ends == [(at(20), 4, {"duration_ms": 20_000}), (at(45), 6, {"duration_ms": 15_000})]
    assert [m.request_id for m in made.messages if m.role == "user"] == ["g-1", "g-2"]


def test_tokens_count_once(tmp_path: Path) -> None:
    """One count per request: the last of a `usageUuid`, and never the growth since another one."""
    rows = rows_of(
        {"composerId": "c"},
        bubble("1", 1, "one", **tokens(0, 0)),
        bubble("2", 2, "First.", usageUuid="g-1", **timing(0), **tokens(13_962, 50)),
        bubble("3", 2, "And more.", usageUuid="g-1", **tokens(14_192, 218)),
        bubble("4", 1, "two"),
        tool("5", "read_file", "k", {"target_file": "a"}, {"contents": "b"}),
        bubble("6", 2, "Second.", usageUuid="g-2", **timing(9), **tokens(15_000, 300)),
    )
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    counted = [(m.content, m.usage.prompt_tokens, m.usage.completion_tokens)
               for m in made.messages if m.usage]  # fmt: skip
    assert counted == [("And more.", 14_192, 218), ("Second.", 15_000, 300)]
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (29_192, 518)


def test_in_max_mode_each_call_is_counted(tmp_path: Path) -> None:
    rows = rows_of(
        {"composerId": "c", "modelConfig": {"modelName": "big", "maxMode": True}},
        bubble("1", 1, "one", requestId="g-1"),
        bubble("2", 2, "First.", usageUuid="u-1", **timing(0), **tokens(100, 10)),
        bubble("3", 2, "Second.", usageUuid="u-2", **tokens(120, 12)),
    )
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (220, 22)
    assert [m.turn for m in made.messages] == [0, 0, 0]


def test_an_abandoned_run_is_one_branch_where_it_was_sent(tmp_path: Path) -> None:
    """1.5: the prompt was edited and sent again; only the answers of the first send are left, without
    times but the first's. The words of that prompt stand in the generations alone."""
    listed = [
        bubble("a", 1, "make tea", requestId="g-0"),
        bubble("b", 2, "Made.", usageUuid="g-0", **timing(0, 5)),
        bubble("c", 1, "make it green", requestId="g-2"),
        bubble("d", 2, "Green now.", usageUuid="g-2", **timing(60, 70)),
    ]
    lost = [
        bubble("z", 2, "Let me look.", usageUuid="g-1", **timing(30, 40)),
        tool("y", "grep", "k", {"pattern": "tea"}, {"success": {}}),
        bubble("x", 2, "Black it is.", usageUuid="g-1"),
        tool("w", "grep", "cut", {"pattern": "off"}, status="loading"),
        bubble("v", 2, ""),
    ]  # in the order in which they were written
    sent = [
        {"unixMs": T + n, "generationUUID": ident, "type": "composer", "textDescription": words}
        for n, ident, words in (
            (0, "g-0", "make tea"), (30_000, "g-1", "make it blak"), (60_000, "g-2", "make it green"),
        )
    ]  # fmt: skip
    prompts = [{"text": item["textDescription"], "commandType": 4} for item in sent]
    rows = rows_of({"composerId": "c", "status": "completed"}, *listed, *lost, listed=4)
    write(tmp_path, rows, {"aiService.generations": sent, "aiService.prompts": prompts})
    made = made_of(tmp_path)
    assert set(made) == {"c"}
    conversation = made["c"]
    assert [m.content for m in conversation.messages] == [
        "make tea", "Made.", "make it green", "Green now.",
    ]  # fmt: skip
    (branch,) = conversation.branches or ()
    assert branch.index == 2
    assert [(m.role, m.content) for m in branch.messages if m.role != "tool"] == [
        ("user", "make it blak"), ("assistant", "Let me look."), ("assistant", "Black it is."),
    ]  # fmt: skip
    assert branch.messages[0].timestamp == at(30)
    assert conversation.workspace is not None
    assert conversation.workspace.path == "/w/tea"  # by the requests that this workspace lists


def test_a_run_abandoned_last_is_behind_everything(tmp_path: Path) -> None:
    listed = [bubble("a", 1, "one"), bubble("b", 2, "Yes.", usageUuid="g", **timing(0, 5))]
    lost = [
        bubble("y", 1, "two", createdAt=at(20)),
        bubble("x", 2, "No.", createdAt=at(21)),
    ]
    write(tmp_path, rows_of({"composerId": "c", "status": "aborted"}, *listed, *lost, listed=2))
    made = made_of(tmp_path)["c"]
    assert [m.content for m in made.messages] == ["one", "Yes."]
    (branch,) = made.branches or ()
    assert (branch.index, [m.content for m in branch.messages]) == (2, ["two", "No."])


def test_turns_that_were_taken_back_keep_their_answers(tmp_path: Path) -> None:
    """1.5: rewound by two turns. Nothing but the order of writing tells which answer is whose."""
    listed = [bubble("a", 1, "one"), bubble("b", 2, "Yes.", usageUuid="g", **timing(0, 5))]
    lost = [
        bubble("z", 1, "two", requestId="g-2"),
        bubble("y", 2, "Two it is.", usageUuid="g-2", **timing(20, 25)),
        bubble("x", 1, "three", requestId="g-3"),
        bubble("w", 2, "Three it is.", usageUuid="g-3", **timing(30, 35)),
    ]
    write(tmp_path, rows_of({"composerId": "c", "status": "aborted"}, *listed, *lost, listed=2))
    branches = made_of(tmp_path)["c"].branches or ()
    assert [[m.content for m in branch.messages] for branch in branches] == [
        ["two", "Two it is."], ["three", "Three it is."],
    ]  # fmt: skip


def test_a_notice_is_no_answer(tmp_path: Path) -> None:
    """3.7: the answer that the headers name is empty, the notice stands outside of them."""
    details = {"title": "You are out of tea", "detail": "Buy more."}
    rows = rows_of(
        {"composerId": "c", "status": "aborted"},
        bubble("1", 1, "make tea", requestId="g", createdAt=at(0),
               modelInfo={"modelName": "kettle-2"}),
        bubble("2", 2, "", createdAt=at(9)),
        bubble("3", 2, "", createdAt=at(5), errorDetails={
            "requestId": "g", "error": {"error": 51, "details": details}}),
        listed=2,
    )  # fmt: skip
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    assert [(m.role, m.kind, m.content) for m in made.messages] == [
        ("user", None, "make tea"), ("system", "error", "You are out of tea\n\nBuy more."),
    ]  # fmt: skip
    assert made.branches is None


def test_placeholders_rejections_and_prompts_without_words(tmp_path: Path) -> None:
    placeholder = {"toolFormerData": {"additionalData": {"status": "error"}}}
    image = {"context": {"selectedImages": [{"path": "/tmp/cup.png"}]}}
    terminal = {"context": {"terminalSelections": [{"text": "$ make tea"}]}}
    rich = {"type": "doc", "content": [
        {"type": "paragraph", "content": [{"type": "text", "text": "in rich text"}]}]}  # fmt: skip
    rows = rows_of(
        {"composerId": "c"},
        bubble("1", 1, "", **placeholder, **image),
        bubble("2", 2, "A cup.", **placeholder),
        tool("3", "edit_file", "k", {"target_file": "a"}, {"diff": {}}, userDecision="rejected"),
        bubble("4", 1, "", richText=json.dumps(rich)),
        bubble("5", 2, "Read."),
        bubble("6", 1, "", **terminal),
        bubble("7", 2, "Seen."),
    )
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    assert [m.content for m in made.messages if m.role != "tool"] == [
        "", "A cup.", "in rich text", "Read.", "", "Seen.",
    ]  # fmt: skip
    calls = [(c.id, c.status) for m in made.messages for c in m.tool_calls or ()]
    assert calls == [("k", "denied")]
    prompts = [m for m in made.messages if m.role == "user"]
    assert [[a.kind for a in m.attachments or ()] for m in prompts] == [
        ["image"], [], ["selection"],
    ]  # fmt: skip


def test_chat_tabs_of_2023(tmp_path: Path) -> None:
    def lexical(words: str) -> str:
        node = {"type": "paragraph", "children": [{"type": "text", "text": words}]}
        return json.dumps({"root": {"children": [node]}})

    tab = {
        "tabId": "tab", "chatTitle": "New Chat", "lastSendTime": T,
        "bubbles": [
            {"type": "user", "id": "1", "rawText": "", "delegate": {"a": "how hot?"}},
            {"type": "ai", "id": "2", "rawText": "Hot.", "modelType": "old-model"},
            {"type": "user", "id": "3", "rawText": "", "initText": lexical("and cold?")},
            {"type": "ai", "id": "4", "rawText": "Cold."},
            {"type": "user", "id": "5", "rawText": "not sent", "initText": lexical("not sent")},
        ],
    }  # fmt: skip
    draft = {"tabId": "box", "bubbles": [{"type": "user", "id": "6", "rawText": "nor this"}]}
    items = {"workbench.panel.aichat.view.aichat.chatdata": {"tabs": [tab, draft]}}
    write(tmp_path, {}, items)
    made = made_of(tmp_path)
    assert set(made) == {"tab"}
    assert [(m.content, m.timestamp) for m in made["tab"].messages] == [
        ("how hot?", None), ("Hot.", None), ("and cold?", at(0)), ("Cold.", None),
    ]  # fmt: skip
    assert made["tab"].title != "New Chat"


def test_the_model_default_names_none(tmp_path: Path) -> None:
    head = {
        "composerId": "c",
        "modelConfig": {"modelName": "default"},
        "usageData": {"default": {}},
    }
    asked = bubble("1", 1, "hi", modelInfo={"modelName": "default"})
    write(tmp_path, rows_of(head, asked, bubble("2", 2, "Hello.")))
    made = made_of(tmp_path)["c"]
    assert [m.model for m in made.messages] == [None, None]


def test_the_name_of_a_folder_is_no_project(tmp_path: Path) -> None:
    rows = rows_of({"composerId": "c"}, bubble("1", 1, "hi"), bubble("2", 2, "Hello."))
    layout = {"projectLayouts": [json.dumps({"rootPath": "tea"})]}
    write(tmp_path, {**rows, "messageRequestContext:c:1": layout})
    assert made_of(tmp_path)["c"].workspace is None


def test_arguments_that_the_bubble_lacks_come_from_what_was_sent(tmp_path: Path) -> None:
    """3.7: `edit_file_v2` and the terminal leave `rawArgs` empty; `params` are Cursor's own words."""
    from tests.test_cursor_sent import blobs, state

    given = {"path": "/w/tea.md", "old_string": "hot", "new_string": "cold"}
    part = {"type": "tool-call", "toolCallId": "k", "toolName": "StrReplace", "args": given}
    sent = {"role": "assistant", "content": [part]}
    edit = tool("2", "edit_file_v2", "k", {"relativeWorkspacePath": "tea.md"}, {})
    shell = tool("3", "run_terminal_command_v2", "l", {"command": "ls"}, {"output": "tea.md"})
    for call in (edit, shell):
        call["toolFormerData"]["rawArgs"] = ""
    head = {"composerId": "c", "conversationState": state(sent)}
    write(tmp_path, {**rows_of(head, bubble("1", 1, "cool it"), edit, shell), **blobs(sent)})
    made = made_of(tmp_path)["c"]
    calls = {c.id: json.loads(c.arguments) for m in made.messages for c in m.tool_calls or ()}
    assert calls == {"k": given, "l": {"command": "ls"}}


def test_rows_of_an_earlier_chain_say_nothing_again(tmp_path: Path) -> None:
    """3.x: where the context was summarized or a checkpoint restored, the bubbles are written anew
    under new ids. Of the old rows only what was taken back is a branch."""

    def told(prefix: str, later: int) -> list[dict[str, Any]]:
        call = tool(f"{prefix}3", "read_file_v2", "k", {"targetFile": "/w/a"}, {"contents": "x"})
        return [
            bubble(f"{prefix}1", 1, "make tea", requestId="r-1", createdAt=at(later)),
            bubble(f"{prefix}2", 2, thinking={"text": "hm"}, createdAt=at(later + 1)),
            {**call, "createdAt": at(later + 2)},
            bubble(f"{prefix}4", 2, "Made.", createdAt=at(later + 3)),
        ]

    old = [
        *told("old", 0),
        bubble("old5", 1, "make tea", requestId="r-2", createdAt=at(8)),
        bubble("old6", 2, "Again?", createdAt=at(9)),
    ]
    rows = rows_of({"composerId": "c", "status": "completed"}, *told("new", 60), *old, listed=4)
    write(tmp_path, rows)
    made = made_of(tmp_path)["c"]
    assert [(m.role, m.content) for m in made.messages] == [
        ("user", "make tea"), ("assistant", ""), ("tool", "x"), ("assistant", "Made."),
    ]  # fmt: skip
    (branch,) = made.branches or ()
    assert [m.content for m in branch.messages] == ["make tea", "Again?"]


def test_bubbles_of_other_spellings(tmp_path: Path) -> None:
    """Rich text that is plain, a thought that is a mere string, modes by number, a deleted row that is
    JSON's `null`, and the editor's own words where it summarized the context."""
    rows = rows_of(
        {"composerId": "c", "unifiedMode": "agent"},
        bubble("1", 1, "", richText="why does it drip?", unifiedMode=6, createdAt=at(0)),
        bubble("2", 2, thinking="a crack", createdAt=at(1)),
        bubble("3", 2, "Chat context summarized.", capabilityType=22, createdAt=at(2)),
        bubble("4", 2, "It is cracked.", createdAt=at(3)),
        bubble("5", 1, "mend it", unifiedMode=0, createdAt=at(4)),
        bubble("6", 2, "gone"),
    )
    rows["bubbleId:c:6"] = "null"
    write(tmp_path, rows)
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert [(m.role, m.content, m.thinking, m.mode) for m in made.messages] == [
        ("user", "why does it drip?", None, "debug"),
        ("assistant", "", "a crack", None),
        ("assistant", "Chat context summarized.", None, None),
        ("assistant", "It is cracked.", None, None),
        ("user", "mend it", None, "agent"),
    ]
    assert [m.kind for m in made.messages if m.role == "assistant"] == [None, "notification", None]
    assert [(m.kind, m.index) for m in made.marks or ()] == [("compaction", 2)]
    assert tally.problems == 1  # the header of the row that is gone


def test_a_task_names_the_composer_of_its_sub_agent(tmp_path: Path) -> None:
    call = tool("b", "task_v2", "k", {"prompt": "look"}, additionalData={"subagentComposerId": "d"})
    parent = rows_of({"composerId": "c"}, bubble("a", 1, "look around"), call)
    child = rows_of({"composerId": "d"}, bubble("e", 1, "look"), bubble("f", 2, "Nothing."))
    write(tmp_path, {**parent, **child})
    made = {t.conversation_id: t for t in unspool.extract(tmp_path)}
    assert made["d"].parent is not None
    assert (made["d"].parent.conversation_id, made["d"].parent.tool_call_id) == ("c", "k")


def test_files_that_were_open_are_sent_along(tmp_path: Path) -> None:
    """0.50 to 2.0: beside the files that the person chose, which stand in the same lists."""
    chosen = {"fileSelections": [{"uri": {"fsPath": "/w/tea/cup.py"}}]}
    rows = rows_of(
        {"composerId": "c", "conversationMap": {"2": bubble("2", 1, "and then?")}},
        bubble("1", 1, "go", context=chosen, attachedFileCodeChunksUris=[
            {"scheme": "file", "path": "/w/tea/cup.py"}, {"scheme": "file", "path": "/w/tea/pot.py"}]),
        bubble("2", 1, "", attachedFileCodeChunksMetadataOnly=[{"relativeWorkspacePath": "pot.py"}]),
    )  # fmt: skip
    del rows["bubbleId:c:2"]  # the composer itself has it
    write(tmp_path, rows)
    sent = [[a.path for a in m.attachments or ()] for m in made_of(tmp_path)["c"].messages]
    assert sent == [["/w/tea/cup.py", "/w/tea/pot.py"], []]


def test_the_tracking_of_code_names_models_that_cursor_chose(tmp_path: Path) -> None:
    rows = rows_of(
        {"composerId": "c", "modelConfig": {"modelName": "default"}},
        bubble("1", 1, "make tea", requestId="r-1"),
        bubble("2", 2, "Made."),
        bubble("3", 1, "more", requestId="r-2", modelInfo={"modelName": "kettle-2"}),
        bubble("4", 2, "More."),
    )
    write(tmp_path, rows)
    database = tmp_path / ".cursor/ai-tracking/ai-code-tracking.db"
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as connection, connection:
        columns = "hash, source, fileName, requestId, conversationId, timestamp, model"
        connection.execute(f"CREATE TABLE ai_code_hashes ({columns})")
        connection.executemany(
            "INSERT INTO ai_code_hashes VALUES (?, ?, 'tea.py', ?, ?, 1, ?)",
            [
                ("h1", "composer", "r-1", "c", "pot-1"),
                ("h2", "composer", "r-1", "c", "pot-1"),
                ("h3", "composer", "r-2", "c", "pot-1"),
                ("h4", "composer", "r-3", "gone", "pot-1"),
                ("h5", "human", None, None, None),
            ],
        )
    (made,) = made_of(tmp_path).values()
    assert [m.model for m in made.messages if m.role == "assistant"] == ["pot-1", "kettle-2"]


def test_what_cursor_asks_itself_is_no_prompt(tmp_path: Path) -> None:
    """3.x: a task in the background ended. The row of the bubble tells it, or its header, or the words;
    a transcript has only these."""
    follow_up = "Briefly inform the user about the task result and perform any follow-up actions."
    notice = f"<system_notification>\nIt ended.\n</system_notification>\n<user_query>{follow_up}"
    rows = rows_of(
        {"composerId": "c"},
        bubble("1", 1, "boil it", createdAt=at(0)),
        bubble("2", 2, "Boiling.", createdAt=at(1)),
        bubble("3", 1, "It boils.", isSimulatedMsg=True, createdAt=at(2)),
        bubble("4", 2, "It boiled.", createdAt=at(3)),
        bubble("5", 1, "It cools.", createdAt=at(4)),
        bubble("6", 2, "It cooled.", createdAt=at(5)),
        bubble("7", 1, follow_up, createdAt=at(6)),
        bubble("8", 2, "Done.", createdAt=at(7)),
    )
    rows["composerData:c"]["fullConversationHeadersOnly"][4]["grouping"] = {"isSimulatedMsg": True}
    write(tmp_path / "a", rows)
    folder = tmp_path / "b/projects/w/agent-transcripts/d"
    folder.mkdir(parents=True)
    lines = [("user", "boil it"), ("assistant", "Boiling."), ("user", f"{notice}</user_query>")]
    (folder / "d.jsonl").write_text("".join(
        json.dumps({"role": role, "message": {"content": words}}) + "\n" for role, words in lines
    ))  # fmt: skip
    for ident, many in (("c", 3), ("d", 1)):
        made = made_of(tmp_path)[ident]
        kinds = [m.kind for m in made.messages if m.role == "user"]
        assert kinds == [None] + ["notification"] * many
        assert {m.turn for m in made.messages} == {0}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            {"diff": {"chunks": []}, "resultForModel": "The file is changed."},
            "The file is changed.",
        ),
        ({"url": "https://tea.example", "markdown": "# Tea"}, "# Tea"),
        ({"exitCodeV2": 0, "notInterrupted": True, "outputRaw": "200\n"}, "200\n"),
        (
            {"selectedTool": "find", "result": '{"content": [{"type": "text", "text": "a tin"}]}'},
            "a tin",
        ),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "tin"}]}, "a\n\ntin"),
        ({"exitCodeV2": 0, "output": "ok", "outputRaw": "\x1b[0mok"}, "ok"),
    ],
)
def test_a_result_is_what_the_model_was_told(tmp_path: Path, result: Any, text: str) -> None:
    write(
        tmp_path,
        rows_of({"composerId": "c"}, bubble("1", 1, "go"), tool("2", "x", "k", {}, result)),
    )
    assert [m.content for m in made_of(tmp_path)["c"].messages if m.role == "tool"] == [text]


def differences(home: Path) -> list[str]:
    """What the source and the second reader do not agree on."""
    expected = talks(home)
    found: list[str] = []
    tally = Tally()
    made = {story(t).ident: t for t in reduce_all(facts_of(origins_of(home), tally))}
    if tally.problems:
        found.append(f"{tally.problems} problems")
    for ident in sorted(expected.keys() | made.keys()):
        if ident not in made or ident not in expected:
            found.append(f"{ident} is only in the {'oracle' if ident in expected else 'source'}")
            continue
        want, trajectory = expected[ident], made[ident]
        got = story(trajectory)
        for name in ("events", "sent", "branches", "project"):
            if getattr(want, name) != getattr(got, name):
                found.append(f"{ident}: {name}")
        answers = [request for request in got.answered if request]
        if answers and want.models != got.models and (any(want.models) or any(got.models)):
            found.append(f"{ident}: models")
        if [pair for pair in want.tokens if pair] != [pair for pair in got.tokens if pair]:
            found.append(f"{ident}: tokens")
        moments = [moment for request in got.answered for moment in request]
        if moments != sorted(moments):
            found.append(f"{ident}: answers out of order")
        for (sent, ended), told, bubbles in zip(
            want.spans, got.answered, want.answered, strict=False
        ):
            first = bubbles[0] if any(bubbles) else sent
            last = bubbles[-1] if any(bubbles) else ended
            if any((first and time < first) or (last and time > last) for time in told):
                found.append(f"{ident}: an answer outside of its request")
    return found


def real_databases() -> list[Path]:
    folder = corpus("cursor", "real_databases")
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder else []


@pytest.mark.parametrize("dump", real_databases(), ids=lambda path: path.name)
def test_real_databases_agree_with_the_second_reader(dump: Path, tmp_path: Path) -> None:
    assert differences(load(dump, tmp_path)) == []


def test_a_transcript_finds_the_folder_that_its_slug_stands_for(tmp_path: Path) -> None:
    def said(*parts: dict[str, Any]) -> str:
        return json.dumps({"role": "assistant", "message": {"content": list(parts)}}) + "\n"

    folder = tmp_path / ".cursor/projects/w-green-tea/agent-transcripts/one"
    folder.mkdir(parents=True)
    read = {"type": "tool_use", "name": "Read", "input": {"path": "/w/green-tea/src/cup.py"}}
    elsewhere = {"type": "tool_use", "name": "Read", "input": {"path": "/w/green/tea.md"}}
    (folder / "one.jsonl").write_text(said(elsewhere) + said(read))
    made = made_of(tmp_path)["one"]
    assert made.workspace is not None
    assert made.workspace.path == "/w/green-tea"


def test_tokens_of_a_response_stay_on_it_and_count(tmp_path: Path) -> None:
    base = {"conversation_id": "c", "generation_id": "g", "cursor_version": "1.7"}
    lines = [
        {"hook_event_name": "beforeSubmitPrompt", "prompt": "hi"},
        {"hook_event_name": "afterAgentResponse", "text": "One.", "tokens_used": 45},
        {"hook_event_name": "preToolUse", "tool_name": "Read", "tool_input": {"path": "/w/a"},
         "tool_use_id": "k"},
        {"hook_event_name": "afterAgentResponse", "text": "Two.", "tokens_used": 5,
         "model": "default"},
    ]  # fmt: skip
    text = "".join(json.dumps({**base, **line}) + "\n" for line in lines)
    (tmp_path / "hooks.log").write_text(text)
    made = made_of(tmp_path)["c"]
    answers = [(m.content, m.usage.completion_tokens) for m in made.messages if m.usage]
    assert answers == [("One.", 45), ("Two.", 5)]
    assert made.usage is not None
    assert made.usage.completion_tokens == 50
    assert not any(m.model for m in made.messages)
