"""Whatever stands in Cursor's files, reading them ends without an exception and counts what is bad."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import bubble, rows_of, write_chat, write_editor
from tests.harness import cases, facts_of, origins_of, reduce_all
from tests.test_cursor_chats import CHAT
from tests.test_cursor_sent import ASKED, blobs, state
from tests.test_cursor_stores import BUBBLES, COMPOSER, CONTENTS, HEADS, ITEMS
from unspool import sources
from unspool.io.origins import Origin, Tally
from unspool.sources.cursor.tables import Keys

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3.5, 10**30, "", "x", "{", '{"a": 1}', "[1]", [], [None], [[]], {}, {"a": None},
    {"text": 5}, "\ud800", "a\u2028b", "\0",
)  # fmt: skip


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with something wrong in it: a value of another type, or one that is missing."""
    made = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, item in items:
            places.append((node, key))
            if isinstance(item, dict | list) and item:
                collect(item)

    if isinstance(made, dict | list) and made:
        collect(made)
    for _ in range(chance.randint(1, 3)):
        if places:
            holder, key = chance.choice(places)
            if isinstance(holder, dict) and key in holder and chance.random() < 0.2:
                del holder[key]
            else:
                holder[key] = chance.choice(ODD)
    return made


def read_all(folder: Path, tally: Tally) -> None:
    reduce_all(facts_of(origins_of(folder), tally))
    assert tally.noise + tally.unrecognised + tally.problems <= tally.records


@pytest.mark.parametrize("seed", range(6))
def test_rows_with_wrong_types(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sent = {"composerId": "sent", "conversationState": state(*ASKED), "subagentComposerIds": ["x"]}
    rows: dict[str, Any] = {**rows_of(COMPOSER, *BUBBLES), **CONTENTS, "composerData:sent": sent}
    for number in range(8):
        folder = tmp_path / str(number)
        odd = {key: mutated(value, chance) for key, value in rows.items()}
        odd |= blobs(*(mutated(message, chance) for message in ASKED))
        items = {key: mutated(value, chance) for key, value in ITEMS.items()}
        path = write_editor(folder / "state.vscdb", odd, items)
        assert path.exists()
        write_chat(folder / "c/store.db", [mutated(message, chance) for message in CHAT])
        read_all(folder, Tally())


@pytest.mark.parametrize("case", cases("cursor"), ids=lambda case: case.name)
def test_lines_with_wrong_types(case: Path, tmp_path: Path) -> None:
    chance = random.Random(case.name)
    for origin in origins_of(case / "input"):
        lines = Path(origin.path).read_text().split("\n")
        for number in range(12):
            path = tmp_path / str(number) / origin.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(_odd_line(line, chance) for line in lines))
            tally = Tally()
            # Read as what it was, though it may not be recognised any more.
            source = sources.load("cursor")
            facts = list(source.read(Origin(str(path), origin.name, source="cursor"), tally))
            reduce_all(("cursor", fact) for fact in facts)


def _odd_line(line: str, chance: random.Random) -> str:
    at = line.find("{")
    if at < 0 or chance.random() < 0.5:
        return line
    try:
        return line[:at] + json.dumps(mutated(json.loads(line[at:]), chance))
    except ValueError:
        return line[: chance.randint(0, len(line))]


@pytest.mark.parametrize("seed", range(6))
def test_pages_overwritten_and_files_cut_off(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = write_editor(
        tmp_path / "state.vscdb", {**rows_of(COMPOSER, *BUBBLES), **CONTENTS}, ITEMS
    )
    chat = write_chat(tmp_path / "c/store.db", CHAT)
    for file in (path, chat):
        data = bytearray(file.read_bytes())
        for _ in range(chance.randint(1, 40)):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
        file.write_bytes(bytes(data[: chance.randrange(100, len(data))] if seed % 2 else data))
    read_all(tmp_path, Tally())


def test_tables_without_the_columns_that_are_expected(tmp_path: Path) -> None:
    import sqlite3

    for name, statement in (
        ("a", "CREATE TABLE cursorDiskKV (name TEXT, value BLOB)"),
        ("b", "CREATE TABLE cursorDiskKV (key TEXT)"),
        ("c", HEADS.replace("composerId TEXT PRIMARY KEY, ", "")),
    ):
        folder = tmp_path / name / "Cursor"
        folder.mkdir(parents=True)
        connection = sqlite3.connect(folder / "state.vscdb")
        connection.execute(statement)
        connection.commit()
        connection.close()
    folder = tmp_path / "d" / ".cursor"
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "store.db")
    connection.execute("CREATE TABLE blobs (id TEXT)")
    connection.commit()
    connection.close()
    read_all(tmp_path, Tally())


def test_an_answer_of_a_wrong_type_is_none(tmp_path: Path) -> None:
    answers = [{"filePath": "a", "userResponseType": odd} for odd in ODD]
    rows = rows_of({**COMPOSER, "userResponsesToSuggestedCodeBlocks": answers}, *BUBBLES)
    write_editor(tmp_path / "state.vscdb", rows)
    tally = Tally()
    read_all(tmp_path, tally)
    assert tally.problems == 0


def test_a_bad_page_costs_one_conversation(tmp_path: Path) -> None:
    rows: dict[str, Any] = {}
    for ident in ("first", "middle", "last"):
        bubbles = [bubble(f"{ident}-{n}", 1, f"{ident} {n} " + "x" * 900) for n in range(8)]
        rows |= rows_of({"composerId": ident}, *bubbles)
    path = write_editor(tmp_path / "state.vscdb", rows)
    data = bytearray(path.read_bytes())
    page = data.index(b"middle 3 ") // 4096 * 4096
    data[page] = 0xFF  # no kind of page
    path.write_bytes(data)
    tally = Tally()
    made = {
        t.conversation_id: len(t.messages)
        for t in reduce_all(facts_of(origins_of(tmp_path), tally))
    }
    assert (made["first"], made["last"]) == (8, 8)
    assert tally.problems > 0


class Astray:
    """A database whose index leads back, whatever is asked for (seen after bytes were changed)."""

    def execute(self, statement: str, bounds: tuple[str, str]) -> "Astray":
        return self

    def fetchone(self) -> tuple[str]:
        return ("bubbleId:a:1",)


def test_an_index_that_leads_back_is_left() -> None:
    rows: Any = Astray()
    assert list(Keys(rows, "cursorDiskKV").groups("bubbleId:")) == ["a"]
