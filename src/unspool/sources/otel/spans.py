"""GenAI spans: what each states.

    invoke_agent            a run of an agent; below an execute_tool span, a sub-agent's
      chat                  an engine call: the whole list that it was given, its answer, its tokens
      execute_tool          a call with what came of it

Spans are written when they end, children before parents: all are read, then told in order of time.
Every chat span repeats the list of the one before. A message of a list has an id made from all that
stands before it, and follows the one before: so each is told once, and a list that goes on otherwise is
a fork.
"""

from collections.abc import Iterator
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, Rank
from unspool.io.origins import Origin, Tally
from unspool.io.values import dicts_of
from unspool.prompts.typed import typed_text
from unspool.sources.otel.agents import NAME, OURS, product_of, session_of
from unspool.sources.otel.logs import tell_log
from unspool.sources.otel.messages import (
    CUT,
    DETAILS,
    OLD_EVENTS,
    History,
    Said,
    as_text,
    decoded,
    result_text,
    system_id,
)
from unspool.sources.otel.otlp import Item
from unspool.sources.scribe import Scribe, title_of

_HISTORIES = 64
_CALLS = frozenset(("chat", "generate_content", "text_completion"))
_FOLLOWS = "unspool.follows"
_LOGGED = frozenset(("claude-code", "codex", "gemini-cli"))
"""Their log records tell the tokens of every call: a span without words would count them again."""
_USAGE = {
    "prompt": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "completion": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    "cache_write": (
        "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
    "reasoning": ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
}  # fmt: skip


def operation_of(item: Item) -> str:
    """The operation; where it is not told, the first word of the span's name."""
    if item.is_log:
        return "chat" if item.name == DETAILS else ""
    named = item.text("gen_ai.operation.name")
    first = item.name.partition(" ")[0]
    if named or first in ("invoke_agent", "execute_tool"):
        return named or first
    has_model = "gen_ai.request.model" in item.attributes or "gen_ai.prompt" in item.attributes
    return "chat" if has_model else ""


def call_of(item: Item) -> str:
    """The id of a tool call, without what VS Code puts behind it."""
    ident = item.text("gen_ai.tool.call.id", "gen_ai.tool.call_id")
    return ident.partition("__vscode-")[0]


class Traces:
    """All spans of a file, and whose conversation each belongs to."""

    def __init__(self, origin: Origin, items: list[Item]) -> None:
        self.origin = origin
        self.items = sorted(_with_events(items), key=lambda item: item.start or 0)
        for number, item in enumerate(self.items, 1):
            item.number = number
        self.by_id = {item.id: item for item in self.items if item.id and not item.is_log}
        # No span holds itself, whatever its file says.
        for item in self.by_id.values():
            seen = {item.id}
            at = self.by_id.get(item.parent)
            while at is not None and at.id not in seen:
                seen.add(at.id)
                at = self.by_id.get(at.parent)
            if at is item:
                item.parent = ""
        self.answered: set[str] = set()
        """Runs of agents of which engine calls are known."""
        self.trace_sessions: dict[tuple[str, str], str] = {}
        for item in self.items:
            product = item.product = product_of(item)
            session = session_of(item, product)
            if session and item.trace:
                self.trace_sessions.setdefault((product, item.trace), session)
            if operation_of(item) in _CALLS:
                self.answered.update(above.id for above in self.above(item))
        self.told: set[tuple[Key, str]] = set()
        """The messages that were told already."""
        self.last: dict[Key, str] = {}
        """Conversation → the last message on its chain."""
        self.requests: dict[Key, list[str]] = {}
        """Conversation → what its runs say that the person asked: their lists hold it once more."""
        self.callers: dict[tuple[Key, str], str] = {}
        """Call → the record of the answer that asked for it."""
        self.withdrawn: set[tuple[Key, str]] = set()
        """The calls of answers that were taken back."""
        self.histories: dict[Key, History] = {}
        """The last lists of the conversations that were told last."""
        self.answers: dict[str, str] = {}
        """Span → its answer, of spans that hold only what is new (`unspool.follows`)."""

    def above(self, item: Item) -> Iterator[Item]:
        """The spans that hold this one, innermost first."""
        at = self.by_id.get(item.id if item.is_log else item.parent)
        while at is not None:
            yield at
            at = self.by_id.get(at.parent)

    def session(self, item: Item, product: str) -> str:
        for one in (item, *self.above(item)):
            if session := session_of(one, product):
                return session
        return self.trace_sessions.get((product, item.trace)) or item.trace

    def run(self, item: Item) -> tuple[Item, Item] | None:
        """The sub-agent's run that the span is in, or is, and the call that started it."""
        run: Item | None = None
        for one in (item, *self.above(item)):
            operation = operation_of(one)
            if operation == "invoke_agent":
                run = one
            elif operation == "execute_tool" and run is not None:
                return run, one
        return None

    def outer_run(self, item: Item) -> Item | None:
        """The run of another conversation that this run is in, without a call between."""
        product = item.product
        session = session_of(item, product)
        for above in self.above(item):
            if operation_of(above) == "invoke_agent":
                return above if session and self.session(above, product) != session else None
        return None

    def key(self, item: Item) -> Key:
        """A sub-agent that has no conversation id of its own is named after its run; a known agent
        names it after the call."""
        product = item.product
        session = self.session(item, product)
        nested = self.run(item)
        if nested is None or self.session(nested[1], product) != session:
            return (product, session)
        run, tool = nested
        outer = self.key(tool)[1]
        return (product, f"{outer}/{(call_of(tool) if product != NAME else '') or run.id}")

    def tell(self, item: Item, tally: Tally) -> list[AnyFact]:
        """The facts of a span or of a log record."""
        operation = operation_of(item)
        key = self.key(item)
        rank = Rank.ITSELF if key[0] == NAME else Rank.ECHO
        entry = f"span:{item.id or f'{item.name}:{item.start}'}"
        scribe = Scribe(key, self.origin.path, item.number, time=item.start, entry=entry, rank=rank)
        if item.is_log and not operation:
            scribe.entry = f"log:{item.text('event.sequence')}:{item.name}:{item.start}"
            if key[0] != NAME and key[1] and not tell_log(item, scribe):
                tally.unrecognise(item.name or "log record", self.origin.path, item.number)
                return []
        elif not key[1]:
            tally.problems += 1
            scribe.problem("missing-conversation-id", item.name)
        elif operation in _CALLS:
            self._tell_call(item, scribe)
        elif operation == "execute_tool":
            # A call as it was run. Without contents, it is all that tells of the call.
            call = call_of(item) or (f"span:{item.id}" if scribe.rank == 0 else "")
            name = item.text("gen_ai.tool.name") or item.name.partition(" ")[2]
            arguments = item.text("gen_ai.tool.call.arguments")
            result = item.attributes.get("gen_ai.tool.call.result")
            text = None
            if result is not None:
                # `--to otlp` wrote a text as it was, whatever it looks like.
                text = as_text(result) if item.scope == OURS else result_text(result)
            status = ""
            if text is None and item.failed and item.scope == OURS:
                status = item.text("error.type").replace("failed", "")
            elif text is None and item.failed:
                text = item.status or item.text("error.type")
            took = (item.end - item.start) / 1000 if item.end and item.start else None
            caller = self.callers.get((scribe.key, call), "")
            last = self.last.get(scribe.key, ROOT)
            if (scribe.key, call) in self.withdrawn:
                scribe.rank = Rank.COPY  # an echo, which goes to the branch that has the call
            if scribe.rank > 0:
                scribe.call(id=call, name=name, arguments=arguments, rank=Rank.ECHO + 1)
            else:
                # Beside the chain: a run that goes on while the model answers is no fork.
                scribe.after = None if caller else last
                rank = Rank.COPY if caller else Rank.ITSELF
                scribe.call(
                    id=call, name=name, arguments=arguments, message="" if caller else last, rank=rank
                )  # fmt: skip
            scribe.returned(
                call=call, name=name, arguments="" if call else arguments, text=text,
                failed=item.failed or None, status=status, time=item.end or item.start,
                duration_ms=took,
            )  # fmt: skip
            if text is not None and CUT in text[-80:]:
                scribe.note("partial", "content-cut")
        elif operation == "invoke_agent":
            self._tell_run(item, scribe)
        if not scribe.facts:
            tally.noise += 1
        return scribe.facts

    def _tell_run(self, item: Item, scribe: Scribe) -> None:
        nested = self.run(item)
        if nested is not None and nested[0] is item:
            caller = self.key(nested[1])[1]
            name, call = item.text("gen_ai.agent.name"), call_of(nested[1])
            scribe.parent(caller, "", Rank.ECHO, call=call, name=name)
        elif (outer := self.outer_run(item)) is not None:
            scribe.parent(self.key(outer)[1], "", Rank.ECHO)
        scribe.notes({"agent": item.text("gen_ai.agent.name")}, Rank.ECHO)
        if item.scope == OURS:
            # What `--to otlp` tells of a whole conversation.
            path = item.text("unspool.workspace")
            scribe.notes({"title": item.text("unspool.title"), "workspace.path": path})
            for reason in item.attributes.get("unspool.partial") or ():
                scribe.note("partial", as_text(reason))
            if usage := _usage(item):
                scribe.usage(on="conversation", **usage)
        asked = item.text("copilot_chat.user_request")
        if asked:
            self.requests.setdefault(scribe.key, []).append(asked)
            scribe.note("title", title_of(asked), Rank.LAST_RESORT)
            scribe.message(
                id=scribe.entry, role="user", text=asked, typed=None if nested else asked
            )
        if item.id in self.answered:
            return
        # No engine call of the run is known here: they may lie in another file, which tells more.
        scribe.rank = max(scribe.rank, Rank.COPY)
        self._tell_exchange(item, scribe, self._history(item, scribe.key), linear=True)
        usage = _usage(item)
        if usage:
            scribe.usage(on="call", subject=scribe.entry, model=_model(item), **usage)

    def _tell_call(self, item: Item, scribe: Scribe) -> None:
        history = self._history(item, scribe.key)
        tools = decoded(item.attributes.get("gen_ai.tool.definitions"))
        scribe.notes({"tool_definitions": dicts_of(tools)}, Rank.ECHO)
        if item.attributes.get("gen_ai.conversation.compacted") in (True, "true"):
            scribe.mark("compaction", rank=scribe.rank)
        ident = self._tell_exchange(item, scribe, history, linear=scribe.rank > 0)
        usage = _usage(item)
        if history.answer is None and scribe.rank == 0 and not _is_unanswered(item):
            # Names, times and tokens are all there is: the words are not invented.
            ident = scribe.entry
            before = self._before(item)
            follows = self.last.get(scribe.key, ROOT) if before is None else before
            self.answers[item.id] = ident
            place = scribe.at(entry=ident, after=follows)
            place.time = item.end or item.start
            status = "failed" if item.failed else ""
            place.message(id=ident, role="assistant", model=_model(item), status=status)
            if not history.given:
                place.note("partial", "no-content")
            self.last[scribe.key] = ident
        if usage and ident:
            answered = scribe.at(entry=ident, after=None)  # on a branch, if the answer is
            answered.usage(subject=ident, model=_model(item), **usage)
        elif usage and scribe.key[0] not in _LOGGED:
            scribe.usage(on="call", subject=scribe.entry, model=_model(item), **usage)

    def _tell_exchange(self, item: Item, scribe: Scribe, history: History, linear: bool) -> str:
        """The messages that are new, and the answer; the answer's id. `linear`: they echo what other
        records tell, and only their order counts."""
        key = scribe.key
        given, answer = history.given, history.answer
        before = self._before(item)
        follows = before or ROOT
        since = next((n for n in reversed(range(len(given))) if given[n].role == "assistant"), -1)
        if history.known:
            follows = history.ids[history.known - 1]
        for number in range(history.known, len(given)):
            ident, said = history.ids[number], given[number]
            place = scribe.at(entry=ident, after=None if linear else follows)
            follows = ident
            self._tell_systems(place, history, number)
            if (key, ident) in self.told:
                continue
            self.told.add((key, ident))
            # What stands before the last answer was said before this call.
            place.time = item.start if number > since else None
            self._tell_message(place, ident, said, linear)
        if answer is None:
            if not given:
                place = scribe.at(entry=f"{scribe.entry}:system", after=None if linear else follows)
                self._tell_systems(place, history, 0)
            if follows:
                self.last[key] = follows
            return ""
        ident = history.id_of(answer)
        if before is not None:
            ident = self.answers[item.id] = f"{scribe.entry}:answer"
        elif history.is_cut or not given:
            follows = self.last.get(key, follows)
            if not given and key in self.last:
                ident = f"{scribe.entry}:answer"
        place = scribe.at(entry=ident, after=None if linear else follows)
        place.time = item.end or item.start
        self._tell_systems(place, history, len(given))
        reasons = item.attributes.get("gen_ai.response.finish_reasons")
        answer.stop = answer.stop or (
            as_text(reasons[0]) if isinstance(reasons, list) and reasons else ""
        )
        answer.thinking = answer.thinking or item.text("copilot_chat.reasoning_content")
        answer.model = _model(item)
        self._tell_message(place, ident, answer, linear)
        self.told.add((key, ident))
        self.last[key] = ident
        if history.is_cut:
            place.note("partial", "content-cut")
        return ident

    def _history(self, item: Item, key: Key) -> History:
        """The contents of a span, as what goes on from the last list of its conversation."""
        if _FOLLOWS in item.attributes:
            history = History(item.text(_FOLLOWS))
        else:
            history = self.histories[key] = self.histories.pop(key, History())
            if len(self.histories) > _HISTORIES:
                del self.histories[next(iter(self.histories))]
        history.read(item)
        return history

    def _before(self, item: Item) -> str | None:
        """The answer that the span's list goes on from, where it holds only what is new."""
        follows = item.attributes.get(_FOLLOWS)
        return self.answers.get(follows, ROOT) if isinstance(follows, str) else None

    def _tell_systems(self, place: Scribe, history: History, number: int) -> None:
        """The system prompts before a message. Every call repeats them; they are told once."""
        for at, text in history.systems:
            if at != number or not text:
                continue
            ident = system_id(text)
            if (place.key, ident) in self.told:
                continue
            self.told.add((place.key, ident))
            first: dict[str, Any] = {}
            if place.rank and not at:  # an echo has no chain: it stands before all the others
                first = {"entry": ident, "offset": 0, "number": len(self.told), "time": None}
            place.message(id=ident, role="system", text=text, **first)

    def _tell_message(self, place: Scribe, ident: str, said: Said, linear: bool) -> None:
        beside = place
        if said.withdrawn and said.results:
            # Where its call is: on the chain by itself, it would be the last that was not taken back.
            place.link()
            beside = place.at(entry=f"{ident}:result", after=None)
        for result in said.results:
            beside.returned(
                call=result.id.partition("__vscode-")[0], name=result.name, text=result.text,
                rank=max(place.rank, Rank.COPY),
            )  # fmt: skip
        if said.role == "tool" and said.results:
            return
        if said.role == "user" and said.results and not (said.text or said.attachments):
            return
        requests = self.requests.get(place.key, ())
        if said.role == "user" and any(request in said.text for request in requests):
            return
        typed = typed_text(said.text) if linear and said.role == "user" else said.typed
        place.message(
            id=ident, role=said.role, text=said.text, typed=typed, thinking=said.thinking,
            kind=said.kind, model=said.model, stop=said.stop, withdrawn=said.withdrawn,
            attachments=tuple(said.attachments),
        )  # fmt: skip
        for index, call in enumerate(said.calls):
            bare = call.id.partition("__vscode-")[0]
            place.call(id=bare, message=ident, index=index, name=call.name, arguments=call.text)
            self.callers[(place.key, bare)] = ident
            if said.withdrawn:
                self.withdrawn.add((place.key, bare))
        if said.role == "user" and place.key[0] == NAME:
            place.note("title", title_of(said.text), Rank.GUESS)
        if CUT in said.text[-80:]:
            place.note("partial", "content-cut")


def _with_events(items: list[Item]) -> list[Item]:
    """Messages that came as log records become events of their span; one that is in no file becomes a
    span without a name."""
    spans = {item.id: item for item in items if not item.is_log and item.id}
    kept: list[Item] = []
    for item in items:
        if not (item.is_log and item.name in OLD_EVENTS):
            kept.append(item)
            continue
        span = spans.get(item.id)
        if span is None:
            span = spans[item.id] = Item(
                name="chat", trace=item.trace, id=item.id, start=item.start, resource=item.resource,
                scope=item.scope, attributes={"gen_ai.operation.name": "chat", **item.attributes},
            )  # fmt: skip
            kept.append(span)
        span.logs = [*span.logs, item]
    return kept


def _is_unanswered(item: Item) -> bool:
    """`--to otlp` writes last words that nobody answered as a call without an answer."""
    return _FOLLOWS in item.attributes and "gen_ai.output.messages" not in item.attributes


def _model(item: Item) -> str:
    return item.text("gen_ai.response.model", "gen_ai.request.model")


def _usage(item: Item) -> dict[str, Any]:
    counts = {ours: item.count(*theirs) for ours, theirs in _USAGE.items()}
    return {name: count for name, count in counts.items() if count is not None}
