"""References: message lists that name their messages, whose bodies were sent once, in pieces.

    {"messageUuids": ["a", "b", "c"], "requestOptionsId": "o"}        a ListSeen per call
    {"messageUuid": "b", "chunkIndex": 0, "messageJson": "{…"}         a PieceSeen per chunk of a body

A body, or a piece of it, may be lost on its way: then the list has a gap, which another list that
tells the same beside it may fill (cases/copilot_telemetry/chunked_lists).
"""

import json
from collections import defaultdict
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from unspool.facts import ListSeen, PieceSeen, View
from unspool.io.door import unescape
from unspool.prompts.shapes import is_response_item, joined, list_to_messages
from unspool.reduce.lists import Call, Listing, decode_array, fold, identity, is_empty
from unspool.trajectory import Message

Pieces = dict[int, PieceSeen]


class Body(NamedTuple):
    """What was sent under an id, and whether that is one of several items of a response."""

    messages: list[Message]
    is_item: bool


Bodies = dict[str, Body | None]
"""Each decoded once, however many lists name it; None where it, or a piece of it, was never seen."""


class Reference(NamedTuple):
    """The ids of one call's list; none where not all pieces of them were seen (`cut`)."""

    ids: list[str]
    cut: bool
    view: View


def read_references(facts: list[ListSeen | PieceSeen]) -> tuple[list[Listing], list[Listing]]:
    """Lists by reference: (inputs, answers), with the bodies looked up wherever they were seen."""
    sent: dict[str, Pieces] = defaultdict(dict)
    lists: dict[tuple[str, bool], dict[int, ListSeen]] = defaultdict(dict)
    for fact in sorted(facts, key=lambda f: f.place):
        if isinstance(fact, PieceSeen):
            sent[fact.id].setdefault(fact.piece, fact)
        else:
            lists[(fact.call or fact.request, fact.answer)].setdefault(fact.piece, fact)
    wanted = {fact.options for pieces in lists.values() for fact in pieces.values()}
    options = {ident: _options(sent.pop(ident)) for ident in wanted if ident in sent}
    bodies = {ident: _body(ident, sent.pop(ident)) for ident in list(sent)}
    references: dict[bool, list[Reference]] = {False: [], True: []}
    for (_, answer), pieces in lists.items():
        first = pieces[min(pieces)]
        if first.view is not None:
            ids = _value(pieces, "ids")
            cut = not isinstance(ids, list)
            view = _with_options(first.view, options.get(first.options, {}))
            references[answer].append(Reference([] if cut else list(map(str, ids)), cut, view))
    answers = [_listing(r, bodies, _messages(r.ids, bodies)[0]) for r in references[True]]
    return _listings(references[False], bodies), answers


def _listings(references: list[Reference], bodies: Bodies) -> list[Listing]:
    """One list for all calls that saw a beginning of it: n calls name O(n²) messages."""
    listings: list[Listing] = []
    begun: dict[int, tuple[Listing, list[int]]] = {}
    """The hash of a beginning → the list, and how many messages its first n ids are."""
    for reference in sorted(references, key=lambda r: (-len(r.ids), r.view.origin, r.view.offset)):
        chain = [0]
        for ident in reference.ids:
            chain.append(hash((chain[-1], ident)))
        begun_alike = None if reference.cut else begun.get(chain[-1])
        if begun_alike is not None:
            listing, counts = begun_alike
            listing.calls.append(Call(reference.view, counts[len(reference.ids)]))
            continue
        messages, counts = _messages(reference.ids, bodies)
        listing = _listing(reference, bodies, messages)
        listings.append(listing)
        for link in chain:
            begun.setdefault(link, (listing, counts))
    return listings


