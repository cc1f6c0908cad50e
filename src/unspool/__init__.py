"""unspool rebuilds whole AI coding conversations from the traces that coding agents leave behind."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers know it, without the import: every start pays for it

if TYPE_CHECKING:
    from typing import Any

    from unspool.errors import (
        AmbiguousId,
        BrokenCatalogue,
        MissingExtra,
        NothingToRead,
        OutputError,
        StoreBusy,
        StoreError,
        UnknownConversation,
        UnknownFormat,
        UnreadableOrigin,
        UnspoolError,
        UsageError,
    )
    from unspool.pipeline.batch import extract
    from unspool.trajectory import Message, ToolCall, Trajectory

# Imported on first use, so that `unspool --help` and small scripts start fast.
_HOMES = {
    "AmbiguousId": "unspool.errors",
    "BrokenCatalogue": "unspool.errors",
    "Message": "unspool.trajectory",
    "MissingExtra": "unspool.errors",
    "NothingToRead": "unspool.errors",
    "OutputError": "unspool.errors",
    "StoreBusy": "unspool.errors",
    "StoreError": "unspool.errors",
    "ToolCall": "unspool.trajectory",
    "Trajectory": "unspool.trajectory",
    "UnknownConversation": "unspool.errors",
    "UnknownFormat": "unspool.errors",
    "UnreadableOrigin": "unspool.errors",
    "UnspoolError": "unspool.errors",
    "UsageError": "unspool.errors",
    "extract": "unspool.pipeline.batch",
}

__all__ = [
    "AmbiguousId",
    "BrokenCatalogue",
    "Message",
    "MissingExtra",
    "NothingToRead",
    "OutputError",
    "StoreBusy",
    "StoreError",
    "ToolCall",
    "Trajectory",
    "UnknownConversation",
    "UnknownFormat",
    "UnreadableOrigin",
    "UnspoolError",
    "UsageError",
    "__version__",
    "extract",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> "Any":
        if name in _HOMES:
            from importlib import import_module

            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'unspool' has no attribute {name!r}")
