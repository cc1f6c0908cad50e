"""`~/.cursor/ai-tracking/ai-code-tracking.db`: which code the model wrote, for the share of AI's lines.

    ai_code_hashes: hash, source, fileName, requestId, conversationId, timestamp, model, …

A row per piece of code. It names the model where a composer says only that Cursor chose (`default`).
"""

from collections.abc import Iterator

from unspool.facts import AnyFact, Rank
from unspool.io.databases import MAGIC, reading
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.cursor.entries import AUTO, Book, request_id

_TABLE = "ai_code_hashes"
_NAMES = ("conversationId", "requestId", "model")


def claims(head: Head) -> bool:
    return head.name == "ai-code-tracking.db" and head.data.startswith(MAGIC)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    book = Book(origin.path, tally)
    with reading(origin, tally) as database:
        if not set(_NAMES) <= set(database.columns(_TABLE)):
            return
        statement = f"SELECT DISTINCT {', '.join(_NAMES)} FROM {_TABLE}"
        for ident, told, model in database.connection.execute(statement):
            tally.records += 1
            request = request_id(told)
            if not (isinstance(ident, str) and ident and request and model not in (None, "", AUTO)):
                tally.noise += 1  # lines of a person's, or of nobody's conversation
                continue
            scribe = book.scribe(("cursor", ident))
            scribe.note("model", str(model), Rank.ECHO, on="request", subject=request)
            yield from scribe.facts
