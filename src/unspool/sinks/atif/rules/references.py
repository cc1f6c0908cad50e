"""References: sub-agents and what refers to them, and the files that a document names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.sinks.atif.rules.findings import Findings, field, items

Json = dict[str, Any]


def check_references(document: Json, path: str, folder: Path | None, findings: Findings) -> None:
    embedded = _check_embedded(document, path, findings)
    referred: set[str] = set()
    for at, ref in _refs(document, path):
        ident, file = ref.get("trajectory_id"), ref.get("trajectory_path")
        if isinstance(ident, str):
            referred.add(ident)
            if ident not in embedded and not file:
                findings.error(
                    "dangling-reference", f"{at}.trajectory_id", f"{ident!r} is not embedded here"
                )
        if isinstance(file, str):
            _check_file(file, f"{at}.trajectory_path", "missing-file", folder, findings)
    for ident, at in embedded.items():
        if ident not in referred:
            findings.warning("unreferred", at, f"no result refers to the sub-agent {ident!r}")
    for at, media in _media(document, path):
        if media.startswith("data:"):
            findings.error("data-uri", at, "ATIF refers to media files and holds no media itself")
        else:
            _check_file(media, at, "missing-media", folder, findings)
    following = document.get("continued_trajectory_ref")
    if isinstance(following, str) and folder is not None and not _exists(following, folder):
        findings.warning(
            "missing-continuation",
            f"{path}.continued_trajectory_ref",
            f"{following!r} is not there",
        )


def _check_embedded(document: Json, path: str, findings: Findings) -> dict[str, str]:
    """The ids of the embedded sub-agents and where they stand."""
    places: dict[str, str] = {}
    for number, sub in enumerate(items(document.get("subagent_trajectories"))):
        at = f"{path}.subagent_trajectories[{number}]"
        ident = field(sub, "trajectory_id")
        if not isinstance(ident, str) or not ident:
            findings.error("missing", f"{at}.trajectory_id", "required in an embedded trajectory")
        elif ident in places:
            findings.error(
                "duplicate-trajectory", f"{at}.trajectory_id", f"{ident!r} is another's as well"
            )
        else:
            places[ident] = at
    return places


def _results(document: Json, path: str) -> Iterator[tuple[str, Json]]:
    for number, step in enumerate(items(document.get("steps"))):
        for count, result in enumerate(items(field(field(step, "observation"), "results"))):
            if isinstance(result, dict):
                yield f"{path}.steps[{number}].observation.results[{count}]", result


def _refs(document: Json, path: str) -> Iterator[tuple[str, Json]]:
    for at, result in _results(document, path):
        for number, ref in enumerate(items(result.get("subagent_trajectory_ref"))):
            if isinstance(ref, dict):
                yield f"{at}.subagent_trajectory_ref[{number}]", ref


def _media(document: Json, path: str) -> Iterator[tuple[str, str]]:
    contents = [
        (f"{path}.steps[{number}].message", step.get("message"))
        for number, step in enumerate(items(document.get("steps")))
        if isinstance(step, dict)
    ]
    contents += [
        (f"{at}.content", result.get("content")) for at, result in _results(document, path)
    ]
    for at, content in contents:
        for number, part in enumerate(items(content)):
            file = field(field(part, "source"), "path")
            if isinstance(file, str):
                yield f"{at}[{number}].source.path", file


def _check_file(name: str, path: str, rule: str, folder: Path | None, findings: Findings) -> None:
    if folder is not None and not _exists(name, folder):
        findings.error(rule, path, f"the file {name!r} is not there")


def _exists(name: str, folder: Path) -> bool:
    """Whether a path beside the document leads somewhere; URLs are taken as they are."""
    try:
        return "://" in name or (folder / name).exists()
    except (OSError, ValueError):
        return False
