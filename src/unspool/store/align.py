"""Align: which conversations of different platforms belong to the same work.

Four kinds of evidence, each with a confidence between 0 and 1: things that happened within five
seconds of each other, operations on the same files, similar prompts, the same workspace.
"""

import json
import re
import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from unspool.errors import UnknownConversation
from unspool.io.times import format_time, parse_time
from unspool.store.filters import Filters, where
from unspool.store.opening import transaction

WINDOW_US = 5_000_000
SIMILAR = 60.0
"""rapidfuzz's score from which on two prompts count as similar."""
WEIGHTS = {"temporal": 0.5, "file": 0.6, "semantic": 0.5, "workspace": 0.3}
"""How much each kind of evidence can say by itself."""
LEAST_CONFIDENCE = 0.5
_MOST = 50
_PROMPTS = 200
_COMMAND = re.compile(r"/[\w:.-]+")
"""`/compact`: everybody types such, whatever the work is."""


class Correlation(msgspec.Struct, omit_defaults=True):
    """One piece of evidence."""

    type: str
    confidence: float
    left: str
    right: str
    time_difference_ms: float | None = None
    left_turn: int | None = None
    right_turn: int | None = None
    timestamp: str | None = None
    """When it happened on the left."""
    right_timestamp: str | None = None


class Alignment(msgspec.Struct):
    left: str
    right: str
    confidence: float
    correlations: list[Correlation]


class Side:
    """What alignment looks at of one conversation."""

    def __init__(self, connection: sqlite3.Connection, ident: str) -> None:
        self.id = ident
        row = connection.execute(
            "SELECT platform, workspace_path, workspace_hash FROM conversations WHERE id = ?",
            (ident,),
        ).fetchone()
        if row is None:
            raise UnknownConversation(f"no conversation {ident} in the store")
        self.platform, self.workspace, self.hash = row
        happened = connection.execute(
            "SELECT started_at, 'prompt' FROM conversation_turns WHERE conversation_id = ?1"
            " UNION ALL SELECT started_at, name FROM tool_calls WHERE conversation_id = ?1",
            (ident,),
        )
        self.events = sorted(
            (time, name) for stamp, name in happened if (time := parse_time(stamp)) is not None
        )
        files = "SELECT DISTINCT path FROM files_touched WHERE conversation_id = ?"
        self.files = [path for (path,) in connection.execute(files, (ident,))]
        prompts = connection.execute(
            "SELECT turn_index, prompt FROM conversation_turns"
            " WHERE conversation_id = ? AND length(prompt) > 3 LIMIT ?",
            (ident, _PROMPTS),
        )
        self.prompts: list[tuple[int, str]] = [
            (turn, text) for turn, text in prompts if not _COMMAND.fullmatch(text.strip())
        ]


def align(connection: sqlite3.Connection, first: str, second: str) -> Alignment:
    """All evidence that two conversations belong together, and how sure it makes."""
    left, right = Side(connection, first), Side(connection, second)
    correlations: list[Correlation] = []
    for kind in (_times, _files, _words):
        best = sorted(
            kind(left, right),
            key=lambda c: (-c.confidence, c.timestamp or "", c.left_turn or 0),
        )
        correlations += best[:_MOST]
    for here, there in ((left.workspace, right.workspace), (left.hash, right.hash)):
        if here and here == there:
            correlations.insert(0, Correlation("workspace", 1.0, here, there))
            break
    doubt = 1.0
    for name, weight in WEIGHTS.items():
        sure = [c.confidence for c in correlations if c.type == name]
        if sure:
            # Three good pieces of a kind say all that the kind can say.
            strength = min(1.0, sum(sorted(sure, reverse=True)[:3]) / (3 if len(sure) > 2 else 1))
            doubt *= 1 - weight * strength
    return Alignment(first, second, round(1 - doubt, 3), correlations)


def _times(left: Side, right: Side) -> Iterator[Correlation]:
    """Every event of the left with the nearest of the right, within the window."""
    times = [time for time, _ in right.events]
    for time, name in left.events:
        at = bisect_left(times, time)
        near = [(abs(times[n] - time), n) for n in (at - 1, at) if 0 <= n < len(times)]
        gap, nearest = min(near, default=(WINDOW_US + 1, 0))
        if gap <= WINDOW_US:
            yield Correlation(
                "temporal", round(1 - gap / WINDOW_US, 3), name, right.events[nearest][1],
                time_difference_ms=gap / 1000, timestamp=format_time(time),
                right_timestamp=format_time(times[nearest]),
            )  # fmt: skip


def _files(left: Side, right: Side) -> Iterator[Correlation]:
    """The same paths, and those that agree in their last two parts: one may be relative, or of another
    clone."""
    by_end: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(right.files):
        by_end.setdefault(_end(path), []).append(path)
    for path in sorted(left.files):
        for other in by_end.get(_end(path), ()):
            if other == path or len(_end(path)) == 2:
                yield Correlation("file", 1.0 if other == path else 0.6, path, other)


