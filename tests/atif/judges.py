"""What the ATIF tests share: Harbor's own validator, families, ways out and back."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from unspool.sinks import Family, load
from unspool.sinks.atif.model import version_of
from unspool.sinks.atif.reader import Reading
from unspool.trajectory import Trajectory


def harbor_errors(document: dict[str, Any] | Path) -> list[str]:
    """What Harbor's validator finds; a missing validator fails on the build machine."""
    try:
        from harbor.utils.trajectory_validator import TrajectoryValidator
    except ImportError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("harbor is not installed")
    validator = TrajectoryValidator()
    validator.validate(document)
    return list(validator.get_errors())


def families(trajectories: list[Trajectory]) -> list[Family]:
    """Every conversation that nobody started, with all that descends from it."""
    known = {t.conversation_id: t for t in trajectories}

    def root_of(trajectory: Trajectory) -> Trajectory:
        seen = {trajectory.conversation_id}
        while trajectory.parent and trajectory.parent.conversation_id in known.keys() - seen:
            trajectory = known[trajectory.parent.conversation_id]
            seen.add(trajectory.conversation_id)
        return trajectory

    made: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        made.setdefault(root_of(trajectory).conversation_id, []).append(trajectory)
    return [
        Family(known[root], tuple(t for t in members if t is not known[root]))
        for root, members in made.items()
    ]


def write_all(family: Family, folder: Path, **options: str) -> list[Path]:
    """The family's files under the folder; the documents among them."""
    documents = []
    for piece in load("atif").write(family, options):
        target = folder / piece.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(piece.data)
        if piece.name.endswith(".trajectory.json"):
            documents.append(target)
    return documents


def documents(family: Family, **options: str) -> list[dict[str, Any]]:
    return [
        json.loads(piece.data)
        for piece in load("atif").write(family, options)
        if piece.name.endswith(".trajectory.json")
    ]


def again(given: dict[str, Any], ident: str = "") -> dict[str, Any]:
    """Through a trajectory and back, at the same version."""
    root, *below = Reading(copy.deepcopy(given), ident).trajectories
    return documents(Family(root, tuple(below)), atif_version=version_of(given))[0]
