"""Test settings: in CI properties are tried on the same examples every time, elsewhere on new ones."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("UNSPOOL_DEBUG", "1")
"""Faults of ours are raised, where a user's run would count them and go on."""

settings.register_profile("same-every-time", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("same-every-time")

BROWSER = {"test_page.py"}
SLOW = {"test_recorder_memory.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files that need a browser, or that measure at size."""
    for item in items:
        name = Path(item.path).name
        if name in BROWSER:
            item.add_marker(pytest.mark.browser)
        if name in SLOW:
            item.add_marker(pytest.mark.slow)
