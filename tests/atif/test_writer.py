"""What `--to atif` writes: valid for every case of every source, and whole."""

from pathlib import Path

import pytest

from tests.atif.judges import families, harbor_errors, write_all
from tests.harness import case_id, cases, facts_of, origins_of, reduce_all

OPTIONS = [
    {},
    {"subagents": "files"},
]


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_every_case_is_valid(case: Path, tmp_path: Path) -> None:
    trajectories = reduce_all(facts_of(origins_of(case / "input")))
    for number, options in enumerate(OPTIONS):
        for family in families(trajectories):
            for document in write_all(family, tmp_path / str(number), **options):
                assert harbor_errors(document) == []
