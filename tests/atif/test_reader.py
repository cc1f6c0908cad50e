"""ATIF in: any version, any producer; and out again, equal."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from tests.atif.judges import again, documents, families, harbor_errors, write_all
from tests.harness import case_id, cases, corpus, facts_of, origins_of, reduce_all
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally, read_head
from unspool.sinks import Family
from unspool.sinks.atif import claims, read
from unspool.sinks.atif.model import VERSIONS, Document, documents_in, version_of
from unspool.sinks.atif.reader import Reading, settle
from unspool.sinks.atif.rules import check_file
from unspool.sinks.atif.steps import to_definition
from unspool.trajectory import Link, Mark, Message, ToolCall, ToolFunction, Trajectory, Usage


def step(number: int, source: str, message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **fields}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    agent = {"name": "tester", "version": "2.1"}
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s1",
        "agent": agent,
        "steps": list(steps),
        **fields,
    }


def read_file(path: Path) -> list[Trajectory]:
    found = list(read(Origin(str(path), path.name), Tally()))
    assert not [item for item in found if isinstance(item, Problem)]
    return [item for item in found if isinstance(item, Trajectory)]


CALL = {"tool_call_id": "c1", "function_name": "run", "arguments": {"cmd": "ls", "n": 1.0}}
SUB = {**document(step(1, "agent", "done"), session_id="s1"), "trajectory_id": "sub-1"}
GIVEN = {
    "no ids": {k: v for k, v in document(step(1, "user", "hi")).items() if k != "session_id"},
    "both ids": document(step(1, "user", "hi"), trajectory_id="t1"),
    "times as they were": document(
        step(1, "user", "a", timestamp="2026-01-01"),
        step(2, "agent", "b", timestamp="2026-01-01T10:00:00.5+02:00"),
    ),
    "parts in their order": document(
        step(
            1,
            "user",
            [
                {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
                {"type": "text", "text": "one\n\ntwo"},
                {"type": "text", "text": ""},
                {"type": "image", "source": {"media_type": "image/gif", "path": "https://x/y.gif"}},
                {"type": "text", "text": "three"},
            ],
        )
    ),
    "empty content": document(step(1, "user", []), step(2, "agent", "")),
    "results with and without calls": document(
        step(
            1,
            "agent",
            tool_calls=[CALL, {**CALL, "tool_call_id": "c2"}],
            observation={
                "results": [
                    {"source_call_id": "c2", "content": ""},
                    {"source_call_id": "c1"},
                    {"source_call_id": "c1", "content": "again", "extra": {"exit_code": 3}},
                    {"content": "nobody's"},
                ]
            },
        ),
        step(2, "system", "tick", observation={"results": [{"content": "tock"}]}),
        step(3, "user", "u", observation={"results": []}),
    ),
    "metrics in full": document(
        step(
            1,
            "agent",
            "x",
            model_name="m",
            reasoning_content="",
            reasoning_effort=0.5,
            metrics={
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "cached_tokens": 4,
                "cost_usd": 0.1,
                "prompt_token_ids": [1, 2],
                "completion_token_ids": [3],
                "logprobs": [-0.5],
                "extra": {"reasoning_tokens": 1, "cache_creation_input_tokens": 3, "tier": "x"},
            },
            llm_call_count=3,
        ),
        step(2, "agent", "y", metrics={}, is_copied_context=False),
        step(3, "agent", "dispatch", llm_call_count=0),
        final_metrics={"total_prompt_tokens": 99, "total_steps": 7, "extra": {"why": "because"}},
        notes="the count includes retries",
        continued_trajectory_ref="next.json",
        extra={"run": {"id": 1}},
    ),
    "a managed context": document(
        step(1, "user", "go"),
        step(
            2,
            "system",
            "compacted",
            extra={"context_management": {"type": "compaction", "boundary": "replace", "by": "me"}},
            observation={"results": [{"content": "so far"}]},
        ),
        step(3, "system", "cut", extra={"context_management": {"type": "pruning"}}),
        step(
            4,
            "system",
            extra={"context_management": {"type": "compaction", "boundary": "replace"}},
        ),
        step(5, "agent", "on"),
    ),
    "embedded sub-agents": document(
        step(
            1,
            "agent",
            tool_calls=[CALL],
            observation={
                "results": [
                    {
                        "source_call_id": "c1",
                        "subagent_trajectory_ref": [{"trajectory_id": "sub-1"}],
                    }
                ]
            },
        ),
        step(
            2,
            "system",
            observation={
                "results": [
                    {
                        "subagent_trajectory_ref": [
                            {"trajectory_id": "s1", "extra": {"k": 1}},
                            {"trajectory_path": "elsewhere.json", "session_id": "s9"},
                        ]
                    }
                ]
            },
        ),
        trajectory_id="s1",
        subagent_trajectories=[
            SUB,
            {**SUB, "trajectory_id": "s1", "subagent_trajectories": [SUB]},
        ],
    ),
    "an agent in full": document(
        step(1, "agent", "x"),
        agent={
            "name": "a",
            "version": "1",
            "model_name": "m",
            "tool_definitions": [{"type": "function", "function": {"name": "f"}}, {"odd": 1}],
            "extra": {"cwd": "/w"},
        },
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_equal_after_a_round(name: str) -> None:
    given = GIVEN[name]
    assert harbor_errors(given) == []
    assert again(given) == given


def test_a_missing_label_is_written() -> None:
    given = document(step(1, "user", "hi"))
    del given["schema_version"]
    assert again(given) == {**given, "schema_version": "ATIF-v1.8"}


@pytest.mark.parametrize("version", VERSIONS)
def test_equal_after_a_round_at_every_version(version: str) -> None:
    """What we write at a version, with all that it cannot hold, reads and writes the same."""
    root, *below = Reading(GIVEN["metrics in full"]).trajectories
    first = documents(Family(root, tuple(below)), atif_version=version)[0]
    assert first["schema_version"] == f"ATIF-v{version}"
    assert harbor_errors(first) == []
    assert again(first) == first
    read_back = Reading(first).trajectories[0]
    assert read_back.messages[0].usage == root.messages[0].usage


def test_the_residue_holds_no_words_of_the_conversation() -> None:
    """Kept apart, they would survive a redaction of the messages."""
    for given in GIVEN.values():
        for trajectory in Reading(given).trajectories:
            held = [(m.extra or {}).get("atif", {}) for m in trajectory.messages]
            for kept in [*held, (trajectory.extra or {}).get("atif", {})]:
                text = json.dumps(kept)
                for word in ("one", "three", "nobody's", "so far", "done"):
                    assert f'"{word}' not in text


def test_keys_of_others_go_to_extra() -> None:
    """VS Code's metrics, NVIDIA's step keys, a bare reference: accepted and kept."""
    given = document(
        step(
            1,
            "agent",
            "x",
            duration_ms=5,
            tool_calls=[{**CALL, "mcp_server": "m"}],
            metrics={"prompt_tokens": 12, "duration_ms": 7, "time_to_first_token_ms": 2},
            observation={
                "results": [
                    {
                        "source_call_id": "c1",
                        "content": "y",
                        "subagent_trajectory_ref": [{"session_id": "kid"}],
                    }
                ]
            },
        ),
        final_metrics={"total_tool_calls": 1},
    )
    assert harbor_errors(given) != []
    made = again(given)
    assert harbor_errors(made) == []
    first = made["steps"][0]
    assert first["extra"]["duration_ms"] == 5
    assert first["metrics"]["extra"] == {"duration_ms": 7, "time_to_first_token_ms": 2}
    assert first["tool_calls"][0]["extra"]["mcp_server"] == "m"
    assert made["final_metrics"]["extra"] == {"total_tool_calls": 1}
    trajectory = Reading(given).trajectories[0]
    assert trajectory.messages[0].usage.prompt_tokens == 12
    assert trajectory.messages[0].tool_calls[0].child_id == "kid"
    assert not Reading(given).wrong


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.trajectory.json"
    broken = document(
        step(1, "tool", {"a": 1}), "no step", step(3, "agent", tool_calls=[{"arguments": "[1]"}])
    )
    path.write_text(json.dumps(broken))
    tally = Tally()
    found = list(read(Origin(str(path), path.name), tally))
    (problem,) = [item for item in found if isinstance(item, Problem)]
    assert problem.code == "invalid-field"
    assert "$.steps[0].message, $.steps[1], " in problem.sample
    assert (tally.records, tally.problems) == (1, 1)
    (trajectory,) = [item for item in found if isinstance(item, Trajectory)]
    assert [m.role for m in trajectory.messages] == ["system", "assistant"]
    path.write_text(json.dumps(broken)[:-20])
    tally = Tally()
    found = list(read(Origin(str(path), path.name), tally))
    assert [item.code for item in found] == ["truncated-json"]
    assert (tally.records, tally.problems) == (1, 1)


def test_files_with_several_documents(tmp_path: Path) -> None:
    one = {k: v for k, v in document(step(1, "user", "a")).items() if k != "session_id"}
    path = tmp_path / "x.json"
    for text in (
        json.dumps(one) + "\n" + json.dumps(one) + "\n",
        json.dumps([one, one]),
        json.dumps({"p": one, "q": one}),
    ):
        path.write_text(text)
        assert claims(read_head(str(path)))
        found = read_file(path)
        assert len({trajectory.conversation_id for trajectory in found}) == 2
    path.write_text(json.dumps(document()))
    tally = Tally()
    assert list(read(Origin(str(path), path.name), tally)) == []
    assert (tally.records, tally.noise) == (1, 1)


def test_nested_too_deep(tmp_path: Path) -> None:
    """How deep is too deep differs between Pythons; this is for all."""
    levels = 20_000
    head = json.dumps(SUB)[:-1] + ', "subagent_trajectories": ['
    path = tmp_path / "x.json"
    path.write_text(head * levels + json.dumps(SUB) + "]}" * levels)
    found = list(read(Origin(str(path), path.name), Tally()))
    assert [getattr(item, "code", "") for item in found][:1] == ["too-deep"]


def test_claims(tmp_path: Path) -> None:
    def claimed(text: str) -> bool:
        path = tmp_path / "x.json"
        path.write_text(text)
        return claims(read_head(str(path)))

    given = GIVEN["both ids"]
    assert claimed(json.dumps(given))
    assert claimed(json.dumps(given, indent=2))
    assert claimed(json.dumps({"a": given, "b": given}))
    assert claimed(json.dumps([given]))
    assert claimed(json.dumps(document(step(1, "user", "long " * 40_000)), indent=1))
    late = {"steps": [step(1, "user", "x " * 90_000)], **{"agent": {}}}
    assert not claimed(json.dumps(late))
    assert not claimed(json.dumps({"type": "user", "message": json.dumps(given)}))
    assert not claimed(json.dumps({"type": "user", "toolUseResult": given}))
    assert not claimed("{}")


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [10, 100_000])
def test_half_a_character(tmp_path: Path, indent: int | None, size: int) -> None:
    """JavaScript writes what is left of an emoji that was cut in two, and Harbor takes it."""
    given = document(step(1, "user", "cut \ud83d"), step(2, "agent", "\\ud800 \U0001f600" * size))
    assert harbor_errors(given) == []
    path = tmp_path / "x.json"
    path.write_text(json.dumps(given, indent=indent))
    assert claims(read_head(str(path)))
    (trajectory,) = read_file(path)
    assert [m.content for m in trajectory.messages] == ["cut \ufffd", given["steps"][1]["message"]]


def test_references_by_path_find_their_document(tmp_path: Path) -> None:
    ref = {"trajectory_path": "kid.json"}
    parent = document(
        step(
            1,
            "agent",
            tool_calls=[CALL],
            observation={"results": [{"source_call_id": "c1", "subagent_trajectory_ref": [ref]}]},
        )
    )
    (tmp_path / "main.json").write_text(json.dumps(parent))
    (tmp_path / "kid.json").write_text(json.dumps(document(step(1, "user"), session_id="the-kid")))
    (trajectory,) = read_file(tmp_path / "main.json")
    assert trajectory.messages[0].tool_calls[0].child_id == "the-kid"
    assert [link.conversation_id for link in trajectory.children] == ["the-kid"]


def test_media_travel_with_the_document(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + b"0" * 10
    source = {"media_type": "image/png", "path": "images/one.png"}
    given = document(step(1, "user", [{"type": "image", "source": source}]))
    (tmp_path / "in" / "images").mkdir(parents=True)
    (tmp_path / "in" / "images" / "one.png").write_bytes(picture)
    (tmp_path / "in" / "x.json").write_text(json.dumps(given))
    (tmp_path / "secret.png").write_bytes(picture)
    (trajectory,) = read_file(tmp_path / "in" / "x.json")
    (made,) = write_all(Family(trajectory), tmp_path / "out")
    assert harbor_errors(made) == []
    path = json.loads(made.read_text())["steps"][0]["message"][0]["source"]["path"]
    assert (tmp_path / "out" / path).read_bytes() == picture
    source["path"] = "../secret.png"  # nothing outside the document's folder is taken along
    (tmp_path / "in" / "x.json").write_text(json.dumps(given))
    (trajectory,) = read_file(tmp_path / "in" / "x.json")
    assert not trajectory.messages[0].attachments[0].data


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_every_case_comes_back(case: Path, tmp_path: Path) -> None:
    """Law 6: what is written is read back equal in all that ATIF can hold."""
    for family in families(reduce_all(facts_of(origins_of(case / "input")))):
        for options in ({}, {"subagents": "files"}, {"atif_version": "1.5"}):
            folder = tmp_path / "-".join(options.values())
            found = {
                trajectory.conversation_id: trajectory
                for path in write_all(family, folder, **options)
                for trajectory in read_file(path)
            }
            for member in (family.root, *family.descendants):
                if member.messages:
                    assert comparable(found[member.conversation_id]) == comparable(member)


def come_back(*given: Trajectory, **options: str) -> list[Trajectory]:
    """Through ATIF and back; what is written is valid."""
    with TemporaryDirectory() as folder:
        paths = write_all(Family(given[0], given[1:]), Path(folder), **options)
        assert [f for path in paths for f in check_file(path) if f.level == "error"] == []
        found = {t.conversation_id: t for path in paths for t in read_file(path)}
    return [found[one.conversation_id] for one in given]


def test_a_mark_between_a_call_and_its_result_stays_there() -> None:
    call = ToolCall(id="c1", function=ToolFunction("run", "{}"))
    messages = [Message("assistant", "", tool_calls=[call]), Message("tool", "", tool_call_id="c1")]
    marks = [Mark("truncation", 1), Mark("compaction", 1, data={"messages_before": 1})]
    (made,) = come_back(Trajectory("c", messages, source="cursor", marks=marks))
    assert made.marks == marks


def test_a_summary_without_words_is_one() -> None:
    messages = [Message("user", "hi"), Message("user", "", kind="summary")]
    (made,) = come_back(Trajectory("c", messages, source="cursor"))
    assert [(m.role, m.content, m.kind) for m in made.messages] == [
        *(("user", "hi", None), ("user", "", "summary")),
    ]


@pytest.mark.parametrize("subagents", ["embedded", "files"])
def test_the_cost_of_a_sub_agent_is_its_own(subagents: str) -> None:
    """Also of one that no call started: in files, no total could add up with it."""
    said = Message("assistant", "x", usage=Usage(cost_usd=0.25))
    kid = Trajectory("kid", [said], source="cursor", usage=Usage(cost_usd=0.25))
    kid.parent = Link("c")
    for usage in (None, Usage(cost_usd=0.5)):
        messages = [Message("user", "hi"), Message("assistant", "y", usage=usage)]
        root = Trajectory("c", messages, source="cursor", usage=usage, children=[Link("kid")])
        made = come_back(root, kid, subagents=subagents)
        assert [one.usage for one in made] == [usage, kid.usage]


def comparable(trajectory: Trajectory) -> dict[str, Any]:
    """What ATIF can hold: arguments as values; tools in one shape; bytes are looked at by their hash
    elsewhere; which of two children in files of their own began first, only those files tell."""
    made = msgspec.to_builtins(trajectory)
    made.get("children", []).sort(key=lambda link: link["conversation_id"])
    if "tool_definitions" in made:
        made["tool_definitions"] = [to_definition(one) for one in made["tool_definitions"]]
    for message in made["messages"]:
        message.pop("attachments", None)
        for call in message.get("tool_calls", ()):
            text = call["function"].pop("arguments", "")
            try:
                call["function"]["value"] = json.loads(text or "{}")
            except ValueError:
                call["function"]["value"] = text
    for branch in made.get("branches", ()):
        for message in branch["messages"]:
            message.pop("attachments", None)
    return made


CORPUS = corpus("harbor")
COERCED = ("step_id 1.0", 'prompt_tokens "12"')
"""What Harbor takes for a number, and we for a problem."""


def corpus_documents() -> list[tuple[str, dict[str, Any]]]:
    if CORPUS is None:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    for path in sorted(CORPUS.rglob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        found += [(str(path.relative_to(CORPUS)), d) for _, d in documents_in(value)]
    for line in (CORPUS / "validator_cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["harbor_valid"] and case["name"] not in COERCED:
            found.append((case["name"], case["doc"]))
    return found


@pytest.mark.skipif(CORPUS is None, reason="the real corpus is not here")
def test_every_document_of_the_corpus_is_equal_after_a_round() -> None:
    given = corpus_documents()
    assert len(given) > 60
    for name, one in given:
        assert again(one) == one, name


@pytest.mark.skipif(corpus("vscode", "atif") is None, reason="the real corpus is not here")
def test_what_vs_code_wrote_becomes_valid() -> None:
    folder = corpus("vscode", "atif")
    assert folder is not None
    for path in sorted(folder.glob("*.trajectories.json")):
        for _, one in documents_in(json.loads(path.read_text(encoding="utf-8"))):
            if one["steps"]:
                made = again(one)
                settle(one, Document, version_of(one))
                assert made == one
                assert harbor_errors(made) == [], path.name
