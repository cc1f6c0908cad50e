"""The extension's cache of what it keeps beside CLI sessions: one object, by session id."""

from collections.abc import Iterator

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.door import read_json, sample
from unspool.io.origins import Origin, Tally, open_origin
from unspool.sources.copilot_cli.companions import note_vscode
from unspool.sources.scribe import Scribe

FILE = "copilotcli.session.metadata.json"
_CLI = "copilot-cli"


def read_cache(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    found = read_json(data)
    value = found.values[0] if found.values else None
    if not isinstance(value, dict):
        tally.records += 1
        tally.problems += 1
        yield Problem(
            key=NOBODY, origin=origin.path, offset=0, number=99, code="invalid-json",
            sample=sample(data),
        )  # fmt: skip
        return
    for number, (session, kept) in enumerate(value.items()):
        tally.records += 1
        scribe = Scribe((_CLI, session), origin.path, number)
        if isinstance(kept, dict):
            note_vscode(scribe, kept, 1)
        tally.noise += not scribe.facts
        yield from scribe.facts
