"""When conversations are made anew: ends of turns first, also in a backlog, and nobody all the time."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live.test_faults import prompt
from tests.live.test_live_is_batch import Capture
from tests.live.test_watch import SESSION
from unspool.facts import Key
from unspool.live import daemon, schedule
from unspool.live.intake import make_arrival
from unspool.live.monitors import Monitors
from unspool.live.schedule import Schedule
from unspool.store.opening import writing
from unspool.store.survey import Known

QUIET, ENDED = ("claude-code", "quiet"), ("claude-code", "ended")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(schedule.time, "monotonic", lambda: self.now)

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_quiet_is_awaited_but_not_for_ever(clock: Clock) -> None:
    waiting = Schedule()
    waiting.touch([QUIET])
    waiting.touch([ENDED], urgent=True)
    assert list(waiting.take()) == [ENDED]
    clock.pass_(0.11)
    assert list(waiting.take()) == [QUIET]
    waiting.done([QUIET], 0)
    clock.pass_(1)
    waiting.touch([QUIET])
    for _ in range(5):  # it goes on all the time
        clock.pass_(0.09)
        assert not waiting.take()
        waiting.touch([QUIET])
    clock.pass_(0.06)
    assert list(waiting.take()) == [QUIET]


@pytest.mark.parametrize(("cost", "pause"), [(0.01, 0.25), (0.5, 2.0)])
def test_at_most_one_reduction_in_a_while(clock: Clock, cost: float, pause: float) -> None:
    """max(250 ms, four times the last cost); whoever ended a turn does not go round it."""
    waiting = Schedule()
    for key, urgent in ((QUIET, False), (ENDED, True)):
        waiting.done([key], cost)
        waiting.touch([key], urgent)
    clock.pass_(pause - 0.01)
    assert not waiting.take()
    assert waiting.wait_seconds(10) == pytest.approx(0.01)
    clock.pass_(0.02)
    assert list(waiting.take()) == [ENDED, QUIET]


def test_in_a_backlog_ends_of_turns_go_first(clock: Clock) -> None:
    work: Any = daemon._Work.__new__(daemon._Work)
    work.schedule = Schedule()
    work._made_at = work._all_made_at = clock.now
    work._made_seconds = 0.0
    many: list[Key] = [("claude-code", str(number)) for number in range(50)]
    work.schedule.touch(many)
    work.schedule.touch([ENDED], urgent=True)
    clock.pass_(1)
    assert list(work._due(daemon.FLOOD_EVENTS)) == [ENDED]
    assert not work._due(daemon.FLOOD_EVENTS)  # the backlog goes in
    work._made_at, work._made_seconds = clock.now, 2.0
    work.schedule.touch([ENDED], urgent=True)
    clock.pass_(1.9)
    assert not work._due(daemon.FLOOD_EVENTS)  # half of the time is the backlog's
    clock.pass_(0.2)
    assert list(work._due(daemon.FLOOD_EVENTS)) == [ENDED]
    clock.pass_(daemon.FLOOD_SECONDS)
    assert len(work._due(daemon.FLOOD_EVENTS)) == schedule.MOST_AT_ONCE
    assert len(work._due(daemon.FLOOD_EVENTS - 1)) == schedule.MOST_AT_ONCE  # it is over


def test_processes_that_start_are_no_cost_of_a_conversation(clock: Clock) -> None:
    """Else the second change after a quiet time would wait for four times as long."""
    work: Any = daemon._Work.__new__(daemon._Work)
    work.schedule = Schedule()
    work.writer = SimpleNamespace(
        reducers=SimpleNamespace(ready=lambda: clock.pass_(5)),
        bring_up_to_date=lambda due: (set(due), []),
    )
    work.daemon, work.queue = SimpleNamespace(lags=[]), SimpleNamespace(remote=False)
    work.lags, work.unaligned = {}, set()
    work._turn, work._tell_changes = nullcontext, lambda: None
    work.schedule.touch([ENDED], urgent=True)
    work._bring_up_to_date(work.schedule.take())
    work.schedule.touch([ENDED], urgent=True)
    clock.pass_(schedule.LEAST_BETWEEN_SECONDS)
    assert list(work.schedule.take()) == [ENDED]


def test_new_files_are_found_in_time_and_nobody_looks_all_the_time(
    clock: Clock, tmp_path: Path
) -> None:
    """Also where nothing moved for ten minutes, and for an hour."""
    (tmp_path / "home").mkdir()
    with writing(tmp_path / "s.db") as connection:
        watched = Monitors(connection, [str(tmp_path / "home")])
        for number, quiet_seconds in enumerate((5, 700, 4000)):
            quiet_until = clock.now + quiet_seconds
            while clock.now < quiet_until:
                assert not watched.poll().changed
                assert watched.wait_seconds() > 0
                clock.pass_(watched.wait_seconds() / 2)
            written = clock.now
            (tmp_path / "home" / f"{number}.jsonl").write_text("{}\n")
            while not (found := watched.poll().changed):
                clock.pass_(watched.wait_seconds())
            assert clock.now - written <= 16
            (one,) = found  # and it is taken in
            size, at = one.size_bytes, one.mtime_ns
            watched.known[one.path] = Known(number, "claude-code", size, at, "", size, "", 0, "")


def test_the_events_themselves_tell_that_a_turn_ended(tmp_path: Path) -> None:
    """Also where another machine took them in, or long before they are read."""
    capture = Capture(tmp_path)
    data = b'{"session_id":"%s","hook_event_name":"Stop"}' % (SESSION % 2).encode()
    capture.arrive(prompt(1, "go on", 1), make_arrival(data, "any.2", 1_760_000_000_000_000_002))
    with capture.writer() as writer:
        taken = writer.take_events(capture.queue)
    assert taken.ended == {("claude-code", SESSION % 2)}
    capture.queue.close()
