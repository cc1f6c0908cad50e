"""A conversation is reduced as soon as its files are read, and written before all others are known:
nothing of it may show."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.claude_lines import SESSION, answer, said, write
from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from tests.vscode import chat, put, request
from unspool import sources
from unspool.facts import AnyFact
from unspool.io.origins import Origin
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job, Summary
from unspool.pipeline.output import write_one
from unspool.sinks import Family, jsonl

SMALL = 2000
"""So few bytes that facts go to disk in the middle of a conversation."""


def extracted(folder: Path, **options: Any) -> tuple[list[Any], Summary]:
    with open_run(Job(paths=[str(folder)], **options)) as run:
        return [relative(t, folder) for t in run.trajectories()], run.summary


def written(folder: Path, out: Path, **options: Any) -> list[Any]:
    """What the trajectory JSONL of the folder says, whoever wrote which line when."""
    with open_run(Job(paths=[str(folder)], **options)) as run:
        write_one(run.write(), str(out))
    return [relative(json.loads(line), folder) for line in out.read_bytes().splitlines()]


def plainly(folder: Path) -> list[Any]:
    return [relative(t, folder) for t in reduce_all(facts_of(origins_of(folder)))]


def relative(trajectory: Any, folder: Path) -> Any:
    text = json.dumps(msgspec.to_builtins(trajectory)).replace(f"{folder}/", "")
    return json.loads(text)


@pytest.mark.parametrize("memory", [64 << 20, SMALL])
@pytest.mark.parametrize(
    "case", [*cases("claude_code"), *cases("copilot_cli"), *cases("vscode_chat")], ids=case_id
)
def test_the_same_comes_out_as_by_the_plainest_way(case: Path, memory: int, tmp_path: Path) -> None:
    made, _ = extracted(case / "input", memory_bytes=memory)
    assert made == plainly(case / "input")
    shown = [t["conversation_id"] for t in made]
    for workers in (1, 2):
        options = {"memory_bytes": memory, "workers": workers}
        lines = written(case / "input", tmp_path / "out.jsonl", **options)
        assert [line["conversation_id"] for line in lines] == shown
        assert lines == as_lines(case / "input")


@cache
def as_lines(folder: Path) -> list[Any]:
    """The plainest way, with the names that a person knows, through the sink."""
    origins = origins_of(folder)
    names = {origin.path: origin.name for origin in origins}
    made = []
    for trajectory in reduce_all(facts_of(origins)):
        trajectory.file_path = names.get(trajectory.file_path or "", trajectory.file_path)
        trajectory.origins = [names.get(path, path) for path in trajectory.origins or ()] or None
        (piece,) = jsonl.write(Family(trajectory), {})
        made.append(relative(json.loads(piece.data), folder))
    return made


def stream(*messages: tuple[str, str]) -> list[dict[str, Any]]:
    first = {"type": "system", "subtype": "init", "session_id": SESSION, "tools": [], "model": "x"}
    return [first] + [
        {"type": "assistant", "session_id": SESSION, "parent_tool_use_id": None,
         "message": {"id": ident, "role": "assistant", "content": [{"type": "text", "text": words}]}}
        for ident, words in messages
    ]  # fmt: skip


@pytest.mark.parametrize("memory", [64 << 20, SMALL])
@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("name", ["00000000", "ffffffff"], ids=["before", "behind"])
def test_a_file_that_holds_more_than_its_name_says(
    tmp_path: Path, name: str, hooks: bool, memory: int
) -> None:
    """A stream that somebody saved under another session's name, read before or behind the file
    of its own session; and hooks told of that session too."""
    rows = [said("1", None, "go"), answer("2", "1", "m1", "first")]
    path = write(tmp_path / f"{SESSION}.jsonl", *rows)
    path.write_text(path.read_text() + "{bad\n")
    other = tmp_path / f"{name}-52d3-4f0e-8c11-7a6d5e4f3b2a.jsonl"
    write(other, *stream(("m1", "first"), ("m2", "second")))
    assert sources.session_of(Origin(str(other), "", "claude-code")) == other.stem
    if hooks:
        payload = {"session_id": SESSION, "transcript_path": "t", "prompt": "go"}
        write(tmp_path / "hooks.jsonl", {**payload, "hook_event_name": "UserPromptSubmit"})
    made, summary = extracted(tmp_path, memory_bytes=memory)
    assert made == plainly(tmp_path)
    (only,) = made
    assert [m["content"] for m in only["messages"]] == ["go", "first", "second"]
    assert (summary.problems, summary.records) == ({"invalid-json": 1}, 6 + hooks)


def _two_files(folder: Path) -> tuple[Path, Path]:
    """A session, and behind it a stream of the same under another session's name."""
    own = write(folder / f"{SESSION}.jsonl", said("1", None, "go"), answer("2", "1", "m1", "first"))
    other = folder / "ffffffff-52d3-4f0e-8c11-7a6d5e4f3b2a.jsonl"
    write(other, *stream(("m1", "first"), ("m2", "second")))
    return own, other


