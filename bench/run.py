"""All benchmarks, or those named: `make bench`, `make bench ARGS='telemetry-short claude'`.

Figures are ratios within one run to a floor, one `orjson.loads` per line, so that they mean the same
on any machine. With UNSPOOL_BENCH_DATA=<folder> the made-up data is kept and used again.
"""

import compileall
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import (
    agents,
    claude_code,
    copilot_cli,
    cursor,
    front,
    hooks,
    live,
    parquet,
    recorder,
    serve,
    store,
    telemetry,
    vscode_chat,
)
from bench.measure import Row, extract_rows, made_data


def _extract(job: str, generate: Callable[[Path], object], *workers: int) -> list[Row]:
    with made_data(job, generate) as folder:
        return extract_rows(job, folder, workers)


def _real_claude() -> list[Row]:
    """The real sessions where the machine has them."""
    corpus = os.environ.get("UNSPOOL_CORPUS")
    folder = Path(corpus, "claude-code", "sessions") if corpus else None
    return extract_rows("claude-real", folder) if folder is not None and folder.is_dir() else []


JOBS: dict[str, Callable[[], list[Row]]] = {
    "telemetry-short": lambda: _extract("telemetry-short", telemetry.generate_short, 1, 2),
    "telemetry": lambda: _extract(
        "telemetry", partial(telemetry.generate, size=2_000_000_000), 1, 2
    ),
    "telemetry-memory": telemetry.run_memory,
    "claude": lambda: _extract("claude", claude_code.generate_hard, 1, 2),
    "claude-varied": lambda: _extract(
        "claude-varied", partial(claude_code.generate, size=2_000_000_000), 1
    ),
    "claude-real": _real_claude,
    "live": live.run,
    "copilot-cli": lambda: _extract(
        "copilot-cli", partial(copilot_cli.generate, size=200_000_000), 1, 2
    ),
    "codex": lambda: _extract("codex", partial(agents.generate, make=agents.codex), 1, 2),
    "gemini-cli": lambda: _extract(
        "gemini-cli", partial(agents.generate, make=agents.gemini), 1, 2
    ),
    "qwen-code": lambda: _extract("qwen-code", partial(agents.generate, make=agents.qwen), 1, 2),
    "opencode": agents.run_opencode,
    "opencode-memory": partial(agents.run_opencode, 1_000_000_000, "opencode-memory"),
    "otel": lambda: _extract("otel", partial(agents.generate, make=agents.otel), 1, 2),
    "otel-memory": lambda: _extract(
        "otel-memory",
        partial(agents.generate_one, make=agents.otel, size=1_000_000_000, name="traces.jsonl"),
        1,
    ),
    "vscode-chat": vscode_chat.run,
    "cursor": cursor.run,
    "front": front.run,
    "sync": store.run_sync,
    "sync-all": store.run_sync_all,
    "search": store.run_search,
    "serve": serve.run,
    "serve-live": serve.run_live,
    "serve-peer": serve.run_peer,
    "parquet": parquet.run,
    "recorder": recorder.run,
    "hooks": hooks.run,
}


def main() -> None:
    wanted = sys.argv[1:] or list(JOBS)
    for job in wanted:
        if job not in JOBS:
            sys.exit(f"no job is called {job!r}; there are {', '.join(JOBS)}")
    # As an installed package is: to compile the modules in every run would be measured too.
    compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)
    for job in wanted:
        for what, figure in JOBS[job]():
            print(f"| {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
