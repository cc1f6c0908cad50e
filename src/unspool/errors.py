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
    ├── StoreError        the store cannot be opened, written or understood
    ├── StoreBusy         another process is writing the store
    └── BrokenCatalogue   a tag catalogue or another data file is malformed

Bad *data* is never one of these: it is a counted problem (`unspool.facts.Problem`).
Every error takes one message, so that it pickles across processes as it is.
"""


class UnspoolError(Exception):
    """The root: everything that unspool raises on purpose."""

    exit_code = 1


class NothingToRead(UnspoolError):
    pass


class UnknownFormat(UnspoolError):
    pass


class UnreadableOrigin(UnspoolError):
    pass


class OutputError(UnspoolError):
    pass


class UsageError(UnspoolError):
    exit_code = 2


class MissingExtra(UnspoolError):
    pass


class UnknownConversation(UnspoolError):
    pass


class AmbiguousId(UnspoolError):
    pass


class StoreError(UnspoolError):
    pass


class StoreBusy(StoreError):
    pass


class BrokenCatalogue(UnspoolError):
    exit_code = 2
