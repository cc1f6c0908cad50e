"""Stats and alignment over a store, and its documented queries."""

import csv
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness import put_trajectory
from tests.store.conftest import made
from tests.test_extract import ENV, conversation
from tests.test_front import on_a_terminal
from unspool.io.times import parse_time
from unspool.store.align import align, align_all, candidates, in_order
from unspool.store.filters import Filters
from unspool.store.opening import transaction
from unspool.store.prices import rates_of
from unspool.store.stats import GROUPS, stats
from unspool.trajectory import (
    Link,
    Message,
    Workspace,
)


def test_stats_by_source(store: Any) -> None:
    rows = {row.name: row for row in stats(store, "source", Filters())}
    cursor = rows["cursor"]
    assert (cursor.conversations, cursor.turns, cursor.tool_calls, cursor.tool_failures) == (
        2,
        4,
        2,
        2,
    )
    assert (cursor.prompt_tokens, cursor.cached_tokens) == (2000, 800)
    assert (cursor.lines_added, cursor.lines_removed) == (10, 4)
    assert cursor.acceptance_rate == 0.5
    assert cursor.cost_usd is not None
    assert cursor.cost_usd > 0


def test_tokens_that_a_parent_counts_already_are_not_added(store: Any) -> None:
    parent = made("p1", "copilot-cli", "go", "gone", model="gpt-5")
    parent.metadata = {"usage_includes_subagents": True}
    parent.children = [Link("p1/s1")]
    child = made("p1/s1", "copilot-cli", "look", "seen", model="gpt-5")
    child.parent = Link("p1")
    with transaction(store):
        put_trajectory(store, parent)
        put_trajectory(store, child)
    filters = Filters(source="copilot-cli")
    (row,) = [row for row in stats(store, "model", filters) if row.name == "gpt-5"]
    assert row.prompt_tokens == 1000
    (row,) = stats(store, "source", filters)
    assert (row.prompt_tokens, row.conversations, row.subagents) == (2000, 2, 1)


def test_an_unknown_price_is_unknown(store: Any) -> None:
    (row,) = [row for row in stats(store, "model", Filters()) if row.name == "who-knows-1"]
    assert row.cost_usd is None
    assert row.tokens_without_price == 1100
    assert rates_of("who-knows-1") is None


def test_cost_counts_cache_reads_once() -> None:
    rates = rates_of("copilot/claude-sonnet-4.5")
    assert rates is not None
    assert rates.cost(1000, 0, 1000, None) == pytest.approx(1000 * rates.cached)
    assert rates.cost(1000, 10, 400, 100) == pytest.approx(
        500 * rates.fresh + 400 * rates.cached + 100 * rates.cache_write + 10 * rates.output
    )


def test_stats_by_tool_file_and_day(store: Any) -> None:
    (tool,) = stats(store, "tool", Filters())
    assert (tool.name, tool.tool_calls, tool.tool_failures) == ("Edit", 4, 4)
    first = stats(store, "file", Filters())[0]
    assert (first.name, first.conversations, first.touches) == ("/w/app/limiter.py", 3, 6)
    assert [row.name for row in stats(store, "day", Filters())] == ["2026-03-04"]


def test_alignment(store: Any) -> None:
    same = align(store, "claude_code:c1", "cursor:k1")
    other = align(store, "claude_code:c1", "cursor:k2")
    kinds = {correlation.type for correlation in same.correlations}
    assert kinds == {"workspace", "temporal", "file", "semantic"}
    assert same.confidence > 0.85
    assert other.confidence < same.confidence
    temporal = next(c for c in same.correlations if c.type == "temporal")
    assert temporal.confidence == 1.0
    assert temporal.time_difference_ms == 0


def test_equal_commands_are_no_evidence(store: Any) -> None:
    with transaction(store):
        for ident, source in (("c8", "claude-code"), ("k8", "cursor")):
            put_trajectory(store, made(ident, source, "/compact", "Compacted."))
    found = align(store, "claude_code:c8", "cursor:k8").correlations
    assert "/compact" not in {c.left for c in found if c.type == "semantic"}


def test_align_all_compares_only_candidates(store: Any) -> None:
    pairs = candidates(store, Filters())
    assert ("claude_code:c1", "cursor:k1") in pairs
    assert all(first.split(":")[0] != second.split(":")[0] for first, second in pairs)
    found = align_all(store, Filters())
    assert (found[0].left, found[0].right) == ("claude_code:c1", "cursor:k1")
    align_all(store, Filters())
    rows = store.execute("SELECT count(*) FROM conversation_alignments").fetchone()
    assert rows == (len(found),)


def test_a_cursor_conversation_stands_on_the_right(store: Any) -> None:
    assert in_order("vscode_chat:a", "cursor:b") == ("vscode_chat:a", "cursor:b")
    assert in_order("cursor:b", "vscode_chat:a") == ("vscode_chat:a", "cursor:b")
    assert in_order("claude_code:c", "a:a") == ("claude_code:c", "a:a")
    align_all(store, Filters())
    rows = store.execute(
        "SELECT claude_conversation_id, cursor_conversation_id FROM conversation_alignments"
    ).fetchall()
    assert rows
    assert not any(left.startswith("cursor:") for left, _ in rows)
    assert not any(right.startswith("claude_code:") for _, right in rows)


