"""The calls of one message as facts: what was called, what came of it, and who else was at work."""

from collections.abc import Iterator

from unspool.facts import AnyFact, ToolCalled, ToolReturned
from unspool.sources.vscode_chat.fields import bare_call_id
from unspool.sources.vscode_chat.results import Outcome, Shown, model_result, shown_result
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.tools import Joined, call_extra, call_status
from unspool.sources.vscode_chat.turns import Turn


def call_facts(
    turn: Turn, scribe: Scribe, calls: list[Joined], message: str, inside: bool = False
) -> Iterator[AnyFact]:
    """`inside` a sub-agent, of whose calls a chat has no other record than their parts."""
    for index, call in enumerate(calls):
        shown = shown_result(call.part) if call.part is not None else Shown()
        returned = _outcome(turn, call)
        told = returned is None and shown.plain and not inside
        yield scribe.write(
            ToolCalled, id=call.id, message=message, name=call.name, index=index,
            arguments=call.arguments or shown.arguments,
            extra=call_extra(call.part, call.id, told),
        )  # fmt: skip
        if returned is None and call.part is None:
            continue  # nobody tells that it ended
        got = returned or Outcome(shown.text)
        yield scribe.write(
            ToolReturned, call=call.id, name=call.name, text=got.text, failed=shown.failed,
            status=call_status(call.part), details=shown.details, duration_ms=shown.duration_ms,
            attachments=tuple(got.images or shown.images),
        )  # fmt: skip


def _outcome(turn: Turn, call: Joined) -> Outcome | None:
    """What the model got for the call: results are kept by the id with or without its suffix."""
    results = turn.metadata.toolCallResults
    if not results or not call.native:
        return None
    found = results.get(call.native)
    if found is None:
        bare = bare_call_id(call.native)
        found = next((v for k, v in results.items() if bare_call_id(k) == bare), None)
    return model_result(found) if found is not None else None


def orphan_facts(turn: Turn, scribe: Scribe) -> Iterator[AnyFact]:
    """Results that no call of the request asked for."""
    results = turn.metadata.toolCallResults
    if not results:
        return
    known = {bare_call_id(call.native) for group in turn.calls for call in group}
    for native, result in results.items():
        ident = bare_call_id(native)
        if ident and ident not in known:
            got = model_result(result)
            yield scribe.write(
                ToolReturned, call=ident, text=got.text, attachments=tuple(got.images)
            )
