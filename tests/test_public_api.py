"""The names that people may build on."""

import gc
import os
import pickle
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

import unspool
from tests.claude_lines import transcript
from tests.harness import CASES
from unspool import errors

PUBLIC = [
    "AmbiguousId",
    "BrokenCatalogue",
    "Message",
    "MissingExtra",
    "NothingToRead",
    "OutputError",
    "StoreBusy",
    "StoreError",
    "ToolCall",
    "Trajectory",
    "UnknownConversation",
    "UnknownFormat",
    "UnreadableOrigin",
    "UnspoolError",
    "UsageError",
    "__version__",
    "extract",
]


def test_public_names() -> None:
    assert sorted(unspool.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(unspool, name).__doc__, "says what it is"


@pytest.mark.parametrize("name", [n for n in dir(errors) if isinstance(getattr(errors, n), type)])
def test_errors_are_one_tree_and_pickle(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, unspool.UnspoolError)
    again = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(again) is kind
    assert str(again) == "what happened"


def test_extract_yields_trajectories(tmp_path: object) -> None:
    (found,) = unspool.extract(CASES / "copilot_telemetry" / "two_rounds")
    assert isinstance(found, unspool.Trajectory)
    assert found.messages[-1].content.startswith("There are two files")
    with pytest.raises(unspool.NothingToRead):
        list(unspool.extract(["/nowhere/at/all"]))


def test_problems_are_told_to_the_logger(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = next((CASES / "copilot_telemetry" / "two_rounds" / "input").iterdir())
    path = tmp_path / "log.jsonl"
    path.write_bytes(given.read_bytes())
    list(unspool.extract(tmp_path))
    assert not caplog.records
    path.write_bytes(given.read_bytes() + b'{"name": "GitHub.copilot-chat/engi')
    list(unspool.extract(tmp_path))
    place = f"{path}:{given.stat().st_size}"
    (told,) = caplog.records
    assert told.getMessage() == f"not wholly readable: 1 × truncated-json (first at {place})"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.filterwarnings("error")
def test_an_iterator_that_is_left_early_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_bytes(transcript("hello", f"s{number}"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for left_by in ("break", "close"):
        found = unspool.extract(tmp_path, workers=workers)
        for _ in found:
            if left_by == "break":
                break
            assert isinstance(found, Generator)
            found.close()
        del found
        gc.collect()  # an open file would warn, and the warning fail
        assert list(temporary.iterdir()) == []
    held = [os.path.realpath(link) for link in Path("/proc/self/fd").glob("*")]
    assert not [path for path in held if path.startswith(str(tmp_path))]


def test_a_source_that_is_none_is_told() -> None:
    with pytest.raises(unspool.UsageError, match="nonsense"):
        unspool.extract("x", source="nonsense")