def test_confidence_falls_with_the_difference(store: Any) -> None:
    found: list[float] = []
    for number, seconds in enumerate((0, 1, 2.5, 4, 5, 6)):
        one = made(f"x{number}", "cursor", "quite another thing", "x", path=f"/{number}")
        stamp = f"2026-03-04T10:00:{1 + seconds:06.3f}Z"
        one.messages = [Message("user", "hm, look", typed="hm, look", timestamp=stamp, turn=0)]
        with transaction(store):
            put_trajectory(store, one)
        correlations = align(store, "claude_code:c1", f"cursor:x{number}").correlations
        best = [c.confidence for c in correlations if c.type == "temporal" and c.left == "prompt"]
        found.append(max(best, default=0.0))
    assert found == [1.0, 0.8, 0.5, 0.2, 0.0, 0.0]


def test_candidates_share_a_workspace_by_path_or_hash_and_any_day(store: Any) -> None:
    late = made("n1", "vscode-chat", "good night", "yes", path="/else/where.py")
    assert late.workspace is not None
    late.workspace = Workspace(path="/w/app", hash="of its own")
    late.started_at = "2026-03-03T23:00:00.000Z"  # begun the day before
    with transaction(store):
        put_trajectory(store, late)
    assert ("claude_code:c1", "vscode_chat:n1") in candidates(store, Filters())


def test_many_conversations_have_few_candidates(store: Any) -> None:
    """A hundred days of work in two programs: pairs grow with the days, not with their square."""

    def pairs(days: int) -> int:
        with transaction(store):
            for number in range(days):
                stamp = f"2026-{4 + number // 28:02d}-{1 + number % 28:02d}T10:00:00.000Z"
                for source in ("claude-code", "cursor"):
                    one = made(f"d{number}", source, f"day {number}", "yes", path=f"/w/{number}.py")
                    for message in one.messages:
                        message.timestamp = stamp
                    one.started_at = one.ended_at = stamp
                    put_trajectory(store, one)
        since = Filters(since=parse_time("2026-04-01T00:00:00Z"))
        return len(candidates(store, since))

    assert pairs(25) == 25
    assert pairs(100) == 100
    steps = store.execute(
        "EXPLAIN QUERY PLAN SELECT DISTINCT a.id, b.id FROM places a JOIN places b"
        " ON a.place = b.place AND a.platform < b.platform"
    ).fetchall()
    assert any("USING INDEX by_place" in step[-1] for step in steps)


def test_every_group_of_figures(store: Any) -> None:
    found = {group: [row.name for row in stats(store, group, Filters())] for group in GROUPS}
    assert found == {
        "day": ["2026-03-04"],
        "project": ["/w/app"],
        "model": ["claude-sonnet-4-5", "who-knows-1"],
        "tool": ["Edit"],
        "source": ["cursor", "claude-code", "copilot-cli"],
        "file": ["/w/app/limiter.py", "/p/poem.txt"],
    }
    (day,) = stats(store, "day", Filters())
    assert (day.conversations, day.turns, day.prompt_tokens, day.completion_tokens) == (
        4,
        8,
        4000,
        400,
    )
    assert (day.cached_tokens, day.tokens_without_price, day.tool_failures) == (1600, 1100, 4)
    rates = rates_of("claude-sonnet-4-5")
    assert rates is not None
    assert day.cost_usd == pytest.approx(3 * rates.cost(1000, 100, 400, None))


def test_what_each_model_did(store: Any) -> None:
    """Turns, calls and failures too; also of a model whose tokens nobody counted."""
    silent = made("s1", "vscode-chat", "go", "gone", model="no-usage-1")
    silent.usage = silent.messages[1].usage = None
    silent.model_usage = None
    child = made("s1/a", "vscode-chat", "go", "gone", model="no-usage-1")
    child.usage = child.messages[1].usage = None
    child.model_usage = None
    child.parent = Link("s1")
    with transaction(store):
        put_trajectory(store, silent)
        put_trajectory(store, child)
    rows = {row.name: row for row in stats(store, "model", Filters())}
    sonnet, other, silent_row = rows["claude-sonnet-4-5"], rows["who-knows-1"], rows["no-usage-1"]
    assert (sonnet.conversations, sonnet.turns, sonnet.tool_calls, sonnet.tool_failures) == (
        3,
        6,
        3,
        3,
    )
    assert (other.conversations, other.turns, other.tool_calls, other.tool_failures) == (1, 2, 1, 1)
    assert (silent_row.conversations, silent_row.subagents, silent_row.turns) == (1, 1, 2)
    assert (silent_row.tool_calls, silent_row.prompt_tokens, silent_row.cost_usd) == (2, None, None)
    assert set(rows) == {"claude-sonnet-4-5", "who-knows-1", "no-usage-1"}
    (one,) = stats(store, "model", Filters(model="WHO"))
    assert (one.name, one.tool_calls) == ("who-knows-1", 1)


