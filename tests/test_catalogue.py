"""The catalogue of prompt tags: the one in the package, and others put in its place."""

import json
from pathlib import Path

import pytest

from tests.harness import corpus
from unspool.errors import BrokenCatalogue
from unspool.prompts import catalogue
from unspool.prompts.typed import typed_text


@pytest.fixture(autouse=True)
def _built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(catalogue.VARIABLE, raising=False)


def test_every_entry_says_what_it_is() -> None:
    made = catalogue.active()
    assert len(made.tags) >= 239
    for entry in made.tags:
        assert entry.meaning, entry.name
        assert entry.route, entry.name
        assert entry.placement, entry.name
        assert all(parent in made.by_name for parent in entry.inside), entry.name


def test_it_knows_every_tag_of_real_prompts() -> None:
    known = corpus("..", "formats", "prompt_tags.json")
    if known is None:
        pytest.skip("no corpus here")
    names = {tag["tag"] for tag in json.loads(known.read_text())}
    assert names <= set(catalogue.active().by_name)


def _write(folder: Path, value: object) -> Path:
    path = folder / "tags.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_another_catalogue_decides_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "<weather>\nrain\n</weather>\ngo on"
    assert typed_text(text) == text
    path = _write(
        tmp_path, {"tags": [{"name": "weather", "placement": ["user"], "route": "weather"}]}
    )
    monkeypatch.setenv(catalogue.VARIABLE, str(path))
    assert typed_text(text) == "go on"
    kept = "<environment_info>\nBeOS\n</environment_info>\ngo on"
    assert typed_text(kept) == kept


def test_use_puts_it_in_force_for_processes_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, "")
    path = _write(tmp_path, {"tags": []})
    catalogue.use(path)
    assert catalogue.active().tags == []


ENTRY = {"name": "a", "placement": ["user"], "route": "r"}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ('{"tags": [\n  {"name": }\n]}', "line 2, column 12"),
        ([], "top level"),
        ({"tags": [ENTRY, {**ENTRY, "name": 7}]}, "tags[1].name"),
        ({"tags": [ENTRY, {"name": "b", "placement": ["user"]}]}, "tags[1] (b)"),
        ({"tags": [{**ENTRY, "placement": ["robot"]}]}, "tags[0].placement[0] (a)"),
        ({"tags": [{**ENTRY, "nmae": "x"}]}, "tags[0] (a)"),
        ({"tags": [ENTRY, ENTRY]}, "tags[1] (a): already stands at tags[0]"),
        ({"tags": [{**ENTRY, "name": "a b"}]}, "tags[0].name"),
        ({"tags": [{**ENTRY, "legacy": "("}]}, "tags[0] (a).legacy"),
        ({"tags": [], "phrases": [{"pattern": "["}]}, "phrases[0].pattern"),
    ],
)
def test_a_broken_catalogue_gives_one_line_with_the_place(
    tmp_path: Path, value: object, place: str
) -> None:
    path = _write(tmp_path, value)
    with pytest.raises(BrokenCatalogue) as error:
        catalogue.use(path)
    message = str(error.value)
    assert str(path) in message
    assert place in message
    assert "\n" not in message


def test_a_catalogue_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BrokenCatalogue, match="No such file"):
        catalogue.use(tmp_path / "none.json")