@pytest.mark.parametrize("fault", [OSError(2, "No such file"), ValueError("ours")])
def test_a_file_that_cannot_be_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """It vanishes between the two readings: a problem of that file, and the rest goes on."""
    monkeypatch.delenv("UNSPOOL_DEBUG", raising=False)
    own, _ = _two_files(tmp_path)
    read, times = sources.read, []

    def vanishing(span: Origin, *options: Any) -> Iterator[AnyFact]:
        times.append(span.path)
        if span.path == str(own) and times.count(span.path) > 1:
            raise fault
        yield from read(span, *options)

    monkeypatch.setattr(sources, "read", vanishing)
    made, summary = extracted(tmp_path)
    assert times.count(str(own)) == 2
    assert [m["content"] for m in made[0]["messages"]] == ["first", "second"]
    code = "unreadable" if isinstance(fault, OSError) else "internal-error"
    assert summary.problems == {code: 1}


def test_a_damaged_file_that_is_read_once_more_is_told_once(tmp_path: Path) -> None:
    own, _ = _two_files(tmp_path)
    rows = own.read_bytes() + b"".join(b'{"type": "summary", "n": %d}\n' % n for n in range(9999))
    own.with_suffix(".jsonl.gz").write_bytes(gzip.compress(rows)[:-20])
    own.unlink()
    made, summary = extracted(tmp_path)
    assert [m["content"] for m in made[0]["messages"]] == ["go", "first", "second"]
    assert summary.problems["unreadable"] == 1


def test_what_a_path_tells(tmp_path: Path) -> None:
    def family(path: str) -> str | None:
        return sources.session_of(Origin(f"/h/projects/p/{path}", "", "claude-code"))

    assert family(f"{SESSION}.jsonl") == SESSION
    assert family(f"{SESSION}/subagents/agent-a.jsonl") == SESSION
    assert family(f"{SESSION}/subagents/workflows/w/agent-a.meta.json") == SESSION
    assert family(f"{SESSION}/workflows/w.json") == SESSION
    assert family("agent-a.jsonl") is None
    assert family("hooks.jsonl") is None
    assert sources.session_of(Origin("/h/state.vscdb", "", "cursor")) is None


def test_a_log_in_a_folder_called_workflows_is_a_log(tmp_path: Path) -> None:
    payload = {"session_id": SESSION, "transcript_path": "t", "hook_event_name": "UserPromptSubmit"}
    log = write(tmp_path / "app" / "workflows" / "hooks.json", {**payload, "prompt": "hi"})
    made, _ = extracted(tmp_path)
    assert [m["content"] for t in made for m in t["messages"]] == ["hi"]
    assert sources.session_of(Origin(str(log), "", "claude-code")) is None


def test_copilot_cli_files_are_known_by_their_folder() -> None:
    session = "00000000-0000-4000-8000-000000000001"

    def family(path: str) -> str | None:
        return sources.session_of(Origin(f"/h/.copilot/{path}", "", "copilot-cli"))

    assert family(f"session-state/{session}/events.jsonl") == session
    assert family(f"session-state/{session}/checkpoints/001-half.md") == session
    assert family(f"session-state/{session}.jsonl") == session
    assert family("session-state/by-hand/events.jsonl") is None  # the log may say another id
    assert family("session-store.db") is None
    assert family(f"{session}/session-store.db") is None
    assert family(f"history-session-state/session_{session}_1.json") is None
    assert family("stdout.jsonl") is None


@pytest.mark.parametrize("memory", [64 << 20, SMALL])
@pytest.mark.parametrize("name", ["a", "z"], ids=["before", "behind"])
def test_a_chat_under_the_name_of_another(tmp_path: Path, name: str, memory: int) -> None:
    """Somebody copied it; beside it lies the rest of the chat, and its edits, in another folder."""
    first, whole = chat(request(1), session="m"), chat(request(1), request(2), session="m")
    put(tmp_path, f"w/chatSessions/{name}.json", first)
    put(tmp_path, "v/chatSessions/m.json", whole)
    put(tmp_path, "v/chatSessions/other.json", chat(request(3), session=name))
    entry = {"resource": "file:///p/x.py", "state": 1}
    state = {"recentSnapshot": {"entries": [entry]}}
    put(tmp_path, "w/chatEditingSessions/m/state.json", state)
    made, _ = extracted(tmp_path, memory_bytes=memory)
    assert made == plainly(tmp_path)
    assert {t["conversation_id"]: len(t["messages"]) for t in made} == {"m": 4, name: 2}


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/u/workspaceStorage/w/chatSessions/abc.jsonl", "abc"),
        ("/u/workspaceStorage/w/chatSessions/abc.json.gz", "abc"),
        ("/u/globalStorage/emptyWindowChatSessions/abc.json", "abc"),
        ("/u/workspaceStorage/w/chatEditingSessions/abc/state.json", "abc"),
        ("/u/workspaceStorage/w/state.vscdb", None),
        ("/u/abc.json", None),
    ],
)
def test_families_of_vscode_chats(path: str, family: str | None) -> None:
    assert sources.session_of(Origin(path, path, "vscode-chat", 1)) == family