def test_bars_on_a_terminal(store: Any, tmp_path: Path) -> None:
    arguments = ["stats", "--by", "source", "--store", str(tmp_path / "s.db")]
    assert "█" in on_a_terminal(arguments)


def test_progress_on_a_terminal_and_quiet_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = b"".join(conversation(f"c{n}", "x" * 400) for n in range(3000))
    (tmp_path / "in" / "a.jsonl").write_bytes(lines)
    arguments = ["sync", str(tmp_path / "in"), "--store", str(tmp_path / "p.db")]
    assert "reading" in on_a_terminal(arguments)
    command = [sys.executable, "-m", "unspool", *arguments]
    done = subprocess.run(command, capture_output=True, env=ENV, check=True)
    assert (done.stdout, b"reading" in done.stderr) == (b"", False)


def test_the_seeds_columns_and_check_stand(store: Any) -> None:
    row = store.execute(
        "SELECT platform, session_id, interaction_count, total_tokens, total_changes, acceptance_rate,"
        " tool_sequence FROM conversations WHERE external_id = 'k1'"
    ).fetchone()
    assert row == ("cursor", "cursor_session:k1", 2, 1100, 1, 0.5, '["Edit"]')
    claude = store.execute("SELECT session_id FROM conversations WHERE platform = 'claude_code'")
    assert claude.fetchone() == (None,)
    turns = store.execute(
        "SELECT prompt, answer, model, tools FROM conversation_turns"
        " WHERE conversation_id = 'cursor:k2'"
    ).fetchall()
    assert turns[0] == ("Write a poem", "Roses.", "claude-sonnet-4-5", '["Edit"]')
    with pytest.raises(Exception, match="CHECK"):
        store.execute("UPDATE conversations SET session_id = NULL WHERE platform = 'cursor'")


def test_commands(store: Any, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"  # the other one is being written
    with closing(sqlite3.connect(path)) as copy:
        store.backup(copy)

    def run(*args: str) -> str:
        command = [sys.executable, "-m", "unspool", *args, "--store", str(path)]
        return subprocess.run(command, capture_output=True, env=ENV, check=True, text=True).stdout

    assert (
        json.loads(run("search", "poem", "--in", "typed", "--json"))[0]["snippet"]
        == "Write a «poem»"
    )
    assert "unspool show cursor/k2 --turn 1 " in run("search", "poem", "--in", "typed")
    aligned = json.loads(run("align", "k1", "c1", "--json"))
    assert (aligned[0]["left"], aligned[0]["right"]) == ("claude-code/c1", "cursor/k1")
    assert "claude-code/c1  ↔  cursor/k1" in run("align", "--auto", "--since", "2026-03-04")
    assert run("align", "--auto", "--since", "2026-03-05") == ""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run("align", "c1", "claude-code/c1")
    assert (refused.value.returncode, "the same" in refused.value.stderr) == (2, True)
    unpriced = json.loads(run("stats", "--by", "model", "--json"))[-1]
    assert (unpriced["name"], unpriced["tokens_without_price"]) == ("who-knows-1", 1100)
    assert "cost_usd" not in unpriced
    (row,) = [r for r in csv.DictReader(run("stats", "--by", "model", "--csv").splitlines())
              if r["name"] == "who-knows-1"]  # fmt: skip
    assert row["cost_usd"] == ""
    assert re.search(r"^who-knows-1 .* \?  ", run("stats", "--by", "model"), re.MULTILINE)
    assert "limiter.py" in run("stats", "--by", "file")
    assert run("stats", "--csv").startswith("name,conversations")


def test_the_documented_queries_run(store: Any) -> None:
    text = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    queries = text.split("```sql\n")[1].split("```")[0].split(";")
    ran = [store.execute(query).fetchall() for query in queries if query.strip()]
    assert len(ran) == 10
    assert len(ran[1]) == 2


def test_every_table_is_documented(store: Any) -> None:
    text = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    rows = store.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    names = {name for (name,) in rows if not name.startswith(("words_", "pieces_"))}
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_show_begins_at_a_turn(store: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        store.backup(copy)
    env = {**ENV, "UNSPOOL_STORE": str(tmp_path / "copy.db"), "HOME": str(tmp_path)}

    def show(turn: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "unspool", "show", "cursor/k2", "--turn", str(turn)]
        return subprocess.run(command, capture_output=True, env=env, text=True)

    assert "> Write a poem" in show(1).stdout
    second = show(2).stdout
    assert ("> and the tests?" in second, "> Write a poem" in second) == (True, False)
    assert (show(3).returncode, show(3).stderr.strip()) == (
        2,
        "unspool: it has 2 turns: there is no turn 3",
    )
