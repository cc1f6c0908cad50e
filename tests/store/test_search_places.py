"""Search over a store in memory's reach: every way to the places finds what reading all texts finds."""

import random
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import put_trajectory
from unspool.store import search as searching
from unspool.store.conversations import catch_up
from unspool.store.filters import Filters
from unspool.store.opening import opened, reading, transaction
from unspool.store.search import CLOSE, OPEN, Found, search
from unspool.trajectory import Message, Trajectory, Workspace

WORDS = ("parse", "parsers", "value", "naïve", "retry", "merge")


def conversation(number: int) -> Trajectory:
    rng = random.Random(number)
    messages = [
        Message(
            "user" if index % 3 == 0 else "assistant",
            " ".join(rng.choices(WORDS, k=4)),
            timestamp=f"2026-01-{1 + number % 28:02}T10:00:{index:02}.000Z",
            model=None if index % 3 == 0 else "opus" if number % 2 else "haiku",
        )
        for index in range(12)
    ]
    made = Trajectory(f"c{number:03}", messages, source="codex" if number % 5 else "cursor")
    made.workspace = Workspace(path=f"/work/p{number % 4}")
    made.started_at, made.ended_at = messages[0].timestamp, messages[-1].timestamp
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "store.db"
    with opened(path) as connection:
        with transaction(connection):
            for number in range(60):
                put_trajectory(connection, conversation(number))
        catch_up(connection, ["words"])
    return path


@pytest.fixture
def connection(store: Path) -> Iterator[sqlite3.Connection]:
    with reading(store) as made:
        made.execute("PRAGMA query_only = ON")
        yield made


def places(found: Found) -> set[tuple[str, int]]:
    return {(hit.conversation_id, hit.message_index) for hit in found.hits}


FILTERS = (
    Filters(),
    Filters(role="user"),
    Filters(project="p3"),
    Filters(source="cursor", model="opus"),
    Filters(project="nowhere"),
    Filters(conversation="codex:c007"),
    Filters(since=1768500000000000, project="p1", role="assistant"),
)


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(
    ("query", "pattern"),
    [
        ("parse", r"\bparse\b"),
        ("pars*", r"\bpars"),
        ('"retry merge"', r"\bretry merge\b"),
        ("retry NOT merge", r"^(?!.*merge).*retry"),
        ("naive", r"\bnaïve\b"),
    ],
)
def test_every_filter_finds_what_reading_all_finds(
    connection: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    filters: Filters,
    query: str,
    pattern: str,
) -> None:
    for few in (0, 8, 10**9):
        monkeypatch.setattr(searching, "_FEW", few)
        expected = places(search(connection, pattern, "regex", filters=filters, limit=1000))
        assert places(search(connection, query, filters=filters, limit=1000)) == expected
        assert expected or filters != Filters()


def test_the_latest_come_first_and_once_whatever_the_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s.db") as connection:
        for number, messages in ((0, 6), (4, 12), (0, 12)):  # the first goes on after the other
            made = conversation(number)
            made.messages = made.messages[:messages]
            with transaction(connection):
                put_trajectory(connection, made)
        catch_up(connection)
        for few in (0, 10**9):
            monkeypatch.setattr(searching, "_FEW", few)
            hits = search(connection, "e", "regex", filters=Filters(project="p0")).hits
            by_index = search(connection, "[a-z]*(?:par|val|nav|ret|mer|naï)", "regex",
                              filters=Filters(project="p0"), limit=100).hits  # fmt: skip
            assert [hit.message_index for hit in hits if hit.conversation_id == "c000"][:2] == [
                11,
                10,
            ]
            order = [(hit.conversation_id, hit.message_index) for hit in by_index]
            assert len(order) == len(set(order)) == 24
            for ident in ("c000", "c004"):
                assert [index for name, index in order if name == ident] == list(range(11, -1, -1))


@pytest.mark.parametrize("indexed", [False, True])
def test_pieces_are_found_whether_they_are_indexed_or_due(store: Path, indexed: bool) -> None:
    if indexed:
        with opened(store) as connection:
            catch_up(connection)
    with reading(store) as connection:
        connection.execute("PRAGMA query_only = ON")
        expected = {
            (f"c{number:03}", index)
            for number in range(60)
            for index, message in enumerate(conversation(number).messages)
            if "arse" in message.content
        }
        assert places(search(connection, "arse", "substring", limit=1000)) == expected


def test_the_word_that_is_typed_comes_before_those_that_it_begins(
    connection: sqlite3.Connection,
) -> None:
    found = search(connection, "merge parse", limit=1000, typing=True)
    whole = [
        bool(re.search(r"\bparse\b", hit.snippet.replace(OPEN, "").replace(CLOSE, "")))
        for hit in found.hits
    ]
    assert True in whole
    assert False in whole
    assert whole == sorted(whole, reverse=True)
    assert all(f"{OPEN}merge{CLOSE}" in hit.snippet for hit in found.hits)
    assert not search(connection, "na", typing=True).hits


@pytest.mark.parametrize(
    "pattern",
    [
        "arse|etry",
        "(?:parsers|nowhere) value",
        "na(ï|i)ve",
        "x|y|e",
        "(re)try",
        "parse|parsers?",
        "(?i)RETRY",
    ],
)
def test_a_regular_expression_finds_the_same_with_and_without_the_index(
    store: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    with opened(store) as connection:
        catch_up(connection)
    with reading(store) as connection:
        by_index = places(search(connection, pattern, "regex", limit=1000))
        monkeypatch.setattr(searching, "required_trigrams", lambda query: "")
        assert by_index == places(search(connection, pattern, "regex", limit=1000)) != set()
