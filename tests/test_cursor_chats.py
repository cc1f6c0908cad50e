"""Command-line chats of Cursor, alone and beside the other stores of the same conversation."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.cursor_stores import bubble, rows_of, tool, write_chat, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.trajectory import Trajectory


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def said(role: str, *blocks: dict[str, Any], **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"role": role, "content": list(blocks)}
    return {**made, "providerOptions": {"cursor": options}} if options else made


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


CHAT = [
    {"role": "system", "content": "You are an agent."},
    said("user", text("<user_info>\nOS: linux\n</user_info>")),
    said("user", text("<timestamp>Thursday, Oct 9, 2025, 10:53 AM (UTC+2)</timestamp>\n"
                      "<user_query>\nlist it\n</user_query>")),
    said("assistant", {"type": "reasoning", "text": "ls then"}, text("Listing."),
         {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}},
         requestId="r1", modelName="cli-model"),
    said("tool", {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "a b"}),
    said("user", text("<user_query>\nagain\n</user_query>")),
    said("assistant", text("Two files.")),
    said("user", text("<user_query>\nagain\n</user_query>")),
    said("assistant", text("Still two.")),
]  # fmt: skip


def test_a_chat_of_the_command_line_is_walked_from_its_root(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor/chats/0123/chat-1"
    write_chat(
        folder / "store.db", CHAT, name="Listing", mode="default", lastUsedModel="last-model"
    )
    (folder / "meta.json").write_text(
        json.dumps({"schemaVersion": 1, "createdAtMs": 1760000000000, "cwd": "/w/p"})
    )
    made = only(tmp_path)
    assert [(m.role, m.typed or m.content, m.kind) for m in made.messages] == [
        ("system", "You are an agent.", None),
        ("user", "<user_info>\nOS: linux\n</user_info>", "injected"),
        ("user", "list it", None),
        ("assistant", "Listing.", None),
        ("tool", "a b", None),
        ("user", "again", None),
        ("assistant", "Two files.", None),
        ("user", "again", None),
        ("assistant", "Still two.", None),
    ]
    assert made.messages[2].timestamp == "2025-10-09T08:53:00.000Z"
    assert (made.messages[3].model, made.messages[3].thinking) == ("cli-model", "ls then")
    assert made.messages[6].model == "last-model"
    assert (made.title, made.workspace and made.workspace.path) == ("Listing", "/w/p")


def test_nodes_below_the_root_and_references_in_other_fields(tmp_path: Path) -> None:
    data = [json.dumps(message).encode() for message in CHAT]
    ids = [hashlib.sha256(blob).digest() for blob in data]
    inner = b"\x12\x20" + ids[2] + b"\x12\x20" + ids[3]
    root = (
        b"\x0a\x20" + ids[0]
        + b"\x22" + bytes([34]) + b"\x0a\x20" + hashlib.sha256(inner).digest()
        + b"\x0a\x20" + ids[4] + b"\xd0\x01\x05"
        + b"\x42\x20" + ids[4]
    )  # fmt: skip
    path = tmp_path / "store/store.db"
    write_chat(path, [*data, inner], root=root)
    assert [m.typed or m.content for m in only(path.parent).messages] == [
        "You are an agent.",
        "list it",
        "Listing.",
        "a b",
    ]


def test_a_chat_without_a_root_is_read_by_its_richest_node(tmp_path: Path) -> None:
    write_chat(tmp_path / "c/store.db", CHAT, latestRootBlobId="gone")
    assert len(only(tmp_path).messages) == 9


def test_a_summary_in_a_chat_is_a_compaction(tmp_path: Path) -> None:
    write_chat(tmp_path / "c/store.db", [said("user", text("So far: …"), isSummary=True), CHAT[-1]])
    made = only(tmp_path)
    assert made.messages[0].kind == "summary"
    assert [mark.kind for mark in made.marks or ()] == ["compaction"]


def test_store_wins_over_bubbles_and_stream(tmp_path: Path) -> None:
    write_chat(tmp_path / "chats/0/chat-1/store.db", CHAT[2:5])
    write_editor(
        tmp_path / "Cursor/User/globalStorage/state.vscdb",
        rows_of(
            {"composerId": "chat-1", "name": "From the editor"},
            bubble("1", 1, "list it", requestId="r1"),
            bubble("2", 2, "Listing.", modelInfo={"modelName": "other"}),
            tool("3", "run_terminal_cmd", "other-id", {"command": "ls"}, {"output": "a  b"}),
        ),
    )
    events = [
        {"type": "system", "subtype": "init", "session_id": "chat-1", "cwd": "/w/p", "model": "m"},
        {"type": "user", "session_id": "chat-1", "message": {"content": [text("list it")]}},
        {"type": "assistant", "session_id": "chat-1", "model_call_id": "mc",
         "timestamp_ms": 1760000000000, "message": {"content": [text("Listing.")]}},
        {"type": "tool_call", "subtype": "started", "call_id": "c1", "model_call_id": "mc",
         "session_id": "chat-1", "tool_call": {"shellToolCall": {"args": {"command": "ls"}}}},
        {"type": "tool_call", "subtype": "completed", "call_id": "c1", "model_call_id": "mc",
         "session_id": "chat-1", "tool_call": {"shellToolCall": {
             "args": {"command": "ls"}, "result": {"success": {"stdout": "a b"}}}}},
        {"type": "result", "subtype": "success", "session_id": "chat-1", "request_id": "run-1",
         "usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 0}},
    ]  # fmt: skip
    (tmp_path / "stream.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    made = only(tmp_path)
    assert [(m.role, m.typed or m.content) for m in made.messages] == [
        ("user", "list it"),
        ("assistant", "Listing."),
        ("tool", "a b"),
    ]
    assert [c.id for c in made.messages[1].tool_calls or ()] == ["c1"]
    assert made.messages[1].model == "cli-model"
    assert (made.title, made.workspace and made.workspace.path) == ("From the editor", "/w/p")
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.cached_tokens) == (8, 3)


def test_a_chat_knows_its_folder_by_its_root_and_its_fields_by_rows(tmp_path: Path) -> None:
    blobs = [json.dumps(message).encode() for message in CHAT[2:4]]
    root = b"".join(b"\x0a\x20" + hashlib.sha256(blob).digest() for blob in blobs)
    root += b"\x4a\x04/w/p"
    path = write_chat(tmp_path / "chat-9/store.db", blobs, root=root)
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM meta")
    rows = {
        "agentId": "chat-9",
        "latestRootBlobId": hashlib.sha256(root).hexdigest(),
        "name": "Rows",
    }
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
    connection.commit()
    connection.close()
    made = only(tmp_path)
    assert (made.title, made.workspace and made.workspace.path) == ("Rows", "/w/p")


def test_two_chats_with_the_same_words_are_two_conversations(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_chat(tmp_path / name / "store.db", CHAT)
    made = reduce_all(facts_of(origins_of(tmp_path)))
    assert [t.conversation_id for t in made] == ["one", "two"]
    assert not any(message.copied for t in made for message in t.messages)


def test_a_transcript_knows_its_folder_by_the_trust_it_was_given(tmp_path: Path) -> None:
    project = tmp_path / ".cursor/projects/w-p"
    folder = project / "agent-transcripts/t-1"
    folder.mkdir(parents=True)
    line = {"role": "user", "message": {"content": [text("hello")]}}
    (folder / "t-1.jsonl").write_text(json.dumps(line) + "\n")
    trusted = {"trustedAt": "2026-08-02T02:06:46.038Z", "workspacePath": "/w/p"}
    (project / ".workspace-trusted").write_text(json.dumps(trusted))
    made = only(tmp_path)
    assert made.workspace is not None
    assert (made.workspace.path, made.workspace.name) == ("/w/p", "p")


def test_transcripts_of_one_name_in_two_folders_are_two_conversations(tmp_path: Path) -> None:
    for name in ("a", "b"):
        line = {"role": "user", "message": {"content": [text(f"hello {name}")]}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "session.jsonl").write_text(json.dumps(line) + "\n")
    assert len(reduce_all(facts_of(origins_of(tmp_path)))) == 2


def root_of(*messages: dict[str, Any]) -> bytes:
    digests = (hashlib.sha256(json.dumps(m).encode()).digest() for m in messages)
    return b"".join(b"\x0a\x20" + digest for digest in digests)


def test_what_was_rewound_is_a_branch(tmp_path: Path) -> None:
    first, asked, answered = CHAT[0], CHAT[2], said("assistant", text("Done."))
    taken_back = [said("user", text("<user_query>no</user_query>")), said("assistant", text("No?"))]
    instead = [said("user", text("<user_query>yes</user_query>")), said("assistant", text("Yes."))]
    stored = [first, asked, answered, *taken_back, *instead]
    older = [root_of(*stored[:n]) for n in range(1, 6)]
    current = root_of(first, asked, answered, *instead)
    write_chat(tmp_path / "c/store.db", [*stored, *older], root=current)
    made = only(tmp_path)
    shown = [m.typed or m.content for m in made.messages]
    assert shown == ["You are an agent.", "list it", "Done.", "yes", "Yes."]
    (branch,) = made.branches or ()
    assert [m.typed or m.content for m in branch.messages] == ["no", "No?"]
    assert (branch.index, branch.reason) == (3, "rewind")


def test_what_was_taken_back_with_nothing_said_since_is_a_branch_too(tmp_path: Path) -> None:
    stored = [CHAT[0], CHAT[2], said("assistant", text("Done.")), CHAT[5], CHAT[6]]
    older = root_of(*stored)
    write_chat(tmp_path / "c/store.db", [*stored, older], root=root_of(*stored[:3]))
    made = only(tmp_path)
    assert [m.typed or m.content for m in made.messages] == [
        "You are an agent.",
        "list it",
        "Done.",
    ]
    (branch,) = made.branches or ()
    assert [m.typed or m.content for m in branch.messages] == ["again", "Two files."]
    assert branch.index == 3


def test_what_a_summary_stands_for_is_history_not_a_branch(tmp_path: Path) -> None:
    before = [CHAT[0], CHAT[2], CHAT[3], CHAT[4]]
    after = [CHAT[0], said("user", text("So far: listed."), isSummary=True), CHAT[5], CHAT[6]]
    blobs = [*before, *after[1:], root_of(*before)]
    write_chat(tmp_path / "c/store.db", blobs, root=root_of(*after))
    made = only(tmp_path)
    assert made.branches is None
    assert [m.typed or m.content for m in made.messages] == [
        "You are an agent.", "list it", "Listing.", "a b", "So far: listed.", "again", "Two files.",
    ]  # fmt: skip
    assert [(mark.kind, mark.index) for mark in made.marks or ()] == [("compaction", 4)]


def test_the_model_of_a_step_stands_with_its_reasoning_and_default_is_none(tmp_path: Path) -> None:
    thought = {"type": "reasoning", "text": "hm"}
    thought["providerOptions"] = {"cursor": {"modelName": "step-model"}}
    failed = said("tool", {"type": "tool-result", "toolCallId": "c1", "result": "no such file"},
                  highLevelToolCallResult={"isError": True})  # fmt: skip
    messages = [CHAT[2], said("assistant", thought, CHAT[3]["content"][2]), failed, CHAT[6]]
    write_chat(tmp_path / "c/store.db", messages, lastUsedModel="default")
    made = only(tmp_path)
    assert [m.model for m in made.messages] == [None, "step-model", None, None]
    assert (made.messages[2].is_error, made.messages[1].thinking) == (True, "hm")


def wire(number: int, value: bytes | int) -> bytes:
    """A field of a protobuf message."""

    def varint(rest: int) -> bytes:
        made = b""
        while rest > 0x7F:
            made += bytes([rest & 0x7F | 0x80])
            rest >>= 7
        return made + bytes([rest])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
