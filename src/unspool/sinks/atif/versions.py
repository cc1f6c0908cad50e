"""Versions: what an older ATIF cannot hold goes to the nearest `extra` that it has."""

from typing import Any

DEFAULT = "1.7"
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8")


def to_version(document: dict[str, Any], version: str) -> dict[str, Any]:
    document["schema_version"] = f"ATIF-v{version}"
    return document
