"""Chats with what is seldom in them: read, written as chat.json, and read back equal."""

from pathlib import Path
from typing import Any

import pytest

from tests.test_chat_json import assert_round_trip
from tests.test_vscode_steps import EDIT, LINK, model_round, said, tool
from tests.vscode import chat, one, put, read, request
from unspool.trajectory import Trajectory

IMAGE = {"$mid": 24, "value": {"mimeType": "image/png", "data": {"$base64": "aGVsbG8="}}}
STARTER = {"kind": "subagent", "agentName": "A", "description": "D", "prompt": "P", "result": "R"}
AUTO = {"kind": "autoModeResolution", "resolvedModel": "gpt-x"}
NOT_OURS = {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "guid",
            "invocationMessage": "Reading"}  # fmt: skip


def told(*rounds: dict[str, Any], results: dict[str, Any] | None = None, **more: Any) -> Any:
    kept = {ident: {"$mid": 20, "content": content} for ident, content in (results or {}).items()}
    held = {"toolCallRounds": list(rounds), "toolCallResults": kept, "sessionId": "s"}
    return {"metadata": held, **more}


def inside(run: str, number: int) -> dict[str, Any]:
    return tool(number, subAgentInvocationId=run)


CASES: dict[str, dict[str, Any]] = {
    "an image that the model got beside what was shown": {
        "response": [tool(1)],
        "result": told(model_round(1, "", 1), results={"call_1": [IMAGE]}),
    },
    "an image that the model got beside a list of files": {
        "response": [tool(1, resultDetails=[{"$mid": 1, "scheme": "file", "path": "/p/x.py"}])],
        "result": told(model_round(1, "", 1), results={"call_1": [IMAGE]}),
    },
    "nothing that the model got where something was shown": {
        "response": [tool(1)],
        "result": told(model_round(1, "", 1), results={"call_1": []}),
    },
    "the result of a call, where the model got another": {
        "response": [tool(1, result="plain", resultDetails=None)],
        "result": told(model_round(1, "", 1), results={"call_1": []}),
    },
    "a model that a part tells": {"response": [AUTO, said("A")]},
    "an error in a round": {
        "response": [],
        "result": told(model_round(1, ""), errorDetails={"message": "broken"}),
    },
    "an error in a round beside a warning": {
        "response": [{"kind": "warning", "content": {"value": "Careful"}}],
        "result": told(model_round(1, ""), errorDetails={"message": "broken"}),
    },
    "an image in what the program sent": {
        "isSystemInitiated": True,
        "result": {"metadata": {"renderedUserMessage": [
            {"type": 1, "text": "sent"},
            {"type": 0, "imageUrl": {"url": "data:image/png;base64,aGVsbG8="}}]}},
    },
    "a sub-agent whose call is not shown": {
        "response": [inside("call_1", 2)],
        "result": told(model_round(1, "", 1)),
    },
    "two sub-agents, one without its call": {
        "response": [tool(1, toolSpecificData=STARTER), inside("call_1", 2), inside("call_9", 3)],
    },
    "a sub-agent by the id that was shown": {
        "response": [{**NOT_OURS, "toolSpecificData": STARTER}, inside("guid", 2)],
        "result": told(model_round(1, "", 1)),
    },
    "a sub-agent whose call gave a plain result": {
        "response": [tool(1, toolSpecificData=STARTER),
                     {**inside("call_1", 2), "resultDetails": None, "result": {"x": 1}}],
    },
    "parts of the same name, the first one hidden": {
        "response": [{**NOT_OURS, "presentation": "hidden"}, {**NOT_OURS, "toolCallId": "guid 2"}],
        "result": told(model_round(1, "", 1), model_round(2, "", 2)),
    },
    "edits and answers whose messages stand otherwise": {
        "response": [
            tool(2), {**EDIT, "uri": {"scheme": "file", "path": "/p/y.py"}},
            {"kind": "planReview", "title": "2", "data": {"action": "no"}},
            tool(1), EDIT, {"kind": "planReview", "title": "1", "data": {"action": "yes"}}],
        "result": told(model_round(1, "", 1), model_round(2, "", 2), model_round(3, "End")),
    },
    "a link alone, behind the last call and no words": {
        "response": [said("A"), tool(1), LINK],
        "result": told(model_round(1, "A", 1)),
    },
    "a link that the model wrote otherwise": {
        "response": [said("See "), LINK, said(" there"), tool(1), said("It is in "), LINK],
        "result": told(model_round(1, "See `x` there", 1), model_round(2, "It is in `x`", 9)),
    },
    "a part of no kind": {"response": [said("A"), {"mystery": 1}, tool(1)]},
    "a vote on no words": {"response": [], "vote": 0, "voteDownReason": "other"},
    "tokens for no words": {"response": [], "promptTokens": 70, "completionTokens": 7},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"two sub-agents, one without its call"}))
def test_round_trip(name: str, tmp_path: Path) -> None:
    path = put(tmp_path / "in", "s.json", chat(request(1, **CASES[name]), request(2)))
    (tmp_path / "out").mkdir()
    assert_round_trip(path, tmp_path / "out")


def made_of(name: str, folder: Path) -> Trajectory:
    return next(
        t for t in read(put(folder, "s.json", chat(request(1, **CASES[name])))) if not t.parent
    )


def test_a_run_without_its_call_is_not_given_to_the_call_of_another(tmp_path: Path) -> None:
    name = "two sub-agents, one without its call"
    made = read(put(tmp_path, "s.json", chat(request(1, **CASES[name]))))
    starts = {t.conversation_id: t.parent.tool_call_id for t in made if t.parent}
    assert starts == {"s/call_1": "call_1", "s/call_9": None}


def test_words_beside_a_link_are_not_said_twice(tmp_path: Path) -> None:
    made = made_of("a link that the model wrote otherwise", tmp_path)
    answers = [m.content for m in made.messages if m.role == "assistant"]
    assert answers == ["See `x` there", "It is in `x`"]


def test_an_answer_without_a_word_that_was_voted_on_or_counted(tmp_path: Path) -> None:
    voted = made_of("a vote on no words", tmp_path / "a")
    assert (voted.messages[1].extra or {})["vote"] == "down"
    counted = made_of("tokens for no words", tmp_path / "b")
    assert counted.messages[1].usage is not None
    assert counted.messages[1].usage.prompt_tokens == 70
    silent = one(put(tmp_path, "c.json", chat(request(1, response=[]))))
    assert [m.role for m in silent.messages] == ["user"]


def test_warnings_are_not_the_words_of_rounds_that_keep_none(tmp_path: Path) -> None:
    warning = {"kind": "warning", "content": {"value": "Careful"}}
    held = request(1, response=[warning, tool(1)], result=told(model_round(1, "", 1)))
    made = one(put(tmp_path, "s.json", chat(held)))
    assert made.messages[1].content == ""
