"""What Parquet costs beside JSONL, of the same made-up home as `sync-all`."""

import tempfile
from pathlib import Path

from bench.measure import Measured, Row, extract_command, made_data, size_of
from bench.store import generate_home

WORKERS = ("--workers", "2", "--no-context-tag-summary")
ROUNDS = 3


def run() -> list[Row]:
    with (
        made_data("sync-all", generate_home) as home,
        tempfile.TemporaryDirectory(prefix="unspool-bench-parquet-") as temporary,
    ):
        lines, tables = Path(temporary, "all.jsonl"), Path(temporary, "tables")
        jsonl: list[Measured] = []
        parquet: list[Measured] = []
        for _ in range(ROUNDS):  # by turns: what else the machine does meets both
            jsonl.append(Measured(extract_command(home, lines, *WORKERS)))
            parquet.append(Measured(extract_command(home, tables, "--to", "parquet", *WORKERS)))
        seconds = [min(one.seconds for one in some) for some in (jsonl, parquet)]
        processor = [min(one.cpu_seconds for one in some) for some in (jsonl, parquet)]
        peak = max(one.peak_bytes for one in parquet)
        nested = Path(tables, "conversations.parquet").stat().st_size
        return [
            ("parquet: input", f"{size_of(home) / 1e6:.0f} MB"),
            ("parquet: extract to JSONL", f"{seconds[0]:.2f} s, processor {processor[0]:.2f} s"),
            (
                "parquet: extract to Parquet",
                f"{seconds[1]:.2f} s = {seconds[1] / seconds[0]:.2f} × JSONL"
                f" (processor {processor[1] / processor[0]:.2f} ×), peak {peak / 1e6:.0f} MB",
            ),
            (
                "parquet: size over JSONL",
                f"conversations {nested / lines.stat().st_size:.1%},"
                f" all six {size_of(tables) / lines.stat().st_size:.1%}",
            ),
        ]
