"""Search over a store: words, pieces, patterns, fields and filters."""

import re
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.harness import CASES, put_trajectory
from tests.store.conftest import made
from tests.store.test_sync_odd import talk
from tests.telemetry import write
from tests.test_extract import ENV
from tests.test_front import on_a_terminal
from unspool.io.times import parse_time
from unspool.store.conversations import INDEXES, remove
from unspool.store.filters import Filters, where
from unspool.store.maintenance import verify
from unspool.store.opening import reading, transaction, writing
from unspool.store.search import CLOSE, FIELDS, OPEN, required_trigrams, search
from unspool.store.sync import Sync


def ids(found: Any) -> list[str]:
    return sorted({hit.conversation_id for hit in found.hits})


def test_words_phrases_prefixes_and_operators(store: Any) -> None:
    assert ids(search(store, "limiter")) == ["c1", "k1", "t1"]  # also in the calls
    assert ids(search(store, "limiter", fields=("typed",))) == ["c1", "k1"]
    assert ids(search(store, '"rate limiter"', fields=("typed",))) == ["c1", "k1"]
    assert ids(search(store, "poe*", fields=("typed",))) == ["k2"]
    assert ids(search(store, "fix NOT limiter", fields=("typed",))) == []
    assert ids(search(store, "poem OR limiter", fields=("typed",))) == ["c1", "k1", "k2"]
    assert ids(search(store, "naive_parse")) == ["c1", "k1", "k2", "t1"]


@pytest.mark.parametrize("query", ["foo-bar", "C++", "AND", '"', "(", "a.b.c", "x:y", "NEAR(", "*"])
def test_no_query_is_a_syntax_error(store: Any, query: str) -> None:
    found = search(store, query)
    if query == "foo-bar":
        assert ids(found) == ["c1"]
    if query == "C++":
        assert "t1" in ids(found)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("限流", ["j1"]),
        ("限流 LIMITER", ["j1"]),
        ("limiter AND 限流", ["j1"]),
        ("限流 poem", []),
        ('"修复 the"', ["j1"]),
        ("限流器*", ["j1"]),
        ("限", ["j1"]),
        ("ติดตั้ง", ["j2"]),
        ("데이터", ["j2"]),
        ("🎉", ["j2"]),
        ("->", ["j2"]),
        ("*", []),
        ("«", []),
    ],
)
def test_what_no_spaces_part_is_found_as_a_piece(store: Any, query: str, found: list[str]) -> None:
    with transaction(store):
        put_trajectory(store, made("j1", "cursor", "请修复 the 限流器 limiter", "好的。"))
        put_trajectory(store, made("j2", "cursor", "데이터를 ติดตั้งแล้ว -> 🎉", "Ok."))
    assert ids(search(store, query)) == found
    for hit in search(store, query).hits:
        assert OPEN in hit.snippet


def test_snippets_mark_what_was_found(store: Any) -> None:
    (hit,) = search(store, "poem", fields=("typed",)).hits
    assert (hit.field, hit.role, hit.turn) == ("typed", "user", 0)
    assert hit.snippet == f"Write a {OPEN}poem{CLOSE}"


def test_substring_and_regex(store: Any) -> None:
    assert ids(search(store, "ate lim", "substring", fields=("typed",))) == ["c1", "k1"]
    assert ids(search(store, "no such buck", "substring")) == ["c1", "k1", "k2", "t1"]
    assert ids(search(store, r"R[a-z]ses\.$", "regex")) == ["k2"]


