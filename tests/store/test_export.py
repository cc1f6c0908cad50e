"""`unspool store export`: what the store holds, in every shape that a run writes."""

from pathlib import Path

import duckdb
import msgspec
import pytest

import unspool
from tests.harness import CASES
from tests.test_parquet import run
from unspool.sinks import SINKS

INPUTS = [CASES / "claude_code", CASES / "pi"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.db"
    assert run("sync", *INPUTS, "--store", path).returncode == 0
    return path


def lines(text: str) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in text.split("\n") if line]


def test_all_of_it_oldest_first(store: Path) -> None:
    done = run("store", "export", "--store", store)
    assert done.returncode == 0, done.stderr
    told = lines(done.stdout)
    info = msgspec.json.decode(run("store", "info", "--store", store, "--json").stdout)
    assert len(told) == info["conversations"] > 20
    assert f"{len(told)} conversations with" in done.stderr
    times = [str(one.get("started_at", "")) for one in told]
    assert times == sorted(times)
    assert done.stdout == run("store", "export", "--store", store, "-q").stdout


def test_filters_choose(store: Path) -> None:
    def ids(*args: object) -> set[str]:
        told = lines(run("store", "export", "--store", store, *args).stdout)
        return {f"{one['source']}/{one['conversation_id']}" for one in told}

    everything = ids()
    pi = ids("--source", "pi")
    assert pi == {one for one in everything if one.startswith("pi/")} != set()
    assert ids("--since", "2100-01-01") == set()
    assert ids("--tool", "bash") < everything


@pytest.mark.parametrize("to", SINKS)
def test_every_shape(to: str, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("store", "export", "--store", store, "--source", "pi", "--to", to, "-o", out)
    assert done.returncode == 0, done.stderr
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    assert files
    assert all(path.stat().st_size for path in files)


def test_parquet_is_the_jsonl(store: Path, tmp_path: Path) -> None:
    for args in ((), ("--partition-by", "source")):
        out = tmp_path / f"tables{len(args)}"
        done = run("store", "export", "--store", store, "--to", "parquet", *args, "-o", out)
        assert done.returncode == 0, done.stderr
    run("store", "export", "--store", store, "-o", tmp_path / "all.jsonl")
    plain = list(unspool.extract(tmp_path / "all.jsonl"))
    assert list(unspool.extract(tmp_path / "tables0")) == plain
    messages = duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/tables0/messages.parquet'").fetchall()
    assert messages == [(sum(len(one.messages) for one in plain),)]
    assert len(list(unspool.extract(tmp_path / "tables2"))) == len(plain)


def test_wrong_use_is_one_line(store: Path, tmp_path: Path) -> None:
    for args in (("--to", "parquet"), ("--to", "parquet", "-o", "-"), ("--partition-by", "month")):
        done = run("store", "export", "--store", store, *args)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
    gone = run("store", "export", "--store", tmp_path / "none.db")
    assert gone.returncode == 1
    assert "no store" in gone.stderr


def test_reasoning_stays_out(store: Path) -> None:
    args = ("store", "export", "--store", store)
    assert '"thinking":' in run(*args).stdout
    assert '"thinking":' not in run(*args, "--no-reasoning").stdout
