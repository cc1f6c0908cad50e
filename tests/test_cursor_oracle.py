"""Oracles: a made-up conversation told to every store must come back whole from any of them, and
plain counts over real logs must agree with what the source makes of them."""

import json
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cursor_stores import bubble, fill, rows_of, tool, write_chat, write_editor
from tests.harness import corpus, facts_of, origins_of, reduce_all
from tests.test_cursor_sent import blobs, state
from unspool.trajectory import Trajectory

CID = "0c0ffee0-0000-4000-8000-00000000000a"
WORDS = ("go on", "ok", "a longer sentence that says a little more", "ähm …\nsecond line")
KINDS = {
    "shell": ("run_terminal_cmd", "Shell", "command", ("ls", "make", "git status")),
    "read": ("read_file_v2", "Read", "path", ("/w/a.py", "/w/b.py")),
    "edit": ("edit_file", "StrReplace", "path", ("/w/a.py", "/w/c.py")),
}

call = st.sampled_from(
    [(kind, value) for kind, (_, _, _, values) in KINDS.items() for value in values]
)
step = st.fixed_dictionaries(
    {
        "thinking": st.sampled_from(["", "let me see", "now the other one"]),
        "text": st.sampled_from(["", *WORDS]),
        "calls": st.lists(call, min_size=1, max_size=3),
    }
)
turn = st.fixed_dictionaries(
    {
        "prompt": st.sampled_from(WORDS),
        "steps": st.lists(step, max_size=3),
        "answer": st.sampled_from(["Done.", "Done, and more than that.", "ok"]),
    }
)
Turns = list[dict[str, Any]]


class Told:
    """The conversation as one flat list: ("user", text) and ("step", thinking, text, calls)."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.events: list[tuple[Any, ...]] = []
        number = 0
        for each in turns:
            self.events.append(("user", each["prompt"]))
            steps = [*each["steps"], {"thinking": "", "text": each["answer"], "calls": []}]
            for made in steps:
                calls = []
                for kind, value in made["calls"]:
                    number += 1
                    calls.append((kind, value, f"call-{number}", f"result {number}"))
                self.events.append(("step", made["thinking"], made["text"], calls))

    @classmethod
    def cut(cls, whole: "Told", first: int, last: int) -> "Told":
        """The turns from first to last alone, as a store tells them that saw no others."""
        made = cls([])
        starts = [at for at, event in enumerate(whole.events) if event[0] == "user"]
        ends = [*starts[1:], len(whole.events)]
        made.events = whole.events[starts[first] : ends[last]]
        return made

    def said(self) -> list[tuple[str, str]]:
        made = []
        for event in self.events:
            if event[0] == "user":
                made.append(("user", event[1]))
            else:
                made.append(("assistant", event[2]))
        return made

    def called(self) -> list[list[str]]:
        return [[v for _, v, _, _ in event[3]] for event in self.events if event[0] == "step"]


def arguments(kind: str, value: str) -> dict[str, str]:
    made = {KINDS[kind][2]: value}
    return {**made, "old_string": "x", "new_string": "y"} if kind == "edit" else made


def to_bubbles(told: Told, folder: Path) -> None:
    made = []
    for number, event in enumerate(told.events):
        name = f"{(number * 7919) % 9973:04d}"
        if event[0] == "user":
            made.append(bubble(f"{name}-u", 1, event[1]))
            continue
        if event[1]:
            made.append(bubble(f"{name}-t", 2, thinking={"text": event[1]}))
        if event[2]:
            made.append(bubble(f"{name}-s", 2, event[2]))
        for kind, value, ident, result in event[3]:
            made.append(
                tool(f"{name}-{ident}", KINDS[kind][0], ident, arguments(kind, value),
                     {"output": result}, modelCallId=name)
            )  # fmt: skip
    add_rows(folder, rows_of({"composerId": CID}, *made))


def add_rows(folder: Path, rows: dict[str, Any]) -> None:
    """Rows for the global database, where others may have been put already; a composer's are one."""
    path = folder / "Cursor/User/globalStorage/state.vscdb"
    if not path.exists():
        write_editor(path, {})
    key = f"composerData:{CID}"
    with closing(sqlite3.connect(path)) as connection, connection:
        found = connection.execute(
            "SELECT value FROM cursorDiskKV WHERE key = ?", (key,)
        ).fetchone()
        known = json.loads(found[0]) if found else {}
        fill(connection, "cursorDiskKV", {**rows, key: {**known, **rows[key]}})


