"""`unspool sql`: questions about the store and about files, and what they must not do."""

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness import CASES
from tests.test_extract import ENV
from tests.test_parquet import run
from unspool.cli.sql import command
from unspool.errors import UnspoolError
from unspool.sinks.parquet.rows import TABLES
from unspool.store.tables import RELATIONS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.db"
    assert run("sync", CASES / "pi", CASES / "codex", "--store", path).returncode == 0
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "out"
    done = run("extract", CASES / "pi", CASES / "codex", "--to", "parquet", "-o", folder)
    assert done.returncode == 0, done.stderr
    return folder


def ask(*args: object) -> list[dict[str, Any]]:
    done = run("sql", *args, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = msgspec.json.decode(done.stdout)
    return rows


def test_the_store_answers_with_types(store: Path) -> None:
    query = (
        "SELECT c.source, c.metadata, min(c.started_at) AS first, count(*) AS calls,"
        " typeof(c.started_at) AS kind FROM conversations c JOIN tool_calls t"
        " ON t.conversation_id = c.id WHERE c.source = 'pi' GROUP BY ALL"
    )
    (row, *_) = ask(query, "--store", store)
    assert row["kind"] == "TIMESTAMP WITH TIME ZONE"
    assert row["first"].startswith("2026-05-04T10:00:0")
    assert row["first"].endswith("Z")
    assert isinstance(row["metadata"], dict)
    assert row["calls"] > 0


def test_the_store_shows_its_tables_with_what_they_hold(store: Path) -> None:
    names = {row["name"] for row in ask("SHOW TABLES", "--store", store)}
    assert names == set(RELATIONS)
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS t, count(*) AS n FROM {name}" for name in names
    )
    told = {row["t"]: row["n"] for row in ask(counts, "--store", store)}
    info = msgspec.json.decode(run("store", "info", "--store", store, "--json").stdout)
    assert told["conversations"] == info["conversations"]
    assert told["texts"] > 0
    hidden = "SELECT count(*) AS n FROM query_table('mess' || 'ages')"
    assert ask(hidden, "--store", store) == [{"n": told["messages"]}]


def test_files_of_any_kind_answer_alike(tables: Path, tmp_path: Path) -> None:
    query = (
        "SELECT source, count(*) AS n, sum(length(content)) AS chars FROM messages"
        " GROUP BY ALL ORDER BY 1"
    )
    whole = ask(query, tables)
    assert [row["source"] for row in whole] == ["codex", "pi"]
    assert ask(query, CASES / "pi", CASES / "codex") == whole
    assert ask(query, tables / "conversations.parquet") == whole
    by = ("--to", "parquet", "--partition-by", "source", "-o", tmp_path / "parts")
    assert run("extract", tables, *by).returncode == 0
    assert ask(query, tmp_path / "parts") == whole
    twice = ask("SELECT count(*) AS n FROM conversations", tables, tmp_path / "parts")
    once = ask("SELECT count(*) AS n FROM conversations", tables)
    assert twice[0]["n"] == 2 * once[0]["n"]
    assert {row["name"] for row in ask("SHOW TABLES", tables)} == set(TABLES)


def test_json_csv_and_table(tables: Path) -> None:
    query = (
        "SELECT conversation_id, messages[1] AS first, tools, cost_usd, 170141183460469231731::HUGEINT"
        " AS huge, 'NaN'::DOUBLE AS nan, [1, 2] AS list, true AS yes, E'a\\nb' AS text"
        " FROM conversations WHERE source = 'pi' ORDER BY 1 LIMIT 1"
    )
    (row,) = ask(query, tables)
    assert row["first"]["role"] in ("user", "system")
    assert (row["huge"], row["nan"], row["list"]) == ("170141183460469231731", None, [1, 2])
    told = list(csv.DictReader(io.StringIO(run("sql", query, tables, "--csv").stdout)))
    assert (told[0]["yes"], told[0]["text"], told[0]["list"]) == ("true", "a\nb", "[1,2]")
    lines = run("sql", "SELECT 1 AS one, 'x' AS two", tables).stdout.splitlines()
    assert [line.split() for line in lines] == [["one", "two"], ["───", "───"], ["1", "x"]]
    empty = run("sql", "SELECT 1 WHERE false", tables)
    assert (empty.returncode, empty.stderr) == (0, "no rows\n")
    assert ask("SELECT 1 AS a WHERE false", tables) == []
    assert run("sql", "SELECT 1", tables, "--csv", "--json").returncode == 2


@pytest.mark.parametrize(
    "query",
    [
        "selec 1",
        "SELECT nope FROM conversations",
        "SELECT * FROM\nnowhere",
        "SELECT cast('x' AS INT)",
        "",
        "SELECT 1; SELECT 2",
        "SELECT $1",
    ],
)
def test_bad_sql_is_one_line(query: str, store: Path) -> None:
    done = run("sql", query, "--store", store, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("unspool: ")


@pytest.mark.parametrize(
    "query",
    [
        "COPY conversations TO 'stolen.csv'",
        "COPY (SELECT 1) TO PROGRAM 'touch stolen.csv'",
        "EXPORT DATABASE 'stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_parquet('conversations.parquet')",
        "SELECT * FROM 'conversations.parquet'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'stolen.csv'",
        "ATTACH 'stolen.csv' AS s",
        "ATTACH ':memory:' AS s",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "CREATE TABLE t AS SELECT 1",
        "CREATE SECRET s (TYPE s3)",
        "DELETE FROM conversations",
        "SELECT * FROM tables",  # a variable of ours
    ],
)
def test_a_question_reads_its_tables_and_nothing_else(
    query: str,
    store: Path,
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tables)
    for args in (["--store", str(store)], [str(tables)]):
        with pytest.raises(UnspoolError) as refused:
            command.main([query, *args, "--json"], standalone_mode=False)
        assert refused.value.exit_code == 2
        assert "\n" not in str(refused.value)
        assert capsys.readouterr().out == ""
    assert not (tables / "stolen.csv").exists()
    assert not (tables / ".tmp").exists()


def test_missing_things_are_one_line(tmp_path: Path, store: Path) -> None:
    for args in (("--store", tmp_path / "none.db"), (tmp_path / "nowhere",)):
        done = run("sql", "SELECT 1", *args)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for table in TABLES:
        (damaged / f"{table}.parquet").write_bytes(b"PAR1 no more PAR1")
    done = run("sql", "SELECT 1", damaged)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    hide = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from unspool.__main__ import main; sys.argv[0] = 'unspool'; sys.exit(main())"
    )
    command = [sys.executable, "-c", hide, "sql", "SELECT 1", "--store", str(store)]
    bare = subprocess.run(command, capture_output=True, text=True, env=ENV)
    assert bare.returncode == 1
    assert bare.stderr == "unspool: `unspool sql` needs: pip install 'unspool[duckdb]'\n"
