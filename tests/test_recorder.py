"""The recorder as a program uses it: contexts, concurrency, failures, crashes, limits."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool import extract
from unspool.errors import UsageError
from unspool.record import Change, Executor, Recorder, bind
from unspool.sinks.atif.rules import check_file
from unspool.trajectory import Trajectory

Object = dict[str, Any]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(agent="demo", path=tmp_path / "journal", agent_version="3") as made:
        yield made


def user(text: str) -> Object:
    return {"role": "user", "content": text}


def assistant(text: str) -> Object:
    return {"role": "assistant", "content": text}


def words(trajectory: Trajectory) -> list[str]:
    return [f"{message.role}: {message.content}" for message in trajectory.messages]


def by_id(recorder: Recorder) -> dict[str, Trajectory]:
    return {made.conversation_id: made for made in recorder.trajectories()}


def test_extract_gives_what_the_live_object_gives(recorder: Recorder) -> None:
    with recorder.conversation("c", title="A talk", metadata={"project": "x"}):
        for n in range(3):
            with recorder.request("m", [user(f"q{n}")]) as request:
                request.respond(f"a{n}", usage={"prompt_tokens": 1})
        with recorder.tool("task", {}, "t1") as tool, recorder.subagent("kid"):
            recorder.log_request("m", [user("sub")], "done")
            tool.result("ok")
    live = [msgspec.to_builtins(made) for made in recorder.trajectories()]
    assert [msgspec.to_builtins(made) for made in extract(recorder.path)] == live
    assert [made["agent"] for made in live] == ["demo", "kid"]
    assert live[0]["title"] == "A talk"
    assert live[0]["metadata"]["project"] == "x"


def test_concurrent_tasks_do_not_mix(recorder: Recorder) -> None:
    async def talk(name: str) -> None:
        async with recorder.conversation(name):
            for turn in range(3):
                async with recorder.request("m", [user(f"{name} {turn}")]) as request:
                    for piece in (name, " ", str(turn)):
                        request.chunk(piece)
                        await asyncio.sleep(0)
                async with recorder.tool("t", {"of": name}, f"{name}-{turn}") as tool:
                    await asyncio.sleep(0)
                    tool.result(name)

    async def main() -> None:
        await asyncio.gather(*(talk(f"talk{n}") for n in range(20)))

    asyncio.run(main())
    found = by_id(recorder)
    assert len(found) == 20
    for name, made in found.items():
        assert [m.content for m in made.messages if m.role == "user"] == [
            f"{name} {n}" for n in range(3)
        ]
        assert {m.content for m in made.messages if m.role == "tool"} == {name}


def test_threads_do_not_mix(recorder: Recorder) -> None:
    ready = threading.Barrier(8)

    def talk(name: str) -> None:
        with recorder.conversation(name):
            ready.wait()
            for turn in range(20):
                recorder.log_request("m", [user(f"{name} {turn}")], name)

    threads = [threading.Thread(target=talk, args=(f"talk{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = by_id(recorder)
    assert len(found) == 8
    for name, made in found.items():
        assert len(made.messages) == 40
        assert all(name in message.content for message in made.messages)


def test_work_in_other_threads_belongs_where_it_was_given(recorder: Recorder) -> None:
    def work(text: str) -> None:
        recorder.log_request("m", [user(text)], "done")

    with recorder.conversation("pool") as talk, Executor(2) as pool:
        list(pool.map(work, ["one", "two"]))
        with ThreadPoolExecutor(1) as plain:
            plain.submit(bind(work), "three").result()
            plain.submit(work, "lost").result()  # a plain pool knows of no conversation
            plain.submit(lambda: talk.request("m", [user("four")]).respond("done")).result()
        asyncio.run(asyncio.to_thread(work, "five"))
    found = by_id(recorder)
    told = {m.content for m in found.pop("pool").messages if m.role == "user"}
    assert told == {"one", "two", "three", "four", "five"}
    ((name, other),) = found.items()
    assert name.startswith("demo-")
    assert words(other) == ["user: lost", "assistant: done"]


def test_parallel_tools_and_subagents(recorder: Recorder) -> None:
    async def agent(number: int) -> None:
        async with recorder.tool("task", {"n": number}, f"call{number}") as tool:
            async with recorder.subagent("searcher", invocation_id=f"sub{number}"):
                await asyncio.sleep(0)
                recorder.log_request("m", [user(f"task {number}")], f"answer {number}")
            tool.result(f"result {number}")

    async def main() -> None:
        calls = [
            {"id": f"call{n}", "function": {"name": "task", "arguments": "{}"}} for n in range(3)
        ]
        async with recorder.conversation("main"):
            recorder.log_request("m", [user("go")], {"content": "", "tool_calls": calls})
            await asyncio.gather(*(agent(n) for n in (2, 0, 1)))

    asyncio.run(main())
    found = by_id(recorder)
    answer = found["main"].messages[1]
    assert [(call.id, call.child_id) for call in answer.tool_calls or ()] == [
        (f"call{n}", f"sub{n}") for n in range(3)
    ]
    assert [m.content for m in found["main"].messages[2:]] == [f"result {n}" for n in range(3)]
    parent = found["sub1"].parent
    assert parent is not None
    assert (parent.conversation_id, parent.tool_call_id) == ("main", "call1")
    mains = list(recorder.trajectories("sub1"))
    assert [made.conversation_id for made in mains] == ["sub1"]


def test_export_collects_subagents(recorder: Recorder, tmp_path: Path) -> None:
    with recorder.conversation("main"), recorder.tool("task", {}, "c1") as tool:
        with (
            recorder.subagent("kid", invocation_id="kid"),
            recorder.tool("task", {}, "c2"),
            recorder.subagent("grandchild", invocation_id="grandchild"),
        ):
            recorder.log_request("m", [user("deep")], "found")
        tool.result("ok")
    recorder.log_request("m", [user("another")], "talk", session_id="other")
    (path,) = recorder.export(tmp_path / "one", "main")
    embedded = json.loads(path.read_text())
    (kid,) = embedded["subagent_trajectories"]
    (grandchild,) = kid["subagent_trajectories"]
    assert [step["message"] for step in grandchild["steps"]] == ["deep", "found"]
    files = recorder.export(tmp_path / "files", "main", subagents="files")
    names = sorted(path.name for path in files)
    assert names == ["grandchild.trajectory.json", "kid.trajectory.json", "main.trajectory.json"]
    result = json.loads(files[0].read_text())["steps"][0]["observation"]["results"][0]
    assert result["subagent_trajectory_ref"][0]["trajectory_path"] == "kid.trajectory.json"
    assert len(recorder.export(tmp_path / "all")) == 2
    assert recorder.export(tmp_path / "none", "nobody") == []


def test_export_stands_cycles(recorder: Recorder, tmp_path: Path) -> None:
    with (
        recorder.conversation("main"),
        recorder.tool("task", {}, "c1"),
        recorder.subagent("kid", invocation_id="kid"),
        recorder.tool("task", {}, "c2"),
        recorder.subagent("back", invocation_id="main"),
    ):
        recorder.log_request("m", [user("a circle")], "round")
    made = recorder.export(tmp_path, "main", subagents="files")
    assert sorted(path.name for path in made) == ["kid.trajectory.json", "main.trajectory.json"]


def test_exported_files_are_valid(recorder: Recorder, tmp_path: Path) -> None:
    validator = pytest.importorskip("harbor.utils.trajectory_validator")
    with recorder.conversation("main"):
        with pytest.raises(ValueError, match="no"), recorder.request("m", [user("x")]):
            raise ValueError("no")
        recorder.log_tool_call("t", "not json", "r", call_id="c1")
        recorder.log_element("Prompt", 5, 10)
        with recorder.tool("open", {}, "c2"):
            pass
        with recorder.request("m", [user("x")]) as request:
            request.chunk("y")
    made = recorder.export(tmp_path / "out")
    assert made
    for path in made:
        checker = validator.TrajectoryValidator()
        assert checker.validate(path), checker.errors
        assert [finding for finding in check_file(path) if finding.level == "error"] == []


def test_pictures_and_sounds_are_exported(recorder: Recorder, tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "look and listen"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg?size=2"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
    ]
    recorder.log_request("m", [{"role": "user", "content": parts}], "ok", session_id="c")
    for version, kinds in (
        (None, [None, "image/jpeg", "image/png", "audio/mpeg"]),
        ("1.7", [None, "image/jpeg", "image/png"]),
    ):
        path = recorder.export(tmp_path / str(version), atif_version=version)[0]
        made = json.loads(path.read_bytes())
        assert made["schema_version"] == f"ATIF-v{version or '1.8'}"
        message = made["steps"][0]["message"]
        assert [part.get("source", {}).get("media_type") for part in message] == kinds
        assert not [finding for finding in check_file(path) if finding.level == "error"]


def test_failures_and_cancellation(recorder: Recorder) -> None:
    async def main() -> None:
        async def stuck() -> None:
            async with recorder.conversation("c"), recorder.request("m", [user("q")]) as request:
                request.chunk("so far")
                async with recorder.tool("wait", {}, "t1"):
                    await asyncio.sleep(60)

        task = asyncio.ensure_future(stuck())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    recorder.log_request("m", [user("q")], error=TimeoutError("slow"), session_id="c")
    recorder.log_request("m", [user("q")], error="stopped", status="cancelled", session_id="c")
    recorder.log_request("m", [user("q")], "at last", session_id="c")
    made = by_id(recorder)["c"]
    assert [(m.role, m.content, m.status) for m in made.messages if not m.tool_calls] == [
        ("user", "q", None),
        ("tool", "CancelledError", "cancelled"),
        ("assistant", "so far", "cancelled"),
        ("assistant", "TimeoutError: slow", "failed"),
        ("assistant", "stopped", "cancelled"),
        ("assistant", "at last", None),
    ]
    assert made.marks is None, "an error is told once, where it arose"


def test_an_error_after_the_answer_is_the_conversations(recorder: Recorder) -> None:
    def agent() -> None:
        with recorder.conversation("c"), recorder.request("m", [user("q")]) as request:
            request.respond("not JSON")
            raise KeyError("parsed")

    with pytest.raises(KeyError):
        agent()
    (made,) = recorder.trajectories()
    assert made.messages[-1].status is None
    assert [(mark.kind, (mark.data or {})["error"]["type"]) for mark in made.marks or ()] == [
        ("error", "KeyError")
    ]


def test_metadata_cannot_pass_for_fields(recorder: Recorder) -> None:
    metadata = {"project": "x", "title": 5, "workspace.nonsense": 1, "children": "none"}
    with recorder.conversation("c", title="T", metadata=metadata):
        recorder.log_request("m", [user("q"), {"type": "item_reference", "id": "x"}], "a")
    (made,) = recorder.trajectories()
    assert made.title == "T"
    assert made.metadata["project"] == "x"
    assert made.metadata["metadata.title"] == 5
    assert [(mark.kind, mark.data) for mark in made.marks or ()] == [
        ("unrecognised", {"item": {"type": "item_reference", "id": "x"}})
    ]


def test_a_request_left_without_an_answer(recorder: Recorder) -> None:
    with recorder.request("m", [user("q")], session_id="c"):
        pass
    (made,) = recorder.trajectories()
    assert made.messages[-1].status == "interrupted"


def test_a_repeated_user_message_is_one_step(recorder: Recorder) -> None:
    for text in "AABA":
        recorder.log_request("m", [user(text)], f"re {text}", session_id="bare")
    history = [user("A"), assistant("re A")]
    recorder.log_request("m", history[:1], "re A", session_id="told")
    recorder.log_request("m", [*history, user("A")], "again", session_id="told")
    found = by_id(recorder)
    assert [w for w in words(found["bare"]) if w.startswith("user")] == [
        "user: A",
        "user: B",
        "user: A",
    ]
    # With its answer between the two, the history itself says that it was said twice.
    assert words(found["told"]) == ["user: A", "assistant: re A", "user: A", "assistant: again"]


def test_each_message_is_written_once(recorder: Recorder) -> None:
    messages = [user("the first question, which is long " * 30)]
    for n in range(40):
        recorder.log_request("m", messages, f"answer {n}", session_id="c")
        messages = [*messages, assistant(f"answer {n}"), user(f"question {n}")]
    (file,) = recorder.path.iterdir()
    assert file.read_bytes().count(b"the first question") == 30
    assert file.stat().st_size < 40_000
    (made,) = recorder.trajectories()
    assert len(made.messages) == 80


def test_a_message_is_the_same_however_it_is_wrapped(recorder: Recorder) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    block = {"role": "user", "content": [{"type": "text", "text": "one", **mark}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    recorder.log_request("m", [user("one")], "a", session_id="c")
    recorder.log_request("m", [block, answer, user("two ")], "b", session_id="c")
    recorder.log_request("m", [user("one"), assistant("a"), user("two")], "c", session_id="c")
    (made,) = recorder.trajectories()
    assert words(made) == [
        "user: one", "assistant: a", "user: two ", "assistant: b", "assistant: c",
    ]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["ask", "retry", "prune", "summarise", "system", "back", "forget"]))
)
def test_whatever_is_done_to_the_history_each_thing_is_told_once(plan: list[str]) -> None:
    with Recorder() as recorder:
        told: list[str] = []
        messages: list[Object] = [{"role": "system", "content": "s"}]
        for number, step in enumerate(["ask", *plan]):
            if step in ("ask", "forget"):
                messages = [*messages, user(f"q{number}")]
            elif step == "prune":
                messages = [messages[0], *messages[3:], user(f"q{number}")]
            elif step == "summarise":
                messages = [messages[0], user(f"sum{number}"), *messages[4:], user(f"q{number}")]
            elif step == "system":
                messages = [
                    {"role": "system", "content": f"s{number}"},
                    *messages[1:],
                    user(f"q{number}"),
                ]
            elif step == "back":
                messages = [*messages[:-2], user(f"q{number}")]
            elif messages[-1]["role"] == "assistant":
                messages = messages[:-1]  # retry
            if step == "forget":
                recorder.ledger._forget("c")
            told += [m["content"] for m in messages if m["content"] not in told]
            recorder.log_request("m", messages, f"a{number}", session_id="c")
            told.append(f"a{number}")
            messages = [*messages, assistant(f"a{number}")]
        (made,) = recorder.trajectories()
        found = [message.content for message in made.messages]
        assert sorted(found) == sorted(told)
        answers = [text for text in found if text.startswith("a")]
        assert answers == [text for text in told if text.startswith("a")]


def test_side_requests_do_not_disturb_the_history(recorder: Recorder) -> None:
    messages = [user("q0")]
    for n in range(4):
        recorder.log_request("m", messages, f"a{n}", session_id="c")
        recorder.log_request(
            "small", [user("A title, please")], "T", conversation=False, session_id="c"
        )
        messages = [*messages, assistant(f"a{n}"), user(f"q{n + 1}")]
    (made,) = recorder.trajectories()
    assert words(made) == [w for n in range(4) for w in (f"user: q{n}", f"assistant: a{n}")]
    assert [mark.kind for mark in made.marks or ()] == ["utility"] * 4


def test_parallel_threads_of_one_conversation(recorder: Recorder) -> None:
    """Two lists that grow in turns, in one conversation: nothing is told twice."""
    lists = {"x": [user("x0")], "y": [user("y0")]}
    for n in range(3):
        for name, messages in lists.items():
            recorder.log_request("m", messages, f"{name} answer {n}", session_id="c")
            lists[name] = [*messages, assistant(f"{name} answer {n}"), user(f"{name}{n + 1}")]
    (made,) = recorder.trajectories()
    assert len(words(made)) == len(set(words(made))) == 12
    assert made.marks is None


def test_an_answer_in_other_words_is_that_of_its_own_list(recorder: Recorder) -> None:
    recorder.log_request("m", [user("x")], "the answer to x", session_id="c")
    recorder.log_request("m", [user("y")], "the answer to y", session_id="c")
    recorder.log_request(
        "m", [user("x"), assistant("x, in short"), user("z")], "end", session_id="c"
    )
    (made,) = recorder.trajectories()
    assert words(made)[4:] == ["user: z", "assistant: end"]
    assert [(m.extra or {}).get("sent_as") for m in made.messages if m.role == "assistant"] == [
        "x, in short", None, None,
    ]  # fmt: skip


def test_answers_that_are_always_sent_back_in_other_words(recorder: Recorder) -> None:
    """An agent that takes the model's thinking out of what it keeps."""
    messages: list[Object] = []
    for n in range(4):
        messages.append(user("continue"))
        recorder.log_request("m", messages, f"<think>hm</think>answer {n}", session_id="c")
        messages.append(assistant(f"answer {n}"))
    (made,) = recorder.trajectories()
    assert words(made) == ["user: continue", *(
        text for n in range(4) for text in (f"assistant: <think>hm</think>answer {n}", "user: continue")
    )][:-1]  # fmt: skip
    assert made.marks is None


