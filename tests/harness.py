"""What the tests share: cases on disk, reading them to facts, facts to canonical output."""

import ctypes
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from unspool import sources
from unspool.facts import AnyFact
from unspool.io.origins import Origin, Tally
from unspool.io.packing import Packer
from unspool.link import link
from unspool.pipeline.collect import Collection, rebuild
from unspool.pipeline.discover import discover
from unspool.pipeline.finish import finish
from unspool.store.conversations import put_rows
from unspool.store.rows import make_rows
from unspool.trajectory import Trajectory

CASES = Path(__file__).parent / "cases"

PEAK_KB = """
import pathlib, re, resource

def peak_kb():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
"""For a script of its own: how much memory it took at most. (On Linux `ru_maxrss` is no less than
what the process that started it had taken: a large test run would hide, or spoil, every figure.)"""


def cases(source: str | None = None) -> list[Path]:
    """The folders `tests/cases/<source>/<case>/` that hold an `input` folder."""
    found = sorted(p.parent for p in CASES.glob("*/*/input"))
    return [case for case in found if source is None or case.parent.name == source]


def reread(fact: AnyFact) -> AnyFact:
    """The fact after a trip through a file."""
    return msgspec.msgpack.decode(Packer().encode(fact), type=AnyFact)


def case_id(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def corpus(*parts: str) -> Path | None:
    """A place in the real corpus, where the machine has it."""
    root = os.environ.get("UNSPOOL_CORPUS")
    path = Path(root, *parts) if root else None
    return path if path is not None and path.exists() else None


_DROP_FROM_BOUNDING_SET = 24
_MAY_DO_ANYTHING = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with these, root need not care for file modes."""


def obey_modes() -> None:
    """`preexec_fn` of a process that may do what file modes say and no more, also for root."""
    if os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for capability in _MAY_DO_ANYTHING:
            if library.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "root, but not allowed to give anything up")


def origins_of(folder: Path | str) -> list[Origin]:
    return discover([str(folder)]).origins


def facts_of(
    origins: Iterable[Origin], tally: Tally | None = None, recover: bool = False
) -> list[tuple[str, AnyFact]]:
    """(source, fact) of all origins."""
    tally = tally if tally is not None else Tally()
    return [
        (origin.source, fact) for origin in origins for fact in sources.read(origin, tally, recover)
    ]


def reduce_all(facts: Iterable[tuple[str, AnyFact]]) -> list[Trajectory]:
    collection = Collection()
    for source, fact in facts:
        collection.add(source, fact)
    return finished(collection)[0]


def finished(collection: Collection) -> tuple[list[Trajectory], int]:
    """The four seams in their plainest order, all in memory: the trajectories, linked and enriched,
    and how many records were superseded."""
    rebuilt = [
        rebuild(key, gathered)
        for key, gathered in sorted(
            collection.conversations.items(), key=lambda item: (item[1].first, item[0])
        )
    ]
    conversations = [one for some in rebuilt for one in some.conversations]
    patches = link(card for _, card in conversations)
    kept: list[Trajectory] = []
    for trajectory, card in conversations:
        patch = patches.get(card.key)
        if patch is None or not patch.absorbed:
            finish(trajectory, patch)
            kept.append(trajectory)
    return kept, sum(one.superseded for one in rebuilt)


def plain(trajectories: Iterable[Trajectory], root: Path | str = "") -> list[dict[str, Any]]:
    """As JSON values, with paths under `root` made relative."""
    text = json.dumps([msgspec.to_builtins(t) for t in trajectories], ensure_ascii=False)
    prefix = json.dumps(str(root) + "/", ensure_ascii=False)[1:-1]
    return json.loads(text.replace(prefix, "") if root else text)


def run_case(case: Path) -> list[dict[str, Any]]:
    folder = case / "input"
    return plain(reduce_all(facts_of(origins_of(folder))), folder)


def put_trajectory(connection: sqlite3.Connection, trajectory: Trajectory) -> None:
    """A conversation into a store, as if it had been read."""
    put_rows(connection, make_rows(trajectory), [])
