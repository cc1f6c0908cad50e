"""All benchmarks, or those named: `make bench`, `make bench ARGS='telemetry store'`.

Figures are ratios within one run, so that they mean the same on any machine.
"""

import sys
from importlib import import_module
from pathlib import Path

from bench.measure import Row


def names() -> list[str]:
    folder = Path(__file__).parent
    others = ("__init__", "measure", "run")
    return sorted(path.stem for path in folder.glob("*.py") if path.stem not in others)


def main() -> None:
    wanted = sys.argv[1:] or names()
    for name in wanted:
        rows: list[Row] = import_module(f"bench.{name}").run()
        for what, figure in rows:
            print(f"| {what} | {figure} |", flush=True)


if __name__ == "__main__":
    main()
