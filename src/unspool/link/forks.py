"""Forks: what a conversation that goes on from a copy of another one has from there."""

from collections.abc import Mapping

from unspool.link.cards import Card, Key
from unspool.link.copies import pieces

Copies = dict[Key, tuple[Key, set[bytes]]]
"""Conversation → (the owner of what it copied last, the digests of what it copied)."""


def child_elsewhere(key: Key, child: str, by_key: Mapping[Key, Card], copies: Copies) -> Key | None:
    """The sub-agent that a copied call started in the conversation that it was copied from, unless
    the fork holds more of it (`<conversation>/<name>` is the same one in both by its name)."""
    name = child.removeprefix(f"{key[1]}/")
    own = by_key.get((key[0], child))
    seen = {key}
    while name != child and key in copies and (key := copies[key][0]) not in seen:
        seen.add(key)
        found = by_key.get((key[0], f"{key[1]}/{name}"))
        if found is not None:
            known = set(pieces(found.names))
            return found.key if own is None or known.issuperset(pieces(own.names)) else None
    return None


def nearer_parents(by_key: Mapping[Key, Card], copies: Copies) -> dict[Key, Key]:
    """Forks whose parent is a fork of the one that they name: lines that are copied again still say
    where they were copied from first."""
    return {
        key: owner for key, (owner, _) in copies.items() if _is_nearer(key, owner, by_key, copies)
    }


def _is_nearer(key: Key, owner: Key, by_key: Mapping[Key, Card], copies: Copies) -> bool:
    named = _forked_from(key, by_key, copies) if by_key[key].parent is not None else None
    seen = {key}
    above: Key | None = owner if named is not None else None
    while above is not None and above in by_key and above not in seen:
        seen.add(above)
        above = _forked_from(above, by_key, copies)
        if above == named:
            return True
    return False


def _forked_from(key: Key, by_key: Mapping[Key, Card], copies: Copies) -> Key | None:
    """The conversation that it says, or shows, that it goes on from."""
    named = by_key[key].parent
    if named is None:
        return copies[key][0] if key in copies else None
    return (named.source or key[0], named.conversation_id) if named.kind == "fork" else None
