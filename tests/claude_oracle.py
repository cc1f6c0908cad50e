"""A plain second reading of Claude Code transcripts: dicts and loops, no facts, no reducer.

It says for one session file which lines are on the chain, which were abandoned, which words, calls,
results and tokens the conversation must have.
"""

import json
from pathlib import Path
from typing import Any

CHAINED = ("user", "assistant", "system", "attachment", "progress")
Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    """The readable objects of a file, each line once by its uuid."""
    found: list[Row] = []
    seen: set[str] = set()
    for line in path.read_bytes().split(b"\n"):
        value = parsed(line.decode("utf-8", "replace"))
        if isinstance(value, dict) and value.get("uuid") not in seen:
            found.append(value)
            if value.get("uuid"):
                seen.add(value["uuid"])
    return found


def parsed(text: str) -> Any:
    """The value of a line; a backslash that escapes nothing is doubled, one after the other."""
    while True:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Invalid \\escape"):
                return None
            text = text[: error.pos] + "\\" + text[error.pos :]


def blocks(row: Row) -> list[Row]:
    content = (row.get("message") or {}).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def is_turn(row: Row) -> bool:
    return (
        row["type"] in ("user", "assistant")
        and not row.get("isSidechain")
        and not row.get("isMeta")
    )


LOCAL = ("<command-name>", "<command-message>", "<local-command-", "<bash-", "Caveat: ")


def is_local(row: Row) -> bool:
    if row["type"] != "user":
        return row["type"] != "assistant"
    texts = [b.get("text", "") for b in blocks(row)]
    return bool(row.get("isMeta")) or any(t.lstrip().startswith(LOCAL) for t in texts)


class Session:
    """One file's main thread: chain, recovered lines, abandoned lines."""

    def __init__(self, path: Path) -> None:
        self.rows = rows_of(path)
        self.nodes = {r["uuid"]: r for r in self.rows if r.get("type") in CHAINED and r.get("uuid")}
        self.main = {u: r for u, r in self.nodes.items() if not r.get("isSidechain")}
        self.asides = self._asides()
        self.chain = self._walk()
        self._insert_asides()
        self.kept = set(self.chain) | self._recovered()
        self.abandoned = [
            u
            for u, r in self.main.items()
            if r["type"] in ("user", "assistant") and u not in self.kept
        ]

    def _root(self, uuid: str) -> str:
        seen = {uuid}
        while True:
            parent = self.main[uuid].get("parentUuid")
            if parent not in self.main or parent in seen:
                return uuid
            seen.add(parent)
            uuid = parent

    def _asides(self) -> set[str]:
        """Local commands that hang, with something else, on one warning: no fork."""
        found: set[str] = set()
        for uuid, row in self.main.items():
            below = [u for u in self.main if self.main[u].get("parentUuid") == uuid]
            if len(below) < 2 or not row.get("isMeta") or row["type"] != "user":
                continue
            for child in below:
                tree = [child]
                for at in tree:
                    tree += [u for u in self.main if self.main[u].get("parentUuid") == at]
                if all(is_local(self.main[u]) for u in tree):
                    found |= set(tree)
            if found.issuperset(below):
                found.add(uuid)
        return found

    def _insert_asides(self) -> None:
        """Each stands behind what was written before it."""
        before: str | None = None
        for uuid in self.main:
            if uuid in self.asides:
                at = 0 if before is None else self.chain.index(before) + 1
                self.chain.insert(at, uuid)
            if uuid in self.chain:
                before = uuid

    def _walk(self) -> list[str]:
        leaves: dict[str, str | None] = {}
        for uuid, row in self.main.items():
            root = self._root(uuid)
            leaves.setdefault(root, None)
            if is_turn(row) and uuid not in self.asides:
                leaves[root] = uuid
        chain: list[str] = []
        for leaf in leaves.values():
            path: list[str] = []
            at = leaf
            while at is not None and at in self.main and at not in path:
                path.append(at)
                at = self.main[at].get("parentUuid")
            chain += reversed(path)
        return chain

    def _recovered(self) -> set[str]:
        on = set(self.chain)
        messages = {self._message(u) for u in on if self.main[u]["type"] == "assistant"}
        found = {
            u
            for u, r in self.main.items()
            if u not in on and r["type"] == "assistant" and self._message(u) in messages
        }
        calls = {
            b.get("id")
            for u in on | found
            for b in blocks(self.main[u])
            if b.get("type") == "tool_use"
        }
        found |= {
            u
            for u, r in self.main.items()
            if u not in on
            and any(
                b.get("type") == "tool_result" and b.get("tool_use_id") in calls for b in blocks(r)
            )
        }
        return found

    def _message(self, uuid: str) -> str:
        row = self.main[uuid]
        return (row.get("message") or {}).get("id") or row.get("requestId") or uuid

    def message_ids(self) -> list[str]:
        """Assistant messages in the order in which their first kept line stands on the chain."""
        found = [self._message(u) for u in self.chain if self.main[u]["type"] == "assistant"]
        return list(dict.fromkeys(found))

    def prompts(self) -> list[str]:
        """Kept user lines that hold more than tool results."""
        return [
            u
            for u in self.chain
            if self.main[u]["type"] == "user"
            and any(b.get("type") != "tool_result" for b in blocks(self.main[u]))
        ]

    def calls(self) -> set[str]:
        kept = (self.main[u] for u in self.kept)
        return {b["id"] for r in kept for b in blocks(r) if b.get("type") == "tool_use"}

    def results(self) -> set[str]:
        kept = (self.main[u] for u in self.kept)
        return {b["tool_use_id"] for r in kept for b in blocks(r) if b.get("type") == "tool_result"}

    def tokens(self) -> tuple[int, int]:
        """(prompt, completion): once per message, from its last line in the file."""
        last: dict[str, Row] = {}
        for uuid, row in self.main.items():
            if uuid in self.kept and row["type"] == "assistant":
                message = row["message"]
                wrong = message.get("model") == "<synthetic>" or row.get("isApiErrorMessage")
                if message.get("usage") and not wrong:
                    last[self._message(uuid)] = message["usage"]
        prompt = completion = 0
        for usage in last.values():
            nested = usage.get("cache_creation") or {}
            written = sum(v or 0 for k, v in nested.items() if k.startswith("ephemeral"))
            prompt += (usage.get("input_tokens") or 0) + (usage.get("cache_read_input_tokens") or 0)
            prompt += max(usage.get("cache_creation_input_tokens") or 0, written)
            completion += usage.get("output_tokens") or 0
        return prompt, completion
