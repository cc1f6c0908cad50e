"""Every code that a problem may have is explained, and none is that no problem has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.harness import cases, facts_of, origins_of
from unspool.facts import Problem

ROOT = Path(__file__).parent.parent
EXPLAINED = set(
    re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/problems.md").read_text("utf-8"), re.M)
)
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*")
MAKERS = ("problem", "salvage", "split", "trouble", "lost")


def literals() -> Iterator[tuple[str, bool]]:
    """Strings in the sources that look like a code, and whether a problem is made of them there."""
    for path in (ROOT / "src/unspool").rglob("*.py"):
        if "atif/rules" in path.as_posix():
            continue  # the validator's own codes
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if CODE.fullmatch(node.value):
                    yield node.value, False
            elif isinstance(node, ast.Call):
                for code in made_of(node):
                    yield code, True


def made_of(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
    given = [k.value for k in call.keywords if k.arg == "code"]
    if any(maker in name.lower() for maker in MAKERS):
        given += call.args
    for value in given:
        text = str(value.value) if isinstance(value, ast.Constant) else ""
        if "-" in text and CODE.fullmatch(text):
            yield text


def test_every_code_is_explained() -> None:
    found = list(literals())
    made = {code for code, is_made in found if is_made}
    assert made - EXPLAINED == set()
    assert EXPLAINED - {code for code, _ in found} == set()


def test_every_code_of_the_cases_is_explained() -> None:
    met = {
        fact.code
        for case in cases()
        for _, fact in facts_of(origins_of(case / "input"))
        if isinstance(fact, Problem)
    }
    assert met
    assert met - EXPLAINED == set()