def test_injected_context_is_not_found(store: Any) -> None:
    assert ids(search(store, "secret")) == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"source": "cursor"}, ["k1", "k2"]),
        ({"source": "cursor-x"}, []),
        ({"project": "w/APP"}, ["c1", "k1", "k2", "t1"]),
        ({"project": "elsewhere"}, []),
        ({"file": "Poem.txt"}, ["k2"]),
        ({"file": "prose.txt"}, []),
        ({"tool": "Edit"}, ["c1", "k1", "k2", "t1"]),
        ({"tool": "edit"}, []),
        ({"model": "who-knows"}, ["t1"]),
        ({"model": "gpt"}, []),
        ({"role": "tool"}, ["c1", "k1", "k2", "t1"]),
        ({"role": "user"}, []),
        ({"since": "2026-03-04T10:40:00Z"}, ["t1"]),
        ({"since": "2026-03-05T00:00:00Z"}, []),
        ({"until": "2026-03-04T10:20:00Z"}, ["c1", "k1"]),
        ({"until": "2026-03-04T09:00:00Z"}, []),
        ({"source": "cursor", "file": "limiter"}, ["k1"]),
    ],
)
@pytest.mark.parametrize("mode", ["words", "substring", "regex"])
def test_every_filter_hits_and_misses(
    store: Any, filters: dict[str, Any], found: list[str], mode: Any
) -> None:
    made = {k: parse_time(v) if k in ("since", "until") else v for k, v in filters.items()}
    assert ids(search(store, "bucket", mode, filters=Filters(**made))) == found


def test_a_piece_is_found_by_the_filters_too(store: Any) -> None:
    typed = ("typed",)
    assert ids(search(store, "ate lim", "substring", typed, Filters(source="cursor"))) == ["k1"]
    assert ids(search(store, "ate lim", "substring", typed, Filters(role="assistant"))) == []


def test_pieces_of_what_was_returned_are_in_the_index(store: Any) -> None:
    asked: list[str] = []
    store.set_trace_callback(asked.append)
    found = ids(search(store, "no such buck", "substring", ("returned",)))
    store.set_trace_callback(None)
    assert found == ["c1", "k1", "k2", "t1"]
    assert any("pieces MATCH" in statement for statement in asked)


def test_the_best_come_first(store: Any) -> None:
    """bm25, with what was typed before what was called."""
    hits = search(store, "limiter").hits
    assert hits[0].field == "typed"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.conversation_id for hit in hits[:2]} == {"c1", "k1"}


@pytest.mark.parametrize("field", ["typed", "answered", "called", "returned"])
def test_each_field_alone(store: Any, field: str) -> None:
    words = {"typed": "poem", "answered": "Roses", "called": "poem", "returned": "bucket"}
    hits = search(store, words[field], fields=(field,)).hits
    assert hits
    assert {hit.field for hit in hits} == {field}
    others = tuple(name for name in words if name != field)
    if field in ("answered", "returned"):
        assert not search(store, words[field], fields=others).hits


def test_of_a_word_that_is_everywhere_the_latest_places_by_field(
    store: Any, monkeypatch: Any
) -> None:
    everywhere = search(store, "limiter OR tests", limit=500)
    assert not everywhere.capped
    few = len(everywhere.hits) - 1
    monkeypatch.setattr("unspool.store.search.RANKED", few)
    found = search(store, "limiter OR tests", limit=few)
    assert found.capped
    assert len(found.hits) == few
    places = {(hit.conversation_id, hit.message_index, hit.field) for hit in everywhere.hits}
    assert {(hit.conversation_id, hit.message_index, hit.field) for hit in found.hits} < places
    order = [FIELDS.index(hit.field) for hit in found.hits]
    assert order == sorted(order)
    assert len(set(order)) > 1
    assert search(store, "limiter OR tests", limit=3).hits == found.hits[:3]
    only = search(store, "limiter OR tests", fields=("called",), limit=500)
    assert {hit.field for hit in only.hits} == {"called"}


def test_by_tool_each_conversation_is_asked_for_its_calls(store: Any) -> None:
    """By name it would look through all calls of that name, once for each place."""
    terms, values = Filters(tool="Bash").of_conversations()
    plan = store.execute(
        f"EXPLAIN QUERY PLAN SELECT 1 FROM conversations c WHERE {where(terms)}", values
    ).fetchall()
    assert "tool_calls_by_conversation" in str(plan)


def test_a_piece_stands_in_one_place(store: Any) -> None:
    """The index knows which trigrams a text has, not where."""
    assert ids(search(store, "limiter rate", "substring", ("typed",))) == []
    assert ids(search(store, "LIMIT", "substring", ("typed",))) == ["c1", "k1"]
    assert ids(search(store, "r!", "substring", ("typed",))) == ["k1"]
    assert ids(search(store, 'file_path": "/p', "substring", ("called",))) == ["k2"]
    assert len(search(store, "limiter", "substring", ("called",), limit=2).hits) == 2