def _end(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace("\\", "/")).parts[-2:]


def _words(left: Side, right: Side) -> Iterator[Correlation]:
    from rapidfuzz import fuzz, process, utils  # when it is needed: it is slow to start

    texts = [text[:2000] for _, text in right.prompts]
    for turn, text in left.prompts:
        best: Any = process.extractOne(
            text[:2000], texts, scorer=fuzz.token_sort_ratio, processor=utils.default_process,
            score_cutoff=SIMILAR,
        )  # fmt: skip
        if best is not None:
            words, score, number = best
            yield Correlation(
                "semantic", round(score / 100, 3), text[:200], words[:200],
                left_turn=turn, right_turn=right.prompts[number][0],
            )  # fmt: skip


_DAYS = (
    "SELECT conversation_id AS id, substr(started_at, 1, 10) AS day FROM conversation_turns"
    " WHERE started_at IS NOT NULL UNION SELECT id, substr(started_at, 1, 10) FROM conversations"
)
"""The days on which a conversation went on."""


def in_order(first: str, second: str) -> tuple[str, str]:
    """As the columns are called: Claude Code's conversation on the left, Cursor's on the right."""
    left, right = sorted((first, second))
    if left.startswith("cursor:") or right.startswith("claude_code:"):
        return right, left
    return left, right


def candidates(connection: sqlite3.Connection, filters: Filters) -> list[tuple[str, str]]:
    """Pairs of different platforms that share a workspace or a file, and a day. Never all pairs."""
    terms, values = filters.of_conversations()
    connection.execute("DROP TABLE IF EXISTS temp.places")
    connection.execute("CREATE TEMP TABLE places (place TEXT, id TEXT, platform TEXT)")
    chosen = (
        f"SELECT c.* FROM conversations c WHERE c.parent_id IS NULL AND c.started_at != ''"
        f" AND {where(terms)}"
    )
    for place in ("workspace_path", "workspace_hash"):
        connection.execute(
            f"INSERT INTO places SELECT d.day || ' ' || c.{place}, c.id, c.platform"
            f" FROM ({chosen}) c JOIN ({_DAYS}) d ON d.id = c.id WHERE c.{place} != ''",
            values,
        )
    connection.execute(
        "INSERT INTO places SELECT DISTINCT d.day || ' ' || f.path, c.id, c.platform"
        f" FROM ({chosen}) c JOIN ({_DAYS}) d ON d.id = c.id"
        " JOIN files_touched f ON f.conversation_id = c.id",
        values,
    )
    connection.execute("CREATE INDEX temp.by_place ON places(place, platform)")
    rows = connection.execute(
        "SELECT DISTINCT a.id, b.id FROM places a JOIN places b"
        " ON a.place = b.place AND a.platform < b.platform ORDER BY 1, 2"
    )
    return [in_order(str(first), str(second)) for first, second in rows]


def align_all(connection: sqlite3.Connection, filters: Filters) -> list[Alignment]:
    """Every pair of candidates that is sure enough, kept in the store."""
    alignments = [
        align(connection, first, second) for first, second in candidates(connection, filters)
    ]
    kept = [one for one in alignments if one.confidence >= LEAST_CONFIDENCE]
    for alignment in kept:
        keep(connection, alignment)
    return sorted(kept, key=lambda one: (-one.confidence, one.left, one.right))


def align_again(connection: sqlite3.Connection, changed: Collection[str]) -> int:
    """The kept pairs of conversations that changed, compared anew; how many."""
    pairs = {
        pair
        for ident in changed
        for pair in connection.execute(
            "SELECT claude_conversation_id, cursor_conversation_id FROM conversation_alignments"
            " WHERE claude_conversation_id = ?1 OR cursor_conversation_id = ?1",
            (ident,),
        )
    }
    for first, second in sorted(pairs):
        keep(connection, align(connection, first, second))
    return len(pairs)


def keep(connection: sqlite3.Connection, alignment: Alignment) -> None:
    """Put an alignment into the store, in place of an earlier one of the same two."""
    pair = (alignment.left, alignment.right)
    data = {
        "confidence": alignment.confidence,
        "correlations": msgspec.to_builtins(alignment.correlations),
    }
    with transaction(connection):
        connection.execute(
            "DELETE FROM conversation_alignments"
            " WHERE claude_conversation_id = ? AND cursor_conversation_id = ?",
            pair,
        )
        connection.execute(
            "INSERT INTO conversation_alignments"
            " (claude_conversation_id, cursor_conversation_id, correlation_data) VALUES (?, ?, ?)",
            (*pair, json.dumps(data, ensure_ascii=False)),
        )
