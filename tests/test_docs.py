"""The documents say what the program does."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.harness import CASES
from tests.reference import PAGE, page
from unspool import trajectory
from unspool.cli import COMMANDS
from unspool.sinks import SINKS
from unspool.sources import SOURCES

ROOT = Path(__file__).parents[1]
STRUCTS = [
    trajectory.Trajectory,
    trajectory.Message,
    trajectory.ToolCall,
    trajectory.Attachment,
    trajectory.Usage,
    trajectory.Mark,
    trajectory.Branch,
    trajectory.Link,
    trajectory.FileTouch,
    trajectory.Workspace,
]


def test_cli_reference_is_true() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make golden`"


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.__name__)
def test_every_field_is_explained(struct: type[msgspec.Struct]) -> None:
    text = (ROOT / "docs" / "trajectory.md").read_text(encoding="utf-8")
    missing = [name for name in struct.__struct_fields__ if f"`{name}`" not in text]
    assert missing == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_a_module_cases_and_a_page(name: str) -> None:
    module = name.replace("-", "_")
    assert SOURCES[name] == f"unspool.sources.{module}"
    assert (ROOT / "docs" / "formats" / f"{name}.md").exists()
    assert any((CASES / module).glob("*/input"))
    assert f"`{name}`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_names_every_command_and_sink() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"unspool {name}" not in text] == []
    assert [name for name in SINKS if f"`{name}`" not in text] == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{file.name}: {target}"
        for file in pages
        for target in re.findall(r"\]\((?!http|#)([^)#\s]+)", file.read_text(encoding="utf-8"))
        if not (file.parent / target).exists()
    ]
    assert broken == []
