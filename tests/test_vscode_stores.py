"""VS Code chats: the stores around them, copies of one chat, where they are found."""

import base64
import json
import random
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import facts_of, origins_of, reduce_all
from tests.vscode import START, chat, codes, one, put, read, request, words
from unspool import sources
from unspool.io.origins import Tally, read_head
from unspool.sources.vscode_chat import documents
from unspool.sources.vscode_chat.stores import session_id


def make_store(path: Path, rows: dict[str, Any], wal: bool) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
    connection.commit()
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
    for key, value in rows.items():
        text = value if isinstance(value, str) else json.dumps(value)
        connection.execute("INSERT INTO ItemTable VALUES (?, ?)", (key, text))
    connection.commit()
    return connection


INDEX = {
    "version": 1,
    "entries": {
        "s": {"sessionId": "s", "title": "From the index", "lastMessageDate": START,
              "timing": {"created": START - 5000}, "stats": {"fileCount": 1, "added": 2}},
        "copilotcli:/x": {"sessionId": "copilotcli:/x", "title": "no", "isExternal": True},
        "bad": 7,
    },
}  # fmt: skip


class TestStore:
    @pytest.mark.parametrize("wal", [False, True])
    def test_user_folder(self, tmp_path: Path, wal: bool) -> None:
        """The index, the oldest chats and the stored ones, all under one `User` folder."""
        workspace = tmp_path / "User" / "workspaceStorage" / "abc"
        put(workspace, "chatSessions/s.json", chat(request(1)))
        put(workspace, "workspace.json", {"folder": "file:///home/dana/proj"})
        old = {"sessionId": "ancient", "responderUsername": "x", "requests": [request(2)]}
        rows = {"chat.ChatSessionStore.index": INDEX, "interactive.sessions": [old, 5]}
        connection = make_store(workspace / "state.vscdb", rows, wal)
        before = sorted(p.name for p in workspace.iterdir())
        tally = Tally()
        facts = facts_of(origins_of(tmp_path / "User"), tally)
        made = {t.conversation_id: t for t in reduce_all(facts)}
        assert set(made) == {"s", "ancient"}
        assert made["s"].title == "From the index"
        assert made["s"].workspace is not None
        assert made["s"].workspace.path == "/home/dana/proj"
        assert made["ancient"].workspace is not None
        assert words(made["ancient"]) == [("user", "question 2"), ("assistant", "answer 2")]
        assert tally.problems == 1
        assert sorted(p.name for p in workspace.iterdir()) == before
        connection.close()

    def test_own_title_wins(self, tmp_path: Path) -> None:
        put(tmp_path, "w/chatSessions/s.json", chat(request(1), customTitle="Mine"))
        make_store(
            tmp_path / "w" / "state.vscdb", {"chat.ChatSessionStore.index": INDEX}, False
        ).close()
        assert one(tmp_path).title == "Mine"

    def test_broken_values(self, tmp_path: Path) -> None:
        rows = {"chat.ChatSessionStore.index": "{not json", "interactive.sessions": "[1, {}]"}
        make_store(tmp_path / "w" / "state.vscdb", rows, False).close()
        assert "invalid-json" in codes(tmp_path)

    def test_not_a_database(self, tmp_path: Path) -> None:
        (tmp_path / "state.vscdb").write_bytes(b"SQLite format 3\0" + b"\1" * 200)
        assert codes(tmp_path) == ["unreadable-database"]

    @pytest.mark.parametrize("value", ["5", '"x"', "null", "true", "[[]]"])
    def test_sessions_that_are_none(self, tmp_path: Path, value: str) -> None:
        make_store(tmp_path / "state.vscdb", {"interactive.sessions": value}, False).close()
        assert codes(tmp_path) in (["not-a-chat"], ["invalid-json"])

    def test_chats_in_a_store_of_cursors(self, tmp_path: Path) -> None:
        """Cursor is a fork: VS Code's chats stand beside its own, and both are read."""
        old = {"sessionId": "ancient", "responderUsername": "x", "requests": [request(2)]}
        composer = {"composerId": "c", "conversation": [
            {"type": 1, "bubbleId": "b1", "text": "to Cursor"},
            {"type": 2, "bubbleId": "b2", "text": "by Cursor"}]}  # fmt: skip
        rows = {
            "composer.composerData": {"allComposers": [composer]},
            "interactive.sessions": [old],
            "chat.ChatSessionStore.index": INDEX,
        }
        folder = tmp_path / "Cursor" / "User" / "workspaceStorage" / "abc"
        make_store(folder / "state.vscdb", rows, False).close()
        put(folder, "chatSessions/s.json", chat(request(1)))
        made = {(t.source, t.conversation_id): t for t in unspool.extract([tmp_path])}
        assert set(made) == {("cursor", "c"), ("vscode-chat", "ancient"), ("vscode-chat", "s")}
        assert words(made["vscode-chat", "ancient"])[0] == ("user", "question 2")
        assert made["vscode-chat", "s"].title == "From the index"
        assert words(made["cursor", "c"])[0] == ("user", "to Cursor")

    def test_a_broken_store_of_cursors_is_told_once(self, tmp_path: Path) -> None:
        put(tmp_path, "Cursor/x", "")
        (tmp_path / "Cursor" / "state.vscdb").write_bytes(b"SQLite format 3\0" + b"\1" * 200)
        assert codes(tmp_path) == ["unreadable-database"]

    @pytest.mark.parametrize("state", ["missing", "broken", "good"])
    @pytest.mark.parametrize("product", ["Code", "Cursor"])
    def test_backup(self, tmp_path: Path, state: str, product: str) -> None:
        """VS Code goes back to it where the store is missing or broken; else it is merely older."""
        folder = tmp_path / product / "w"
        old = {"sessionId": "ancient", "responderUsername": "x", "requests": [request(2)]}
        make_store(folder / "state.vscdb.backup", {"interactive.sessions": [old]}, False).close()
        put(folder, "workspace.json", {"folder": "file:///home/dana/proj"})
        if state == "good":
            make_store(folder / "state.vscdb", {"other": 1}, False).close()
        elif state == "broken":
            (folder / "state.vscdb").write_bytes(b"SQLite format 3\0" + b"\1" * 200)
        made = read(folder)
        assert [t.conversation_id for t in made] == ([] if state == "good" else ["ancient"])
        assert codes(folder) == (["unreadable-database"] if state == "broken" else [])
        named = one(folder / "state.vscdb.backup")
        assert named.workspace is not None
        assert named.workspace.path == "/home/dana/proj"

    def test_resource_names(self) -> None:
        coded = base64.urlsafe_b64encode(b"session-7").decode().rstrip("=")
        assert session_id(f"vscode-chat-session://local/{coded}") == "session-7"
        assert session_id("plain") == "plain"
        assert (
            session_id("vscode-chat-session://local/\u2028") == "vscode-chat-session://local/\u2028"
        )


