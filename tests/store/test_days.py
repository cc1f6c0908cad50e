"""What a conversation did counts when it did it: by day, and in the time that is asked about."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import corpus, put_trajectory
from tests.store.conftest import made
from tests.store.test_sync import sync
from unspool.io.times import parse_time
from unspool.store.filters import Filters
from unspool.store.opening import reading, transaction
from unspool.store.prices import rates_of
from unspool.store.stats import Figures, stats
from unspool.trajectory import FileTouch, Link, Message, ToolCall, Trajectory, Usage

OPUS, HAIKU = "claude-opus-4-5", "claude-haiku-4-5"
SUMMED = (
    "turns", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens",
    "tokens_without_price", "tool_calls", "tool_failures", "lines_added", "lines_removed",
    "changes_kept", "changes_decided",
)  # fmt: skip


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    move("UTC")
    yield move
    monkeypatch.undo()
    time.tzset()


def overnight() -> Trajectory:
    """A turn late on the 9th, one on the 10th, and tokens that only the session's total knows."""
    late, early = "2026-03-09T23:10:00.000Z", "2026-03-10T08:00:00.000Z"
    first = Usage(prompt_tokens=1000, completion_tokens=100, cached_tokens=400)
    second = Usage(prompt_tokens=500, completion_tokens=50, cached_tokens=0)
    call = ToolCall("call-1", started_at=late)
    messages = [
        Message("user", "go", typed="go", timestamp=late, turn=0),
        Message("assistant", "", model=OPUS, tool_calls=[call], usage=first, turn=0),
        Message("tool", "no", tool_call_id="call-1", is_error=True, turn=0),
        Message("user", "on", typed="on", timestamp=early, turn=1),
        Message("assistant", "", model=HAIKU, tool_calls=[ToolCall("call-2")], usage=second, turn=1),
        Message("tool", "yes", tool_call_id="call-2", turn=1),
    ]  # fmt: skip
    trajectory = Trajectory("night", messages, source="claude-code")
    trajectory.started_at, trajectory.ended_at = late, "2026-03-10T08:00:30.000Z"
    trajectory.usage = Usage(prompt_tokens=1700, completion_tokens=160, cached_tokens=400)
    trajectory.model_usage = {
        "primary_model": OPUS,
        "by_model": {
            OPUS: {"prompt_tokens": 1200, "completion_tokens": 110, "cached_tokens": 400},
            HAIKU: {"prompt_tokens": 500, "completion_tokens": 50, "cached_tokens": 0},
        },
    }
    trajectory.files = [
        FileTouch("/w/a.py", lines_added=5, lines_removed=2, outcome="accepted", timestamp=late),
        FileTouch("/w/a.py", lines_added=1, outcome="rejected", index=4),
        FileTouch("/w/b.py", lines_added=3, lines_removed=0, index=4),
    ]
    return trajectory


def put(store: Any, *trajectories: Trajectory) -> None:
    with transaction(store):
        for trajectory in trajectories:
            put_trajectory(store, trajectory)


def days(store: Any, **filters: Any) -> dict[str, Figures]:
    return {row.name: row for row in stats(store, "day", Filters(**filters))}


def test_a_night_is_two_days(store: Any, zone: Any) -> None:
    put(store, overnight())
    found = days(store)
    assert list(found) == ["2026-03-04", "2026-03-09", "2026-03-10"]
    ninth, tenth = found["2026-03-09"], found["2026-03-10"]
    assert (ninth.conversations, ninth.turns, ninth.tool_calls, ninth.tool_failures) == (1, 1, 1, 1)
    assert (tenth.conversations, tenth.turns, tenth.tool_calls, tenth.tool_failures) == (1, 1, 1, 0)
    assert (ninth.prompt_tokens, ninth.completion_tokens, ninth.cached_tokens) == (1000, 100, 400)
    # What no message tells of comes last: the session reports it when it ends.
    assert (tenth.prompt_tokens, tenth.completion_tokens, tenth.cached_tokens) == (700, 60, 0)
    assert (ninth.lines_added, ninth.lines_removed, ninth.acceptance_rate) == (5, 2, 1.0)
    assert (tenth.lines_added, tenth.lines_removed, tenth.acceptance_rate) == (3, 0, 0.0)
    opus, haiku = rates_of(OPUS), rates_of(HAIKU)
    assert opus is not None
    assert haiku is not None
    assert ninth.cost_usd == pytest.approx(opus.cost(1000, 100, 400, None))
    assert tenth.cost_usd == pytest.approx(opus.cost(200, 10, 0, None) + haiku.cost(500, 50, 0, 0))