def to_transcript(told: Told, folder: Path) -> None:
    lines = []
    for event in told.events:
        if event[0] == "user":
            text = {"type": "text", "text": f"<user_query>\n{event[1]}\n</user_query>"}
            lines.append({"role": "user", "message": {"content": [text]}})
            continue
        parts: list[dict[str, Any]] = [{"type": "text", "text": event[2]}] if event[2] else []
        for kind, value, _, _ in event[3]:
            parts.append(
                {"type": "tool_use", "name": KINDS[kind][1], "input": arguments(kind, value)}
            )
        lines.append({"role": "assistant", "message": {"content": parts}})
    path = folder / f"projects/w/agent-transcripts/{CID}/{CID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def to_hooks(told: Told, folder: Path) -> None:
    lines: list[dict[str, Any]] = []
    turn_number = 0
    for event in told.events:
        if event[0] == "user":
            turn_number += 1
            lines.append({"hook_event_name": "beforeSubmitPrompt", "prompt": event[1]})
        else:
            if event[1]:
                lines.append({"hook_event_name": "afterAgentThought", "text": event[1]})
            if event[2]:
                lines.append({"hook_event_name": "afterAgentResponse", "text": event[2]})
            for stage in ("preToolUse", "postToolUse"):
                for kind, value, ident, result in event[3]:
                    lines += _hooked(stage, kind, value, f"hook-{ident}", result)
        for line in lines:
            line.setdefault("conversation_id", CID)
            line.setdefault("generation_id", f"gen-{turn_number}")
            line.setdefault("cursor_version", "3.8")
    (folder / "hooks.log").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _hooked(stage: str, kind: str, value: str, ident: str, result: str) -> list[dict[str, Any]]:
    base = {"tool_name": KINDS[kind][1], "tool_input": arguments(kind, value), "tool_use_id": ident}
    if stage == "preToolUse":
        made: list[dict[str, Any]] = [{"hook_event_name": stage, **base}]
        if kind == "shell":
            made.append({"hook_event_name": "beforeShellExecution", "command": value})
        return made
    made = [{"hook_event_name": stage, **base, "tool_output": json.dumps({"output": result})}]
    if kind == "shell":
        made.insert(
            0, {"hook_event_name": "afterShellExecution", "command": value, "output": result}
        )
    if kind == "edit":
        edits = [{"old_string": "x", "new_string": "y"}]
        made.insert(0, {"hook_event_name": "afterFileEdit", "file_path": value, "edits": edits})
    return made


def to_chat(told: Told, folder: Path) -> None:
    write_chat(folder / f"chats/0/{CID}/store.db", messages_of(told))


def to_sent(told: Told, folder: Path) -> None:
    """What the editor keeps of what was sent to the model."""
    messages = messages_of(told)
    composer = {"composerId": CID, "conversationState": state(*messages)}
    add_rows(folder, {f"composerData:{CID}": composer, **blobs(*messages)})


def messages_of(told: Told) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for event in told.events:
        if event[0] == "user":
            text = {"type": "text", "text": f"<user_query>\n{event[1]}\n</user_query>"}
            messages.append({"role": "user", "content": [text]})
            continue
        parts: list[dict[str, Any]] = []
        if event[1]:
            parts.append({"type": "reasoning", "text": event[1]})
        if event[2]:
            parts.append({"type": "text", "text": event[2]})
        results = []
        for kind, value, ident, result in event[3]:
            named = {"toolCallId": ident, "toolName": KINDS[kind][1]}
            parts.append({"type": "tool-call", **named, "args": arguments(kind, value)})
            results.append({"type": "tool-result", **named, "result": result})
        messages.append({"role": "assistant", "content": parts})
        messages += [{"role": "tool", "content": [part]} for part in results]
    return messages


