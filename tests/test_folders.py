"""Folders as they are: odd names, odd kinds of files, and the files of other programs."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.claude_lines import transcript
from unspool import sinks, sources
from unspool.errors import NothingToRead
from unspool.io.origins import Head
from unspool.pipeline.batch import extract, open_run
from unspool.pipeline.job import Job
from unspool.trajectory import Trajectory

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def read(*paths: Path, workers: int = 1) -> tuple[list[Trajectory], dict[str, int]]:
    with open_run(Job(paths=[str(path) for path in paths], workers=workers)) as run:
        return list(run.trajectories()), run.summary.problems


def said(found: list[Trajectory]) -> list[list[str]]:
    return [[message.content for message in one.messages] for one in found]


WHOLE = [["hello", "Answer to hello"]]
ODD_NAMES = [
    "a b.jsonl",
    "new\nline.jsonl",
    "tab\there.jsonl",
    "😀.jsonl",
    "-o.jsonl",
    "\x1b[31m.jsonl",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(transcript("hello"))
    found, problems = read(tmp_path)
    assert said(found) == WHOLE
    assert [one.file_path for one in found] == [name]
    assert not problems


@pytest.mark.parametrize("workers", [1, 2])
def test_a_name_that_is_no_text_is_a_problem_and_the_rest_is_read(
    tmp_path: Path, workers: int
) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    (tmp_path / "other.jsonl").write_bytes(transcript("again", "other"))
    bad = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(bad)).write_bytes(transcript("unseen", "unseen"))
    found, problems = read(tmp_path, workers=workers)
    assert sorted(said(found)) == [["again", "Answer to again"], *WHOLE]
    assert problems == {"unreadable": 1}


def test_a_folder_whose_name_is_no_text_is_told_in_one_line(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(transcript("hello"))
    with pytest.raises(NothingToRead, match="not UTF-8"):
        read(folder)


@pytest.mark.parametrize("output", ["-", "out.jsonl"])
def test_the_command_goes_on_too(tmp_path: Path, output: str) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")).write_bytes(transcript("x", "y"))
    problems = tmp_path / "problems.ndjson"
    done = subprocess.run(
        [sys.executable, "-m", "unspool", "extract", str(tmp_path), "-o", output, "-v",
         "--problems", str(problems)],
        cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 × unreadable" in done.stderr
    assert json.loads(problems.read_text())["file"].endswith("caf�.jsonl")


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    os.mkfifo(tmp_path / "pipe.jsonl")  # opening it would wait for ever
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.jsonl"))  # its path must be short
        (tmp_path / "folder.jsonl").mkdir()
        (tmp_path / "up").symlink_to(tmp_path)
        (tmp_path / "zero.jsonl").touch()
        (tmp_path / "device.jsonl").symlink_to("/dev/zero")
        found, problems = read(tmp_path)
    assert said(found) == WHOLE
    assert not problems


def test_links_that_lead_nowhere_are_problems(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "not there")
    (tmp_path / "circle.jsonl").symlink_to(tmp_path / "circle.jsonl")
    found, problems = read(tmp_path)
    assert said(found) == WHOLE
    assert problems == {"unreadable": 2}


def test_linked_folders_are_looked_into(tmp_path: Path) -> None:
    """As those have them who keep their settings elsewhere and link them into their home."""
    kept = tmp_path / "kept" / "shop"
    kept.mkdir(parents=True)
    (kept / "good.jsonl").write_bytes(transcript("hello"))
    home = tmp_path / "home"
    home.mkdir()
    (home / "projects").symlink_to(kept.parent)
    found, problems = read(home)
    assert said(found) == WHOLE
    assert [one.file_path for one in found] == ["projects/shop/good.jsonl"]
    assert not problems
    assert said(read(home / "projects")[0]) == WHOLE


def test_links_go_round_no_circle_and_up_to_nothing(tmp_path: Path) -> None:
    """Neither does one lead out to the folders above, where everything else of the disk lies."""
    top = tmp_path / "out" / "top"
    inner = top / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "good.jsonl").write_bytes(transcript("hello"))
    (tmp_path / "out" / "other.jsonl").write_bytes(transcript("not meant", "other"))
    for name, target in (("self", inner), ("up", top), ("above", tmp_path), ("root", Path("/"))):
        (inner / name).symlink_to(target)
    (top / "to").symlink_to(top / "fro")
    (top / "fro").symlink_to(top / "to")
    found, problems = read(top)
    assert said(found) == WHOLE
    assert [one.file_path for one in found] == ["a/b/good.jsonl"]
    assert problems == {"unreadable": 2}


def test_what_several_links_lead_to_is_read_once_by_its_own_path(tmp_path: Path) -> None:
    top, kept = tmp_path / "top", tmp_path / "kept"
    (top / "z").mkdir(parents=True)
    (kept / "deep").mkdir(parents=True)
    (top / "z" / "own.jsonl").write_bytes(transcript("own", "own"))
    (kept / "deep" / "far.jsonl").write_bytes(transcript("far", "far"))
    (top / "a").symlink_to(top / "z")
    (top / "b").symlink_to(kept / "deep")
    (top / "c").symlink_to(kept)
    (kept / "back").symlink_to(top)
    with open_run(Job(paths=[str(top)])) as run:
        found = list(run.trajectories())
        assert {one.conversation_id: one.file_path for one in found} == {
            "own": "z/own.jsonl", "far": "b/far.jsonl",
        }  # fmt: skip
        assert run.summary.files == 2
        assert run.summary.problems == {}


def test_linked_folders_give_the_same_in_any_order_of_making(tmp_path: Path) -> None:
    """Which of two paths names a file does not depend on how the disk lists them."""
    names = []
    for order in ((1, 2, 3), (3, 1, 2)):
        top = tmp_path / str(order[0])
        (top / "kept").mkdir(parents=True)
        for number in order:
            (top / "kept" / f"{number}.jsonl").write_bytes(transcript(str(number), str(number)))
            (top / f"link{number}").symlink_to(top / "kept")
        names.append([one.file_path for one in read(top)[0]])
    assert names[0] == names[1] == ["kept/1.jsonl", "kept/2.jsonl", "kept/3.jsonl"]


def test_a_file_under_several_names_is_read_once(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_bytes(transcript("hello"))
    (tmp_path / "soft.jsonl").symlink_to(good)
    os.link(good, tmp_path / "hard.jsonl")
    with open_run(Job(paths=[str(tmp_path), str(good)])) as run:
        assert said(list(run.trajectories())) == WHOLE
        assert run.summary.files == 1


@pytest.mark.parametrize(
    "data",
    [bytes(3_000_000), os.urandom(1_000_000), b"\xff" * 10, b"\n" * 100_000, b"{" * 100_000],
    ids=["zeros", "noise", "short", "newlines", "braces"],
)
def test_bytes_that_are_nothing_are_counted(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    (tmp_path / "odd.jsonl").write_bytes(data)
    with open_run(Job(paths=[str(tmp_path)])) as run:
        assert said(list(run.trajectories())) == WHOLE
        assert run.summary.files_skipped == 1


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    """Every conversation is whole up to some record: no half line is taken for damage."""
    path = tmp_path / "growing.jsonl"
    path.write_bytes(transcript("hello"))
    stop = threading.Event()

    def grow() -> None:
        number = 0
        with open(path, "ab", buffering=0) as file:
            while not stop.is_set():
                number += 1
                data = transcript("more", f"s{number}")
                file.write(data[: number % len(data)])
                file.write(data[number % len(data) :])
                stop.wait(0.0005)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(10):
            found, problems = read(tmp_path)
            assert found[0].messages[0].content == "hello"
            assert set(problems) <= {"truncated-json"}  # the last line, if it was not whole yet
            assert sum(problems.values()) <= 1
    finally:
        stop.set()
        writer.join()


def database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


STRANGERS: dict[str, str] = {
    "gemini/session-2026-01-02T03-04-ab.json": '{"sessionId":"g","projectHash":"d","startTime":'
    '"2026-01-02T03:04:05Z","messages":[{"id":"1","type":"user","content":"hello"},'
    '{"id":"2","type":"gemini","content":"hi","toolCalls":[{"id":"c","name":"x","args":{}}]}]}',
    "gemini/session-2026-05-02T03-04-ab.jsonl": """\
{"sessionId":"g","projectHash":"d","startTime":"2026-05-02T03:04:05Z","kind":"main"}
{"id":"1","timestamp":"2026-05-02T03:04:05Z","type":"user","content":[{"text":"hello"}]}
{"id":"2","timestamp":"2026-05-02T03:04:06Z","type":"gemini","content":"hi"}
{"$set":{"lastUpdated":"2026-05-02T03:04:07Z"}}
""",
    "opencode/session/p/ses_1.json": '{"id":"ses_1","projectID":"p","title":"T","version":"1"}',
    "opencode/message/ses_1/msg_1.json": '{"id":"msg_1","sessionID":"ses_1","role":"user"}',
    "opencode/part/msg_1/prt_1.json": '{"id":"prt_1","messageID":"msg_1","type":"text","text":"x"}',
    "opencode/run.jsonl": """\
{"type":"step_start","timestamp":1767225600000,"sessionID":"s","part":{"type":"step-start"}}
{"type":"text","timestamp":1767225600001,"sessionID":"s","part":{"type":"text","text":"hello"}}
{"type":"tool_use","timestamp":1767225600002,"sessionID":"s","part":{"type":"tool","callID":"c"}}
""",
    "chats/fine-tuning.jsonl": '{"messages":[{"role":"user","content":"hi"}]}',
    "chats/sharegpt.jsonl": '{"id":"a","conversations":[{"from":"human","value":"hi"}]}',
    "chats/api_history.json": '[{"role":"user","content":[{"type":"text","text":"x"}]}]',
    "chats/.aider.chat.history.md": "# aider chat started at 2026-01-02\n\n#### hello\n\nhi\n",
    "chats/goose.jsonl": '{"id":"g","working_dir":"/w","description":"x"}\n'
    '{"role":"user","created":1767225600,"content":[{"type":"text","text":"hello"}]}',
    "chats/role.jsonl": '{"role":"user","content":"hello"}\n{"role":"assistant","content":"hi"}',
    "chats/type.jsonl": '{"type":"user","message":"hello","timestamp":"2026-01-02T03:04:05Z"}',
    "chats/openhands.json": '[{"id":0,"source":"user","action":"message","args":{"content":"x"}}]',
    "chats/run.traj": '{"trajectory":[{"action":"ls","observation":"a"}],"history":[],"info":{}}',
    "chats/chatgpt.json": '{"mapping":{"a":{"message":{"author":{"role":"user"}}}},"title":"x"}',
    "chats/claude.ai.json": '[{"uuid":"x","chat_messages":[{"uuid":"y","text":"hi"}]}]',
    "other/log.jsonl": '{"level":"info","msg":"x","time":"2026-01-01"}',
    "other/package.json": '{"name":"x","version":"1.0.0","dependencies":{}}',
    "other/schema.json": '{"schema_version":"1.0","steps":[{"a":1}]}',
    "other/traffic.har": '{"log":{"entries":[]},"requests":[{"url":"http://x","method":"GET"}]}',
}  # fmt: skip
"""Files that come near ours: of programs that we do not read, and of agents that we do, without the
name or folder that makes them known."""


@pytest.mark.parametrize("name", STRANGERS)
def test_the_traces_of_other_programs_are_of_no_known_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(STRANGERS[name])
    with pytest.raises(NothingToRead, match="not a format that unspool knows"):
        list(extract(path))
    # Nor do they turn into something in the folders of the agents that we do read.
    for home in (".claude/projects/p", ".copilot/session-state/s", ".cursor/projects/p"):
        folder = tmp_path / home
        shutil.copytree(tmp_path / name.partition("/")[0], folder)
        (folder / "good.jsonl").write_bytes(transcript("hello"))
        assert said(read(folder)[0]) == WHOLE


@pytest.mark.parametrize(
    "statements",
    [
        (
            "CREATE TABLE session(id TEXT, title TEXT)",
            "CREATE TABLE message(id TEXT, session_id TEXT, data TEXT)",
            "CREATE TABLE part(id TEXT, message_id TEXT, data TEXT)",
            """INSERT INTO message VALUES ('m', 's', '{"role":"user"}')""",
        ),
        (
            "CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT)",
            "CREATE TABLE messages(id INTEGER, session_id TEXT, role TEXT, content_json TEXT)",
            "INSERT INTO sessions VALUES ('s', 'd', '/w')",
            "INSERT INTO messages VALUES (1, 's', 'user', '[]')",
        ),
        ("CREATE TABLE threads(id TEXT, summary TEXT, data BLOB)",),
        ("CREATE TABLE ItemTable(key TEXT, value BLOB)", "INSERT INTO ItemTable VALUES ('a', 'b')"),
        ("CREATE TABLE moz_places(id INTEGER, url TEXT)",),
    ],
    ids=["opencode", "goose", "zed", "items", "browser"],
)
def test_the_databases_of_other_programs_give_nothing(
    tmp_path: Path, statements: tuple[str, ...]
) -> None:
    (tmp_path / "good.jsonl").write_bytes(transcript("hello"))
    for name in ("x.db", "state.vscdb", "store.db", "session-store.db"):
        database(tmp_path / name, *statements)
    found, problems = read(tmp_path)
    assert said(found) == WHOLE
    assert not problems


KEYS = """type data name properties sessionId uuid parentUuid message messages role content version cwd
conversation_id hook_event_name hookEventName payload requests responderUsername kind k v
chatMessages schema_version steps agent session_id trajectory_id composerId bubbleId prompt model
generation_id timestamp request response spans resourceSpans journal entry conversation schema id
subtype tool_name transcript_path workspace source turns logs mutations prompts event baseData"""
VALUES = st.recursive(
    st.sampled_from(
        [None, True, 0, -1.5, 10**30, "", "user", "session.start", "ATIF-v1.7", "\ud800", "x" * 300]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner)
    ),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from(KEYS.split()), VALUES), min_size=1, max_size=3)
PATHS = [
    "x.jsonl", "x.json", "x.log", "events.jsonl", "session-state/s/events.jsonl", "plan.md",
    ".claude/projects/p/s.jsonl", ".claude/projects/p/s/subagents/agent-1.meta.json",
    "User/workspaceStorage/h/chatSessions/s.json", "User/workspaceStorage/h/workspace.json",
    "x.chatreplay.json", "x.trajectory.json", "transcripts/s.jsonl", "copilot.jsonl",
    ".cursor/projects/p/agent-transcripts/s/s.jsonl", "hooks.jsonl", "journal-1.jsonl",
    "session-state/s/workspace.yaml", "history-session-state/s.json", "meta.json",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PATHS), OBJECTS, st.booleans(), st.booleans())
def test_no_file_is_so_odd_that_asking_whose_it_is_fails(
    path: str, objects: list[dict[str, Any]], as_lines: bool, whole: bool
) -> None:
    """A stray file in a folder must not end the run: a `type` may be a list, an id a number."""
    texts = [json.dumps(value) for value in objects]
    data = ("\n".join(texts) + "\n" if as_lines else json.dumps(objects[0], indent=1)).encode()
    head = Head(f"/h/{path}", data, whole)
    for source in sources.SOURCES:
        assert isinstance(sources.load(source).claims(head), bool)
    for reader in sinks.READERS:
        assert isinstance(sinks.load_reader(reader).claims(head), bool)
