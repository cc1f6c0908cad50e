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
        terms: list[str] = []
        values: list[Any] = []

        def add(term: str, *found: Any) -> None:
            terms.append(term)
            values.extend(found)

        if self.conversation is not None:
            add("c.id = ?", self.conversation)
        if self.source is not None:
            add("c.source = ?", self.source)
        if self.project is not None:
            add("instr(lower(ifnull(c.project, '')), ?)", self.project.lower())
        if self.file is not None:
            add(
                "EXISTS (SELECT 1 FROM files_touched f WHERE f.conversation_id = c.id"
                " AND instr(lower(f.path), ?))",
                self.file.lower(),
            )
        if self.tool is not None:
            add(
                "EXISTS (SELECT 1 FROM tool_calls t WHERE t.conversation_id = c.id AND t.name = ?)",
                self.tool,
            )
        if self.since is not None:
            add("ifnull(c.ended_at, c.started_at) >= ?", format_time(self.since))
        if self.until is not None:
            add("c.started_at <= ?", format_time(self.until))
        return terms, values

    def holds(self, time: int) -> bool:
        """Whether a moment is in the time that is asked about."""
        return (self.since is None or time >= self.since) and (
            self.until is None or time <= self.until
        )

    def of_moments(self, stamp: str) -> tuple[list[str], list[Any]]:
        """Conditions on the time of what was done; where it is not known, its conversation's do."""
        terms: list[str] = []
        values: list[Any] = []
        if self.since is not None:
            terms.append(f"ifnull({stamp}, c.ended_at) >= ?")
            values.append(format_time(self.since))
        if self.until is not None:
            terms.append(f"ifnull({stamp}, c.started_at) <= ?")
            values.append(format_time(self.until))
        return terms, values

    def of_messages(self) -> tuple[list[str], list[Any]]:
        """Conditions on `messages AS m` beside those on its conversation."""
        terms, values = self.of_conversations()
        if self.role is not None:
            terms.append("m.role = ?")
            values.append(self.role)
        if self.model is not None:
            terms.append("instr(lower(ifnull(m.model, ifnull(c.model, ''))), ?)")
            values.append(self.model.lower())
        when, times = self.of_moments("m.timestamp")
        terms += when
        values += times
        return terms, values


def where(terms: list[str]) -> str:
    return " AND ".join(terms) if terms else "1"
