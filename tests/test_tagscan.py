"""The tag scan: counts that add up whoever counts, and a summary to work from."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from unspool.cli import group
from unspool.errors import OutputError
from unspool.prompts.census import TagScan, summary, write_summary
from unspool.sinks import Family, jsonl
from unspool.trajectory import Message, Trajectory


def conversations(count: int = 12) -> list[Trajectory]:
    made = []
    for number in range(count):
        messages = [
            Message("system", "<instructions>\nBe brief\n</instructions>"),
            Message("user", f"<context>\nday {number}\n<fresh n=1>\nx\n</fresh>\n</context>"),
            Message(
                "user",
                f'<novel kind="odd">\nnumber {number}\n</novel>\n<userRequest>\nhi\n</userRequest>',
            ),
            Message("tool", "<errors>\n</errors>", tool_call_id="t"),
            Message("user", "<novel>\ncopied\n</novel>", copied=True),
        ]
        made.append(Trajectory(f"c{number:02d}", messages))
    return made


def scan_all(trajectories: list[Trajectory]) -> TagScan:
    scan = TagScan()
    for trajectory in trajectories:
        scan.add(trajectory)
    return scan


def test_counts_roles_and_examples() -> None:
    made = summary(scan_all(conversations(4)))
    assert (made["conversations"], made["messages"]) == (4, {"system": 4, "tool": 4, "user": 8})
    known = {tag["name"]: tag for tag in made["known"]}
    assert known["instructions"]["roles"] == {"system": 4}
    assert known["context"]["count"] == 4
    unknown = {tag["name"]: tag for tag in made["unknown"]}
    assert set(unknown) == {"novel", "fresh"}
    assert unknown["novel"]["count"] == unknown["novel"]["conversations"] == 4
    assert unknown["novel"]["attributes"] == {"kind": 4}
    assert [e["conversation_id"] for e in unknown["novel"]["examples"]] == ["c00", "c01", "c02"]
    assert unknown["novel"]["examples"][0]["snippet"] == "number 0"
    assert unknown["novel"]["draft"] == {
        "name": "novel",
        "placement": ["user"],
        "route": "",
        "meaning": "",
    }
    assert unknown["fresh"]["draft"]["inside"] == ["context"]
    assert "userMemory" in made["not_met"]


def test_the_same_whoever_counts_in_whatever_order() -> None:
    made = conversations()
    whole = summary(scan_all(made))
    rng = random.Random(3)
    for _ in range(5):
        rng.shuffle(made)
        cut = rng.randrange(len(made))
        parts = [scan_all(made[:cut]), scan_all(made[cut:])]
        total = TagScan()
        for part in parts:
            # As it travels between processes.
            total.merge(msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=TagScan))
        assert summary(total) == whole


def test_a_draft_that_was_completed_makes_the_tag_known(tmp_path: Path) -> None:
    scan = scan_all(conversations(1))
    drafts = [tag["draft"] for tag in summary(scan)["unknown"]]
    path = tmp_path / "tags.json"
    path.write_text(json.dumps({"tags": [{**draft, "route": "news"} for draft in drafts]}))
    from unspool.prompts.catalogue import parse_catalogue

    again = summary(scan, parse_catalogue(path.read_bytes(), str(path)))
    assert {"novel", "fresh"} <= {tag["name"] for tag in again["known"]}


def test_written_into_a_folder_of_its_own_every_time(tmp_path: Path) -> None:
    now = datetime(2026, 3, 1, 10, tzinfo=UTC)
    scan = scan_all(conversations(1))
    first, second = (write_summary(scan, tmp_path / "x", now) for _ in range(2))
    assert first != second
    assert first.name == second.name == "tag_scan_summary.json"
    assert json.loads(first.read_text())["tags_unknown"] == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write_summary(scan, tmp_path / "file", now)


def _jsonl(folder: Path) -> str:
    path = folder / "t.jsonl"
    data = b"".join(p.data for t in conversations(3) for p in jsonl.write(Family(t), {}))
    path.write_bytes(data)
    return str(path)


def test_conversation_tags_writes_markdown(tmp_path: Path) -> None:
    target = tmp_path / "tags.md"
    result = CliRunner().invoke(group, ["conversation-tags", _jsonl(tmp_path), "-o", str(target)])
    assert result.exit_code == 0, result.output
    text = target.read_text()
    assert "| `context` | context_info | 3 | 3 | user 3 |" in text
    assert "### `novel`" in text
    assert "number 0" in text


def test_conversation_tags_as_json_with_another_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPT_CONTEXT_TAG_MAP", "")
    tags = tmp_path / "tags.json"
    tags.write_text('{"tags": [{"name": "novel", "placement": ["user"], "route": "news"}]}')
    arguments = ["conversation-tags", _jsonl(tmp_path), "--json", "--context-tag-map", str(tags)]
    result = CliRunner().invoke(group, arguments)
    assert [tag["name"] for tag in json.loads(result.stdout)["known"]] == ["novel"]
