"""Every case of every source through the store: read back, grown, without raw records, rebuilt."""

import shutil
from pathlib import Path

import pytest

import unspool
from tests.harness import case_id, cases
from tests.store.test_sync import _sorted, sound, stored, sync
from unspool.store.maintenance import rebuild
from unspool.store.opening import writing


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_read_back_and_rebuilt(case: Path, tmp_path: Path) -> None:
    """What the store gives is what an extract gives, also when nothing but raw records is left."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    shutil.copytree(case / "input", home)
    sync(store, home)
    expected = _sorted(unspool.extract(home))
    assert stored(store) == expected
    assert sync(store, home).read == 0
    shutil.rmtree(home)
    with writing(store) as connection:
        connection.execute("DELETE FROM facts")
        rebuild(connection)
    assert stored(store) == expected
    sound(store)
