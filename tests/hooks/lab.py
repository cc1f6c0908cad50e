"""Plays a scenario of the lab with the hooks that `unspool hooks install` writes: `lab.py LAB AGENT …`

The lab configures the agent first, as a person would have; then our command edits what it finds. With
UNSPOOL_LAB_TRUST=1 Codex is not told to run hooks that nobody trusts; with UNSPOOL_LAB_BREAK=1 the
spool is gone when the agent starts. UNSPOOL_LAB_TOLD names a file with what `unspool watch --json`
prints: the model does not go on with the first turn until a line there tells of the conversation.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = {"copilot-cli": "copilot", "gemini": "gemini-cli"}
"""Agents that the lab calls otherwise."""
HELD_ANSWER = 4
"""Of the first turn: by then tools have run."""
HELD_SECONDS = 60


def main() -> int:
    lab, name = sys.argv[1], sys.argv[2]
    sys.path.insert(0, lab)
    sys.dont_write_bytecode = True
    import agents  # type: ignore[import-not-found]
    import model  # type: ignore[import-not-found]
    import run  # type: ignore[import-not-found]

    class Held(model.Script):  # type: ignore[misc]
        def next(self, view: Any) -> Any:
            kind, thread, *rest = super().next(view)
            told = os.environ.get("UNSPOOL_LAB_TOLD")
            is_held = (thread, self.active, self.played["main"]) == ("main", 0, HELD_ANSWER)
            until = time.monotonic() + HELD_SECONDS
            while told and is_held and time.monotonic() < until:
                if b'"messages":' in Path(told).read_bytes():
                    break
                time.sleep(0.05)
            return kind, thread, *rest

    class Hooked(agents.AGENTS[name]):  # type: ignore[misc]
        def configure(self, scenario: dict[str, Any]) -> None:
            super().configure({**scenario, "hooks": False})
            command = [sys.executable, "-m", "unspool", "hooks", "install", NAMES.get(name, name)]
            options = os.environ.get("UNSPOOL_LAB_INSTALL", "").split()
            environment = self.environment() | {"PYTHONPATH": os.environ["PYTHONPATH"]}
            subprocess.run(
                [*command, *options], env=environment, cwd=self.work, check=True, stdout=sys.stderr
            )
            if os.environ.get("UNSPOOL_LAB_BREAK"):
                shutil.rmtree(self.home / ".local" / "share" / "unspool")

        def command(self, turn: dict[str, Any]) -> list[str]:
            argv: list[str] = super().command(turn)
            if os.environ.get("UNSPOOL_LAB_TRUST"):
                argv.remove("--dangerously-bypass-hook-trust")
            return argv

    agents.AGENTS[name] = Hooked
    model.Script = Held
    sys.argv = ["run.py", *sys.argv[2:]]
    return int(run.main())


if __name__ == "__main__":
    sys.exit(main())
