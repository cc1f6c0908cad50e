"""Claude Code: what a user of its files would notice, beyond the golden cases."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness import CASES, case_id, cases, facts_of, origins_of, plain, reduce_all
from unspool import sources
from unspool.facts import MessageSeen, ToolReturned
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources import claude_code
from unspool.sources.claude_code.hooks import EVENTS, event_of
from unspool.sources.claude_code.words import read_words
from unspool.trajectory import Trajectory, decode_trajectory, encode_trajectory

OWN = cases("claude_code")
TIMES = re.compile(rb'"(?:timestamp|logged_at)"')
PASSED_OVER = ("history.jsonl", "journal.jsonl", "settings.json", "todos", "tool-results")


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_files_go_to_the_right_source(case: Path) -> None:
    """Ours are recognised as ours, and nobody else's are."""
    own = case.parent.name == "claude_code"
    if "claude_code" in case.name:
        return  # another source's case that holds one of our files too
    for path in (p for p in (case / "input").rglob("*") if p.is_file()):
        name = sources.recognise(read_head(str(path)))
        if own and not any(word in str(path) for word in PASSED_OVER):
            assert name in ("claude-code", None), path
        elif not own:
            assert name != "claude-code", path
    if own:
        assert {o.source for o in origins_of(case / "input")} == {"claude-code"}


def test_a_home_is_read_without_flags(tmp_path: Path) -> None:
    """Only sessions are taken from `.claude`: no history, todos, undo state or settings."""
    home = CASES / "claude_code" / "home" / "input"
    found = origins_of(home / ".claude")
    assert [Path(o.path).parts[-3] for o in found] == ["projects", "projects"]
    (made,) = reduce_all(facts_of(found))
    assert [m.content for m in made.messages] == ["Hello there.", "Hi."]


def test_cursor_runs_the_same_hooks(tmp_path: Path) -> None:
    payload = {
        "session_id": "s",
        "hook_event_name": "PreToolUse",
        "transcript_path": "/t.jsonl",
        "tool_name": "Read",
        "tool_input": {},
    }
    path = tmp_path / "hooks.jsonl"
    path.write_text(json.dumps(payload) + "\n")
    assert sources.recognise(read_head(str(path))) == "claude-code"
    path.write_text(json.dumps({**payload, "cursor_version": "2.4", "conversation_id": "c"}) + "\n")
    assert sources.recognise(read_head(str(path))) != "claude-code"


def test_every_event_is_known_in_any_case() -> None:
    assert len(EVENTS) == len(set(EVENTS)) == 33
    for name in EVENTS:
        for spelt in (name, name.lower(), name[0].lower() + name[1:], name.upper()):
            assert event_of({"hook_event_name": spelt}) == name


def test_every_event_leaves_something(tmp_path: Path) -> None:
    """Each of the 33 is in the result."""
    tally = Tally()
    facts_of(origins_of(CASES / "claude_code" / "hooks_all_events" / "input"), tally)
    assert (tally.records, tally.noise, tally.unrecognised, tally.problems) == (33, 0, 0, 0)


def ids(messages: list[Any]) -> list[str]:
    """What a message is known by: its id, its calls, else its words."""
    return [
        m.get("id")
        or (m["role"] == "tool" and f"result:{m['tool_call_id']}")
        or "+".join(call["id"] for call in m.get("tool_calls", ()))
        or m["content"]
        for m in messages
    ]