def test_a_chat_of_early_2024(tmp_path: Path) -> None:
    """No request had an id, a vote against was 2, and attachments went by their names."""
    values = [{"level": "full", "value": "def f(): ...", "kind": "x"}]
    requests = [
        {"message": {"text": "same words", "parts": []}, "response": [{"value": f"answer {n}"}],
         "variableData": {"variables": {"selection": values}}, "vote": n, "isCanceled": False,
         "followups": None, "providerRequestId": None}
        for n in (1, 2)
    ]  # fmt: skip
    old = {"providerId": "copilot", "requesterUsername": "dana", "responderUsername": "x",
           "welcomeMessage": ["hi"], "requests": requests}  # fmt: skip
    path = put(tmp_path, "chat.json", old)
    made = one(path)
    assert [w for _, w in words(made)] == ["same words", "answer 1", "same words", "answer 2"]
    assert [(m.extra or {}).get("vote") for m in made.messages] == [None, "up", None, "down"]
    (attached,) = made.messages[0].attachments or ()
    assert (attached.name, attached.text) == ("selection", "def f(): ...")
    assert codes(path) == []


class TestEditingSessions:
    def state(self, folder: Path, value: Any) -> Path:
        put(folder, "w/chatSessions/s.json", chat(request(1)))
        return put(folder, "w/chatEditingSessions/s/state.json", value)

    def test_what_became_of_the_files(self, tmp_path: Path) -> None:
        entries = [
            {"resource": f"file:///p/{name}.py", "languageId": "python", "originalHash": "aaaaaaa",
             "currentHash": "bbbbbbb", "state": state, "snapshotUri": "x:/y",
             "telemetryInfo": {"requestId": "request_1", "agentId": "a"}}
            for state, name in enumerate(("open", "kept", "gone"))
        ]  # fmt: skip
        snapshot = {"stopId": None, "entries": [*entries, None, {"resource": 5}]}
        self.state(tmp_path, {"version": 2, "recentSnapshot": snapshot, "initialFileContents": []})
        files = one(tmp_path).metadata["edited_files"]
        assert [(f["path"], f["state"]) for f in files] == [
            ("/p/open.py", "undecided"), ("/p/kept.py", "accepted"), ("/p/gone.py", "rejected"),
        ]  # fmt: skip
        assert files[0]["request_id"] == "request_1"
        assert files[0]["original_hash"] == "aaaaaaa"

    def test_an_edit_has_the_outcome_of_its_file(self, tmp_path: Path) -> None:
        """That of the request which the state names; what the chat itself tells goes before."""

        def edit(name: str) -> dict[str, Any]:
            uri = {"scheme": "file", "path": f"/p/{name}.py"}
            return {"kind": "textEditGroup", "uri": uri, "edits": [[{"text": "x"}]]}

        told = [{"uri": {"scheme": "file", "path": "/p/told.py"}, "eventKind": 3}]
        requests = [
            request(1, response=[edit(name) for name in ("kept", "gone", "open", "told")]),
            request(2, response=[edit("kept"), edit("kept")], editedFileEvents=told),
        ]
        entries = [
            {"resource": f"file:///p/{name}.py", "state": state,
             "telemetryInfo": {"requestId": f"request_{number}"}}
            for name, state, number in (
                ("kept", 1, 2), ("gone", 2, 1), ("open", 0, 1), ("told", 1, 1), ("other", 1, 1),
            )
        ]  # fmt: skip
        put(tmp_path, "w/chatSessions/s.json", chat(*requests))
        state = {"version": 2, "recentSnapshot": {"entries": entries}}
        put(tmp_path, "w/chatEditingSessions/s/state.json", state)
        made = one(tmp_path)
        assert [(f.path[3:-3], f.turn, f.outcome) for f in made.files or ()] == [
            ("kept", 0, None), ("gone", 0, "rejected"), ("open", 0, None), ("told", 0, "modified"),
            ("kept", 1, "accepted"), ("kept", 1, "accepted"),
        ]  # fmt: skip
        assert made.marks is None

    @pytest.mark.parametrize("value", ["{", "[]", '{"recentSnapshot": 3}', ""])
    def test_broken(self, tmp_path: Path, value: str) -> None:
        self.state(tmp_path, value)
        assert len(one(tmp_path).messages) == 2
        assert len(codes(tmp_path)) == (1 if value else 0)

    def test_without_its_chat(self, tmp_path: Path) -> None:
        entry = {"resource": "file:///p/x.py", "state": 1}
        put(tmp_path, "chatEditingSessions/s/state.json", {"recentSnapshot": {"entries": [entry]}})
        assert list(unspool.extract([tmp_path])) == []


