"""Sides: which calls are the conversation's own, and which belong to a sub-agent's run."""

from collections import defaultdict

from unspool.facts import AnyFact, Noted, View
from unspool.prompts.typed import summary_of
from unspool.reduce.candidates import pair
from unspool.reduce.listing import Answer, Call, Listing, identity

Group = tuple[list[Listing], list[Answer]]


class Sides:
    """What the records say about whose a call is: themselves, their call id, their request."""

    def __init__(self, lists: list[Listing], rest: list[AnyFact]) -> None:
        notes = [fact for fact in rest if isinstance(fact, Noted)]
        self._utility = {(note.on, note.subject) for note in notes if note.name == "utility"}
        self._by_request = {
            note.subject: str(note.value)
            for note in notes
            if note.on == "request" and note.name == "side"
        }
        self._by_call: dict[str, str] = {}
        main: set[str] = set()
        for call in (call for listing in lists for call in listing.calls):
            if call.view.size:
                self._by_call[call.view.call] = call.view.side
                if not call.view.side:
                    main.add(call.view.request)
        self._by_call.pop("", None)
        # A request that both use says nothing about whose a call is.
        self._shared = main & self._by_request.keys()

    def of_call(self, view: View) -> str | None:
        """Empty for the conversation itself; None for a call that serves the program."""
        if view.size and not self._is_utility(view):
            return view.side  # a list that was logged whole says itself whose it is
        return self.of_answer(view)

    def of_answer(self, view: View) -> str | None:
        if self._is_utility(view):
            return None
        if view.side or view.call in self._by_call:
            return view.side or self._by_call[view.call]
        return "" if view.request in self._shared else self._by_request.get(view.request, "")

    def _is_utility(self, view: View) -> bool:
        return ("call", view.call) in self._utility or ("request", view.request) in self._utility


def by_side(lists: list[Listing], answers: list[Answer], rest: list[AnyFact]) -> dict[str, Group]:
    """Lists and answers apart by the sub-agent run that they belong to; utility calls left out."""
    sides = Sides(lists, rest)
    found: dict[str, Group] = {"": ([], [])}
    for listing in lists:
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in listing.calls:
            side = sides.of_call(call.view)
            if side is not None:
                calls[side].append(call)
        for side, own in calls.items():
            size = max(call.count for call in own)
            whole = size == len(listing.messages)
            gaps = tuple(gap for gap in listing.gaps if whole or gap[0] < size)
            part = Listing(listing.messages[:size], own, listing.missing, gaps)
            found.setdefault(side, ([], []))[0].append(part)
    served = _served(lists, answers, rest)
    for answer in answers:
        side = sides.of_answer(answer.view)
        if side is not None and answer not in served:
            found.setdefault(side, ([], []))[1].append(answer)
    made: dict[str, Group] = {}
    for side, group in found.items():
        made.update(_by_task(side, group) if side else {"": group})
    return {side: group for side, group in made.items() if group[0] or group[1]}


def _served(lists: list[Listing], answers: list[Answer], rest: list[AnyFact]) -> set[Answer]:
    """The answers to calls that serve the program and have no id: each the next of its request."""
    serving: dict[str, dict[int | None, Call]] = defaultdict(dict)
    for note in rest:
        if isinstance(note, Noted) and (note.on, note.name) == ("request", "served"):
            view = View(0, note.origin, note.offset, note.time, request=note.subject)
            serving[note.subject].setdefault(note.time, Call(view, 0))
    asked: dict[str, list[Call]] = defaultdict(list)
    for call in (call for listing in lists for call in listing.calls):
        if call.view.request in serving and not call.view.call:
            asked[call.view.request].append(Call(call.view, 0))
    # Copies together: the same event may be in two files, or have come by two channels.
    given: dict[str, dict[tuple[int | None, str], list[Answer]]] = defaultdict(dict)
    for answer in answers:
        if answer.view.request in serving and not answer.view.call:
            same = (answer.view.time, answer.message.content)
            given[answer.view.request].setdefault(same, []).append(answer)
    found: set[Answer] = set()
    for request, calls in serving.items():
        firsts = [Answer(one[0].view, one[0].message) for one in given[request].values()]
        pair([*asked[request], *calls.values()], firsts)
        for taken in (call.answer for call in calls.values() if call.answer is not None):
            found.update(given[request][(taken.view.time, taken.message.content)])
    return found


def _by_task(side: str, group: Group) -> dict[str, Group]:
    """Several runs that share an id (their parent's) are told apart by what they were asked."""
    runs: dict[object, Group] = {}
    lists = sorted(group[0], key=lambda listing: min(call.when for call in listing.calls))
    for listing in lists:
        task = next((m for m in listing.messages if m.role == "user"), None)
        opens = task is not None and summary_of(task.content) is None
        # A list that begins from a summary does not show its task: it goes on with the last run.
        key = identity(task) if task is not None and opens else next(reversed(runs), None)
        runs.setdefault(key, ([], []))[0].append(listing)
    if len(runs) < 2:
        return {side: group}
    made = {
        side if number == 1 else f"{side}/{number}": run
        for number, run in enumerate(runs.values(), 1)
    }
    owners = {
        c.view.call: run for run in made.values() for made_list in run[0] for c in made_list.calls
    }
    for answer in group[1]:
        owners.get(answer.view.call, made[side])[1].append(answer)
    return made
