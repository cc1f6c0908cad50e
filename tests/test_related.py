"""Linking only what changed says the same as linking everything, whatever changes in which order."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.harness import CASES
from unspool.facts import Key
from unspool.link import Card, link
from unspool.link.cards import iter_digests
from unspool.store.batches import pack
from unspool.store.intake import Report
from unspool.store.opening import writing
from unspool.store.related import Related
from unspool.store.sync import Sync
from unspool.store.update import Reducer, Update

SOURCES = (
    "claude_code",
    "codex",
    "copilot_cli",
    "copilot_telemetry",
    "cursor",
    "opencode",
    "vscode_chat",
)
Cards = dict[Key, Card]


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Cards:
    """Of some hundred cases: forks, copies, sub-agents, exports, indexes."""
    with writing(tmp_path_factory.mktemp("all") / "s.db") as connection:
        Sync(connection, raw=False).run([str(CASES / source) for source in SOURCES])
        rows = connection.execute("SELECT card FROM cards").fetchall()
    decode = msgspec.msgpack.Decoder(Card).decode
    return {card.key: card for card in (decode(packed) for (packed,) in rows)}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with writing(tmp_path / "s.db") as made:
        yield made


def shorter(card: Card, share: float) -> Card:
    """As the conversation was a while ago."""

    def cut(ids: bytes) -> bytes:
        told = list(iter_digests(ids))
        return b"".join(told[: int(len(told) * share)])

    calls = card.calls[: int(len(card.calls) * share)]
    return msgspec.structs.replace(
        card,
        ids=cut(card.ids),
        names=cut(card.names),
        moments=cut(card.moments),
        requests=cut(card.requests),
        calls=calls,
        spawned={call: child for call, child in card.spawned.items() if call in calls},
        parent=card.parent if share > 0.5 else None,
        ended_at=card.ended_at[: int(len(card.ended_at) * share)],
    )


def put(update: Update, key: Key, card: Card | None) -> None:
    connection, related = update.connection, update.related
    assert related is not None
    row = connection.execute(
        "SELECT card FROM cards WHERE platform = ? AND external_id = ?", key
    ).fetchone()
    old = row[0] if row is not None else None
    if card is None:
        connection.execute("DELETE FROM cards WHERE platform = ? AND external_id = ?", key)
    else:
        connection.execute(
            "INSERT INTO cards (platform, external_id, facts_of, card) VALUES (?, ?, '', ?)"
            " ON CONFLICT DO UPDATE SET card = excluded.card",
            (*key, pack(card)),
        )
    if old is not None or card is not None:
        related.change(key, old, pack(card) if card is not None else None)


def relink(update: Update) -> None:
    for key, patch in update._link().items():
        update.connection.execute(
            "UPDATE cards SET patch = ? WHERE platform = ? AND external_id = ?",
            (pack(patch) if patch is not None else None, *key),
        )


@pytest.mark.parametrize("seed", range(3))
def test_linking_what_changed_is_linking_all(
    cards: Cards, connection: sqlite3.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    update = Update(connection, Report(), Reducer(connection, 0))
    now: Cards = {}
    keys = sorted(cards)
    for key in keys[: len(keys) // 2]:
        now[key] = cards[key]
        connection.execute("INSERT INTO cards VALUES (?, ?, '', ?, NULL)", (*key, pack(now[key])))
    relink(update)
    update.related = Related(connection)
    for _ in range(60):
        for key in chance.sample(keys, chance.randrange(1, 8)):
            fate = chance.random()
            if fate < 0.2:
                now.pop(key, None)
            else:
                now[key] = cards[key] if fate < 0.6 else shorter(cards[key], chance.random())
            put(update, key, now.get(key))
        relink(update)
    kept = {
        (platform, ident): patch
        for platform, ident, patch in connection.execute(
            "SELECT platform, external_id, patch FROM cards"
        )
    }
    whole = link([now[key] for key in sorted(now)])
    assert kept == {key: pack(whole[key]) if key in whole else None for key in now}
    assert any(kept.values())


def test_what_another_process_changed_is_seen(
    cards: Cards, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    keys = sorted(cards)
    for key in keys:
        connection.execute("INSERT INTO cards VALUES (?, ?, '', ?, NULL)", (*key, pack(cards[key])))
    path = tmp_path / "related.db"
    related = Related(connection, path)
    assert not related.refresh()
    assert related.family() == {}
    connection.execute("DELETE FROM cards WHERE platform = ? AND external_id = ?", keys[0])
    other = shorter(cards[keys[1]], 0.5)
    connection.execute(
        "UPDATE cards SET card = ? WHERE platform = ? AND external_id = ?", (pack(other), *keys[1])
    )
    assert not related.refresh()
    family = related.family()
    assert keys[1] in family
    assert keys[0] not in family
    connection.execute("DELETE FROM cards WHERE platform = ? AND external_id = ?", keys[2])
    assert (
        keys[2] not in Related(connection, path).family()
    )  # the next start, with the file as it was
    path.write_bytes(b"no database, but long enough to be taken for one" * 100)
    assert Related(connection, path).family() == {}
    connection.execute("DELETE FROM cards")
    assert related.refresh()
