"""VS Code chats: the notes of the format, the stores around them, bad input, real chats."""

import base64
import copy
import gzip
import hashlib
import json
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unspool
from tests.harness import CASES, PEAK_KB, corpus, facts_of, origins_of, reduce_all
from unspool import sources
from unspool.facts import Problem
from unspool.origins import Head, Tally, read_head
from unspool.sources.vscode_chat import archives, claims
from unspool.sources.vscode_chat import places as usual_places
from unspool.sources.vscode_chat.mutations import Replay, decode_mutation
from unspool.sources.vscode_chat.store import session_id
from unspool.trajectory import Message, Trajectory

INPUTS = CASES / "vscode_chat"
START = 1_760_000_000_000


def read(path: Path | str) -> list[Trajectory]:
    return reduce_all(facts_of(origins_of(path)))


def one(path: Path | str) -> Trajectory:
    (trajectory,) = read(path)
    return trajectory


def codes(path: Path | str) -> list[str]:
    return [f.code for _, f in facts_of(origins_of(path)) if isinstance(f, Problem)]


def put(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def request(number: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {
        "requestId": f"request_{number}",
        "message": {"text": text or f"question {number}", "parts": []},
        "response": [{"value": f"answer {number}"}],
        "responseId": f"response_{number}",
        "timestamp": START + number * 60_000,
        **more,
    }


def chat(*requests: Any, session: str = "s", **more: Any) -> dict[str, Any]:
    return {"version": 3, "responderUsername": "GitHub Copilot", "sessionId": session,
            "creationDate": START, "requests": list(requests), **more}  # fmt: skip


def words(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(m.role, m.typed if m.typed is not None else m.content) for m in trajectory.messages]


class TestNotes:
    """The eleven notes that the format's description ends with."""

    @pytest.fixture
    def export(self) -> Trajectory:
        return one(INPUTS / "export_notes" / "input")

    def by_role(self, export: Trajectory, role: str) -> list[Message]:
        return [m for m in export.messages if m.role == role]

    def test_1_order(self, export: Trajectory) -> None:
        users = self.by_role(export, "user")
        assert [m.id for m in users] == ["request_a", "request_b", "request_c", "request_d"]
        assert [m.turn for m in users] == [0, 1, 2, 3]

    def test_2_user_text(self, export: Trajectory) -> None:
        rebuilt, plain = self.by_role(export, "user")[:2]
        assert rebuilt.typed == "@workspace /explain the queue in #codebase"
        assert plain.typed == "Drain it on SIGTERM too"
        old = one(INPUTS / "plain_strings" / "input")
        assert old.messages[0].typed == "What is a monad?"

    def test_3_answer_text(self, export: Trajectory) -> None:
        first = self.by_role(export, "assistant")[0]
        assert first.content == (
            "The queue lives in [queue.py](file:///srv/app/queue.py)"
            " and [drains](file:///srv/app/drain.py) on close."
        )

    def test_4_times(self, export: Trajectory) -> None:
        user, answer = export.messages[:2]
        assert user.timestamp == "2025-10-09T08:53:20.000Z"
        assert answer.timestamp == "2025-10-09T08:53:25.000Z"
        assert answer.duration_ms == 5000

    def test_5_errors(self, export: Trajectory) -> None:
        failed, cancelled = self.by_role(export, "assistant")[2:]
        assert (failed.kind, failed.status, failed.stop_reason) == (
            "error",
            "failed",
            "rateLimited",
        )
        assert failed.extra is not None
        assert failed.extra["error"]["responseIsIncomplete"] is True
        assert cancelled.status == "cancelled"

    def test_6_tools(self, export: Trajectory) -> None:
        answer = self.by_role(export, "assistant")[1]
        (call,) = answer.tool_calls or ()
        assert call.name == "read_file"
        assert call.extra is not None
        assert call.extra["tool_id"] == "copilot_readFile"
        assert call.extra["invocation"] == "Reading queue.py"
        (result,) = self.by_role(export, "tool")
        assert result.content == "def drain(): ..."
        assert result.details[0]["path"] == "/srv/app/queue.py"

    def test_7_edits(self, export: Trajectory) -> None:
        (file,) = export.files or ()
        assert (file.path, file.lines_added, file.lines_removed) == ("/srv/app/queue.py", 2, 2)
        assert file.outcome == "accepted"

    def test_8_votes(self, export: Trajectory) -> None:
        extras = [m.extra or {} for m in self.by_role(export, "assistant")]
        assert [extra.get("vote") for extra in extras] == ["up", "down", None, None]
        assert extras[1]["vote_down_reason"] == "incompleteCode"

    def test_9_context(self, export: Trajectory) -> None:
        extra = self.by_role(export, "assistant")[0].extra or {}
        (document,) = extra["used_context"]["documents"]
        assert document["ranges"][0]["startLineNumber"] == 4
        assert extra["content_references"][0]["options"]["status"]["kind"] == 1
        assert extra["code_citations"][0]["license"] == "MIT"

    def test_10_agent(self, export: Trajectory) -> None:
        extra = self.by_role(export, "user")[0].extra or {}
        assert extra["agent"]["id"] == "github.copilot.workspace"
        assert extra["slash_command"]["name"] == "explain"

    def test_11_followups(self, export: Trajectory) -> None:
        extra = self.by_role(export, "assistant")[0].extra or {}
        assert extra["followups"][0]["message"] == "How is it tested?"


class TestClaims:
    @pytest.mark.parametrize("path", sorted(INPUTS.rglob("input/**/*.json*")), ids=str)
    def test_own(self, path: Path) -> None:
        assert sources.recognise(read_head(str(path))) == "vscode-chat"

    def test_of_others(self) -> None:
        for path in sorted(CASES.rglob("input/**/*")):
            ours = {"vscode_chat", "chatSessions", "workspace.json"}.intersection(path.parts)
            if path.is_file() and not ours:
                assert not claims(read_head(str(path))), path

    def test_a_line_longer_than_the_head(self) -> None:
        data = b'{"kind":0,"v":{"version":3,"requests":[{"x":"' + b"A" * 70_000
        assert claims(Head("/x/chatSessions/a.jsonl", data[:65536], whole=False))

    def test_damaged_chats_by_their_place(self, tmp_path: Path) -> None:
        lines = ["\0\0\0{torn", json.dumps({"kind": 0, "v": chat(request(1))})]
        path = put(tmp_path, "chatSessions/s.jsonl", "\n".join(lines) + "\n")
        assert words(one(path)) == [("user", "question 1"), ("assistant", "answer 1")]
        assert codes(path) == ["invalid-json"]

    def test_a_log_with_its_fields_in_another_order(self, tmp_path: Path) -> None:
        line = {"v": chat(request(1)), "kind": 0}
        assert words(one(put(tmp_path, "x.jsonl", json.dumps(line) + "\n")))[0][1] == "question 1"

    def test_store_of_an_other_product(self) -> None:
        magic = b"SQLite format 3\0"
        assert claims(Head("/u/Code/User/globalStorage/state.vscdb", magic, True))
        assert not claims(Head("/u/Cursor/User/globalStorage/state.vscdb", magic, True))
        assert not claims(Head("/x/state.vscdb", magic + b"cursorDiskKV", True))
        assert not claims(Head("/x/other.db", magic, True))

    def test_places(self) -> None:
        home = Path("/home/dana")
        found = usual_places(home, {}, "linux")
        assert home / ".config" / "Code" / "User" / "workspaceStorage" in found
        moved = usual_places(home, {"XDG_CONFIG_HOME": "/x"}, "linux")
        assert Path("/x/Code/User/globalStorage") in moved
        windows = usual_places(home, {"APPDATA": "/r"}, "win32")
        assert Path("/r/Code - Insiders/User/workspaceStorage") in windows
        library = home / "Library" / "Application Support"
        assert library / "VSCodium" / "User" / "workspaceStorage" in usual_places(
            home, {}, "darwin"
        )


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

    def test_of_something_else(self, tmp_path: Path) -> None:
        path = self.archive(tmp_path, other_json={"requests": []})
        assert sources.recognise(read_head(str(path))) is None

    def test_cut_off(self, tmp_path: Path) -> None:
        path = self.archive(tmp_path, chat_json={"responderUsername": "x", "requests": []})
        path.write_bytes(path.read_bytes()[:60])
        assert codes(tmp_path) == ["unreadable"]

    def test_longer_than_it_may_be(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(archives, "LARGEST_BYTES", 100)
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


JUNK = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", [], {}, [None], {"kind": 3}, [[]], "\ud800"]
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found += paths_in(item, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = junk
    return value


@pytest.mark.parametrize("name", ["part_kinds", "attachments", "export_notes"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wrong_types_anywhere(name: str, tmp_path: Path, data: st.DataObject) -> None:
    """Any value of any field may be anything: the other requests are still read."""
    (path,) = sorted((INPUTS / name / "input").rglob("*.json"))
    value = json.loads(path.read_text())
    value["requests"].append(request(99, "still here"))
    places_ = [
        p
        for p in paths_in(value)
        if p[0] == "requests" and len(p) > 1 and p[1] != len(value["requests"]) - 1
    ]
    spoilt = replaced(value, data.draw(st.sampled_from(places_)), data.draw(JUNK))
    made = read(put(tmp_path, "chat.json", spoilt))
    assert any(m.typed == "still here" for t in made for m in t.messages)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wrong_types_anywhere_in_a_log(tmp_path: Path, data: st.DataObject) -> None:
    (path,) = sorted((INPUTS / "rounds_in_log" / "input").rglob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    number = data.draw(st.integers(1, len(lines) - 1))
    place = data.draw(st.sampled_from(paths_in(lines[number])))
    lines[number] = replaced(lines[number], place, data.draw(JUNK))
    lines.append({"kind": 2, "k": ["requests"], "v": [request(99, "still here")]})
    made = read(put(tmp_path, "log-1.jsonl", "\n".join(json.dumps(line) for line in lines)))
    assert any(m.typed == "still here" for t in made for m in t.messages)


class TestBadInput:
    def test_problems_are_counted(self) -> None:
        assert sorted(set(codes(INPUTS / "wrong_types" / "input"))) == [
            "missing-request-id", "part-not-an-object", "repeated-request-id", "wrong-type",
        ]  # fmt: skip
        assert codes(INPUTS / "log_torn" / "input") == ["truncated-json"]
        assert "no-initial-state" in codes(INPUTS / "log_headless" / "input")
        assert codes(INPUTS / "cut_off" / "input") == ["truncated-json"]
        assert codes(INPUTS / "spoilt" / "input") == ["invalid-json"]
        assert codes(INPUTS / "repeated_calls" / "input") == ["repeated-call-id"]

    def test_a_torn_initial_state(self, tmp_path: Path) -> None:
        """Most logs begin with the whole chat: what stands before the tear is read."""
        line = json.dumps({"kind": 0, "v": chat(request(1), request(2), request(3))})
        path = put(tmp_path, "chatSessions/s.jsonl", line[: line.index("answer 3")])
        made = one(path)
        assert [w for _, w in words(made)][:5] == [
            "question 1", "answer 1", "question 2", "answer 2", "question 3",
        ]  # fmt: skip
        assert codes(path) == ["truncated-json"]

    def test_a_torn_state_takes_nothing_away(self, tmp_path: Path) -> None:
        lines = [json.dumps({"kind": 0, "v": chat(*(request(n) for n in (1, 2, 3)))})] * 2
        text = lines[0] + "\n" + lines[1][: lines[1].index("answer 2")]
        path = put(tmp_path, "chatSessions/s.jsonl", text)
        assert len(one(path).messages) == 6
        assert one(path).branches is None

    def test_repeated_answers_and_rounds(self, tmp_path: Path) -> None:
        """Answers of two requests are two, whatever their ids."""
        rounds = [{"id": "same", "response": f"round {n}", "toolCalls": []} for n in (1, 2)]
        made = [request(n, responseId="again") for n in (1, 2)]
        made.append(request(3, result={"metadata": {"toolCallRounds": rounds}}))
        path = put(tmp_path, "chatSessions/x.json", chat(*made))
        said = [m.content for m in one(path).messages if m.role == "assistant"]
        assert said == ["answer 1", "answer 2", "round 1", "round 2"]
        assert codes(path) == ["repeated-answer-id", "repeated-answer-id"]

    def test_unknown_kinds_are_counted_and_kept(self) -> None:
        tally = Tally()
        facts_of(origins_of(INPUTS / "part_kinds" / "input"), tally)
        assert tally.unknown == {"part hologram": 1}
        made = one(INPUTS / "part_kinds" / "input")
        kept = [part for m in made.messages for part in (m.extra or {}).get("parts", ())]
        assert {"kind": "hologram", "beam": 42} in kept

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "null",
            '{"requests": 5, "responderUsername": ""}',
            '{"kind":0,"v":3}',
            '{"kind":9}\n{"kind":1,"k":["a"]}',
        ],
    )
    def test_next_to_nothing(self, tmp_path: Path, text: str) -> None:
        assert read(put(tmp_path, "chatSessions/x.json", text)) == []

    @pytest.mark.parametrize("log", [False, True], ids=["flat", "log"])
    def test_damaged_packed_file(self, tmp_path: Path, log: bool) -> None:
        """Half a packed chat is the first half of its requests."""
        many = [request(n, hashlib.sha512(bytes([n])).hexdigest() * 40) for n in range(1, 40)]
        lines: list[Any] = [chat(*many)]
        if log:
            pushes = [{"kind": 2, "k": ["requests"], "v": [held]} for held in many]
            lines = [{"kind": 0, "v": chat()}, *pushes]
        text = "\n".join(json.dumps(line) for line in lines).encode()
        packed = gzip.compress(text)
        path = tmp_path / ("s.jsonl.gz" if log else "s.json.gz")
        path.write_bytes(packed[: len(packed) // 2])
        made = one(path)
        assert 4 < len(made.messages) < 78
        assert codes(path)

    def test_deeply_nested(self, tmp_path: Path) -> None:
        deep = '{"requests":' + "[" * 3000 + "]" * 3000 + ',"responderUsername":""}'
        path = put(tmp_path, "chatSessions/x.json", deep)
        assert read(path) == []
        assert codes(path)


MEASURE = (
    PEAK_KB
    + """
import sys
from unspool.origins import Origin, Tally
from unspool import sources
source = sources.load("vscode-chat")
before = peak_kb()
facts = source.read(Origin(sys.argv[1], "x"), Tally())
found = [a for f in facts for a in getattr(f, "attachments", ())]
after = peak_kb()
print(after - before, found[0].size_bytes, found[0].sha256, found[0].media_type, len(found[0].data))
"""
)


@pytest.mark.parametrize("form", ["flat", "log", "unknown-field", "wrong-type"])
def test_a_huge_line_with_an_image(tmp_path: Path, form: str) -> None:
    """The image becomes a reference; the whole process takes at most four times the line."""
    raw = b"\x89PNG" + bytes(range(256)) * 180_000
    image = {"kind": "image", "id": "i", "name": "big.png", "mimeType": "image/png",
             "value": {"$base64": base64.b64encode(raw).decode()}}  # fmt: skip
    more = {"unknown-field": {"unheardOf": 1}, "wrong-type": {"responseId": 5}}.get(form, {})
    value = chat(request(1, variableData={"variables": [image]}, **more))
    path = tmp_path / ("s.jsonl" if form == "log" else "s.json")
    line = {"kind": 0, "v": value} if form == "log" else value
    path.write_bytes(msgspec.json.encode(line) + b"\n")
    made = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    peak, size, sha256, media_type, kept = made.stdout.split()
    assert int(size) == len(raw)
    assert sha256 == hashlib.sha256(raw).hexdigest()
    assert (media_type, kept) == ("image/png", "0")
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(peak) * unit <= 4 * path.stat().st_size


class TestRealChats:
    @pytest.fixture
    def folder(self) -> Path:
        found = corpus("vscode", "chat-sessions")
        if found is None:
            pytest.skip("no corpus here")
        return found

    def test_replayed_log_is_the_state_that_vscode_has(self, folder: Path) -> None:
        replay = Replay()
        for line in (folder / "live.session.jsonl").read_bytes().splitlines():
            assert replay.apply(decode_mutation(line))
        assert replay.state == json.loads((folder / "live.expected-state.json").read_text())

    def test_three_forms_of_one_chat(self, folder: Path) -> None:
        flat, log, export = (
            one(folder / name)
            for name in ("real8.session.json", "real8.session.jsonl", "real8.reexport.chat.json")
        )
        for other in (log, export):
            assert words(other) == words(flat)
            assert [_calls(m) for m in other.messages] == [_calls(m) for m in flat.messages]
            assert other.files == flat.files
        assert export.conversation_id != flat.conversation_id
        together = list(unspool.extract(sorted(str(p) for p in folder.glob("real8.*"))))
        assert [words(t) for t in together] == [words(flat)]
        assert together[0].conversation_id == flat.conversation_id
        assert not any(message.copied for message in together[0].messages)

    def test_replay_of_a_request_log(self) -> None:
        path = corpus("vscode", "chatreplay", "spec.chatreplay.json")
        if path is None:
            pytest.skip("no corpus here")
        made = one(path)
        assert [m.role for m in made.messages] == [
            "system", "user", "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
            "assistant",
        ]  # fmt: skip
        assert [m.typed for m in made.messages if m.role == "user" and m.kind is None] == [
            'create a file that says \n"hello"', "change it to (goodbye)",
        ]  # fmt: skip


def _calls(message: Message) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in message.tool_calls or ()]
