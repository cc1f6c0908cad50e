"""The names that people may build on."""

import pickle

import pytest

import unspool
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
        assert getattr(unspool, name) is not None


@pytest.mark.parametrize("name", [n for n in dir(errors) if isinstance(getattr(errors, n), type)])
def test_errors_are_one_tree_and_pickle(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, unspool.UnspoolError)
    again = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(again) is kind
    assert str(again) == "what happened"


def test_extract_yields_trajectories(tmp_path: object) -> None:
    from tests.harness import CASES

    (found,) = unspool.extract(CASES / "copilot_telemetry" / "two_rounds")
    assert isinstance(found, unspool.Trajectory)
    assert found.messages[-1].content.startswith("There are two files")
    with pytest.raises(unspool.NothingToRead):
        list(unspool.extract(["/nowhere/at/all"]))
