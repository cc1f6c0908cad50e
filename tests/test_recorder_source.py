"""The journal as a source: what is claimed, what is bad, and a plain second reading of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases, facts_of, origins_of, reduce_all
from unspool import sources
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally, read_head
from unspool.sources import recorder


@pytest.mark.parametrize("path", sorted(CASES.glob("*/*/input/**/*")), ids=lambda p: p.name)
def test_journals_are_claimed_by_the_recorder_alone(path: Path) -> None:
    if not path.is_file():
        return
    head = read_head(str(path))
    ours = "cases/recorder/" in path.as_posix()
    assert recorder.claims(head) == ours
    if ours:
        others = [name for name in sources.SOURCES if name != "recorder"]
        assert [name for name in others if sources.load(name).claims(head)] == []


def test_a_torn_first_record_does_not_hide_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "c-0123456789ab.0.jsonl"
    path.write_text('{"kind":"conv\n{"kind":"tool","session":"c","time":1,"id":"x","name":"t"}\n')
    assert recorder.claims(read_head(str(path)))


def test_bad_records_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c-0123456789ab.0.jsonl"
    lines = [
        '{"kind":"conversation","journal":"unspool-recorder/1","session":"c","time":1}',
        '{"kind":"response","session":"c","time":"late","text":"wrong time"}',
        '{"kind":"response","time":3,"text":"whose?"}',
        '{"kind":"something new","session":"c","time":4}',
        '{"kind":"response","session":"c","time":5,"id":"r","text":"kept"}',
        '{"kind":"response","session":"c","time":6,"id":"s","text":"tor',
    ]
    path.write_text("\n".join(lines))
    tally = Tally()
    found = list(recorder.read(Origin(str(path), path.name), tally))
    problems = [*tally.flaws, *(fact for fact in found if isinstance(fact, Problem))]
    codes = sorted(problem.code for problem in problems)
    assert codes == ["missing-session", "truncated-json", "wrong-type"]
    assert (tally.records, tally.problems, tally.unrecognised) == (6, 2, 1)
    (made,) = reduce_all([("recorder", fact) for fact in found])
    assert [message.content for message in made.messages] == ["wrong time", "kept"]


def plain_reading(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Session → (role, text), by walking the records in the order of their files."""
    records: list[dict[str, Any]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
    told: dict[str, list[tuple[str, str]]] = {}
    results: dict[tuple[str, str], str] = {}
    asked: set[tuple[str, str]] = set()
    run: dict[tuple[str, str], str] = {}
    """A run → the call that it is of."""
    by_id = {(one["session"], one["id"]) for one in records if one["kind"] == "tool"}
    likely: list[tuple[str, tuple[str, Any], str]] = []
    """Calls that no run names: (session, name and arguments, id)."""
    seen: set[tuple[str, str]] = set()
    for record in records:
        session = record["session"]
        said = told.setdefault(session, [])
        if record["kind"] == "request":
            for item in record.get("items", ()):
                if "edits" in item or (session, item["id"]) in seen:
                    continue
                seen.add((session, item["id"]))
                for role, text, call in parts_of(item["message"]):
                    if role == "tool":
                        results[(session, call)] = text
                        if (session, call) not in asked:
                            said.append(("tool", text))
                    else:
                        said.append((role, text))
        elif record["kind"] == "response" and (session, record["message"]) not in seen:
            seen.add((session, record["message"]))
            error = record.get("error", {})
            told_error = ": ".join(error[k] for k in ("type", "message") if error.get(k))
            said.append(("assistant", record.get("text") or told_error))
            for call in record.get("calls", ()):
                asked.add((session, call["id"]))
                said.append(("result of", call["id"]))
                if (session, call["id"]) not in by_id:
                    likeness = (call["name"], json.loads(call["arguments"]))
                    likely.append((session, likeness, call["id"]))
        elif record["kind"] == "tool" and (session, record["id"]) not in asked:
            likeness = (record["name"], json.loads(record.get("arguments") or "{}"))
            waiting = [call for call in likely if call[:2] == (session, likeness)]
            if waiting:
                run[(session, record["id"])] = waiting[0][2]
                likely.remove(waiting[0])
                continue
            asked.add((session, record["id"]))
            said += [("assistant", ""), ("result of", record["id"])]
        elif record["kind"] == "result":
            error = record.get("error", {})
            text = record.get("result", f"{error.get('type')}: {error.get('message')}")
            call = run.get((session, record["id"]), record["id"])
            results.setdefault((session, call), text)
    return {
        session: [
            ("tool", results[(session, text)]) if role == "result of" else (role, text)
            for role, text in said
            if role != "result of" or (session, text) in results
        ]
        for session, said in told.items()
        if said
    }


def parts_of(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    if message.get("type") == "function_call_output":
        return [("tool", message["output"], message["call_id"])]
    content = message.get("content", [])
    if isinstance(content, str):
        return [(message["role"], content, message.get("tool_call_id", ""))]
    results = [
        ("tool", part["content"], part["tool_use_id"])
        for part in content
        if part["type"] == "tool_result"
    ]
    rest = [part for part in content if part["type"] != "tool_result"]
    text = "\n".join(part["text"] for part in rest if part["type"] == "text")
    return [*results, *([(message["role"], text, "")] if rest else [])]


@pytest.mark.parametrize("case", cases("recorder"), ids=case_id)
def test_against_a_plain_reading(case: Path) -> None:
    made = reduce_all(facts_of(origins_of(case / "input")))
    found = {t.conversation_id: [(m.role, m.content) for m in t.messages] for t in made}
    assert found == plain_reading(case / "input")
