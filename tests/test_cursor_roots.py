"""The roots of Cursor's command-line chats: what belongs to the conversation, and what lies beside it.

A root is a protobuf node: field 1 are its messages, 8 its turns, 11 and 13 archives of summaries, 15
states of files, 16 the chats of sub-agents.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.cursor_stores import write_chat
from tests.harness import facts_of, origins_of, reduce_all
from tests.test_cursor_chats import CHAT, only, root_of, said, text, wire
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory


def test_context_that_was_replaced_takes_nothing_back(tmp_path: Path) -> None:
    """Another mode has another system prompt: all roots before it differ from their first message."""
    new = {"role": "system", "content": "You are a planner."}
    again = [said("user", text("<user_query>no</user_query>")), CHAT[6]]
    older = [root_of(CHAT[0], *CHAT[1:5]), root_of(CHAT[0], *CHAT[1:5], *again)]
    write_chat(tmp_path / "c/store.db", [*CHAT[:5], *again, new, *older, CHAT[5], CHAT[8]],
               root=root_of(new, *CHAT[1:5], CHAT[5], CHAT[8]))  # fmt: skip
    made = only(tmp_path)
    assert shown(made)[0] == "You are a planner."
    assert shown(made)[2:] == ["list it", "Listing.", "a b", "again", "Still two."]
    (branch,) = made.branches or ()
    assert (branch.index, [m.typed or m.content for m in branch.messages]) == (
        5,
        ["no", "Two files."],
    )


def shown(made: Trajectory) -> list[str]:
    return [m.typed or m.content for m in made.messages]


def test_what_the_root_archived_is_history_before_its_summary(tmp_path: Path) -> None:
    """The archive of a first summary, then that of a second one, which holds the first."""
    old, new = [CHAT[2], CHAT[3], CHAT[4]], [CHAT[5], CHAT[6]]
    sums = [
        said("user", text(words), isSummary=True) for words in ("So far: listed.", "All so far.")
    ]
    archived = [
        root_of(*old) + wire(4, name(sums[0])),
        root_of(sums[0], *new) + wire(4, name(sums[1])),
    ]
    root = root_of(CHAT[0], sums[1], CHAT[8])
    root += b"".join(wire(13, hashlib.sha256(node).digest()) for node in archived)
    write_chat(tmp_path / "c/store.db", [CHAT[0], *old, *new, *sums, CHAT[8], *archived], root=root)
    made = only(tmp_path)
    assert made.branches is None
    assert shown(made) == [
        "You are an agent.", "list it", "Listing.", "a b", "So far: listed.", "again", "Two files.",
        "All so far.", "Still two.",
    ]  # fmt: skip
    assert [mark.index for mark in made.marks or ()] == [4, 7]


def name(message: dict[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps(message).encode()).digest()


def test_states_that_were_and_files_are_no_part_of_the_conversation(tmp_path: Path) -> None:
    """A prompt of a turn names the state before it; states of files name what stood in them."""
    package = b'{"name": "shop", "role": "web"}'
    template = b"{{ not json }}"
    source = b"def f():\n" + b" " * 40 + b"\n return 1\n"
    before = root_of(CHAT[0], CHAT[2], CHAT[5])
    asked = wire(1, b"again") + wire(10, hashlib.sha256(before).digest())
    turn = wire(1, wire(1, hashlib.sha256(asked).digest()))
    files = [package, template, source]
    root = root_of(CHAT[0], CHAT[2], CHAT[3], CHAT[4]) + wire(8, hashlib.sha256(turn).digest())
    for path, data in zip((b"/w/p.json", b"/w/t", b"/w/f.py"), files, strict=True):
        root += wire(15, wire(1, path) + wire(2, wire(1, hashlib.sha256(data).digest())))
    write_chat(
        tmp_path / "c/store.db", [CHAT[0], *CHAT[2:6], before, asked, turn, *files], root=root
    )
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert shown(made) == ["You are an agent.", "list it", "Listing.", "a b"]
    assert tally.problems == 0


def subagent(ident: bytes, state: bytes) -> bytes:
    return wire(16, wire(1, ident) + wire(2, wire(1, state)))


def test_the_chats_of_sub_agents_in_a_root_are_conversations_of_their_own(tmp_path: Path) -> None:
    task = {"toolCallId": "t1", "toolName": "Task"}
    asked = said("assistant", {"type": "tool-call", **task, "args": {"prompt": "dig"}})
    high = {"output": {"success": {"agentId": "sub-1", "durationMs": 7}}}
    result = {"type": "tool-result", **task, "result": "dug"}
    done = said("tool", result, highLevelToolCallResult=high)
    inner = [said("user", text("dig")), said("assistant", text("I dug."))]
    deeper = [said("user", text("dig more")), said("assistant", text("Dug more."))]
    state = root_of(CHAT[0], *inner) + subagent(b"sub-2", root_of(*deeper))
    root = root_of(CHAT[0], CHAT[2], asked, done) + subagent(b"sub-1", state)
    blobs = [CHAT[0], CHAT[2], asked, done, *inner, *deeper]
    write_chat(tmp_path / "chats/0/main/store.db", blobs, root=root)
    made = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(tmp_path)))}
    assert {ident: shown(t) for ident, t in made.items()} == {
        "main": ["You are an agent.", "list it", "", "dug"],
        "sub-1": ["You are an agent.", "dig", "I dug."],
        "sub-2": ["dig more", "Dug more."],
    }
    assert made["main"].branches is None
    (call,) = made["main"].messages[2].tool_calls or ()
    assert (call.child_id, call.duration_ms) == ("sub-1", 7)
    parent = made["sub-1"].parent
    assert parent is not None
    assert (parent.conversation_id, parent.tool_call_id) == ("main", "t1")
    assert made["sub-2"].parent is not None
    assert made["sub-2"].parent.conversation_id == "sub-1"
    assert {t.session_id for t in made.values()} == {"main"}


def test_a_root_without_messages_loses_none(tmp_path: Path) -> None:
    """Seen: roots of no bytes. Text files have more line ends than a root has messages."""
    source = b"\n                                 x" * 40
    blobs = [*CHAT[2:5], root_of(*CHAT[2:5]), source]
    write_chat(tmp_path / "empty/store.db", blobs, root=b"")
    write_chat(tmp_path / "bare/store.db", CHAT[2:5], root=wire(9, b"file:///w/p"))
    for made in reduce_all(facts_of(origins_of(tmp_path))):
        assert shown(made) == ["list it", "Listing.", "a b"]


def test_a_root_tells_the_context_and_the_row_the_parent(tmp_path: Path) -> None:
    root = root_of(*CHAT[2:5]) + wire(5, wire(1, 50_000) + wire(2, 200_000))
    root += wire(9, b"file:///w/p")
    above = {"parentAgentId": "main"}
    write_chat(tmp_path / "chats/0/sub/store.db", CHAT[2:5], root=root, name="New Agent",
               subagentInfo=above)  # fmt: skip
    write_chat(tmp_path / "chats/0/main/store.db", CHAT[:2], name="Mend it")
    made = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(tmp_path)))}
    child = made["sub"]
    assert child.metadata["context_usage"] == 25.0
    assert (child.metadata["context_tokens"], child.metadata["context_limit"]) == (50_000, 200_000)
    assert child.workspace is not None
    assert child.workspace.path == "/w/p"
    assert child.parent is not None
    assert child.parent.conversation_id == "main"
    assert (made["main"].title, child.title) == ("Mend it", None)


def test_a_result_tells_what_the_tool_returned_beside_the_text(tmp_path: Path) -> None:
    shell = {"stdout": "a b", "exitCode": 0, "executionTime": 5285}
    edit = {"path": "/w/a.py", "linesAdded": 3, "linesRemoved": 1, "message": "Wrote it."}
    parts = [{"toolCallId": "c1", "toolName": "Shell"}, {"toolCallId": "c2", "toolName": "Write"}]
    messages = [
        CHAT[2],
        said("assistant", {"type": "tool-call", **parts[0], "args": {"command": "ls"}},
             {"type": "tool-call", **parts[1], "args": {"path": "/w/a.py", "contents": "x\ny\nz\n"}}),
        said("tool", {"type": "tool-result", **parts[0], "result": "Exit code: 0\n\na b"},
             highLevelToolCallResult={"output": {"success": shell}}),
        said("tool", {"type": "tool-result", **parts[1], "result": "Wrote it."},
             highLevelToolCallResult={"output": {"success": edit}}),
    ]  # fmt: skip
    write_chat(tmp_path / "c/store.db", messages)
    made = only(tmp_path)
    assert made.messages[2].details == {"exitCode": 0, "executionTime": 5285}
    assert [c.duration_ms for c in made.messages[1].tool_calls or ()] == [5285, None]
    (touch,) = made.files or ()
    assert (touch.path, touch.lines_added, touch.lines_removed) == ("/w/a.py", 3, 1)
