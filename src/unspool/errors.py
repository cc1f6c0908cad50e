"""The errors that unspool raises.

    UnspoolError
    ├── NothingToRead     no path given holds anything readable
    ├── UnknownFormat     a file is of no format that unspool knows
    ├── UnreadableOrigin  a file cannot be opened or read
    ├── OutputError       the output cannot be written
    ├── UsageError        options that do not go together
    ├── MissingExtra      an optional dependency is not installed
    ├── UnknownConversation  no conversation has this id
    ├── AmbiguousId       a shortened id means several conversations
    ├── EngineError       a cluster cannot be reached, or fails
    ├── StoreError        the store cannot be opened, written or understood
    ├── StoreBusy         another process is writing the store
    ├── QueueError        the queue of live capture cannot be read or written
    ├── AlreadyRunning    another process does what may be done once
    ├── HooksRefused      an agent's settings are left as they are, and why
    ├── TookTooLong       a question to the server that would hold up others
    └── BrokenCatalogue   a tag catalogue or another data file is malformed

Bad *data* is never one of these: it is a counted problem (`unspool.facts.Problem`).
Every error takes one message, so that it pickles across processes as it is.
"""


class UnspoolError(Exception):
    """The root: everything that unspool raises on purpose."""

    exit_code = 1


class NothingToRead(UnspoolError):
    """No path given holds anything readable."""


class UnknownFormat(UnspoolError):
    """A file is of no format that unspool knows."""


class UnreadableOrigin(UnspoolError):
    """A file cannot be opened or read."""


class OutputError(UnspoolError):
    """The output cannot be written."""


class UsageError(UnspoolError):
    """Options that do not go together."""

    exit_code = 2


class MissingExtra(UnspoolError):
    """An optional dependency is not installed."""


class UnknownConversation(UnspoolError):
    """No conversation has this id."""


class AmbiguousId(UnspoolError):
    """A shortened id means several conversations."""


class EngineError(UnspoolError):
    """A cluster cannot be reached, or fails."""


class StoreError(UnspoolError):
    """The store cannot be opened, written or understood."""


class StoreBusy(StoreError):
    """Another process is writing the store."""


class QueueError(UnspoolError):
    """The queue of live capture cannot be read or written."""


class AlreadyRunning(UnspoolError):
    """Another process does what may be done once."""


class HooksRefused(UnspoolError):
    """An agent's settings are left as they are, and why."""


class TookTooLong(UnspoolError):
    """A question to the server that would hold up others."""


class BrokenCatalogue(UnspoolError):
    """A tag catalogue or another data file is malformed."""

    exit_code = 2


def unwritable(error: OSError) -> OutputError:
    """Of a step that writes to temporary files, unless the system names another one."""
    where = error.filename or "temporary files"
    return OutputError(f"cannot write {where}: {error.strerror or error}")
