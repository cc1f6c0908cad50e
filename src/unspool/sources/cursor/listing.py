"""The bubbles of a composer in their order, and those that its headers do not name."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unspool.facts import Key, Problem
from unspool.sources.cursor.bubbles import Bubble, bubble_time
from unspool.sources.cursor.heads import Composer
from unspool.sources.cursor.kv import Broken, parse_object
from unspool.sources.cursor.outcomes import is_call
from unspool.sources.cursor.tools import decoded

if TYPE_CHECKING:
    from unspool.sources.cursor.composers import Reader


class Order:
    """The bubbles of a composer: by its headers, else as they stand in it, else by their time."""

    def __init__(self, reader: "Reader", ident: str, composer: Composer) -> None:
        self._reader = reader
        self._ident = ident
        self._inline = _by_id(composer.get("conversation"))
        kept = composer.get("conversationMap")
        for name, bubble in kept.items() if isinstance(kept, dict) else ():
            if isinstance(bubble, dict):
                self._inline.setdefault(str(name), bubble)
        headers = decoded(composer.get("fullConversationHeadersOnly"))
        self._headers = _by_id(headers) or _by_id(composer.get("conversation"))
        self._old_tools = _old_tools(composer)
        self.orphans = self._orphans()
        """(time or 0, id) of the rows that no header names, by time."""
        self.problems: list[Problem] = []
        self.missing = 0
        """Headers whose bubble is not there."""

    def bubbles(self, key: Key) -> Iterator[tuple[str, Bubble, bool]]:
        """(id, bubble, whether it was abandoned). What was abandoned stands before what came after
        it, so that the end of the thread is the end of the headers."""
        if not self._headers:
            for _, ident in self.orphans:
                if (bubble := self._bubble(ident, key)) is not None:
                    yield ident, bubble, False
            return
        orphans = list(self.orphans)
        newest = 0
        held: tuple[str, Bubble] | None = None
        for ident in self._headers:
            bubble = self._bubble(ident, key)
            if bubble is None:
                continue
            if held is not None:
                yield from self._before(bubble_time(held[1]), orphans, key)
                yield *held, False
            held = (ident, bubble)
            newest = max(newest, bubble_time(bubble) or 0)
        if held is not None:
            # Without a time nobody knows where they were left, but that the headers left them.
            yield from self._before(newest + 1, orphans, key, untimed=True)
            yield *held, False
        for _, ident in orphans:
            # Newer than all that the headers know: written, but not yet listed.
            if (bubble := self._bubble(ident, key)) is not None:
                yield ident, bubble, False

    def _before(
        self, time: int | None, orphans: list[tuple[int, str]], key: Key, untimed: bool = False
    ) -> Iterator[tuple[str, Bubble, bool]]:
        """The orphans that are older; they are gone from the list then."""
        gone = [o for o in orphans if time is not None and (o[0] or untimed) and o[0] < time]
        for orphan in gone:
            orphans.remove(orphan)
            if (bubble := self._bubble(orphan[1], key)) is not None:
                yield orphan[1], bubble, True

    def _orphans(self) -> list[tuple[int, str]]:
        rows = self._reader.rows
        if rows is None:
            return []
        prefix = f"bubbleId:{self._ident}:"
        found: list[tuple[int, str]] = []
        for row in rows.keys(prefix):
            ident = row[len(prefix) :]
            if ident in self._headers:
                continue
            try:
                bubble = parse_object(rows.get(row) or b"{}")
            except Broken:
                bubble = {}
            found.append((bubble_time(bubble) or 0, ident))
        return sorted(found)

    def _bubble(self, ident: str, key: Key) -> Bubble | None:
        """The row, over what the composer itself holds; None where there is neither."""
        reader = self._reader
        inline = self._inline.get(ident)
        data = reader.rows.get(f"bubbleId:{self._ident}:{ident}") if reader.rows else None
        if data is None and inline is None:
            self.missing += ident in self._headers
            return None
        reader.tally.records += 1
        row: Bubble = {}
        try:
            row = parse_object(data) if data is not None else {}
        except Broken as broken:
            self.problems.append(reader.problem(key, broken.code, broken.data))
            if inline is None:
                return None
        merged = {**(inline or {}), **row}
        old = self._old_tools.get(ident)
        if old is not None and not is_call(merged.get("toolFormerData")):
            merged["toolFormerData"] = old
        return merged


def _by_id(listed: Any) -> dict[str, Bubble]:
    found: dict[str, Bubble] = {}
    for bubble in listed if isinstance(listed, list) else ():
        if isinstance(bubble, dict):
            ident = bubble.get("bubbleId", bubble.get("id"))
            if isinstance(ident, str) and ident:
                found.setdefault(ident, bubble)
    return found


def _old_tools(composer: Composer) -> dict[str, dict[str, Any]]:
    """Tools of the first agents: kept with the composer, by bubble, sometimes as JSON text."""
    found: dict[str, dict[str, Any]] = {}
    listed = composer.get("capabilities")
    for capability in listed if isinstance(listed, list) else ():
        data = capability.get("data") if isinstance(capability, dict) else None
        kept = decoded(data.get("bubbleDataMap")) if isinstance(data, dict) else None
        if capability.get("type") == 15 if isinstance(capability, dict) else False:
            for ident, tool in kept.items() if isinstance(kept, dict) else ():
                if isinstance(tool, dict):
                    found[str(ident)] = tool
    return found
