"""The chat.json sink: VS Code's importer takes all of it, and the source reads it back equal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import CASES, case_id, cases, corpus, facts_of, origins_of, reduce_all
from tests.importer import refusals
from tests.vscode import chat, put, request
from unspool.facts import Attachment
from unspool.sinks import Family
from unspool.sinks.chat_json import write
from unspool.sinks.chat_json.prompts import utf16_length
from unspool.trajectory import Message, ToolCall, ToolFunction, Trajectory, Usage

NOT_IMPORTABLE = {"wrong_types", "replay", "replay_other_model", "replay_compaction"}
"""Cases with parts that a chat cannot hold: broken ones, and a system prompt."""


def families(trajectories: list[Trajectory]) -> Iterator[Family]:
    for root in trajectories:
        if root.parent is None:
            below = [t for t in trajectories if t.parent and _is_under(t, root)]
            yield Family(root, tuple(below))


def _is_under(child: Trajectory, root: Trajectory) -> bool:
    return child.parent is not None and child.parent.conversation_id == root.conversation_id


def chats_of(trajectories: list[Trajectory]) -> Iterator[tuple[str, bytes]]:
    for family in families(trajectories):
        for piece in write(family, {}):
            yield piece.name, piece.data


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_importable(case: Path) -> None:
    """Every conversation of every source becomes a chat that the importer takes."""
    for _, data in chats_of(reduce_all(facts_of(origins_of(case / "input")))):
        assert refusals(json.loads(data)) == []


@pytest.mark.parametrize("case", cases("vscode_chat"), ids=case_id)
def test_round_trip(case: Path, tmp_path: Path) -> None:
    if case.name in NOT_IMPORTABLE:
        pytest.skip("holds what no chat can hold")
    assert_round_trip(case / "input", tmp_path)


@pytest.mark.parametrize("name", ["real8.session.json", "live.session.jsonl"])
def test_round_trip_of_real_chats(name: str, tmp_path: Path) -> None:
    path = corpus("vscode", "chat-sessions", name)
    if path is None:
        pytest.skip("no corpus here")
    assert_round_trip(path, tmp_path)


def test_a_link_is_written_once() -> None:
    """Where the words of the model name the file, and not at the end once more."""
    made = reduce_all(facts_of(origins_of(CASES / "vscode_chat" / "links_once" / "input")))
    ((_, data),) = chats_of(made)
    first, second = json.loads(data)["requests"]
    kinds = [part.get("kind", part.get("value")) for part in first["response"]]
    assert kinds[-5:] == ["It is in ", "inlineReference", " and ", "inlineReference", "."]
    kinds = [part.get("kind", part.get("value")) for part in second["response"]]
    assert kinds == ["See ", "inlineReference", "."]


def test_words_and_calls_keep_their_order() -> None:
    made = reduce_all(facts_of(origins_of(CASES / "vscode_chat" / "in_order" / "input")))
    ((_, data),) = chats_of(made)
    first, second, third = json.loads(data)["requests"]
    kinds = [
        part.get("toolCallId", part.get("kind", part.get("value"))) for part in first["response"]
    ]
    assert kinds == ["I look at the settings.", "call_1", "warning", "Now the tests.", "call_2",
                     "It is 8080."]  # fmt: skip
    assert second["result"]["errorDetails"]["code"] == "canceled"
    assert third["modelState"]["value"] == 2


def test_round_trip_of_an_error_of_old(tmp_path: Path) -> None:
    """Before answers had a state, only the error itself told that one failed."""
    failed = request(1, result={"errorDetails": {"message": "No such model"}}, response=[])
    source = put(tmp_path / "in", "chat.json", chat(failed, request(2)))
    (tmp_path / "out").mkdir()
    assert_round_trip(source, tmp_path / "out")


def assert_round_trip(source: Path, folder: Path) -> None:
    first = reduce_all(facts_of(origins_of(source)))
    for name, data in chats_of(first):
        assert refusals(json.loads(data)) == []
        (folder / name).write_bytes(data)
    second = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}
    assert set(second) == {t.conversation_id for t in first}
    for trajectory in first:
        again = second[trajectory.conversation_id]
        assert _held(again) == _held(trajectory)


def _held(trajectory: Trajectory) -> dict[str, Any]:
    """What a chat can hold: no title, no folder, no start, and nothing that was taken back."""
    made = msgspec.to_builtins(trajectory)
    assert isinstance(made, dict)
    names = ("messages", "marks", "files", "usage", "model_usage", "mode_distribution", "children",
             "parent", "references")  # fmt: skip
    held = {name: made.get(name) for name in names}
    if trajectory.parent is not None:
        return held
    known = ("responder_icon", "requester", "requester_icon", "participants")
    held |= {name: trajectory.metadata.get(name) for name in known}
    # Every export has these two.
    held["initial_location"] = trajectory.metadata.get("initial_location", "panel")
    held["agent"] = trajectory.agent or "GitHub Copilot"
    held["agent_version"] = trajectory.agent_version
    for message in held["messages"]:
        for call in message.get("tool_calls", ()):
            # A call without a part is given one, so that VS Code shows it.
            if "tool_id" not in call.get("extra", {}) or call["extra"].get("source") == _GIVEN:
                call.pop("extra", None)
    _drop_given_details(held["messages"])
    return held


_GIVEN = {"type": "external", "label": "External"}


def _drop_given_details(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        details = message.get("details")
        if isinstance(details, dict) and set(details) == {"input", "output", "isError"}:
            message.pop("details")


TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=30),
    st.sampled_from(["", "a\nb", "\r\n", "𝔘𝔫𝔦", "\x00", "\ud800", "```\n<x>", "request_1"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MENTION = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["text", "agent", "tool", "dynamic", "novelty", None]),
        "range": st.none() | st.fixed_dictionaries(
            {"start": st.integers(-2, 9) | TEXTS, "endExclusive": st.integers(-2, 9)}
        ),
        "text": TEXTS, "id": TEXTS, "toolName": TEXTS, "toolId": TEXTS, "agent": JSON,
    },
)  # fmt: skip
EXTRA = st.none() | st.dictionaries(
    st.sampled_from(
        ["parts", "mentions", "agent", "mode_info", "followups", "vote", "state", "error", "removed",
         "content_references", "response_id", "model_id", "tool_id", "confirmed", "ui_call", "x"]
    ),
    JSON | st.lists(MENTION, max_size=3),
    max_size=5,
)  # fmt: skip
ATTACHMENTS = st.none() | st.lists(
    st.builds(Attachment, kind=TEXTS, name=TEXTS, path=TEXTS, uri=TEXTS, text=TEXTS,
              data=st.sampled_from(["", "aGk="]), start_line=st.none() | st.integers(0, 9),
              extra=EXTRA),
    max_size=3,
)  # fmt: skip
CALLS = st.none() | st.lists(
    st.builds(ToolCall, id=TEXTS, function=st.builds(ToolFunction, TEXTS, TEXTS), extra=EXTRA,
              status=st.none() | st.sampled_from(["denied", "failed", "completed"])),
    max_size=3,
)  # fmt: skip
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS, mode=st.none() | TEXTS, model=st.none() | TEXTS, tool_calls=CALLS,
    tool_call_id=st.none() | TEXTS, id=st.none() | TEXTS, typed=st.none() | TEXTS,
    kind=st.none() | st.sampled_from(["injected", "summary", "error", "interruption", "notification"]),
    thinking=st.none() | TEXTS, timestamp=st.none() | TEXTS | st.just("2026-01-02T03:04:05Z"),
    status=st.none() | st.sampled_from(["hidden", "undone", "failed", "cancelled"]),
    duration_ms=st.none() | st.floats(), details=JSON, extra=EXTRA, attachments=ATTACHMENTS,
    usage=st.none() | st.builds(Usage, prompt_tokens=st.none() | st.integers(0, 9), extra=EXTRA),
)  # fmt: skip
HOSTILE = st.builds(
    Trajectory, conversation_id=TEXTS, messages=st.lists(MESSAGES, max_size=6),
    source=st.sampled_from(["vscode-chat", "vscode-chat", "claude-code", ""]),
    agent=st.none() | TEXTS, metadata=st.dictionaries(st.just("initial_location"), JSON),
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(HOSTILE)
def test_hostile_trajectories(trajectory: Trajectory) -> None:
    for piece in write(Family(trajectory), {}):
        assert refusals(json.loads(piece.data)) == []


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1))
def test_ranges_count_utf16_units(text: str) -> None:
    """JavaScript's lengths, not Python's: the parts of a message cover its text without a gap."""
    (piece,) = write(Family(Trajectory("c", [Message("user", text)])), {})
    message = json.loads(piece.data)["requests"][0]["message"]
    at = 0
    for part in message["parts"]:
        assert part["range"]["start"] == at
        at = part["range"]["endExclusive"]
    assert at == utf16_length(message["text"])


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        ([], "root"),
        ({"responderUsername": "x"}, "requests"),
        ({"responderUsername": 1, "requests": []}, "responderUsername"),
        ({"responderUsername": "", "requests": [None]}, "not an object"),
        ({"responderUsername": "", "requests": [{}]}, "message"),
        ({"responderUsername": "", "requests": [{"message": {"text": "x"}}]}, "parts"),
        ({"responderUsername": "", "requests": [{"message": "x", "response": "y"}]}, "response"),
        ({"responderUsername": "", "requests": [{"message": "x", "response": ["y"]}]}, "response"),
        ({"responderUsername": "", "requests": [{"message": "x", "response": [None]}]}, "response"),
        (
            {
                "responderUsername": "",
                "requests": [{"message": "x", "variableData": {"variables": [None]}}],
            },
            "variables",
        ),
        (
            {
                "responderUsername": "",
                "requests": [{"message": {"text": "", "parts": [{"kind": "novelty"}]}}],
            },
            "unknown kind",
        ),
        (
            {
                "responderUsername": "",
                "requests": [{"message": {"text": "", "parts": [{"kind": "text", "text": ""}]}}],
            },
            "range",
        ),
    ],
)
def test_the_checker_refuses_what_the_importer_does(chat: Any, why: str) -> None:
    assert any(why in found for found in refusals(chat))


def test_the_checker_takes_what_the_importer_takes() -> None:
    assert refusals({"responderUsername": "", "requests": []}) == []
    plain = {"message": "hello", "response": [{"kind": "novelty"}, {}], "variableData": {}}
    assert refusals({"responderUsername": "", "requests": [plain]}) == []


def test_sub_agents_that_no_call_shows_are_chats_of_their_own() -> None:
    def talk(ident: str, call: ToolCall | None = None) -> Trajectory:
        said = [Message("user", f"to {ident}"), Message("assistant", f"by {ident}")]
        said[1].tool_calls = [call] if call else None
        return Trajectory(ident, said, source="claude-code")

    def start(child: str) -> ToolCall:
        call = ToolCall(f"call-{child}", status="completed", child_id=child)
        call.function = ToolFunction("Task", "{}")
        return call

    family = Family(
        talk("root", start("child")),
        (talk("child", start("grandchild")), talk("grandchild"), talk("stray")),
    )
    made = {piece.name: json.loads(piece.data) for piece in write(family, {})}
    assert list(made) == ["root.chat.json", "grandchild.chat.json", "stray.chat.json"]
    assert all(refusals(chat) == [] for chat in made.values())
    assert made["stray.chat.json"]["requests"][0]["message"]["text"] == "to stray"


def test_a_result_without_a_word_is_a_result() -> None:
    """Copilot would take a call without one for a call that never ran."""
    call = ToolCall(id="c1", function=ToolFunction("Bash", '{"command":"true"}'))
    silent = Message("tool", "", tool_call_id="c1", details={"stdout": "", "stderr": ""})
    asked = [Message("user", "run it"), Message("assistant", "", tool_calls=[call]), silent]
    trajectory = Trajectory("s1", asked, source="claude-code")
    (piece,) = write(Family(trajectory), {})
    metadata = json.loads(piece.data)["requests"][0]["result"]["metadata"]
    assert list(metadata["toolCallResults"]) == ["c1"]


def test_what_the_person_ran_is_shown_with_what_it_gave() -> None:
    call = ToolCall("c1", function=ToolFunction("bash", '{"command":"ls"}'), by_user=True)
    ran = Message("user", "ls", kind="shell", tool_calls=[call])
    trajectory = Trajectory(
        "s1", [ran, Message("tool", "two files", tool_call_id="c1")], source="copilot-cli"
    )
    (piece,) = write(Family(trajectory), {})
    chat = json.loads(piece.data)
    assert refusals(chat) == []
    (part,) = chat["requests"][0]["response"]
    assert part["resultDetails"]["output"][0]["value"] == "two files"
