"""The extension's cache of what it keeps beside CLI sessions: one object, by session id."""

from collections.abc import Iterator

import msgspec

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Origin, Tally, open_origin
from unspool.sources.copilot_cli.companions import File, vscode_notes

FILE = "copilotcli.session.metadata.json"
_CLI = "copilot-cli"


def read_cache(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    found = salvage(data)
    value = found.values[0] if found.values else None
    if not isinstance(value, dict):
        tally.records += 1
        tally.problems += 1
        yield Problem(
            key=NOBODY, origin=origin.path, offset=0, number=99, code="invalid-json",
            sample=sample(data),
        )  # fmt: skip
        return
    number = 0
    for session, kept in value.items():
        tally.records += 1
        before = number
        if isinstance(kept, dict):
            held = File(origin, b"", (_CLI, session))
            for note in vscode_notes(held, kept):
                number += 1
                # The file beside the session itself knows better.
                yield msgspec.structs.replace(note, offset=number, rank=note.rank + 1)
        if number == before:
            tally.noise += 1