def test_a_window_that_slides_over_equal_words(recorder: Recorder) -> None:
    messages: list[Object] = []
    for _ in range(8):
        messages.append(user("continue"))
        recorder.log_request("m", messages[-5:], "ok", session_id="c")
        messages.append(assistant("ok"))
    (made,) = recorder.trajectories()
    assert words(made) == ["user: continue", "assistant: ok"] * 8


def test_session_ids(recorder: Recorder) -> None:
    recorder.log_request("m", [user("q")], "a", session_id="chat", invocation_id="sub")
    recorder.log_element("E", 1, label="Fix: The Bug")
    recorder.log_tool_call("t", {}, "r", label="Fix: The Bug")
    with recorder.conversation(label="Two") as one, recorder.conversation(label="Two") as two:
        assert one.id != two.id
        assert one.id.rsplit("-", 1)[0] == two.id.rsplit("-", 1)[0]
    ids = sorted(by_id(recorder))
    assert ids[1] == "sub"
    assert ids[0].startswith("fix-the-bug-")
    assert len(ids) == 2


def test_listeners(recorder: Recorder) -> None:
    heard: list[Change] = []
    stop = recorder.listen(heard.append)

    def broken(change: Change) -> None:
        raise RuntimeError("no")

    recorder.log_element("E", 1, session_id="c")
    stop_broken = recorder.listen(broken)
    with pytest.warns(UserWarning, match="listener"):
        recorder.log_request("m", [user("q")], "a", session_id="c")
    stop_broken()
    recorder.clear("c")
    stop()
    recorder.log_element("E", 1, session_id="c")
    assert [(c.kind, c.session_id) for c in heard] == [
        ("element", "c"), ("request", "c"), ("response", "c"), ("clear", "c"),
    ]  # fmt: skip


