"""Parquet as Hugging Face `datasets` reads it, by the code of `docs/analysis.md`."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from tests.test_analysis import PAGE
from tests.test_parquet import tables  # noqa: F401 - the fixture: all cases as Parquet
from unspool.sinks.parquet.rows import TABLES

FEATURES = {
    "text": "Value('large_string')",
    "long": "Value('large_string')",
    "texts": "LargeList(Value('large_string'))",
    "count": "Value('int64')",
    "number": "Value('float64')",
    "flag": "Value('bool')",
    "time": "Value('timestamp[us, tz=UTC]')",
    "json": "Json(decode=True)",
    "jsons": "LargeList(Json(decode=True))",
}
SEEN = """
import json as j, sys
names = ["conversations", "messages", "tool_calls", "files", "usage", "marks"]
seen = {name: load_dataset("tables", name, split="train") for name in names}
called = [m for row in rows for m in row["messages"] if m.get("tool_calls")]
j.dump({
    "features": {n: {k: repr(v) for k, v in d.features.items()} for n, d in seen.items()},
    "rows": {n: d.num_rows for n, d in seen.items()},
    "default": load_dataset("tables", split="train").column_names,
    "arguments": sorted({type(c["function"]["arguments"]).__name__ for m in called
                         for c in m["tool_calls"]}),
    "keys": sorted(called[0]),
    "nulls": [key for m in called for key, value in m.items() if value is None],
    "mark": next(m["data"] for m in seen["marks"] if m["data"]),
}, open("seen.json", "w"))
"""


@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")
def test_datasets_sees_objects_and_times(tables: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "tables").symlink_to(tables)
    section = PAGE.partition("## A training set")[2]
    (card,) = re.findall(r"```yaml\n(.*?)```", section, re.S)
    code = "".join(re.findall(r"```python\n(.*?)```", section, re.S))
    (tables / "README.md").write_text(card, encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-c", code + SEEN],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        )
    finally:
        (tables / "README.md").unlink()
    assert done.returncode == 0, done.stderr
    role, day, *_ = done.stdout.split()
    assert role in ("user", "system", "assistant")
    assert day.startswith("20")
    seen = msgspec.json.decode((tmp_path / "seen.json").read_bytes())
    for table, columns in TABLES.items():
        expected = {name: FEATURES[kind] for name, kind in columns.items()}
        assert seen["features"][table] == expected
        assert seen["rows"][table] > 0
    assert seen["default"] == list(TABLES["conversations"])
    assert "dict" in seen["arguments"]
    assert seen["nulls"] == []  # absent fields stay absent
    assert {"role", "content", "tool_calls"} <= set(seen["keys"])
    assert isinstance(seen["mark"], dict)
