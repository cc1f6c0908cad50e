"""Made-up Copilot CLI sessions of any shape against tests/copilot_oracle.py."""

from pathlib import Path
from typing import Any

import pytest

from tests.copilot_check import differences
from tests.copilot_oracle import tell
from tests.copilot_sessions import Script, lines_of
from tests.harness import facts_of, origins_of, plain, reduce_all

LOG = "events.jsonl"


def write(folder: Path, session: str, data: bytes) -> None:
    (folder / "session-state" / session).mkdir(parents=True)
    (folder / "session-state" / session / LOG).write_bytes(data)


def read(folder: Path) -> list[dict[str, Any]]:
    return plain(reduce_all(facts_of(origins_of(folder))), folder)


@pytest.mark.parametrize("seed", range(200))
def test_any_session_agrees_with_the_oracle(seed: int, tmp_path: Path) -> None:
    script = Script(seed)
    data = b"".join(lines_of(script.play(2 + seed % 25)))
    write(tmp_path, script.session, data)
    assert differences(tell(data), script.session, read(tmp_path)) == []