def test_a_day_is_one_of_this_machines_zone(store: Any, zone: Any) -> None:
    put(store, overnight())
    zone("Asia/Tokyo")
    assert list(days(store)) == ["2026-03-04", "2026-03-10"]
    assert days(store)["2026-03-10"].turns == 2
    zone("America/Los_Angeles")
    assert list(days(store)) == ["2026-03-04", "2026-03-09", "2026-03-10"]


def test_what_the_agent_says_it_cost_goes_with_the_tokens(store: Any, zone: Any) -> None:
    trajectory = overnight()
    assert trajectory.usage is not None
    trajectory.usage.cost_usd = 1.86
    put(store, trajectory)
    found = days(store)
    assert found["2026-03-09"].cost_usd == pytest.approx(1.10)
    assert found["2026-03-10"].cost_usd == pytest.approx(0.76)


def test_a_turn_that_was_copied_is_of_no_day(store: Any, zone: Any) -> None:
    trajectory = overnight()
    for message in trajectory.messages[:3]:
        message.copied = True
    put(store, trajectory)
    assert [days(store)[day].turns for day in ("2026-03-09", "2026-03-10")] == [0, 1]
    rows = {row.name: row for row in stats(store, "model", Filters())}
    assert [rows[name].turns for name in (OPUS, HAIKU)] == [0, 1]


@pytest.mark.parametrize("by", ["source", "model", "tool", "file"])
def test_only_what_was_done_in_the_time_asked_for(store: Any, zone: Any, by: Any) -> None:
    put(store, overnight())
    since = parse_time("2026-03-10T00:00:00Z")
    until = parse_time("2026-03-09T23:59:59Z")
    later = {row.name: row for row in stats(store, by, Filters(since=since))}
    earlier = {row.name: row for row in stats(store, by, Filters(since=1, until=until))}
    if by == "source":
        assert (later["claude-code"].turns, later["claude-code"].prompt_tokens) == (1, 700)
        assert earlier["claude-code"].prompt_tokens == 2000
    elif by == "model":
        assert {name: row.prompt_tokens for name, row in later.items()} == {OPUS: 200, HAIKU: 500}
        assert earlier[OPUS].prompt_tokens == 1000
        assert HAIKU not in earlier
    elif by == "tool":
        assert sum(row.tool_calls for row in later.values()) == 1
    else:
        assert {name: row.touches for name, row in later.items()} == {"/w/a.py": 1, "/w/b.py": 1}


def test_copied_calls_are_nobodys_and_a_fork_has_tokens_of_its_own(store: Any) -> None:
    parent = made("p1", "copilot-cli", "go", "gone", model="gpt-5")
    parent.metadata = {"usage_includes_subagents": True}
    parent.children = [Link("p2", kind="fork")]
    fork = made("p2", "copilot-cli", "go", "gone", model="gpt-5")
    fork.parent = Link("p1", kind="fork")
    for message in fork.messages[:3]:
        message.copied = True
    put(store, parent, fork)
    filters = Filters(source="copilot-cli")
    (row,) = [row for row in stats(store, "model", filters) if row.name == "gpt-5"]
    assert (row.conversations, row.prompt_tokens) == (2, 2000)
    (row,) = stats(store, "source", filters)
    assert (row.tool_calls, row.tool_failures) == (2, 2)
    assert sum(row.tool_calls for row in stats(store, "tool", filters)) == 2


def test_the_days_of_real_sessions_add_up(tmp_path: Path, zone: Any) -> None:
    sessions, logs = corpus("claude-code", "sessions"), corpus("copilot-cli")
    if sessions is None or logs is None:
        pytest.skip("UNSPOOL_CORPUS is not set")
    zone("America/Los_Angeles")
    path = tmp_path / "s.db"
    sync(path, *sorted(sessions.glob("*.jsonl"))[::4], logs, raw=False)
    with reading(path) as connection:
        found = stats(connection, "day", Filters())
        whole = stats(connection, "source", Filters())
    assert len(found) > 10
    for field in SUMMED:
        assert sum(getattr(row, field) or 0 for row in found) == sum(
            getattr(row, field) or 0 for row in whole
        ), field
    costs = [sum(row.cost_usd or 0 for row in rows) for rows in (found, whole)]
    assert costs[0] == pytest.approx(costs[1])
