"""The store as a collection: what `list`, `show` and `export` read from."""

import sqlite3
from collections.abc import Mapping, Sequence

from unspool.errors import UnknownConversation
from unspool.facts import Key
from unspool.inspect.collection import Entry, match, newest_first, short_ids
from unspool.sinks import Family
from unspool.store.conversations import get_trajectory
from unspool.store.ids import row_id
from unspool.store.opening import explained, store_path
from unspool.trajectory import Trajectory

_ENTRY = (
    "SELECT partial IS NOT NULL, external_id AS id, source, title, project,"
    " nullif(started_at, '') AS started_at, ended_at, messages, turns, tools, prompt_tokens,"
    " completion_tokens, model, agent_version, parent_id, children FROM conversations"
)


class StoreCollection:
    """Conversations of the store."""

    def __init__(
        self, connection: sqlite3.Connection, problems: Mapping[str, int] | None = None
    ) -> None:
        self.connection = connection
        self._problems = problems or {}

    def problems(self) -> Mapping[str, int]:
        """Those of the reading that has just been done; older ones have been told before."""
        return self._problems

    def entries(self) -> Sequence[Entry]:
        with explained(store_path(self.connection)):
            rows = self.connection.execute(_ENTRY)
            names = [name for name, *_ in rows.description[1:]]
            return newest_first(
                Entry(**dict(zip(names, values, strict=True)), partial=bool(partial))
                for partial, *values in rows
            )

    def find(self, ident: str) -> Entry:
        return match(ident, self.entries())

    def family(self, entry: Entry) -> Family:
        root = self.trajectory(entry)
        members: list[Trajectory] = []
        seen = {(root.source, root.conversation_id)}
        waiting = [root]
        while waiting:
            parent = waiting.pop(0)
            for link in parent.children or ():
                key = (link.source or parent.source, link.conversation_id)
                if link.kind != "subagent" or key in seen:
                    continue
                seen.add(key)
                child = self._get(key)
                if child is not None:
                    members.append(child)
                    waiting.append(child)
        return Family(root, tuple(members))

    def trajectory(self, entry: Entry) -> Trajectory:
        """The conversation alone."""
        trajectory = self._get((entry.source, entry.id))
        if trajectory is None:
            raise UnknownConversation(f"no conversation {entry.source}/{entry.id} in the store")
        return trajectory

    def _get(self, key: Key) -> Trajectory | None:
        with explained(store_path(self.connection)):
            return get_trajectory(self.connection, row_id(*key))


def short_names(connection: sqlite3.Connection) -> dict[Key, str]:
    """The shortened id of every conversation, as `list` prints it."""
    rows = connection.execute("SELECT external_id, source, parent_id FROM conversations")
    entries = [Entry(id=ident, source=source, parent_id=up) for ident, source, up in rows]
    short = short_ids(entries)
    return {(entry.source, entry.id): short(entry) for entry in entries}
