"""Parquet: the files as their readers see them, and read back."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars
import pytest
from pyarrow import parquet

import unspool
from tests.harness import CASES, case_id, cases, facts_of, origins_of, reduce_all
from tests.test_extract import ENV
from unspool.errors import MissingExtra
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally, read_head
from unspool.sinks import Family, jsonl
from unspool.sinks import parquet as sink
from unspool.sinks.parquet import arrow
from unspool.sinks.parquet.rows import TABLES
from unspool.trajectory import Message, Trajectory, Usage, encode_trajectory

ROOT = Path(__file__).parents[1]
DUCKDB = {
    "text": "VARCHAR",
    "long": "VARCHAR",
    "texts": "VARCHAR[]",
    "count": "BIGINT",
    "number": "DOUBLE",
    "flag": "BOOLEAN",
    "time": "TIMESTAMP WITH TIME ZONE",
    "json": "JSON",
    "jsons": "JSON[]",
}
POLARS = {
    "text": polars.String(),
    "long": polars.String(),
    "texts": polars.List(polars.String()),
    "count": polars.Int64(),
    "number": polars.Float64(),
    "flag": polars.Boolean(),
    "time": polars.Datetime("us", "UTC"),
}
ALL_CASES = sorted(str(case / "input") for case in cases())


def run(*args: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unspool", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=ENV, **more)


def put(folder: Path, trajectories: list[Trajectory]) -> Origin:
    """The trajectories' files; `conversations.parquet` among them."""
    files = {name: io.BytesIO() for name in sink.FILES}
    pieces = [piece.data for one in trajectories for piece in sink.write(Family(one), {})]
    sink.load_combine({})(pieces, files)
    for name, file in files.items():
        (folder / name).write_bytes(file.getvalue())
    path = folder / "conversations.parquet"
    return Origin(str(path), path.name)


def get(origin: Origin) -> list[Trajectory | Problem]:
    return list(sink.read(origin, Tally()))


