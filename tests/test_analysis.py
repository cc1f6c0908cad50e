"""The questions of `docs/analysis.md`, asked in DuckDB and in Polars: both give the same answer."""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.test_parquet import tables  # noqa: F401 - the fixture: all cases as Parquet
from tests.test_sql import ask
from unspool.sinks.parquet.rows import TABLES

PAGE = (Path(__file__).parents[1] / "docs" / "analysis.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## (\d+)\. ", PAGE, flags=re.M)[1:]
QUESTIONS = dict(zip(SECTIONS[::2], SECTIONS[1::2], strict=True))


def test_there_are_ten() -> None:
    assert list(QUESTIONS) == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("number", QUESTIONS)
def test_both_readers_answer_alike(number: str, tables: Path) -> None:  # noqa: F811
    section = QUESTIONS[number].partition("\n## ")[0]
    (query,) = re.findall(r"```sql\n(.*?);\n```", section, re.S)
    code = next(
        code for code in re.findall(r"```python\n(.*?)```", section, re.S) if code[0] == "("
    )
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS FROM '{tables}/{name}.parquet'")
        connection.execute("SET TimeZone = 'UTC'")
        told = connection.sql(query).pl()
    frame = eval(code, _names(tables)).collect()
    assert told.height > 0
    assert frame.columns == told.columns
    assert _rows(frame) == _rows(told)


def _names(folder: Path) -> dict[str, Any]:
    """What the page's code blocks define before the questions, for this folder."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        if block.startswith(("import polars", "def ")):
            exec(block.replace("tables/{name}", f"{folder}/{{name}}"), names)
    return names


def _rows(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Sums of whole numbers are decimals to DuckDB."""
    return [
        tuple(float(v) if isinstance(v, int) or hasattr(v, "as_tuple") else v for v in row)
        for row in frame.iter_rows()
    ]


def test_unspool_sql_takes_them_as_they_stand(tables: Path) -> None:  # noqa: F811
    (query,) = re.findall(r"```sql\n(.*?)```", QUESTIONS["2"], re.S)
    rows = ask(query, tables)
    assert [*rows[0]] == ["source", "tool_name", "calls", "failures"]
