"""VS Code chats whose parts tell more than the model's rounds, or of which no rounds are known."""

from pathlib import Path
from typing import Any

import pytest

from tests.test_chat_json import assert_round_trip
from tests.vscode import chat, one, put, request
from unspool.trajectory import Trajectory


def tool(number: int, **more: Any) -> dict[str, Any]:
    return {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "isComplete": True,
            "toolCallId": f"call_{number}", "invocationMessage": f"Reading {number}",
            "resultDetails": {"input": f'{{"n":{number}}}', "output": [
                {"type": "embed", "isText": True, "value": f"file {number}"}]}, **more}  # fmt: skip


def said(text: str) -> dict[str, Any]:
    return {"value": text}


def thought(text: str) -> dict[str, Any]:
    return {"kind": "thinking", "value": text, "id": "t"}


def model_round(number: int, text: str, *calls: int) -> dict[str, Any]:
    made = [{"id": f"call_{n}", "name": "read_file", "arguments": f'{{"n":{n}}}'} for n in calls]
    return {"id": f"round_{number}", "response": text, "toolCalls": made}


def row(trajectory: Trajectory) -> list[str]:
    """The messages behind the first: `thinking|words>calls`, results by their text."""
    made = []
    for message in trajectory.messages[1:]:
        calls = "".join(f">{call.id[5:]}" for call in message.tool_calls or ())
        thinking = f"{message.thinking}|" if message.thinking else ""
        made.append(f"{thinking}{message.content}{calls}")
    return made


WARNING = {"kind": "warning", "content": {"value": "Careful"}}
EDIT = {"kind": "textEditGroup", "uri": {"scheme": "file", "path": "/p/x.py"},
        "edits": [[{"text": "x"}]]}  # fmt: skip
LINK = {"kind": "inlineReference", "name": "x", "inlineReference": {"scheme": "file", "path": "/x"}}


@pytest.mark.parametrize(
    ("response", "messages"),
    [
        ([said("A"), tool(1), said("B"), tool(2), said("C")],
         ["A>1", "file 1", "B>2", "file 2", "C"]),
        ([tool(1), tool(2), said("A"), tool(3)],
         [">1>2", "file 1", "file 2", "A>3", "file 3"]),
        ([said("A"), said("B"), tool(1)], ["AB>1", "file 1"]),
        ([thought("why"), tool(1), thought("then"), tool(2), said("A")],
         ["why|>1", "file 1", "then|>2", "file 2", "A"]),
        ([said("A"), tool(1), LINK, said(" is it"), tool(2)],
         ["A>1", "file 1", "[x](file:///x) is it>2", "file 2"]),
        ([said("A"), tool(1), WARNING, tool(2)], ["A>1>2", "file 1", "file 2"]),
        ([said("A"), WARNING, said("B")], ["A\n\nB"]),
        ([said("A"), tool(1), said("B"),
          {"kind": "clearToPreviousToolInvocation", "reason": 1}, said("C")],
         ["A>1", "file 1", "C"]),
    ],
)  # fmt: skip
def test_without_rounds_words_and_calls_keep_their_order(
    response: list[Any], messages: list[str], tmp_path: Path
) -> None:
    path = put(tmp_path, "chat.json", chat(request(1, response=response)))
    made = one(path)
    assert row(made) == messages
    assert [m.id for m in made.messages if m.role == "assistant"][-1] == "response_1"
    (tmp_path / "out").mkdir()
    assert_round_trip(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("rounds", "response", "messages"),
    [
        # The parts go on where the rounds end.
        ([model_round(1, "A", 1)],
         [said("A"), tool(1), said("B"), tool(2), said("C"), tool(3), said("D")],
         ["A>1", "file 1", "B>2", "file 2", "C>3", "file 3", "D"]),
        ([model_round(1, "A", 1)], [said("A"), tool(1), tool(2), said("B")],
         ["A>1", "file 1", ">2", "file 2", "B"]),
        ([model_round(1, "A", 1)], [said("A"), tool(1), thought("hm"), tool(2)],
         ["A>1", "file 1", "hm|>2", "file 2"]),
        # The rounds end with an answer: what else was run, the model did not ask for.
        ([model_round(1, "A", 1), model_round(2, "B")],
         [said("A"), tool(1), tool(2), said("B")], ["A>1", "file 1", "B"]),
        # The words of a round whose call is not shown are not said twice.
        ([model_round(1, "A", 1), model_round(2, "B", 9)], [said("A"), tool(1), said("B")],
         ["A>1", "file 1", "B>9"]),
        # Rounds that keep no words.
        ([model_round(1, "", 1), model_round(2, "", 2), model_round(3, "")],
         [said("A"), tool(1), said("B"), tool(2), said("C")],
         ["A>1", "file 1", "B>2", "file 2", "C"]),
        ([model_round(1, "", 1), model_round(2, "", 2)],
         [said("A"), tool(1), said("B"), tool(2), said("C"), tool(3)],
         ["A>1", "file 1", "B>2", "file 2", "C>3", "file 3"]),
    ],
)  # fmt: skip
def test_rounds_that_tell_less_than_the_parts(
    rounds: list[Any], response: list[Any], messages: list[str], tmp_path: Path
) -> None:
    result = {"metadata": {"toolCallRounds": rounds, "sessionId": "s"}}
    path = put(tmp_path, "chat.json", chat(request(1, response=response, result=result)))
    assert row(one(path)) == messages
    (tmp_path / "out").mkdir()
    assert_round_trip(path, tmp_path / "out")