def test_times_are_those_given(recorder: Recorder) -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    recorder.log_request(
        "m", [user("q")], "a", started_at=start, ended_at=start.timestamp() + 1.5,
        time_to_first_token_ms=20, session_id="c",
    )  # fmt: skip
    (made,) = recorder.trajectories()
    assert made.messages[1].timestamp == "2026-01-02T03:04:05.000Z"
    assert made.messages[1].duration_ms == 1500
    assert (made.messages[1].extra or {})["time_to_first_token_ms"] == 20


def test_a_duration_that_nobody_knows_is_absent(recorder: Recorder) -> None:
    recorder.log_tool_call("t", {}, "r", call_id="c1", session_id="c")
    start = datetime(2026, 1, 2, tzinfo=UTC)
    recorder.log_tool_call(
        "t", {}, "r", call_id="c2", session_id="c", started_at=start, ended_at=start.timestamp() + 2
    )
    (made,) = recorder.trajectories()
    calls = [call for m in made.messages for call in m.tool_calls or ()]
    assert [call.duration_ms for call in calls] == [None, 2000]
    assert calls[1].ended_at == "2026-01-02T00:00:02.000Z"


def test_anything_can_be_handed_over(recorder: Recorder) -> None:
    odd = {"role": "user", "content": "\ud800 lone", "n": 2**70, "x": float("nan"), 5: object()}
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    recorder.log_request("m", [odd, "plain text"], {"content": {1, 2}}, session_id="c")
    recorder.log_tool_call("t", deep, {"bytes": b"x"}, session_id="c", call_id="c1")
    recorder.log_request("m\ud800", [user("q")], "half \ud83d", session_id="c")
    (made,) = recorder.trajectories()
    assert made.messages[-1].content == "half \ufffd"
    assert [m.role for m in made.messages[:2]] == ["user", "user"]
    assert recorder.lost == 0


