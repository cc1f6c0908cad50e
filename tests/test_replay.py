"""Replaying request-log entries: the original's rules, its losses mended."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import corpus
from unspool.record import replay
from unspool.record.identity import short_hash
from unspool.sinks.atif.rules import check

Object = dict[str, Any]

CHAT = {"label": "Fix it", "chatSessionId": "chat"}
START = "2026-02-01T08:00:00.000Z"


def request(ident: str, user: str, answer: Any = "ok", **more: Any) -> Object:
    entry = {
        "type": more.pop("type", "ChatMLSuccess"),
        "chatEndpoint": {"model": more.pop("model", "model-a")},
        "chatParams": {
            "messages": more.pop("messages", [{"role": 1, "content": [{"type": 1, "text": user}]}]),
            "body": more.pop("body", {}),
        },
        "startTime": more.pop("start", START),
        "endTime": "2026-02-01T08:00:02.000Z",
        "result": {"type": "success", "value": answer if isinstance(answer, list) else [answer]},
        "isConversationRequest": more.pop("conversation", True),
    }
    token = more.pop("token", CHAT)
    calls = more.pop("calls", ())
    if calls:
        entry["deltas"] = [
            {"text": "", "copilotToolCalls": [{"id": c, "name": "t"} for c in calls]}
        ]
    return {"kind": 1, "id": ident, "token": token, "entry": {**entry, **more}}


def call(
    ident: str, text: str = "result", name: str = "read", args: Any = "{}", **more: Any
) -> Object:
    response = {"content": more.pop("content", [{"value": text}])}
    token = more.pop("token", CHAT)
    return {
        "kind": 2, "id": ident, "name": name, "args": args, "token": token, "response": response,
        **more,
    }  # fmt: skip


def steps(*entries: Object, session: str = "chat") -> list[Object]:
    return replay(entries)[session]["steps"]


def said(found: list[Object]) -> list[tuple[str, str]]:
    return [(step["source"], step["message"]) for step in found]


def test_the_originals_own_trajectories() -> None:
    """Entries that the original was run on give what it gave, but for what it lost."""
    folder = corpus("vscode", "atif")
    if folder is None:
        pytest.skip("no corpus")
    for path in sorted(folder.glob("*.input.json")):
        got = replay(json.loads(path.read_text()))
        want = json.loads(
            (path.parent / path.name.replace(".input.", ".trajectories.")).read_text()
        )
        if "failure" in path.name:
            assert [s["source"] for d in got.values() for s in d["steps"]] == [
                "user",
                "system",
                "system",
            ]
            continue
        assert [_stem(name) for name in got] == [_stem(name) for name in want]
        for ours, theirs in zip(got.values(), want.values(), strict=True):
            assert ours["agent"] == theirs["agent"]
            kept = [step for step in ours["steps"] if step["source"] != "system"]
            assert [_essence(s) for s in kept] == [_essence(s) for s in theirs["steps"]]
            assert _totals(ours) == _totals(theirs)


def _stem(session: str) -> str:
    """A generated id ends in the moment of the run."""
    return session.rpartition("-")[0] if session.startswith("fix-") else session


def _essence(step: Object) -> Object:
    metrics = {k: v for k, v in step.get("metrics", {}).items() if k != "extra"}
    metrics.update(step.get("metrics", {}).get("extra", {}))
    names = ("source", "message", "model_name", "reasoning_content", "tool_calls", "observation")
    return {**{name: step.get(name) for name in names}, "metrics": metrics}


def _totals(document: Object) -> Object:
    totals = dict(document.get("final_metrics", {}))
    totals.update(totals.pop("extra", {}))
    totals.pop("total_steps", None)
    return totals


def test_forbidden_keys_stand_in_extra() -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    document = replay([
        request("e1", "hi", usage=usage, timeToFirstToken=40, calls=["c1"]), call("c1"),
    ])["chat"]  # fmt: skip
    assert document["steps"][1]["metrics"] == {
        "prompt_tokens": 7, "completion_tokens": 2, "cached_tokens": 3,
        "extra": {"time_to_first_token_ms": 40, "duration_ms": 2000},
    }  # fmt: skip
    assert document["final_metrics"] == {
        "total_prompt_tokens": 7, "total_completion_tokens": 2, "total_cached_tokens": 3,
        "total_steps": 2, "extra": {"total_tool_calls": 1},
    }  # fmt: skip


def test_a_repeated_user_message_is_one_step_unless_another_came_between() -> None:
    words = [("user", w) for w in ("A", "B", "A")]
    found = steps(*(request(f"e{n}", w) for n, w in enumerate("AABA")))
    assert [step for step in said(found) if step[0] == "user"] == words


def test_user_text_is_the_last_users_text_parts_trimmed() -> None:
    messages = [
        {"role": 1, "content": "earlier"},
        {"role": 1, "content": [
            {"type": 1, "text": "\ufeff one"}, {"type": 0, "imageUrl": {"url": "https://x/i.png"}},
            {"type": 1, "text": ""}, {"type": 1, "text": "two \n"},
        ]},
        {"role": 2, "content": [{"type": 1, "text": "answer"}]},
    ]  # fmt: skip
    (user, _) = steps(request("e1", "", messages=messages))
    assert user["message"] == "one\ntwo"


def test_parallel_calls_are_of_one_step_in_the_order_they_ran() -> None:
    entries = [
        request("e1", "go", calls=["c1", "c2"]),
        call("c2", "two", args='{"n": 2}'),
        call("c1", "one"),
    ]
    (_, agent) = steps(*entries)
    assert [c["tool_call_id"] for c in agent["tool_calls"]] == ["c2", "c1"]
    assert agent["tool_calls"][0]["arguments"] == {"n": 2}
    assert [r["content"] for r in agent["observation"]["results"]] == ["two", "one"]


def test_a_step_whose_results_never_come_is_kept() -> None:
    found = steps(
        request("e1", "go", calls=["c1", "c2"]), call("c1"), request("e2", "next", "done"),
    )  # fmt: skip
    assert [step["step_id"] for step in found] == [1, 2, 3, 4]
    assert [c["tool_call_id"] for c in found[1]["tool_calls"]] == ["c1", "c2"]
    assert [r["source_call_id"] for r in found[1]["observation"]["results"]] == ["c1"]
    assert said(found)[2:] == [("user", "next"), ("agent", "done")]


def test_a_call_that_nobody_announced_is_a_step_of_its_own() -> None:
    found = steps(
        request("e1", "go"), call("c1", time=1769932800000, thinking={"text": ["a", "b"]})
    )
    assert found[2]["message"] == ""
    assert found[2]["reasoning_content"] == "a\nb"
    assert found[2]["timestamp"] == "2026-02-01T08:00:00.000Z"


def test_failures_and_cancellations_are_told_in_their_place() -> None:
    found = steps(
        request("e1", "go", type="ChatMLFailure", result={"type": "failed", "reason": "quota"}),
        request("e2", "go", type="ChatMLCancelation", result={"type": "canceled"}),
        request("e3", "go", "fine"),
    )
    assert said(found) == [
        ("user", "go"),
        ("system", "The request failed: quota"),
        ("system", "The request was cancelled."),
        ("agent", "fine"),
    ]


def test_the_system_prompt_leads_and_returns_only_when_it_changes() -> None:
    def messages(prompt: str) -> list[Object]:
        return [{"role": 0, "content": prompt}, {"role": 1, "content": "go"}]

    found = steps(*(request(f"e{n}", "", messages=messages(p)) for n, p in enumerate("xxy")))
    assert [s["source"] for s in found] == ["system", "user", "agent", "agent", "system", "agent"]


def test_arguments_are_always_an_object() -> None:
    shapes = ['{"a": 1}', {"a": 1}, "not json", "[1]", [1], 5, None]
    found = [steps(call(f"c{n}", args=args))[0] for n, args in enumerate(shapes)]
    assert [s["tool_calls"][0]["arguments"] for s in found] == [
        {"a": 1}, {"a": 1}, {"raw": "not json"}, {"raw": "[1]"}, {"raw": "[\n  1\n]"}, {}, {},
    ]  # fmt: skip


def test_observation_parts() -> None:
    tree = {"node": {"type": 1, "children": [
        {"type": 2, "text": "first"}, {"type": 2, "lineBreakBefore": True, "text": "second"},
    ]}}  # fmt: skip
    content = [
        {"value": "text"},
        {"mimeType": "image/png", "data": {"0": 1, "1": 2}},
        {"mimeType": "application/json", "data": {"type": "Buffer", "data": [123, 125]}},
        {"value": {"a": 1, "b": []}},
        {"value": tree},
    ]
    (step,) = steps(call("c1", content=content))
    assert step["observation"]["results"][0]["content"] == (
        'text\ndata:image/png;base64,AQI=\n{}\n{\n  "a": 1,\n  "b": []\n}\nfirst\nsecond'
    )


@pytest.mark.parametrize(
    ("metadata", "args", "path"),
    [
        (
            {"agentName": "Deep Search!", "description": "x"},
            "{}",
            "deep-search-sub.trajectory.json",
        ),
        ({"description": "Look around"}, "{}", "look-around-sub.trajectory.json"),
        ({}, '{"description": "From args"}', "from-args-sub.trajectory.json"),
        ({"agentName": " "}, "{}", "runsubagent-sub.trajectory.json"),
        ({"agentName": "…"}, "{}", "subagent-sub.trajectory.json"),
        ({"agentName": "a" * 60}, "{}", "a" * 50 + "-sub.trajectory.json"),
    ],
)
def test_a_subagent_is_referred_to_from_its_call(metadata: Object, args: str, path: str) -> None:
    entries = [
        request("e1", "go", calls=["c1"]),
        call("c1", name="runSubagent", args=args,
             toolMetadata={"subAgentInvocationId": "sub", **metadata}),
        request("s1", "task", token={**CHAT, "subAgentInvocationId": "sub"}),
    ]  # fmt: skip
    made = replay(entries)
    result = made["chat"]["steps"][1]["observation"]["results"][0]
    assert result["subagent_trajectory_ref"] == [{"session_id": "sub", "trajectory_path": path}]
    assert made["sub"]["agent"]["name"] == "subagent"
    assert made["chat"]["agent"]["name"] == "GitHub Copilot Chat"


def test_other_tools_refer_to_no_subagent() -> None:
    (step,) = steps(call("c1", toolMetadata={"subAgentInvocationId": "sub"}))
    assert "subagent_trajectory_ref" not in step["observation"]["results"][0]


def test_tool_definitions_stay_when_a_later_request_has_none() -> None:
    tools = [
        {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}},
        {"type": "web"},
    ]
    document = replay([request("e1", "a", body={"tools": tools}), request("e2", "b")])["chat"]
    assert document["agent"]["tool_definitions"] == [
        {
            "type": "function",
            "function": {"name": "t", "description": "", "parameters": {"type": "object"}},
        }
    ]


def test_sessions() -> None:
    label = {"label": "Make  It: Work"}
    made = replay([
        request("e1", "a", token=label), request("e2", "b", token=dict(label)),
        request("e3", "c", token=None), request("e1", "again"), {"kind": 0, "id": "el", "token": CHAT},
        request("e4", "t", conversation=False, token={"chatSessionId": "only-titles", "label": ""}),
    ])  # fmt: skip
    generated = f"make-it-work-{short_hash('Make  It: Work')}-1769932800000"
    assert list(made) == [generated, "chat", "only-titles"]
    assert said(made[generated]["steps"])[0::2] == [("user", "a"), ("user", "b")]
    assert made["only-titles"]["steps"] == made["chat"]["steps"] == []


def test_the_hash_is_javascripts() -> None:
    assert [short_hash(text) for text in ("", "a", "hello", "😀")] == ["0", "2p", "1n1e4y", "11zz7"]


class Original:
    """The original's rules for one session, plainly: steps stand where they were completed."""

    def __init__(self) -> None:
        self.done: list[tuple[int, str, str, list[str]]] = []
        self.begun = 0
        self.open: list[tuple[int, str, list[str], int]] = []
        self.last = ""

    def take(self, entry: Object) -> None:
        if entry["kind"] == 1:
            user = entry["entry"]["chatParams"]["messages"][0]["content"][0]["text"]
            if user != self.last:
                self.last = user
                self.begun += 1
                self.done.append((self.begun, "user", user, []))
            self.begun += 1
            count = sum(len(d["copilotToolCalls"]) for d in entry["entry"].get("deltas", []))
            answer = entry["entry"]["result"]["value"][0]
            if count:
                self.open.append((self.begun, answer, [], count))
            else:
                self.done.append((self.begun, "agent", answer, []))
        elif self.open:
            number, answer, calls, count = self.open[0]
            calls.append(entry["id"])
            if len(calls) >= count:
                self.open.pop(0)
                self.done.append((number, "agent", answer, calls))
        else:
            self.begun += 1
            self.done.append((self.begun, "agent", "", [entry["id"]]))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.tuples(st.sampled_from("AB"), st.integers(0, 2)), st.none()), max_size=14)
)
def test_against_a_plain_copy_of_the_original(plan: list[tuple[str, int] | None]) -> None:
    entries: list[Object] = []
    for number, item in enumerate(plan):
        if item is None:
            entries.append(call(f"run-{number}"))
        else:
            calls = [f"asked-{number}-{n}" for n in range(item[1])]
            entries.append(request(f"e{number}", item[0], f"answer {number}", calls=calls))
    original = Original()
    for entry in entries:
        original.take(entry)
    lost = {number for number, *_ in original.open}
    ours = replay(entries)["chat"]["steps"] if entries else []
    assert [step["step_id"] for step in ours] == list(range(1, original.begun + 1))
    kept = [
        (step["step_id"], step["source"], step["message"],
         [c["tool_call_id"] for c in step.get("tool_calls", ())])
        for step in ours if step["step_id"] not in lost
    ]  # fmt: skip
    assert kept == sorted(original.done)
    for number, answer, calls, count in original.open:
        found = [c["tool_call_id"] for c in ours[number - 1]["tool_calls"]]
        assert ours[number - 1]["message"] == answer
        assert found[: len(calls)] == calls
        assert len(found) == count