def test_words_that_a_round_says_are_not_said_again_by_the_next(tmp_path: Path) -> None:
    """The call of the round is not shown, so that its words and the next ones are one run."""
    rounds = [model_round(1, "See `x`, then go on.", 9)]
    response = [said("Before"), said("See "), LINK, said(", then go on."), said("Then B")]
    result = {"metadata": {"toolCallRounds": rounds, "sessionId": "s"}}
    path = put(tmp_path, "chat.json", chat(request(1, response=response, result=result)))
    assert row(one(path)) == ["See `x`, then go on.>9", "Then B"]
    (tmp_path / "out").mkdir()
    assert_round_trip(path, tmp_path / "out")


def test_a_thought_that_a_later_round_tells_is_told_once(tmp_path: Path) -> None:
    """Its call is shown under a name that an earlier call has too."""
    rounds = [
        model_round(1, "", 1),
        {**model_round(2, "", 2), "thinking": {"id": "x", "text": "why"}},
    ]
    part = {**tool(1), "toolCallId": "guid"}
    result = {"metadata": {"toolCallRounds": rounds, "sessionId": "s"}}
    held = request(1, response=[thought("why"), part], result=result)
    made = one(put(tmp_path, "chat.json", chat(held)))
    assert [m.thinking for m in made.messages if m.role == "assistant"] == [None, "why"]


def test_where_parts_have_the_ids_of_calls_none_is_joined_by_its_name(tmp_path: Path) -> None:
    """The part of a tool that another tool called is not that of a call which is not shown."""
    rounds = [model_round(1, "", 1), model_round(2, "", 2)]
    result = {"metadata": {"toolCallRounds": rounds, "sessionId": "s"}}
    response = [{**tool(7), "isConfirmed": {"type": 0}}, tool(2)]
    made = one(put(tmp_path, "chat.json", chat(request(1, response=response, result=result))))
    first, second = (m for m in made.messages if m.role == "assistant")
    assert [(c.id, c.status) for c in first.tool_calls or ()] == [("call_1", None)]
    assert [p["toolCallId"] for p in (first.extra or {})["parts"]] == ["call_7"]
    assert [c.id for c in second.tool_calls or ()] == ["call_2"]


def test_a_hidden_part_that_tells_something_is_kept(tmp_path: Path) -> None:
    rounds = [model_round(1, "", 1), model_round(2, "A")]
    result = {"metadata": {"toolCallRounds": rounds, "sessionId": "s"}}
    announced = {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile",
                 "toolCallId": "guid", "presentation": "hidden"}  # fmt: skip
    response = [announced, {**announced, "pastTenseMessage": "Used"}, tool(1), said("A")]
    made = one(put(tmp_path, "chat.json", chat(request(1, response=response, result=result))))
    kept = [p for m in made.messages for p in (m.extra or {}).get("parts", ())]
    assert [p["pastTenseMessage"] for p in kept] == ["Used"]
