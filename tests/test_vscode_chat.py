"""VS Code chats: the notes of the format, whose a file is, real chats."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import CASES, corpus, facts_of, origins_of
from tests.vscode import INPUTS, chat, codes, one, put, request, words
from unspool import sources
from unspool.facts import Problem
from unspool.io.origins import Head, read_head
from unspool.sinks import Family
from unspool.sinks.chat_json import write
from unspool.sources.vscode_chat import claims
from unspool.sources.vscode_chat import places as usual_places
from unspool.sources.vscode_chat.model import CHAT
from unspool.sources.vscode_chat.mutations import MUTATION, Replay
from unspool.trajectory import Message, Trajectory


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
        failed, cancelled = self.by_role(export, "assistant")[3:]
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
        assert [extra.get("vote") for extra in extras] == ["up", None, "down", None, None]
        assert extras[2]["vote_down_reason"] == "incompleteCode"

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

    def test_store_of_an_other_product(self) -> None:
        magic = b"SQLite format 3\0"
        assert claims(Head("/u/Code/User/globalStorage/state.vscdb", magic, True))
        assert not claims(Head("/u/Cursor/User/globalStorage/state.vscdb", magic, True))
        assert not claims(Head("/x/state.vscdb", magic + b"cursorDiskKV", True))
        assert not claims(Head("/x/Cursor/User/globalStorage/state.vscdb", magic, True))
        assert claims(Head("/x/cursor/Code/User/globalStorage/state.vscdb", magic, True))
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
            assert replay.apply(MUTATION.decode(line))
        expected = json.loads((folder / "live.expected-state.json").read_text())
        wrong: list[str] = []
        assert CHAT.convert(replay.state, wrong) == CHAT.convert(expected, wrong)
        assert wrong == []

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


def _model_call(ident: str, messages: list[Any], answer: str) -> dict[str, Any]:
    return {"id": ident, "kind": "request", "name": "panel/editAgent",
            "metadata": {"model": "m", "location": 7, "ourRequestId": "our"},
            "requestMessages": {"messages": messages},
            "response": {"type": "success", "message": [answer]}}  # fmt: skip


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_replay_has_its_reasoning_with_the_tools(tmp_path: Path, goes_on: bool) -> None:
    opening = [{"role": 1, "content": [{"type": 1, "text": "look"}]}]
    calls = [{"id": c, "function": {"name": "t", "arguments": "{}"}} for c in ("c1", "c2")]
    later = [*opening, {"role": 2, "content": "Looking.", "toolCalls": calls}]
    thought = {"id": "x", "text": ["Hm, ", "so."]}
    logs = [_model_call("r1", opening, "Looking."),
            *({"id": c, "kind": "toolCall", "tool": "t", "args": "{}", "response": [c],
               "thinking": thought, "toolMetadata": {"n": 1}} for c in ("c1", "c2")),
            *([_model_call("r2", later, "Seen.")] if goes_on else [])]  # fmt: skip
    made = one(put(tmp_path, "x.chatreplay.json", {"prompts": [{"prompt": "look", "logs": logs}]}))
    first = next(m for m in made.messages if m.role == "assistant")
    assert (first.content, first.thinking) == ("Looking.", "Hm, so.")
    assert [c.extra for c in first.tool_calls or ()] == [{"metadata": {"n": 1}}] * 2


@pytest.mark.parametrize("kind", ["command", "confirmation", "systemNotification"])
def test_words_behind_a_block_of_its_own_are_a_new_paragraph(tmp_path: Path, kind: str) -> None:
    response = [{"value": "One."}, {"kind": kind, "title": "t"}, {"value": "Two"}, {"value": "."}]
    made = one(put(tmp_path, "s.json", chat(request(1, response=response))))
    assert made.messages[1].content == "One.\n\nTwo."


def test_what_the_program_sent_by_itself_was_typed_by_nobody(tmp_path: Path) -> None:
    sent = {"metadata": {"renderedUserMessage": [{"type": 1, "text": "<note>finished</note>"}]}}
    asked = [request(1, isSystemInitiated=True), request(2, isSystemInitiated=True, result=sent)]
    made = one(put(tmp_path, "s.json", chat(*asked)))
    first, second = (m for m in made.messages if m.role == "user")
    assert [(m.kind, m.typed) for m in (first, second)] == [("notification", None)] * 2
    assert (first.content, second.content) == ("question 1", "<note>finished</note>")
    (piece,) = write(Family(made), {})
    again = one(put(tmp_path / "again", "s.json", json.loads(piece.data)))
    assert again.messages == made.messages
    assert json.loads(piece.data)["requests"][1]["message"]["text"] == "question 2"


def test_a_bad_line_is_told_by_its_place(tmp_path: Path) -> None:
    first = json.dumps({"kind": 0, "v": chat(request(1))}) + "\n"
    path = put(tmp_path, "s.jsonl", first + "GARBAGE\n")
    (problem,) = (f for _, f in facts_of(origins_of(path)) if isinstance(f, Problem))
    assert (problem.code, problem.offset) == ("invalid-json", len(first))