def query(text: str) -> list[Any]:
    return duckdb.sql(text).fetchall()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, extracted by one worker."""
    folder = tmp_path_factory.mktemp("tables")
    done = run("extract", *ALL_CASES, "--to", "parquet", "-o", folder, "--workers", 1)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_what_is_written_is_read_back_equal(case: Path, tmp_path: Path) -> None:
    made = reduce_all(facts_of(origins_of(case / "input")))
    origin = put(tmp_path, made)
    assert sink.claims(read_head(origin.path))
    assert [encode_trajectory(one) for one in get(origin)] == [
        encode_trajectory(jsonl.parse(piece.data))
        for one in made
        for piece in jsonl.write(Family(one), {})
    ]


def test_same_bytes_and_same_order_as_jsonl_for_any_number_of_workers(
    tables: Path, tmp_path: Path
) -> None:
    run("extract", *ALL_CASES, "--to", "parquet", "-o", tmp_path / "two", "--workers", 2)
    for name in sink.FILES:
        assert (tmp_path / "two" / name).read_bytes() == (tables / name).read_bytes()
    lines = run("extract", *ALL_CASES, "--workers", 1).stdout.split("\n")
    rows = query(f"SELECT source, conversation_id FROM '{tables}/conversations.parquet'")
    told = [msgspec.json.decode(line) for line in lines if line]
    assert rows == [(one["source"], one["conversation_id"]) for one in told]


def test_rows_go_out_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "GROUP_BYTES", 100_000)
    talk = [Message("user", "x" * 1000) for _ in range(30)]
    origin = put(tmp_path, [Trajectory(f"c{n}", talk, source="pi") for n in range(20)])
    file = parquet.ParquetFile(origin.path)
    assert file.num_row_groups > 3
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert [one.conversation_id for one in get(origin)] == [f"c{n}" for n in range(20)]


@pytest.mark.parametrize("table", TABLES)
def test_readers_see_the_types(table: str, tables: Path) -> None:
    path = tables / f"{table}.parquet"
    described = query(f"DESCRIBE SELECT * FROM '{path}'")
    kinds = TABLES[table]
    assert {row[0]: row[1] for row in described} == {n: DUCKDB[kind] for n, kind in kinds.items()}
    schema = polars.read_parquet(path).schema
    for name, kind in kinds.items():
        if kind in POLARS:
            assert schema[name] == POLARS[kind]
        else:
            assert "arrow.json" in str(schema[name])
            assert "String" in str(schema[name])
    assert query(f"SELECT count(*) > 0 FROM '{path}'") == [(True,)]


def test_pyarrow_and_the_file_itself_say_the_types(tables: Path) -> None:
    marked = {"json": "JSON", "jsons": "JSON", "text": "STRING", "long": "STRING"}
    for table, columns in TABLES.items():
        file = parquet.ParquetFile(tables / f"{table}.parquet")
        assert file.schema_arrow == arrow.schema_of(columns)
        leaves = [file.schema.column(at) for at in range(len(file.schema))]
        by_name = {leaf.path.split(".")[0]: leaf.logical_type for leaf in leaves}
        for name, kind in columns.items():
            if kind in marked:
                assert by_name[name].type == marked[kind]
            if kind == "time":
                told = msgspec.json.decode(by_name[name].to_json())
                assert (told["isAdjustedToUTC"], told["timeUnit"]) == (True, "microseconds")


def test_the_star_says_what_the_conversations_say(tables: Path) -> None:
    (sums,) = query(
        f"SELECT sum(n_messages), sum(n_tool_calls) FROM '{tables}/conversations.parquet'"
    )
    (messages,) = query(f"SELECT count(*) FROM '{tables}/messages.parquet'")
    (calls,) = query(f"SELECT count(*) FROM '{tables}/tool_calls.parquet' WHERE NOT copied")
    assert sums == (*messages, *calls)
    differing = query(
        f"SELECT c.conversation_id FROM '{tables}/conversations.parquet' c"
        f" JOIN '{tables}/messages.parquet' m USING (source, conversation_id)"
        " WHERE c.messages[m.message_index + 1]->>'content' <> m.content"
    )
    assert differing == []
    unpaired = query(
        f"SELECT t.tool_call_id FROM '{tables}/tool_calls.parquet' t"
        f" JOIN '{tables}/messages.parquet' m ON t.source = m.source AND"
        " t.conversation_id = m.conversation_id AND t.result_index = m.message_index"
        " WHERE m.role <> 'tool' OR m.tool_call_id <> t.tool_call_id"
    )
    assert unpaired == []


def test_the_page_explains_every_column() -> None:
    page = (ROOT / "docs" / "parquet.md").read_text(encoding="utf-8")
    assert [f"{t}.{c}" for t in TABLES for c in TABLES[t] if f"`{c}`" not in page] == []


def test_odd_conversations_give_valid_files(tmp_path: Path) -> None:
    """No messages; half a surrogate pair; counts and times that no column can hold."""
    empty = Trajectory("empty", [], source="pi", partial=[], tool_definitions=[])
    odd = Trajectory(
        "odd",
        [Message("user", "half \ud83d", timestamp="yesterday", usage=Usage(prompt_tokens=2**64))],
        title="half \ud83d",
        started_at="yesterday",
        source="pi",
    )
    origin = put(tmp_path, [empty, odd])
    first, told_empty, second = get(origin)
    assert first == empty
    assert isinstance(told_empty, Problem)
    assert told_empty.code == "empty-conversation"
    assert isinstance(second, Trajectory)
    assert (second.messages[0].content, second.title) == ("half �", "half �")
    assert second.started_at == "yesterday"
    assert query(f"SELECT n_messages, started_at FROM '{origin.path}'") == [(0, None), (1, None)]
    told = query(f"SELECT timestamp, prompt_tokens FROM '{tmp_path}/usage.parquet'")
    assert told == [(None, None)]


def test_what_cannot_be_kept_is_counted(tmp_path: Path) -> None:
    """Half a surrogate pair, a value of more than 16 MB, a conversation without messages."""
    said = {"role": "user", "content": "half \ud83d", "details": "x" * 17_000_000}
    lines = [
        {"conversation_id": "odd", "messages": [said], "source": "pi"},
        {"conversation_id": "empty", "messages": [], "source": "pi"},
    ]
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = run("extract", path, "--to", "parquet", "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    problems = msgspec.json.decode(done.stderr)["problems"]
    assert problems == {"empty-conversation": 1, "half-character": 1, "long-value": 1}
    for table in TABLES:
        assert polars.read_parquet(tmp_path / "out" / f"{table}.parquet").columns == [
            *TABLES[table]
        ]
    assert query(f"SELECT content FROM '{tmp_path}/out/messages.parquet'") == [("half �",)]


def test_nothing_is_a_valid_folder_too(tmp_path: Path) -> None:
    origin = put(tmp_path, [])
    assert get(origin) == []
    assert query(f"SELECT * FROM '{origin.path}'") == []


def test_what_another_program_wrote_is_read_under_any_name(tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    duckdb.sql(
        f"COPY (SELECT * REPLACE ('renamed' AS title) FROM '{tables}/conversations.parquet'"
        f" WHERE source = 'claude-code') TO '{path}' (FORMAT parquet)"
    )
    assert sink.claims(read_head(str(path)))
    (count,) = query(f"SELECT count(*) FROM '{path}'")
    read = get(Origin(str(path), path.name))
    assert [one.title for one in read if isinstance(one, Trajectory)] == ["renamed"] * count[0]


def test_other_tables_are_not_claimed(tables: Path, tmp_path: Path) -> None:
    for name in sink.FILES[1:]:
        assert not sink.claims(read_head(str(tables / name)))
    cut_off = tmp_path / "conversations.parquet"
    cut_off.write_bytes((tables / "conversations.parquet").read_bytes()[:-100])
    assert not sink.claims(read_head(str(cut_off)))


def test_a_row_that_is_no_trajectory_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "conversations.parquet"
    duckdb.sql(
        "COPY (SELECT 'a' AS conversation_id, ['{\"role\":1}'::JSON] AS messages, NULL AS tools,"
        ' \'{}\'::JSON AS metadata UNION ALL SELECT \'b\', [\'{"role":"user","content":"hi"}\'],'
        f" NULL, '{{}}') TO '{path}' (FORMAT parquet)"
    )
    problem, read = get(Origin(str(path), path.name))
    assert isinstance(problem, Problem)
    assert problem.code == "not-a-trajectory"
    assert isinstance(read, Trajectory)
    assert read.conversation_id == "b"


def test_a_damaged_file_is_a_problem(tables: Path, tmp_path: Path) -> None:
    data = bytearray((tables / "conversations.parquet").read_bytes())
    data[1000:20000] = bytes(19000)
    (tmp_path / "conversations.parquet").write_bytes(data)
    done = run("extract", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stderr)["problems"] == {"unreadable": 1}


def test_it_is_read_wherever_a_path_is_taken(tables: Path, tmp_path: Path) -> None:
    path = tables / "conversations.parquet"
    first = next(iter(unspool.extract(path)))
    with path.open("rb") as file:
        assert run("extract", "-", stdin=file).stdout.count("\n") > 100
    assert run("list", path).stdout
    assert run("show", first.conversation_id, "--from", path).stdout
    done = run("sync", path, "--store", tmp_path / "store.db")
    assert done.returncode == 0, done.stderr
    info = run("store", "info", "--store", tmp_path / "store.db", "--json")
    assert msgspec.json.decode(info.stdout)["conversations"] > 100


def test_export_writes_the_folder(tmp_path: Path) -> None:
    case = next(iter(cases("claude_code"))) / "input"
    run("extract", case, "-o", tmp_path / "c.jsonl")
    done = run("export", tmp_path / "c.jsonl", "--to", "parquet", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [Path(line).name for line in done.stdout.splitlines()] == list(sink.FILES)
    assert list(unspool.extract(tmp_path / "out")) == list(unspool.extract(tmp_path / "c.jsonl"))
    for command in ("export", "extract"):
        refused = run(command, tmp_path / "c.jsonl", "--to", "parquet", "-o", "-")
        assert refused.returncode == 2
        assert "name a folder" in refused.stderr


def test_what_is_read_is_not_replaced(tables: Path) -> None:
    before = (tables / "conversations.parquet").read_bytes()
    done = run("extract", tables, "--to", "parquet", "-o", tables)
    assert done.returncode == 2
    assert "is read from" in done.stderr
    assert (tables / "conversations.parquet").read_bytes() == before


def test_without_pyarrow_one_line_says_what_to_install(tables: Path, tmp_path: Path) -> None:
    hide = (
        "import sys, importlib.util as u; find = u.find_spec; sys.modules['pyarrow'] = None\n"
        "u.find_spec = lambda name, package=None: None if name == 'pyarrow' else find(name, package)\n"
        "from unspool.__main__ import main; sys.argv[0] = 'unspool'; sys.exit(main())"
    )

    def bare(*args: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", hide, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, env=ENV)

    telemetry = CASES / "copilot_telemetry"
    out = tmp_path / "out"
    for args in (
        ("extract", telemetry, "--to", "parquet", "-o", out),
        ("extract", tables / "conversations.parquet"),
        ("extract", tables / "conversations.parquet", ROOT / "examples", "--workers", 2),
    ):
        done = bare(*args)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "pip install 'unspool[parquet]'" in done.stderr
    assert not out.exists()
    met = bare("extract", tables, "--json")
    assert msgspec.json.decode(met.stderr)["problems"] == {"missing-extra": 1}
    assert issubclass(MissingExtra, unspool.UnspoolError)