@pytest.mark.parametrize("case", OWN, ids=case_id)
def test_growing(case: Path, tmp_path: Path) -> None:
    """A file read again later leaves what it said as it was: save the last message, which may still
    be open, and what a rewind moved to a branch."""
    for path in sorted((case / "input").rglob("*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        if len(lines) > 40 or case.name == "damage":
            continue
        target = tmp_path / path.name
        before: list[dict[str, Any]] = []
        for count in range(1, len(lines) + 1):
            target.write_bytes(b"".join(lines[:count]))
            made = plain(reduce_all(facts_of(origins_of(target))), tmp_path)
            main = next((t for t in made if t["source"] == "claude-code"), None)
            if main is None:
                continue
            moved = {i for b in main.get("branches", ()) for i in ids(b["messages"])}
            now = ids(main["messages"])
            # What was queued takes the place of the prompt that it becomes.
            kept = [
                i
                for i, m in zip(ids(before), before, strict=True)
                if i not in moved and m.get("status") != "queued"
            ]
            assert [i for i in now if i in kept] == kept, (path.name, count)
            before = main["messages"]


@pytest.mark.parametrize("case", OWN, ids=case_id)
def test_head_and_tail(case: Path, tmp_path: Path) -> None:
    """Law 4: two files of a session, one with its head and one with its tail, overlapping or not,
    whichever comes first in the folder, are the session."""
    for path in sorted((case / "input").rglob("*.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        if len(lines) < 2 or len(lines) > 40 or not TIMES.search(path.read_bytes()):
            continue  # without times nobody can tell the head from the tail
        whole = outline(reduce_all(facts_of(origins_of(path))))
        for cut, overlap in ((len(lines) // 2, 0), (len(lines) // 2, 2), (1, 1)):
            for first, second in (("a", "b"), ("b", "a")):
                folder = tmp_path / f"{path.stem}-{cut}-{overlap}-{first}"
                for name, part in ((first, lines[: cut + overlap]), (second, lines[cut:])):
                    (folder / name).mkdir(parents=True)
                    (folder / name / path.name).write_bytes(b"".join(part))
                assert outline(reduce_all(facts_of(origins_of(folder)))) == whole, (cut, overlap)


def outline(made: list[Trajectory]) -> dict[str, Any]:
    return {
        t.conversation_id: (
            [(m.role, m.content, m.id, m.kind, m.copied) for m in t.messages],
            [(b.index, b.fork_id, [m.content for m in b.messages]) for b in t.branches or ()],
            [(m.kind, m.index) for m in t.marks or ()],
            t.usage,
            t.title,
        )
        for t in made
    }


def test_details_do_not_repeat_what_is_told_elsewhere() -> None:
    (made,) = reduce_all(facts_of(origins_of(CASES / "claude_code" / "edits" / "input")))
    for message in made.messages:
        if message.role == "tool" and isinstance(message.details, dict):
            assert not {"originalFile", "oldString", "newString", "content"} & set(message.details)
    first = next(m for m in made.messages if m.tool_call_id == "e1")
    assert first.details["originalFile_size"] > 0
    assert first.details["structuredPatch"]


def test_persisted_output_is_read_from_beside_the_session_only() -> None:
    (made,) = reduce_all(facts_of(origins_of(CASES / "claude_code" / "persisted_output" / "input")))
    whole, secret = (m for m in made.messages if m.role == "tool")
    assert whole.details["persistedOutput"] == "y\ny\ny\n"
    assert not isinstance(secret.details, dict) or "persistedOutput" not in secret.details


def read_lines(tmp_path: Path, *lines: dict[str, Any]) -> list[Trajectory]:
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return reduce_all(facts_of(origins_of(path)))


def line(kind: str, uuid: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}


def test_the_same_answer_asked_for_twice_counts_once(tmp_path: Path) -> None:
    """The last line of a message has its usage, whatever stands between its lines."""

    def answer(uuid: str, parent: str, tokens: int) -> dict[str, Any]:
        usage = {"input_tokens": 10, "output_tokens": tokens, "cache_read_input_tokens": None}
        body = {
            "id": "m",
            "model": "x",
            "content": [{"type": "text", "text": uuid}],
            "usage": usage,
        }
        return line("assistant", uuid, parent, message=body)

    prompt = line("user", "p", None, message={"content": "go"})
    result = [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]
    (made,) = read_lines(
        tmp_path,
        prompt,
        answer("a", "p", 1),
        line("user", "r", "a", message={"content": result}),
        answer("b", "a", 70),
    )
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (10, 70)


def test_half_a_character_costs_no_line(tmp_path: Path) -> None:
    """Programs cut texts between the halves of an emoji, also where only a second look decodes."""
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "/a~"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "r~"}
    rows = [
        line("user", "p", None, message={"content": "go~"}),
        line("assistant", "a", "p", message={"id": "m", "content": [call]}),
        line("user", "r", "a", message={"content": [result]}, toolUseResult={"stdout": "out~"}),
        line("system", "s", "r", content="said~"),
        {"type": "custom-title", "customTitle": "T~", "sessionId": "s"},
        {"type": "queue-operation", "operation": "enqueue", "content": "q~", "sessionId": "s"},
        line("progress", "x", "s", data={"type": "agent_progress", "agentId": "k~"}),
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(row).replace("~", "\\ud83d") + "\n" for row in rows))
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(path), tally))
    assert [m.content for m in made.messages] == [
        "go\ufffd",
        "",
        "r\ufffd",
        "said\ufffd",
        "q\ufffd",
    ]
    assert made.title == "T\ufffd"
    assert tally.records == len(rows)


def test_deep_sessions_do_not_overflow(tmp_path: Path) -> None:
    """20,000 lines in one chain, and a tool result nested as deep as JSON readers allow."""
    rows = [line("user", "0", None, message={"content": "start"})]
    rows += [
        line("user", str(n), str(n - 1), message={"content": f"n{n}"}) for n in range(1, 20_000)
    ]
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    rows.append(
        line("user", "z", "19999", message={"content": "end"}, toolUseResult={"deep": deep})
    )
    (made,) = read_lines(tmp_path, *rows)
    assert len(made.messages) == 20_001


def test_copies_count_once_over_many_forks(tmp_path: Path) -> None:
    """Whatever is forked from whatever, every answer is in the totals of exactly one session."""
    folder = CASES / "claude_code" / "fork_copies" / "input"
    shutil.copytree(folder, tmp_path / "all")
    first = next(iter(sorted((tmp_path / "all").rglob("*.jsonl"))))
    rows = [json.loads(text) for text in first.read_text().splitlines()]
    for number in range(3):
        session = f"{number}{first.stem[1:]}"
        copied = [{**row, "sessionId": session} for row in rows[: 3 + number]]
        usage = {"input_tokens": 1000, "output_tokens": number}
        body = {"id": f"own{number}", "model": "claude-opus-4-5", "content": [], "usage": usage}
        own = {**rows[0], "type": "assistant", "uuid": f"own{number}", "message": body}
        own |= {"parentUuid": copied[-1]["uuid"], "sessionId": session}
        own["timestamp"] = f"2026-04-0{number + 1}T00:00:00.000Z"
        text = "".join(json.dumps(row) + "\n" for row in [*copied, own])
        first.with_name(f"{session}.jsonl").write_text(text)
    made = reduce_all(facts_of(origins_of(tmp_path / "all")))
    counted = [m.id for t in made for m in t.messages if m.role == "assistant" and not m.copied]
    assert len(counted) == len(set(counted))
    assert {m.id for t in made for m in t.messages if m.role == "assistant"} == set(counted)
    total = sum(t.usage.prompt_tokens or 0 for t in made if t.usage is not None)
    assert total == sum(
        m.usage.prompt_tokens or 0 for t in made for m in t.messages if m.usage and not m.copied
    )
    for trajectory in made:
        turns = [m.turn for m in trajectory.messages if m.copied]
        assert set(turns) <= {None}


@pytest.mark.parametrize(
    ("text", "kind", "typed"),
    [
        ("Fix it", "", "Fix it"),
        ("<b>bold</b> please", "", "<b>bold</b> please"),
        ("<command-name>/x</command-name>", "command", "/x"),
        ("<command-message>x</command-message>\n<command-name>x</command-name>", "command", "/x"),
        ("<bash-input>ls -l</bash-input>", "shell", "ls -l"),
        ("<bash-stdout>a</bash-stdout>", "output", None),
        ("[Request interrupted by user for tool use]", "interruption", None),
        ("<system-reminder>x</system-reminder>", "injected", None),
        ("<ide_opened_file>opened the file /a in the IDE</ide_opened_file>\nWhy?", "", "Why?"),
        ("[x] is done", "", "[x] is done"),
        ("<bash-exit-code>1</bash-exit-code>", "output", None),
        ('<cross-session-message from="b">x</cross-session-message>', "notification", None),
        ("Another Claude session sent a message:\n<cross-session-message/>", "notification", None),
        ("Another one, please", "", "Another one, please"),
        ('<agent-message from="b">x</agent-message>', "notification", None),
        ('<channel source="chat">x</channel>', "notification", None),
        ("<channel> is a tag", "", "<channel> is a tag"),
        ("<coordinator-relay>x</coordinator-relay>", "notification", None),
        ("<fetched-web-content>x</fetched-web-content>", "injected", None),
        ("<fork-boilerplate>\nrules\n</fork-boilerplate>\n\nYour directive: Sort.", "", "Sort."),
        ("<fork-boilerplate> is a tag", "", "<fork-boilerplate> is a tag"),
    ],
)
def test_words(text: str, kind: str, typed: str | None) -> None:
    made = read_words(text)
    assert (made.kind, made.typed) == (kind, typed)


def test_places() -> None:
    home = Path("/home/ann")
    assert claude_code.places(home, {}, "linux")[0] == home / ".claude" / "projects"
    listed = claude_code.places(home, {"CLAUDE_CONFIG_DIR": "/a, /b"}, "linux")
    assert listed == [Path("/a/projects"), Path("/b/projects")]


def test_a_range_of_an_array_gives_nothing_twice() -> None:
    """A file that is one array is read once, by whoever reads its beginning."""
    (origin,) = origins_of(CASES / "claude_code" / "hooks_array" / "input")
    whole = facts_of([origin])
    cut = [
        msgspec.structs.replace(origin, end=100),
        msgspec.structs.replace(origin, start=100, end=None),
    ]
    assert facts_of(cut) == whole


def test_facts_are_lean() -> None:
    """No fact holds the file before an edit, and no text twice."""
    origin = Origin(str(next((CASES / "claude_code" / "edits" / "input").iterdir())), "x")
    for fact in claude_code.read(origin, Tally()):
        if isinstance(fact, ToolReturned | MessageSeen):
            assert b"originalFile\x22" not in msgspec.json.encode(fact)


JUNK: list[Any] = [
    None, True, 0, 1.5, "", "x", "\ud83d", [], {}, [1], {"a": 1}, [{"type": "text"}], [[]],
    {"type": "text", "text": None}, "2026-99-99", {"content": 5}, 10**30,
]  # fmt: skip


def mutated(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.06:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        return {k: mutated(v, rng) for k, v in value.items() if rng.random() > 0.02}
    return [mutated(v, rng) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", OWN, ids=case_id)
def test_no_value_of_any_type_ends_in_a_traceback(case: Path, tmp_path: Path) -> None:
    """Values of every type in every field: read, counted, and what comes out can be read back."""
    rng = random.Random(case.name)
    for path in sorted((case / "input").rglob("*.jsonl")) if case.name != "damage" else ():
        rows = [json.loads(text) for text in path.read_text().splitlines()]
        target = tmp_path / path.name
        for _ in range(6):
            texts = [json.dumps(mutated(row, rng)) for row in rows]
            texts = [t[: rng.randrange(len(t))] if rng.random() < 0.03 else t for t in texts]
            target.write_text("\n".join(texts) + "\n")
            origin = Origin(str(target), path.name, source="claude-code", size=1)
            for made in reduce_all(facts_of([origin])):
                decode_trajectory(encode_trajectory(made))


@pytest.mark.parametrize(
    "rows",
    [
        # Codex: every payload names its turn, or its transcript lies in Codex's home.
        [{"session_id": "s", "turn_id": "t", "hook_event_name": "Stop", "transcript_path": "/r"}],
        [{"session_id": "s", "hook_event_name": "SessionEnd", "transcript_path": "/h/.codex/r"}],
        # Qwen Code: hooks, a session file, a stream.
        [{"session_id": "s", "hook_event_name": "PreToolUse", "tool_call_id": "c", "tool_name": "x"}],
        [{"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s",
          "message": {"role": "user", "parts": [{"text": "Hi"}]}}],
        [{"type": "system", "subtype": "init", "session_id": "s", "tools": [],
          "qwen_code_version": "0.24.4"},
         {"type": "assistant", "session_id": "s", "parent_tool_use_id": None,
          "message": {"id": "m", "content": []}}],
    ],
    ids=["codex-turn", "codex-home", "qwen-hook", "qwen-session", "qwen-stream"],
)  # fmt: skip
def test_the_same_events_of_other_agents_are_not_ours(rows: list[dict[str, object]]) -> None:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert sources.recognise(Head("/logs/log.jsonl", data, True)) != claude_code.NAME