def to_stream(told: Told, folder: Path) -> None:
    lines: list[dict[str, Any]] = [{"type": "system", "subtype": "init"}]
    for number, event in enumerate(told.events):
        if event[0] == "user":
            content = [{"type": "text", "text": event[1]}]
            lines.append({"type": "user", "message": {"role": "user", "content": content}})
            continue
        group = {"model_call_id": f"mc-{number}"}
        if event[1]:
            lines.append({"type": "thinking", "subtype": "delta", "text": event[1][:3], **group})
            lines.append({"type": "thinking", "subtype": "delta", "text": event[1][3:], **group})
            lines.append({"type": "thinking", "subtype": "completed", **group})
        if event[2]:
            content = [{"type": "text", "text": event[2]}]
            lines.append({"type": "assistant", "message": {"content": content}, **group})
        for stage in ("started", "completed"):
            for kind, value, ident, result in event[3]:
                body: dict[str, Any] = {"args": arguments(kind, value)}
                if stage == "completed":
                    body["result"] = {"success": {"output": result}}
                lines.append(
                    {"type": "tool_call", "subtype": stage, "call_id": ident, **group,
                     "tool_call": {f"{kind}ToolCall": body}}
                )  # fmt: skip
    (folder / "stream.jsonl").write_text(
        "".join(json.dumps({**line, "session_id": CID}) + "\n" for line in lines)
    )


STORES: dict[str, Callable[[Told, Path], None]] = {
    "bubbles": to_bubbles,
    "transcript": to_transcript,
    "hooks": to_hooks,
    "chat": to_chat,
    "sent": to_sent,
    "stream": to_stream,
}


RANKS = {"chat": 0, "bubbles": 1, "stream": 1, "sent": 2, "transcript": 2, "hooks": 4}


