"""Real agents, followed while they work: what comes out is what a sync of their files gives afterwards.

Only where the lab is (UNSPOOL_LAB) and its agents are installed.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.hooks.test_lab import LAB, play
from tests.live.test_live_is_batch import differences, rows
from tests.test_extract import ENV
from unspool.hooks.spool import Layout
from unspool.store.blocks import iter_raw
from unspool.store.opening import reading, writing
from unspool.store.sync import Sync

pytestmark = [
    pytest.mark.skipif(not LAB, reason="no lab here (UNSPOOL_LAB)"),
    pytest.mark.slow,
]
PLACES = {
    "claude-code": ".claude/projects",
    "codex": ".codex/sessions",
    "copilot-cli": ".copilot/session-state",
    "gemini": ".gemini/tmp",
    "opencode": ".local/share/opencode",
}


@pytest.mark.parametrize("agent", PLACES)
def test_a_conversation_arrives_whole_while_it_happens(tmp_path: Path, agent: str) -> None:
    home = tmp_path / f"lab-{agent}-hooks-1" / "home"
    store = home / ".local/share/unspool/conversations.db"
    layout = Layout.beside(store)
    places = str(home / PLACES[agent])
    command = [sys.executable, "-m", "unspool", "watch", places, "--store", str(store), "--json"]
    told = tmp_path / "told.jsonl"
    told.touch()
    followers: list[subprocess.Popen[bytes]] = []
    is_over = threading.Event()

    def follow() -> None:
        while not layout.new.is_dir() and not is_over.is_set():
            time.sleep(0.1)
        with open(told, "wb") as lines:
            followers.append(subprocess.Popen(command, env=ENV, stdout=lines))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        # However slow this machine is just now: the agent waits in the middle of a turn until the
        # daemon has told of its conversation.
        played = play(tmp_path, agent, "hooks", UNSPOOL_LAB_TOLD=str(told))
        assert b'"messages":' in told.read_bytes()
    finally:
        is_over.set()
        thread.join()
        followers[0].terminate()
        followers[0].wait()
    assert played.exits
    assert subprocess.run([*command, "--once"], env=ENV, capture_output=True).returncode == 0
    with reading(store) as connection:
        events = connection.execute(
            "SELECT o.path, r.data FROM raw_traces r JOIN origins o ON o.id = r.origin_id"
            " WHERE event_id IS NOT NULL"
        ).fetchall()
        ((states,),) = connection.execute("SELECT count(*) FROM activity")
    assert len(events) > 8
    assert states
    _lay_out_logs(store)
    fresh = tmp_path / "fresh" / "s.db"
    with writing(fresh) as connection:
        Sync(connection).run([places, str(layout.live / "logs")])
    assert differences(rows(store), rows(fresh)) == []


def _lay_out_logs(store: Path) -> None:
    """The events as the dated logs that a logging hook would have written."""
    with reading(store) as connection:
        logs = connection.execute(
            "SELECT DISTINCT o.id, o.path FROM origins o JOIN raw_traces r ON r.origin_id = o.id"
            " WHERE r.event_id IS NOT NULL AND r.event_type != 'database_trace'"
        ).fetchall()
        for ident, path in logs:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(b"".join(data for _, data in iter_raw(connection, ident)))
