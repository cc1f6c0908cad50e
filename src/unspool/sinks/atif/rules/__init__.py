"""Rules: whether a document is valid ATIF, and good ATIF. `docs/atif.md` lists every rule.

Stricter than Harbor's validator and independent of it: an error is what a producer can always avoid,
a warning what real conversations contain. All findings are told, each with its path.

shape.py       types, required and unknown fields, fields newer than the declared version
steps.py       step ids, times, sources, calls and their results
figures.py     metrics and totals
references.py  sub-agents, references, media files
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.io.folders import is_folder, walk
from unspool.io.origins import open_origin, read_head
from unspool.sinks.atif.reader import claims, documents_in
from unspool.sinks.atif.rules.figures import check_figures
from unspool.sinks.atif.rules.findings import Finding, Findings, items
from unspool.sinks.atif.rules.references import check_references
from unspool.sinks.atif.rules.shape import check_shape, check_values
from unspool.sinks.atif.rules.steps import check_steps

__all__ = ["Finding", "Verdict", "check", "check_file", "check_paths"]


class Verdict(msgspec.Struct):
    """All findings on one file."""

    file: str
    errors: int
    warnings: int
    findings: list[Finding]


def check(document: Any, folder: Path | None = None) -> list[Finding]:
    """All findings on a document; with its folder, also on the files that it names."""
    findings = Findings()
    check_values(document, "$", findings)
    _check(document, "$", folder, findings, embedded=False)
    return findings.in_order()


def _check(
    document: Any, path: str, folder: Path | None, findings: Findings, embedded: bool
) -> None:
    if not check_shape(document, path, findings, embedded):
        return
    check_steps(document, path, findings)
    check_figures(document, path, findings)
    check_references(document, path, folder, findings)
    for number, sub in enumerate(items(document.get("subagent_trajectories"))):
        _check(sub, f"{path}.subagent_trajectories[{number}]", folder, findings, embedded=True)


def check_file(path: Path) -> list[Finding]:
    """All findings on a file with one document, or with several in an array or by their ids."""
    try:
        with open_origin(str(path)) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [Finding("error", "not-utf8", "$", f"byte {error.start} is not UTF-8")]
    try:
        value = json.loads(text)
    except ValueError as error:
        return [Finding("error", "not-json", "$", str(error))]
    except RecursionError:
        return [Finding("error", "not-json", "$", "nested too deep to be read")]
    try:
        several = dict(documents_in(value))
        if "" in several or not several:
            return check(value, path.parent)
        return [
            finding.under(f"[{name}]" if isinstance(value, list) else f"[{json.dumps(name)}]")
            for name, document in several.items()
            for finding in check(document, path.parent)
        ]
    except RecursionError:
        return [Finding("error", "not-json", "$", "nested too deep to be checked")]


def check_paths(paths: Iterable[str]) -> Iterator[Verdict]:
    """A verdict on every file, and on every ATIF file below every folder."""
    for argument in paths:
        named = not is_folder(argument)
        for path, _ in walk(argument):
            if named or _is_atif(path):
                yield _verdict(path)


def _is_atif(path: str) -> bool:
    try:
        return claims(read_head(path))
    except OSError:
        return False


def _verdict(path: str) -> Verdict:
    try:
        findings = check_file(Path(path))
    except OSError as error:
        findings = [Finding("error", "unreadable", "$", error.strerror or str(error))]
    errors = sum(1 for finding in findings if finding.level == "error")
    return Verdict(path, errors, len(findings) - errors, findings)
