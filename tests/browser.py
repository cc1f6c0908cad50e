"""A real Chromium for the tests of the page. Missing: skipped with the reason, failed where CI=true."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _missing(what: str) -> NoReturn:
    reason = f"the page is not tested: {what}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def launch() -> Iterator[Any]:
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _missing("playwright is missing (pip install playwright)")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        _missing("chromium is missing (apt-get install chromium)")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        except Error as error:
            _missing(f"{found} does not start: {str(error).splitlines()[0]}")
        yield browser
        browser.close()