def rebuilt(told: Told, stores: set[str]) -> Trajectory:
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(stores):
            STORES[name](told, Path(folder))
        (made,) = reduce_all(facts_of(origins_of(folder)))
        return made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    turns=st.lists(turn, min_size=1, max_size=3),
    stores=st.sets(st.sampled_from(sorted(STORES)), min_size=1),
)
def test_any_stores_give_the_one_conversation(turns: Turns, stores: set[str]) -> None:
    told = Told(turns)
    made = rebuilt(told, stores)
    spoken = [m for m in made.messages if m.role in ("user", "assistant")]
    assert [(m.role, m.typed if m.role == "user" else m.content) for m in spoken] == told.said()
    assert [
        [next(iter(json.loads(c.arguments).values())) for c in m.tool_calls or ()]
        for m in spoken
        if m.role == "assistant"
    ] == told.called()
    if stores - {"transcript"}:
        results = [m.content for m in made.messages if m.role == "tool"]
        assert results == [r for e in told.events if e[0] == "step" for _, _, _, r in e[3]]
        thought = [m.thinking or "" for m in spoken if m.role == "assistant"]
        assert thought == [event[1] for event in told.events if event[0] == "step"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_stores_that_saw_only_some_turns_add_nothing_and_move_nothing(data: st.DataObject) -> None:
    turns = data.draw(st.lists(turn, min_size=2, max_size=4))
    for number, each in enumerate(turns):
        each["prompt"] += f" {number}"
        each["answer"] += f" Turn {number} is over."
        for place, made in enumerate(each["steps"]):
            made["text"] = f"step {number}.{place}"
            made["thinking"] = f"thought {number}.{place}"
            made["calls"] = [("shell", f"run {number}.{place}")]
    told = Told(turns)
    whole, *others = data.draw(st.permutations(sorted(STORES)))
    with tempfile.TemporaryDirectory() as folder:
        STORES[whole](told, Path(folder))
        # Two stores as good that share nothing and have no times: only their names order them.
        better = [name for name in others if RANKS[name] <= RANKS[whole]]
        for name in [n for n in others[:2] if n not in better[1:]]:
            first = data.draw(st.integers(0, len(turns) - 1))
            last = data.draw(st.integers(first, len(turns) - 1))
            STORES[name](Told.cut(told, first, last), Path(folder))
        (made,) = reduce_all(facts_of(origins_of(folder)))
    spoken = [m for m in made.messages if m.role in ("user", "assistant")]
    assert [(m.role, m.typed if m.role == "user" else m.content) for m in spoken] == told.said()
    assert sum(len(m.tool_calls or ()) for m in spoken) == sum(map(len, told.called()))


def test_plain_counts_over_real_hook_logs_agree() -> None:
    """Prompts, shell commands and edits of every conversation, counted by hand.

    One event that two scripts logged is one: the most often that any log holds a payload.
    """
    folder = corpus("cursor", "hooks")
    if folder is None:
        pytest.skip("no corpus")
    most: Counter[str] = Counter()
    for path in sorted(folder.glob("*.log")):
        found = re.findall(r"\{.*\}", path.read_text("utf-8", "replace"))
        most |= Counter(found)
    expected: Counter[tuple[str, str]] = Counter()
    for payload, times in most.items():
        try:
            value = json.loads(payload)
        except ValueError:
            continue
        if value["hook_event_name"] in (
            "beforeSubmitPrompt",
            "beforeShellExecution",
            "afterFileEdit",
        ):
            expected[(value["conversation_id"], value["hook_event_name"])] += times
    made: Counter[tuple[str, str]] = Counter()
    paths = {str(path) for path in folder.glob("*.log")}
    for trajectory in reduce_all(facts_of(o for o in origins_of(folder) if o.path in paths)):
        for message in trajectory.messages:
            if message.role == "user":
                made[(trajectory.conversation_id, "beforeSubmitPrompt")] += 1
            for called in message.tool_calls or ():
                event = "afterFileEdit" if called.name == "edit_file" else "beforeShellExecution"
                made[(trajectory.conversation_id, event)] += 1
    assert made == expected


def test_plain_counts_over_a_real_workspace_agree() -> None:
    folder = corpus("cursor", "workspace_itemtable_2024")
    if folder is None:
        pytest.skip("no corpus")
    composers = json.loads((folder / "composer.composerData.json").read_text())["allComposers"]
    chats = json.loads((folder / "workbench.panel.aichat.view.aichat.chatdata.json").read_text())
    expected = {
        c["composerId"]: [b["text"] for b in c["conversation"]]
        for c in composers
        if c["conversation"]
    }
    for tab in chats["tabs"]:
        said = [b.get("text") or b.get("rawText") for b in tab["bubbles"]]
        if any(said):
            expected[tab["tabId"]] = [text for text in said if text]
    made = {
        t.conversation_id: [m.content for m in t.messages if m.content]
        for t in reduce_all(facts_of(origins_of(folder)))
        if not t.conversation_id.startswith("prompts-")
    }
    assert made == expected


def test_a_real_transcript_keeps_every_line() -> None:
    folder = corpus("cursor", "agent_transcripts")
    if folder is None:
        pytest.skip("no corpus")
    for made in reduce_all(facts_of(origins_of(folder))):
        lines = (folder / f"{made.conversation_id}.jsonl").read_text().strip().split("\n")
        assert len(made.messages) == len(lines)
        for message, line in zip(made.messages, lines, strict=True):
            text = json.loads(line)["message"]["content"][0]["text"]
            kept = "\n\n".join(t for t in (message.content, message.thinking) if t)
            assert re.sub(r"\s+", " ", kept).strip() == re.sub(r"\s+", " ", text).strip()
