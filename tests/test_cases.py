"""Every golden case: `tests/cases/<source>/<case>/input` gives `expected.json`."""

import json
from pathlib import Path

import pytest

from tests.harness import case_id, cases, run_case


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_case(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert run_case(case) == expected
