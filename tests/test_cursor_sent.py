"""What was sent to the model (`agentKv:blob:`): all that the bubbles lack, and nothing twice."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from tests.cursor_stores import bubble, rows_of, tool, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from tests.test_cursor_chats import root_of, said, text
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

ASKED = [
    {"role": "system", "content": "You are an agent."},
    said("user", text("<user_info>\nOS: linux\n</user_info>")),
    said("user", text("<user_query>\nlist it\n</user_query>"), requestId="r1"),
    said("assistant", {"type": "reasoning", "text": "ls then"}, text("Listing."),
         {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}},
         requestId="r1", modelName="sent-model"),
    said("tool", {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "a b"}),
    said("assistant", text("And another."),
         {"type": "tool-call", "toolCallId": "c2", "toolName": "Read", "args": {"path": "/w/a"}},
         requestId="r1"),
    said("tool", {"type": "tool-result", "toolCallId": "c2", "toolName": "Read", "result": "aaa"}),
    said("assistant", text("Two files."), requestId="r1"),
]  # fmt: skip
BUBBLES = (
    bubble("1", 1, "list it", requestId="r1", createdAt="2026-01-01T10:00:00.000Z"),
    bubble("2", 2, "Listing.", createdAt="2026-01-01T10:00:02.000Z"),
    tool("3", "run_terminal_cmd", "c1", {"command": "ls"}),
    bubble("5", 2, "Two files.", createdAt="2026-01-01T10:00:09.000Z"),
)
WHOLE = [
    ("user", "list it"), ("assistant", "Listing."), ("tool", "a b"), ("assistant", "And another."),
    ("tool", "aaa"), ("assistant", "Two files."),
]  # fmt: skip


def blobs(*messages: dict[str, Any]) -> dict[str, Any]:
    found = [json.dumps(m).encode() for m in messages]
    return {f"agentKv:blob:{hashlib.sha256(data).hexdigest()}": data for data in found}


def state(*messages: dict[str, Any]) -> str:
    return "~" + base64.b64encode(root_of(*messages)).decode().rstrip("=")


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def spoken(made: Trajectory) -> list[tuple[str, str]]:
    return [(m.role, m.typed or m.content) for m in made.messages if m.kind != "injected"]


def test_the_root_of_a_composer_names_what_was_sent(tmp_path: Path) -> None:
    composer = {"composerId": "c", "conversationState": state(*ASKED)}
    rows = {**rows_of(composer, *BUBBLES), **blobs(*reversed(ASKED))}
    write_editor(tmp_path / "state.vscdb", rows)
    made = only(tmp_path)
    assert spoken(made) == [("system", "You are an agent."), *WHOLE]
    assert [m.content for m in made.messages if m.kind == "injected"] == [
        ASKED[1]["content"][0]["text"]
    ]
    listing = next(m for m in made.messages if m.content == "Listing.")
    assert (listing.thinking, listing.model) == ("ls then", "sent-model")
    assert [c.id for m in made.messages for c in m.tool_calls or ()] == ["c1", "c2"]
    assert made.messages[2].timestamp == "2026-01-01T10:00:00.000Z"


def test_what_was_sent_alone_is_the_conversation(tmp_path: Path) -> None:
    composer = {"composerId": "c", "conversationState": state(*ASKED)}
    write_editor(tmp_path / "state.vscdb", {"composerData:c": composer, **blobs(*ASKED)})
    assert spoken(only(tmp_path)) == [("system", "You are an agent."), *WHOLE]


def test_bubbles_that_say_all_gain_nothing_but_the_context(tmp_path: Path) -> None:
    composer = {"composerId": "c", "conversationState": state(*ASKED[2:5], ASKED[7])}
    said_all = (
        *BUBBLES[:2],
        tool("3", "run_terminal_cmd", "c1", {"command": "ls"}, "a b"),
        BUBBLES[3],
    )
    rows = {**rows_of(composer, *said_all), **blobs(*ASKED)}
    write_editor(tmp_path / "state.vscdb", rows)
    assert spoken(only(tmp_path)) == [*WHOLE[:3], WHOLE[5]]


def test_words_and_calls_that_the_bubbles_hold_apart_are_not_said_twice(tmp_path: Path) -> None:
    apart = (
        BUBBLES[0],
        bubble("2", 2, "Listing.", modelCallId="m1"),
        tool("3", "run_terminal_cmd", "c1", {"command": "ls"}, "a b", modelCallId="m2"),
        BUBBLES[3],
    )
    composer = {"composerId": "c", "conversationState": state(*ASKED[2:5], ASKED[7])}
    write_editor(tmp_path / "state.vscdb", {**rows_of(composer, *apart), **blobs(*ASKED)})
    assert spoken(only(tmp_path)) == [*WHOLE[:2], ("assistant", ""), WHOLE[2], WHOLE[5]]


def test_odd_roots_and_blobs_are_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    for number, odd in enumerate(("~", "~!!!", "~AAAA", "x", 5, None, state({"role": "gone"}))):
        composer = {"composerId": f"c{number}", "conversationState": odd}
        rows = {**rows_of(composer, *BUBBLES), **blobs({"role": 5}, {"role": "tool", "content": 3})}
        rows |= {"agentKv:blob:00": b"{", "agentKv:blob:01": None, "agentKv:checkpoint:x": "{}"}
        write_editor(tmp_path / str(number) / "state.vscdb", rows)
    tally = Tally()
    made = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert [spoken(t) for t in made] == [[*WHOLE[:2], WHOLE[5]]] * 7
    assert tally.noise + tally.unrecognised + tally.problems <= tally.records


def test_blobs_may_be_written_in_hexadecimal_digits(tmp_path: Path) -> None:
    """The first versions that kept them, 2.x."""
    digits = {key: data.hex() for key, data in blobs(*ASKED).items()}
    composer = {"composerId": "c", "conversationState": state(*ASKED)}
    write_editor(tmp_path / "state.vscdb", {**rows_of(composer, *BUBBLES), **digits})
    assert spoken(only(tmp_path))[1:] == WHOLE


def test_what_was_sent_tells_a_result_that_the_bubble_only_points_to(tmp_path: Path) -> None:
    sent = [
        said("user", text("<user_query>\ncut it\n</user_query>"), requestId="r1"),
        said("assistant", {"type": "tool-call", "toolCallId": "c1", "toolName": "StrReplace",
                           "args": {"path": "/w/a", "old_string": "b", "new_string": "c"}}),
        said("tool", {"type": "tool-result", "toolCallId": "c1", "toolName": "StrReplace",
                      "result": "The file /w/a has been updated."}),
    ]  # fmt: skip
    call = tool("2", "edit_file_v2", "c1", {}, {"beforeContentId": "composer.content.a"})
    composer = {"composerId": "c", "conversationState": state(*sent)}
    rows = rows_of(composer, bubble("1", 1, "cut it", requestId="r1"), call)
    write_editor(tmp_path / "a/state.vscdb", {**rows, **blobs(*sent)})
    write_editor(tmp_path / "b/state.vscdb", rows)
    told = [only(tmp_path / folder).messages[-1] for folder in "ab"]
    assert [m.content for m in told] == [
        "The file /w/a has been updated.", '{"beforeContentId": "composer.content.a"}',
    ]  # fmt: skip
    assert [m.details for m in told] == [{"beforeContentId": "composer.content.a"}] * 2


def test_what_was_sent_tells_which_calls_one_answer_made(tmp_path: Path) -> None:
    """3.7: `modelCallId` of a bubble is the call's own id, or empty; what was read may be left out."""
    calls = [
        {
            "type": "tool-call",
            "toolCallId": ident,
            "toolName": "Read",
            "args": {"path": f"/w/{ident}"},
        }
        for ident in ("c1", "c2", "c3")
    ]
    sent = [
        said("user", text("<user_query>\nread\n</user_query>"), requestId="r1"),
        said("assistant", text("Two."), *calls[:2]),
        said("assistant", calls[2]),
    ]
    shown = (
        bubble("1", 1, "read", requestId="r1"),
        bubble("2", 2, "Two."),
        tool("3", "read_file_v2", "c1", {}, {"contents": "", "lines": 3}, modelCallId="c1"),
        tool("4", "read_file_v2", "c2", {}, {"contents": ""}, modelCallId=""),
        tool("5", "read_file_v2", "c3", {}, {"contents": "c"}, modelCallId="c3"),
    )
    told = said(
        "tool", {"type": "tool-result", "toolCallId": "c1", "toolName": "Read", "result": "a"}
    )
    sent.insert(2, told)
    composer = {"composerId": "c", "conversationState": state(*sent)}
    write_editor(tmp_path / "state.vscdb", {**rows_of(composer, *shown), **blobs(*sent)})
    assert [m.content for m in only(tmp_path).messages if m.role == "tool"] == ["a", "", "c"]
    answers = [m for m in only(tmp_path).messages if m.role == "assistant"]
    assert [[c.id for c in m.tool_calls or ()] for m in answers] == [["c1", "c2"], ["c3"]]