def _messages(ids: list[str], bodies: Bodies) -> tuple[list[Message], list[int]]:
    """The messages of a list, and how many its first n ids are.

    What one response gave as several items is one message, as it is in lists that were sent whole.
    """
    messages: list[Message] = []
    counts = [0]
    opened = False
    for ident in ids:
        body = bodies.get(ident)
        opened = opened and body is not None  # anything may have stood in the gap
        for message in body.messages if body is not None else ():
            item = body is not None and body.is_item and message.role == "assistant"
            if item and opened:
                messages[-1] = joined(messages[-1], message)
            else:
                messages.append(message)
            opened = item
        counts.append(len(messages))
    return messages, counts


def _listing(reference: Reference, bodies: Bodies, messages: list[Message]) -> Listing:
    gaps = tuple(at for at, ident in enumerate(reference.ids) if bodies.get(ident) is None)
    missing = bool(gaps) or reference.cut
    trouble = "message-body-missing" if missing else ""
    call = Call(reference.view, len(messages))
    return Listing(messages, [call], missing, gaps, trouble=trouble, shared=True)


def _body(ident: str, pieces: Pieces) -> Body | None:
    value = _value(pieces, "body")
    if value is None:
        return None
    messages = [message for message in list_to_messages([value]) if not is_empty(message)]
    for message in messages:
        message.id = ident
    return Body(messages, is_response_item(value))


def _options(pieces: Pieces) -> dict[str, Any]:
    """The options of a request, by their bare names; their values may be JSON in strings."""
    told = _value(pieces, "body")
    prefix = next(iter(pieces.values())).prefix
    options: dict[str, Any] = {}
    for name, value in told.items() if isinstance(told, dict) else ():
        with suppress(ValueError, RecursionError):
            decoded = json.loads(value) if isinstance(value, str) else value
            options[name.removeprefix(prefix)] = decoded
    return options


def _with_options(view: View, options: dict[str, Any]) -> View:
    model, system, tools = (options.get(name) for name in ("model", "system", "tools"))
    return msgspec.structs.replace(
        view,
        requested=model if isinstance(model, str) else view.requested,
        system=msgspec.json.encode(system) if system else view.system,
        tools=msgspec.json.encode(tools) if tools else view.tools,
    )


def _value(pieces: dict[int, Any], field: str) -> Any:
    """The value of a JSON text that stood inside JSON strings, piece by piece; None where a piece is
    missing, or it is none. Of bytes that are no UTF-8 the source has told."""
    whole = next(iter(pieces.values())).pieces
    if any(number not in pieces for number in range(whole)):
        return None
    body: bytes = b"".join(getattr(pieces[number], field) for number in range(whole))
    clean = body if body.isascii() else body.decode("utf-8", "replace").encode()
    try:
        (value,) = decode_array(f"[{unescape(clean)}]".encode())
    except (ValueError, RecursionError):
        return None
    return value


def fill_gaps(lists: list[Listing]) -> list[Listing]:
    """The lists, with what is missing taken from what a call saw and was answered, where that is the
    same in all that both tell. They may be one list then (cases/copilot_telemetry/lost_body_later)."""
    if not any(listing.gaps for listing in lists):
        return lists
    whole = [
        [*listing.messages[: call.count], *([call.answer.message] if call.answer else ())]
        for listing in lists
        for call in listing.calls
        if call.count <= min(listing.gaps, default=call.count)
    ]
    return fold([_filled(listing, whole) if listing.gaps else listing for listing in lists])


def _filled(listing: Listing, whole: list[list[Message]]) -> Listing:
    known: list[Message | None] = list(listing.messages)
    for gap in listing.gaps:
        known.insert(gap, None)
    for told in whole:
        both = zip(known, told, strict=False)
        if len(told) > listing.gaps[-1] and all(
            own is None or identity(own) == identity(theirs) for own, theirs in both
        ):
            for call in listing.calls:
                call.count += sum(at - n < call.count for n, at in enumerate(listing.gaps))
            messages = [told[at] if own is None else own for at, own in enumerate(known)]
            return Listing(messages, listing.calls, shared=True)
    return listing