class TestArchives:
    """Chats exported as a zip, with the repository as it was."""

    def archive(self, folder: Path, **files: Any) -> Path:
        path = folder / "export.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in files.items():
                archive.writestr(name.replace("_", "."), json.dumps(value))
        return path

    def test_chat_and_repository(self, tmp_path: Path) -> None:
        begin = {"remoteUrl": "https://example.org/a.git", "localBranch": "main"}
        end = {"localBranch": "topic", "diffs": [{"relativePath": "a.py"}]}
        export = {"responderUsername": "x", "requests": [request(1)]}
        made = one(
            self.archive(tmp_path, chat_json=export, chat_repo_begin_json=begin,
                         chat_repo_end_json=end)
        )  # fmt: skip
        assert words(made) == [("user", "question 1"), ("assistant", "answer 1")]
        assert made.workspace is not None
        assert made.workspace.branch == "main"
        assert made.metadata["repo_end"]["diffs"] == [{"relativePath": "a.py"}]

    def test_chat_behind_a_large_repository(self, tmp_path: Path) -> None:
        begin = {"localBranch": "main", "diffs": [random.Random(0).randbytes(1 << 18).hex()]}
        export = {"responderUsername": "x", "requests": [request(1)]}
        path = self.archive(tmp_path, chat_repo_begin_json=begin, chat_json=export)
        assert words(one(path)) == [("user", "question 1"), ("assistant", "answer 1")]
        path.write_bytes(path.read_bytes()[: 1 << 17])
        assert codes(tmp_path) == ["unreadable"]

    def test_of_something_else(self, tmp_path: Path) -> None:
        path = self.archive(tmp_path, other_json={"requests": []})
        assert sources.recognise(read_head(str(path))) is None

    def test_cut_off(self, tmp_path: Path) -> None:
        path = self.archive(tmp_path, chat_json={"responderUsername": "x", "requests": []})
        path.write_bytes(path.read_bytes()[:60])
        assert codes(tmp_path) == ["unreadable"]

    def test_longer_than_it_may_be(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(documents, "LARGEST_MEMBER_BYTES", 100)
        export = {"responderUsername": "x", "requests": [request(1)]}
        assert codes(self.archive(tmp_path, chat_json=export)) == ["too-large"]


class TestCopies:
    def test_log_and_flat_file_of_one_chat(self, tmp_path: Path) -> None:
        """After an upgrade both are there; the log goes on where the flat file ended."""
        put(tmp_path, "chatSessions/s.json", chat(request(1)))
        line = {"kind": 0, "v": chat(request(1), request(2), customTitle="Later")}
        put(tmp_path, "chatSessions/s.jsonl", json.dumps(line) + "\n")
        made = one(tmp_path)
        assert [w for _, w in words(made)] == ["question 1", "answer 1", "question 2", "answer 2"]
        assert made.title == "Later"

    def test_logs_of_two_ages(self, tmp_path: Path) -> None:
        """The older one still has the requests that were then undone, one after the other."""
        lines: list[Any] = [{"kind": 0, "v": chat(request(1), request(2), request(3))}]
        put(tmp_path, "a/chatSessions/s.jsonl", json.dumps(lines[0]) + "\n")
        lines += [{"kind": 2, "k": ["requests"], "i": left} for left in (2, 1)]
        lines.append({"kind": 2, "k": ["requests"], "v": [request(4)]})
        put(tmp_path, "b/chatSessions/s.jsonl", "".join(json.dumps(x) + "\n" for x in lines))
        made = one(tmp_path)
        assert [w for _, w in words(made)] == ["question 1", "answer 1", "question 4", "answer 4"]
        (undone,) = made.branches
        assert [m.content for m in undone.messages][::2] == ["question 2", "question 3"]

    def test_a_vote_is_only_in_the_export(self, tmp_path: Path) -> None:
        bare = request(1, result={"metadata": {"sessionId": "s"}})
        put(tmp_path, "chatSessions/s.jsonl", json.dumps({"kind": 0, "v": chat(bare)}) + "\n")
        voted = {"responderUsername": "x", "requests": [{**bare, "vote": 0}]}
        put(tmp_path, "export.json", voted)
        made = one(tmp_path)
        assert (made.messages[1].extra or {})["vote"] == "down"

    def test_a_vote_in_an_export_of_another_id(self, tmp_path: Path) -> None:
        """Copilot Chat had an id of its own: the export is the stored chat, and has its votes."""
        bare = request(1, result={"metadata": {"sessionId": "copilots-own"}})
        put(tmp_path, "chatSessions/s.jsonl", json.dumps({"kind": 0, "v": chat(bare)}) + "\n")
        voted = {**bare, "vote": 0, "voteDownReason": "incorrectCode"}
        put(tmp_path, "export.json", {"responderUsername": "x", "requests": [voted]})
        for made in ([one(tmp_path)], list(unspool.extract([tmp_path]))):
            (found,) = made
            assert found.conversation_id == "s"
            extra = found.messages[1].extra or {}
            assert (extra["vote"], extra["vote_down_reason"]) == ("down", "incorrectCode")

    def test_the_copy_that_went_on_wins(self, tmp_path: Path) -> None:
        """Requests that only the older copy holds were taken back in the newer one."""
        put(tmp_path, "a/chatSessions/s.json", chat(request(1), request(2), request(3)))
        put(tmp_path, "b/chatSessions/s.json", chat(request(1), request(4), request(5)))
        made = one(tmp_path)
        assert [m.id for m in made.messages if m.role == "user"] == [
            "request_1", "request_4", "request_5",
        ]  # fmt: skip
        (branch,) = made.branches or ()
        assert [m.id for m in branch.messages if m.role == "user"] == ["request_2", "request_3"]

    def test_a_shorter_copy_takes_nothing_away(self, tmp_path: Path) -> None:
        put(tmp_path, "a/chatSessions/s.json", chat(request(1), request(2)))
        put(tmp_path, "b/chatSessions/s.json", chat(request(1)))
        made = one(tmp_path)
        assert len(made.messages) == 4
        assert made.branches is None

    def test_half_a_turn_and_the_whole_of_it(self, tmp_path: Path) -> None:
        """One copy was made while the model was still at work."""
        half = request(1, response=[{"value": "I"}], modelState={"value": 0})
        rounds = [{"id": "r", "response": "I am done.", "toolCalls": []}]
        whole = request(1, response=[{"value": "I am done."}], modelState={"value": 1})
        whole["result"] = {"metadata": {"toolCallRounds": rounds}}
        put(tmp_path, "a/chatSessions/s.json", chat(half))
        put(tmp_path, "b/chatSessions/s.json", chat(whole))
        assert words(one(tmp_path)) == [("user", "question 1"), ("assistant", "I am done.")]


@pytest.mark.parametrize(
    "part",
    [
        {"$mid": 24, "mimeType": "image/png", "data": {"0": 104, "1": 105}, "audience": [0]},
        {"$mid": 24, "mimeType": "image/png", "data": {"$base64": "aGk="}},
        {"$mid": 24, "value": {"mimeType": "image/png", "data": {"$base64": "aGk="}}},
    ],
)
def test_a_tool_may_give_the_model_a_picture(tmp_path: Path, part: dict[str, Any]) -> None:
    """A data part holds its bytes itself; a text part and a rendered prompt have a `value`."""
    rounds = [{"id": "r", "response": "I look.", "toolCalls": [{"id": "c1", "name": "t"}]}]
    results = {"c1": {"$mid": 20, "content": [{"$mid": 21, "value": "one"}, part]}}
    metadata = {"toolCallRounds": rounds, "toolCallResults": results}
    whole = chat(request(1, response=[], result={"metadata": metadata}))
    (result,) = [m for m in one(put(tmp_path, "x.json", whole)).messages if m.role == "tool"]
    assert result.content == "one"
    assert [(a.kind, a.media_type, a.data) for a in result.attachments or ()] == [
        ("image", "image/png", "aGk=")
    ]


class TestPlaces:
    """With the model's rounds, what was shown stands with the round that it belongs to."""

    def answered(self, response: list[Any], rounds: list[Any]) -> dict[str, Any]:
        results = {"c1": {"content": [{"value": "one"}]}, "c2": {"content": [{"value": "two"}]}}
        metadata = {"toolCallRounds": rounds, "toolCallResults": results}
        return chat(request(1, response=response, result={"metadata": metadata}))

    def parts(self, path: Path) -> list[list[str]]:
        answers = [m for m in one(path).messages if m.role == "assistant"]
        held = [(m.extra or {}).get("parts", []) for m in answers]
        return [[part.get("id") or part["kind"] for part in parts] for parts in held]

    def tool(self, ident: str) -> dict[str, Any]:
        return {"kind": "toolInvocationSerialized", "toolId": "t", "toolCallId": ident,
                "invocationMessage": "x", "isComplete": True}  # fmt: skip

    def rounds(self) -> list[Any]:
        return [
            {"id": "r1", "response": "First.", "toolCalls": [{"id": "c1", "name": "t"}]},
            {"id": "r2", "response": "Second.", "toolCalls": [{"id": "c2", "name": "t"}]},
            {"id": "r3", "response": "Last.", "toolCalls": []},
        ]

    def test_by_calls_words_and_undo_stops(self, tmp_path: Path) -> None:
        stop = {"kind": "undoStop", "id": "c2"}
        edit = {"kind": "textEditGroup", "uri": {"scheme": "file", "path": "/a.py"}, "edits": []}
        response = [
            {"kind": "progressMessage", "id": "p0"}, {"value": "First."},
            {"kind": "progressMessage", "id": "p1"}, self.tool("c1"),
            {"kind": "progressMessage", "id": "p2"}, {"value": "Second."},
            {"kind": "progressMessage", "id": "p3"}, stop, edit, {"value": "Last."},
            {"kind": "progressMessage", "id": "p4"},
        ]  # fmt: skip
        path = put(tmp_path, "x.json", self.answered(response, self.rounds()))
        assert self.parts(path) == [["p0", "p1", "p2"], ["p3", "c2", "textEditGroup"], ["p4"]]
        first, second = (m for m in one(path).messages if m.tool_calls)
        assert (first.extra or {})["parts_at"] == [0, 0, 1]
        assert (second.extra or {})["parts_at"] == [0, 1, 1]
        (file,) = one(path).files or ()
        assert file.tool_call_id == "c2"

    def test_only_the_end_of_an_answer_was_undone(self, tmp_path: Path) -> None:
        """The person went back to a checkpoint inside of it: what stands behind is marked."""

        def edit(name: str) -> dict[str, Any]:
            uri = {"scheme": "file", "path": f"/{name}.py"}
            return {"kind": "textEditGroup", "uri": uri, "edits": []}

        response = [
            {"value": "First."}, {"kind": "undoStop", "id": "c1"}, edit("kept"),
            {"value": "Second."}, {"kind": "undoStop", "id": "c2"}, edit("gone"), {"value": "Last."},
        ]  # fmt: skip
        value = self.answered(response, self.rounds())
        held = {"requestId": "request_1", "afterUndoStop": "c2"}
        value["requests"][0]["shouldBeRemovedOnSend"] = held
        made = one(put(tmp_path, "x.json", value))
        assert [(m.content, m.status) for m in made.messages if m.role != "tool"] == [
            ("question 1", None), ("First.", None), ("Second.", None), ("Last.", "undone"),
        ]  # fmt: skip
        assert [(f.path, f.outcome) for f in made.files or ()] == [
            ("/kept.py", None), ("/gone.py", "undone"),
        ]  # fmt: skip

    def test_words_that_were_taken_back(self, tmp_path: Path) -> None:
        """A filter took them out of what the person sees: they are no part of the answer."""
        clear = {"kind": "clearToPreviousToolInvocation", "reason": 2}
        response = [
            {"value": "First."}, self.tool("c1"), {"value": "Copied code"}, clear,
            {"value": "Second."}, self.tool("c2"), {"value": "Last."},
        ]  # fmt: skip
        for rounds in (self.rounds(), []):
            made = one(put(tmp_path, "x.json", self.answered(response, rounds)))
            answers = [m for m in made.messages if m.role == "assistant"]
            assert "Copied code" not in "".join(m.content for m in answers)
            extra = answers[-1].extra or {}
            assert extra["cleared"] == [{"reason": 2, "text": "Copied code"}]
            assert "parts" not in extra

    def test_words_that_no_round_says_are_kept(self, tmp_path: Path) -> None:
        response = [{"value": "First."}, self.tool("c1"), {"value": "Compacted."}, self.tool("c2")]
        path = put(tmp_path, "x.json", self.answered(response, self.rounds()))
        assert [m.content for m in one(path).messages if m.role == "assistant"] == [
            "First.", "Second.", "Last.",
        ]  # fmt: skip
        assert self.parts(path)[0] == ["markdownContent"]

    def test_a_thought_that_the_round_has_otherwise(self, tmp_path: Path) -> None:
        rounds = self.rounds()
        rounds[0]["thinking"] = {"id": "rs_7", "text": "As the model thought."}
        response = [{"kind": "thinking", "value": "As it was shown.", "id": "t1"}, self.tool("c1")]
        made = one(put(tmp_path, "x.json", self.answered(response, rounds)))
        answer = made.messages[1]
        assert answer.thinking == "As the model thought."
        thoughts = (answer.extra or {})["thoughts"]
        assert thoughts == [{"id": "t1", "value": "As it was shown."}, {"id": "rs_7"}]