def test_a_full_disk_does_not_stop_the_agent(recorder: Recorder, monkeypatch: Any) -> None:
    write, room = os.write, 500

    def full(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        done = write(file, data[:room])
        room -= done
        return done

    monkeypatch.setattr(os, "write", full)
    with pytest.warns(UserWarning, match="No space left"):
        recorder.log_request("m", [user("x" * 1000)], "a", session_id="c")
    assert recorder.lost == 2
    room = 10**6
    recorder.log_request("m", [user("x" * 1000), assistant("a"), user("y")], "b", session_id="c")
    (made,) = recorder.trajectories()
    assert words(made) == [f"user: {'x' * 1000}", "assistant: a", "user: y", "assistant: b"]


CRASH = """
import itertools, sys
from unspool.record import Recorder
recorder = Recorder(agent="demo", path=sys.argv[1])
with recorder.conversation("c"):
    for n in itertools.count():
        recorder.log_request("m", [{"role": "user", "content": f"q{n} " + "x" * 5000}], f"a{n}")
        print(n, flush=True)
"""


def test_a_killed_process_loses_at_most_the_record_being_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = [sys.executable, "-c", CRASH, str(journal)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = -1
        for line in process.stdout:
            last = int(line)
            if last == 50:
                process.send_signal(signal.SIGKILL)
    (made,) = extract(journal)
    answers = [m.content for m in made.messages if m.role == "assistant"]
    assert answers[: last + 1] == [f"a{n}" for n in range(last + 1)]
    (file,) = journal.iterdir()
    with open(file, "ab") as torn:
        torn.write(b'{"kind":"response","session":"c","ti')
    with Recorder(agent="demo", path=journal) as again:
        again.log_request("m", [user("after the crash")], "still here", session_id="c")
    (made,) = extract(journal)
    assert words(made)[-2:] == ["user: after the crash", "assistant: still here"]
    assert [m.content for m in made.messages if m.role == "assistant"][:-1] == answers


def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, user("one")]
    for n in range(3):
        with Recorder(agent="demo", path=tmp_path) as recorder:
            recorder.log_request("m", messages, f"answer {n}", session_id="c")
        messages = [*messages, assistant(f"answer {n}"), user(f"more {n}")]
    (made,) = extract(tmp_path)
    assert words(made) == [
        "system: s", "user: one", "assistant: answer 0", "user: more 0", "assistant: answer 1",
        "user: more 1", "assistant: answer 2",
    ]  # fmt: skip


def test_clear(recorder: Recorder) -> None:
    for name in "abc":
        recorder.log_request("m", [user(name)], "r", session_id=name)
    recorder.clear("b")
    assert sorted(by_id(recorder)) == ["a", "c"]
    recorder.log_request("m", [user("b")], "r", session_id="b")
    assert words(by_id(recorder)["b"]) == ["user: b", "assistant: r"]
    recorder.clear()
    assert list(recorder.trajectories()) == []
    assert list(recorder.path.iterdir()) == []
    assert recorder.sizes["conversations"] == 0


def test_max_entries(tmp_path: Path) -> None:
    with Recorder(path=tmp_path, max_entries=40) as recorder:
        for n in range(200):
            recorder.log_request("m", [user(f"q{n}")], "a", session_id=f"c{n % 50}")
        found = [m.content for t in recorder.trajectories() for m in t.messages if m.role == "user"]
        assert 20 <= len(found) <= 40
        assert "q199" in found
    with Recorder(path=tmp_path, max_entries=10) as again:  # what it finds counts, too
        assert 1 <= sum(len(t.messages) // 2 for t in again.trajectories()) <= 10


def test_times_and_counts_stand_where_a_replay_has_them(tmp_path: Path) -> None:
    """In the `extra` of `metrics` and of `final_metrics`."""
    call = {"id": "c1", "function": {"name": "view", "arguments": "{}"}}
    with Recorder(path=tmp_path / "journal") as recorder:
        recorder.log_request(
            "m", [{"role": "user", "content": "hi"}], "", tool_calls=[call], session_id="c",
            usage={"prompt_tokens": 5, "completion_tokens": 2}, started_at=1000.0, ended_at=1001.5,
        )  # fmt: skip
        (path,) = recorder.export(tmp_path / "out")
    document = json.loads(path.read_bytes())
    assert document["final_metrics"]["extra"] == {"total_tool_calls": 1}
    assert document["steps"][1]["metrics"]["extra"] == {"duration_ms": 1500.0}


def test_limits_take_whole_conversations(tmp_path: Path) -> None:
    """Not the beginning of one and the middle of another; and who goes on without it says so."""
    with Recorder(path=tmp_path, max_entries=40) as recorder:
        for session in ("old", "older"):
            for number in range(12):  # more than one part each
                recorder.log_tool_call("view", {"n": number}, "text", session_id=session)
        recorder.log_tool_call("view", {}, "text", session_id="old")  # used last
        for number in range(16):
            recorder.log_tool_call("view", {"n": number}, "text", session_id="new")
        kept = {t.conversation_id: t for t in recorder.trajectories()}
        assert set(kept) == {"old", "new"}
        assert [t.partial for t in kept.values()] == [None, None]
        assert sum(len(m.tool_calls or ()) for m in kept["old"].messages) == 13
        recorder.log_tool_call("view", {}, "text", session_id="older")
        (again,) = recorder.trajectories("older")
        assert again.partial == ["evicted"]


def test_max_entries_of_one_long_conversation(tmp_path: Path) -> None:
    with Recorder(path=tmp_path, max_entries=40) as recorder:
        for n in range(500):
            recorder.log_request("m", [user(f"q{n}")], "a", session_id="c")
        (made,) = recorder.trajectories()
        asked = [m.content for m in made.messages if m.role == "user"]
        assert asked == [f"q{n}" for n in range(500 - len(asked), 500)]
        assert 30 <= len(asked) <= 40
        assert made.agent == "agent"
        assert made.partial == ["evicted"]


def test_max_bytes(tmp_path: Path) -> None:
    with Recorder(path=tmp_path, max_bytes=100_000) as recorder:
        for n in range(300):
            recorder.log_request("m", [user(f"q{n} " + "x" * 2000)], "a", session_id=f"c{n // 7}")
        size = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert 50_000 < size <= 100_000


def test_max_age(tmp_path: Path) -> None:
    with Recorder(path=tmp_path) as recorder:
        recorder.log_request("m", [user("old")], "a", session_id="old")
        recorder.log_request("m", [user("new")], "a", session_id="new")
    (old,) = tmp_path.glob("old*")
    os.utime(old, (time.time() - 1000, time.time() - 1000))
    with Recorder(path=tmp_path, max_age_seconds=500) as recorder:
        assert list(by_id(recorder)) == ["new"]


def test_a_journal_that_is_removed_while_it_is_written(recorder: Recorder) -> None:
    """By another process's limits, or by whatever clears up: what comes next is not lost silently."""
    messages = [user("one")]
    recorder.log_request("m", messages, "1", session_id="c")
    for path in recorder.path.iterdir():
        path.unlink()
    messages += [assistant("1"), user("two")]
    recorder.log_request("m", messages, "2", session_id="c")
    (made,) = recorder.trajectories()
    assert words(made) == ["user: one", "assistant: 1", "user: two", "assistant: 2"]
    assert recorder.lost == 0
    shutil.rmtree(recorder.path)
    with pytest.warns(UserWarning, match="cannot write its journal"):
        recorder.log_request("m", [*messages, assistant("2"), user("three")], "3", session_id="c")
    assert recorder.lost == 2
    assert list(recorder.trajectories()) == []


def test_only_journal_files_are_ever_removed(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("{}\n")
    with Recorder(path=tmp_path, max_entries=1) as recorder:
        recorder.log_request("m", [user("q")], "a")
        recorder.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.jsonl"]


def test_without_a_path_the_journal_is_temporary() -> None:
    with Recorder() as recorder:
        recorder.log_request("m", [user("q")], "a")
        folder = recorder.path
        assert len(list(recorder.trajectories())) == 1
    assert not folder.exists()


def test_fsync(tmp_path: Path, monkeypatch: Any) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with Recorder(path=tmp_path, fsync=True) as recorder:
        recorder.log_request("m", [user("q")], "a")
    assert len(synced) == 2


def test_limits_must_make_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_entries"):
        Recorder(path=tmp_path, max_entries=0)
