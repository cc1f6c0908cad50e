"""The facts of one request: all with the same place, each with a number of its own."""

from typing import TypeVar

from unspool.facts import Fact, Key

Kind = TypeVar("Kind", bound=Fact)


class Scribe:
    """Writes facts that share a record."""

    def __init__(
        self, key: Key, origin: str, offset: int, entry: str = "", after: str | None = None
    ) -> None:
        self.key = key
        self.origin = origin
        self.offset = offset
        self.entry = entry
        self.after = after
        self.written = 0

    def write(self, fact: type[Kind], /, **fields: object) -> Kind:
        self.written += 1
        return fact(
            key=self.key,
            origin=self.origin,
            offset=self.offset,
            number=self.written - 1,
            entry=self.entry,
            after=self.after,
            **fields,  # type: ignore[arg-type]  # the fields of the kind
        )
