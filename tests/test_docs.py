"""The documents say what the program does."""

import ast
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


def _defined() -> set[str]:
    """Dotted names of every module, function, class and member, without the package's own."""
    names: set[str] = set()
    package = ROOT / "src" / "unspool"
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        names.add(module)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names.update(f"{module}.{name}" for name in _names(node))
            if isinstance(node, ast.ClassDef):
                inner = {name for member in node.body for name in _names(member)}
                inner |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                names.update(f"{module}.{node.name}.{name}" for name in inner)
    return names


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


@pytest.mark.parametrize(
    ("document", "quotes"),
    [("docs/design.md", r"`(?!extra\.)([\w./]+)`"), ("CONTRIBUTING.md", r"`([\w./]+\.py)`")],
)
def test_documents_name_what_is_there(document: str, quotes: str) -> None:
    """Files, functions, classes and cases that the design and CONTRIBUTING name are where they say."""
    text = (ROOT / document).read_text(encoding="utf-8")
    defined = _defined()
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py")]
    lost = []
    for quoted in re.findall(quotes, text):
        if quoted.endswith(".py"):
            known = any(f"/{file}".endswith(f"/{quoted}") for file in files)
        elif "." in quoted or re.fullmatch(r"[A-Z]+[a-z]\w+", quoted):
            name = quoted.replace("/", ".").removeprefix("unspool.")
            known = any(f".{one}".endswith(f".{name}") for one in defined)
        else:
            continue
        if not known and not (ROOT / quoted).exists():
            lost.append(quoted)
    lost += [case for case in re.findall(r"cases/(\w+/\w+)", text) if not (CASES / case).is_dir()]
    assert lost == []