def _due(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute(
        "SELECT count(DISTINCT conversation_id) FROM texts JOIN messages USING (id)"
        " WHERE id > (SELECT up_to FROM indexed WHERE name = 'pieces')"
    ).fetchone()
    return int(count)


def _found(connection: sqlite3.Connection, query: str) -> list[str]:
    return ids(search(connection, query, "substring"))


def test_pieces_are_indexed_when_they_are_looked_for(tmp_path: Path) -> None:
    """What is written again before or after that is found once, and as it is now."""
    home, path = tmp_path / "home", tmp_path / "s.db"
    write(home / "a.jsonl", talk("alphabet", "one"))
    with writing(path) as connection:
        Sync(connection).run([str(home)])
        assert _due(connection) == 1
        write(home / "a.jsonl", talk("alphabet soup", "one"))
        write(home / "b.jsonl", talk("beta", "two"))
        Sync(connection).run([str(home)])
        assert _due(connection) == 2
        assert (_found(connection, "lphabet so"), _due(connection)) == (["one"], 0)
        write(home / "a.jsonl", talk("gamma", "one"))
        Sync(connection).run([str(home)])
        assert _due(connection) == 1
        assert _found(connection, "lphabet") == []
        assert (_found(connection, "amma"), _found(connection, "beta")) == (["one"], ["two"])
        assert verify(connection) == []


def _words(connection: sqlite3.Connection, query: str) -> list[str]:
    return ids(search(connection, query))


def test_words_may_wait_until_somebody_asks_for_them(tmp_path: Path) -> None:
    """They are found then as if they had been indexed at once, whatever happened meanwhile."""
    home = tmp_path / "home"
    for name in ("one", "two", "three"):
        write(home / f"{name}.jsonl", talk(f"alphabet {name}", name))
    with writing(tmp_path / "s.db") as connection:
        Sync(connection, indexes=()).run([str(home)])
        write(home / "one.jsonl", talk("beta one", "one"))
        remove(connection, "copilot_telemetry:two")
        Sync(connection, indexes=()).run([str(home)])
        connection.execute("PRAGMA query_only = ON")
        assert not search(connection, "alphabet").complete
        connection.execute("PRAGMA query_only = OFF")
        found = search(connection, "alphabet")
        assert (ids(found), found.complete) == (["three"], True)
        assert (_words(connection, "beta"), _found(connection, "eta o")) == (["one"], ["one"])
        assert verify(connection) == []


def test_while_somebody_writes_what_is_indexed_answers(tmp_path: Path) -> None:
    write(tmp_path / "home" / "a.jsonl", talk("alphabet", "one"))
    with writing(tmp_path / "s.db") as connection:
        Sync(connection).run([str(tmp_path / "home")])
        write(tmp_path / "home" / "b.jsonl", talk("alphabet", "two"))
        Sync(connection, indexes=()).run([str(tmp_path / "home")])
        with reading(tmp_path / "s.db") as reader, transaction(connection):
            asked_at = time.monotonic()
            found = search(reader, "alphabet")
        assert (ids(found), found.complete) == (["one"], False)
        assert time.monotonic() - asked_at < 10


def test_texts_that_are_not_those_of_the_conversation_are_a_fault(tmp_path: Path) -> None:
    write(tmp_path / "home" / "a.jsonl", talk("alphabet", "one"))
    with writing(tmp_path / "s.db") as connection:
        Sync(connection).run([str(tmp_path / "home")])
        connection.execute("DELETE FROM texts WHERE typed IS NOT NULL")
        connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        (fault,) = verify(connection)
    assert "copilot_telemetry:one" in fault


def test_numbers_of_messages_that_are_gone_are_not_given_again(tmp_path: Path) -> None:
    """The indexes would take the new ones for known."""
    home = tmp_path / "home"
    write(home / "one.jsonl", talk("alphabet one", "one"))
    with writing(tmp_path / "s.db") as connection:
        Sync(connection, indexes=INDEXES).run([str(home)])
        remove(connection, "copilot_telemetry:one")
        write(home / "two.jsonl", talk("alphabet two", "two"))
        Sync(connection).run([str(home)])
        assert (_words(connection, "alphabet"), _found(connection, "lphabet")) == (["two"], ["two"])
        assert verify(connection) == []


def test_pieces_are_found_in_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "s.db"
    write(home / "a.jsonl", talk("alphabet", "one"))
    with writing(path) as connection:
        Sync(connection).run([str(home)])
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        assert (_found(connection, "lphabe"), _due(connection)) == (["one"], 1)


def test_sync_indexes_pieces_and_list_does_not_wait_for_it(tmp_path: Path) -> None:
    home = CASES / "copilot_cli" / "store_only" / "input"
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    store = tmp_path / "unspool" / "conversations.db"
    environment = {**ENV, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    for command, due in (("list", 1), ("sync", 0)):
        subprocess.run(
            [sys.executable, "-m", "unspool", command],
            env=environment,
            check=True,
            capture_output=True,
        )
        with closing(sqlite3.connect(store)) as connection:
            assert _due(connection) == due


def test_a_hit_fits_its_line_on_a_terminal(store: Any, tmp_path: Path) -> None:
    ident = "0f4b7c1a-52d3-4f0e-8c11-7a6d5e4f3b2a"
    long = made(ident, "claude-code", "fix the funnel", "Done.")
    long.title = "限流器 and all that belongs to it, told at length " * 2
    with transaction(store):
        put_trajectory(store, long)
    asked = ["search", "funnel", "--store", str(tmp_path / "s.db")]
    text = on_a_terminal(asked, COLUMNS="60")
    first = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()[0]
    assert first.startswith("unspool show 0f4b7c1 --turn 1  2026-03-04 ")
    assert "  typed  限" in first
    assert cell_len(first) <= 60
    piped = subprocess.run(
        [sys.executable, "-m", "unspool", *asked], env=ENV, capture_output=True, text=True
    )
    assert piped.stdout.startswith(f"unspool show claude-code/{ident} --turn 1  ")


def test_what_the_program_kept_of_a_conversation_is_found(tmp_path: Path) -> None:
    """Checkpoints, memories and summaries, also where nothing else of the conversation is left."""
    cases = (
        "copilot_cli/checkpoints_only",
        "copilot_cli/summary_only",
        "copilot_vscode/memories_alone",
    )
    with writing(tmp_path / "store.db") as store:
        Sync(store).run([str(CASES / case / "input") for case in cases])
        assert ids(search(store, "Stripping")) == ["00000000-0000-4000-8000-000000000077"]
        assert ids(search(store, "till")) == ["00000000-0000-4000-8000-000000000086"]
        assert len(ids(search(store, "prices", "substring"))) == 2
        assert verify(store) == []


def test_references_have_a_kind_and_a_value_whoever_tells_them(tmp_path: Path) -> None:
    trajectory = made("c1", "claude-code", "hi", "hello")
    trajectory.references = [
        {"type": "commit", "value": "0a1b2c3", "branch": "main"},
        {"number": 12, "url": "https://github.com/ada/shop/pull/12"},
        {"pullRequestNumber": 13},
        {"number": 4, "url": "https://github.com/ada/shop/issues/4"},
    ]
    with writing(tmp_path / "store.db") as store:
        with transaction(store):
            put_trajectory(store, trajectory)
        rows = store.execute("SELECT kind, value FROM git_references ORDER BY rowid").fetchall()
    assert rows == [("commit", "0a1b2c3"), ("pr", "12"), ("pr", "13"), ("issue", "4")]


@pytest.mark.parametrize(
    ("pattern", "trigrams"),
    [
        (r"needl\d\d\b", '"nee" AND "eed" AND "edl"'),
        (r"(foo)(bar)", '("foo") AND ("bar")'),
        (r"foo\d+bar", '"foo" AND "bar"'),
        (r"foo|bar", '(("foo") OR ("bar"))'),
        (r"foo|\d", ""),
        (r"(?:abc)?def", '"def"'),
        (r"abc?def", '"def"'),
        (r"(abc)+d", ""),
        (r"a{3,}bcd", '"bcd"'),
        (r"[abc]def", '"def"'),
        (r"x(?:one|two)end", '(("one") OR ("two")) AND "end"'),
        (r"\bno\b", ""),
    ],
)
def test_trigrams_that_every_match_holds(pattern: str, trigrams: str) -> None:
    assert required_trigrams(pattern) == trigrams