def test_what_is_given_is_valid(tmp_path: Path) -> None:
    validator = pytest.importorskip("harbor.utils.trajectory_validator")
    made = replay([
        request("e1", "go", calls=["c1", "c2"], type="ChatMLSuccess"), call("c1"),
        request("e2", "go", type="ChatMLFailure"),
        call("c9", name="search_subagent", toolMetadata={"subAgentInvocationId": "sub"}),
    ])  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps(made["chat"]))
    checker = validator.TrajectoryValidator()
    assert checker.validate(path), checker.errors
    # The sub-agent's file would stand beside this one.
    errors = {f.rule for f in check(made["chat"]) if f.level == "error"}
    assert errors == set()


NAMES = [
    *(
        "id",
        "name",
        "text",
        "value",
        "content",
        "type",
        "role",
        "messages",
        "tools",
        "function",
        "data",
    ),
    *("mimeType", "node", "children", "label", "body", "description", "subAgentInvocationId"),
    *("chatSessionId", "copilotToolCalls", "thinking", "arguments", "prompt_tokens"),
]
LEAVES = st.sampled_from([None, True, -1, 2.5, "", "x", START, "runSubagent"])
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=6,
)
REQUEST = [
    *("startTime", "endTime", "deltas", "usage", "result", "chatParams", "chatEndpoint"),
    *("timeToFirstToken", "isConversationRequest"),
]
TOOL_CALL = ["id", "name", "args", "response", "thinking", "time", "toolMetadata"]
KIND = st.sampled_from(["ChatMLSuccess", "ChatMLFailure", "ChatMLCancelation"])
ENTRY = st.fixed_dictionaries({"type": KIND}, optional=dict.fromkeys(REQUEST, JSON))
ANYTHING = st.fixed_dictionaries(
    {"kind": st.sampled_from([0, 1, 2]), "token": st.sampled_from([CHAT, {"label": "x"}]) | JSON},
    optional=dict.fromkeys(TOOL_CALL, JSON) | {"entry": ENTRY | JSON},
)


@settings(max_examples=50, deadline=None)
@given(st.lists(ANYTHING, max_size=5))
def test_odd_entries_do_no_harm(entries: list[Object]) -> None:
    for document in replay(entries).values():
        errors = [finding for finding in check(document) if finding.level == "error"]
        assert not document["steps"] or errors == []
