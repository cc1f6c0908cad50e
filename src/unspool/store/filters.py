"""Filters of `search`, `stats` and `align`: which conversations and messages are meant."""

from typing import Any

import msgspec

from unspool.io.times import format_time


class Filters(msgspec.Struct, kw_only=True):
    """All that are given must hold."""

    conversation: str | None = None
    """The row of one conversation."""
    source: str | None = None
    project: str | None = None
    file: str | None = None
    tool: str | None = None
    model: str | None = None
    role: str | None = None
    since: int | None = None
    until: int | None = None

    def of_conversations(self) -> tuple[list[str], list[Any]]:
        """Conditions on `conversations AS c`."""
        given = {
            "c.id = ?": self.conversation,
            "c.source = ?": self.source,
            "instr(lower(ifnull(c.project, '')), ?)": self.project and self.project.lower(),
            "EXISTS (SELECT 1 FROM files_touched f WHERE f.conversation_id = c.id"
            " AND instr(lower(f.path), ?))": self.file and self.file.lower(),
            "EXISTS (SELECT 1 FROM tool_calls t WHERE t.conversation_id = c.id AND t.name = ?)":
                self.tool,
            "ifnull(c.ended_at, c.started_at) >= ?": format_time(self.since),
            "c.started_at <= ?": format_time(self.until),
        }  # fmt: skip
        return _chosen(given)

    def holds(self, time: int) -> bool:
        """Whether a moment is in the time that is asked about."""
        return (self.since is None or time >= self.since) and (
            self.until is None or time <= self.until
        )

    def of_moments(self, stamp: str) -> tuple[list[str], list[Any]]:
        """Conditions on the time of what was done; where it is not known, its conversation's do."""
        return _chosen(
            {
                f"ifnull({stamp}, c.ended_at) >= ?": format_time(self.since),
                f"ifnull({stamp}, c.started_at) <= ?": format_time(self.until),
            }
        )

    def of_messages(self) -> tuple[list[str], list[Any]]:
        """Conditions on `messages AS m` beside those on its conversation."""
        of_its_own = {
            "m.role = ?": self.role,
            "instr(lower(ifnull(m.model, ifnull(c.model, ''))), ?)": self.model
            and self.model.lower(),
        }
        parts = (self.of_conversations(), _chosen(of_its_own), self.of_moments("m.timestamp"))
        return [t for terms, _ in parts for t in terms], [v for _, values in parts for v in values]


def _chosen(conditions: dict[str, str | None]) -> tuple[list[str], list[Any]]:
    """Those with a value."""
    given = {term: value for term, value in conditions.items() if value is not None}
    return list(given), list(given.values())


def where(terms: list[str]) -> str:
    return " AND ".join(terms) if terms else "1"
