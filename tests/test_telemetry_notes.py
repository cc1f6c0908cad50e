"""Modes, models, turns, shapes, pieces and sub-agents against the plain rules, on made-up telemetry."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import facts_of, origins_of, reduce_all
from tests.telemetry import Event, event, stamp
from tests.telemetry_calls import Word
from tests.telemetry_notes_oracle import Expected, Said, expect
from tests.test_telemetry_oracle import spread
from unspool import Message, Trajectory
from unspool.io.origins import Tally

SHAPES = ("openai", "anthropic", "responses")
USER_EVENTS = (
    "conversation.messageText",
    "inlineConversation.messageText",
    "editingSession.messageText",
)
MODES = ("ask", "agent", "edit", "plan")


def openai(word: Word, parts: bool) -> list[dict[str, Any]]:
    content: Any = word.text
    if word.images or (parts and word.role == "user"):
        content = [{"type": "text", "text": line} for line in word.text.split("\n")]
        content += [
            {"type": "image_url", "image_url": {"url": f"https://x/{n}.png"}}
            for n in range(word.images)
        ]
    made: dict[str, Any] = {"role": word.role, "content": content}
    if word.calls:
        made["tool_calls"] = [
            {"id": ident, "type": "function", "function": {"name": "look", "arguments": arguments}}
            for ident, arguments in word.calls
        ]
    if word.result:
        made["tool_call_id"] = word.result
    return [made]


def anthropic(word: Word, parts: bool) -> list[dict[str, Any]]:
    if word.role == "tool":
        given: Any = [{"type": "text", "text": word.text}] if parts else word.text
        block = {"type": "tool_result", "tool_use_id": word.result, "content": given}
        return [{"role": "user", "content": [block]}]
    blocks: list[dict[str, Any]] = []
    if word.role == "assistant" and parts:
        blocks.append({"type": "thinking", "thinking": "hm", "signature": "s"})
    if word.text:
        blocks.append({"type": "text", "text": word.text})
    source = {"type": "url", "url": "https://x/0.png"}
    blocks += [{"type": "image", "source": source}] * word.images
    blocks += [
        {"type": "tool_use", "id": i, "name": "look", "input": json.loads(a)} for i, a in word.calls
    ]
    return [{"role": word.role, "content": blocks}]


def responses(word: Word, parts: bool) -> list[dict[str, Any]]:
    if word.role == "tool":
        return [{"type": "function_call_output", "call_id": word.result, "output": word.text}]
    made: list[dict[str, Any]] = []
    if word.role == "assistant" and parts:
        summary = [{"type": "summary_text", "text": "hm"}]
        made.append({"type": "reasoning", "id": "rs", "summary": summary})
    kind = "output_text" if word.role == "assistant" else "input_text"
    content: list[dict[str, Any]] = [{"type": kind, "text": word.text}] if word.text else []
    content += [{"type": "input_image", "image_url": "https://x/0.png"}] * word.images
    if content:
        made.append({"type": "message", "role": word.role, "content": content})
    made += [
        {"type": "function_call", "call_id": i, "name": "look", "arguments": a}
        for i, a in word.calls
    ]
    return made


RENDER = {"openai": openai, "anthropic": anthropic, "responses": responses}


class World:
    """One person at work, as both channels would tell of it."""

    def __init__(self, draw: st.DrawFn, ident: str, start: int) -> None:
        self.draw = draw
        self.ident = ident
        self.second = start
        self.shape = draw(st.sampled_from(SHAPES))
        # The sender has turned responses into messages before it sends their bodies one by one.
        channels = ("engine",) if self.shape == "responses" else ("engine", "model", "both")
        self.channel = draw(st.sampled_from(channels))
        self.parts = draw(st.booleans())
        self.list: list[Word] = [Word("system", "be good.")]
        self.events: list[Event] = []
        self.sent: dict[str, str] = {}
        self.calls = 0

    def maybe(self, one_in: int = 2) -> bool:
        return self.draw(st.integers(1, one_in)) == 1

    def send(self, name: str, **properties: Any) -> None:
        self.second += 1
        made = event(name, None, **{k: v for k, v in properties.items() if v is not None})
        made["time"] = stamp(self.second)
        self.events.append(made)

    def live(self) -> None:
        if self.maybe(4):
            self.utility()
        for turn in range(self.draw(st.integers(1, 4))):
            self.turn(turn)

    def turn(self, turn: int) -> None:
        request = f"{self.ident}-r{turn}"
        if turn and self.maybe(4):
            self.compact(1)
        if turn and self.maybe(4):
            self.restyle(turn)
        if self.maybe(3) or not turn:
            self.list.append(Word("user", f"<environment_info>\nday {turn}\n</environment_info>"))
        asked = f"question {turn}\nof {self.ident}"
        text = f"<userRequest>\n{asked}\n</userRequest>" if self.maybe() else asked
        self.list.append(Word("user", text, images=int(self.maybe(5))))
        self.tell_session(request)
        self.tell_user(turn, request, asked)
        for number in range(self.draw(st.integers(0, 2))):
            tool = f"t{self.calls}"
            words = f"{tool} I look." if self.maybe() else ""
            made = Word("assistant", words, ((tool, '{"a":1}'),))
            self.call(request, turn, made)
            self.list += [made, Word("tool", f"seen {tool}", (), tool)]
            if number == 0 and self.maybe(5):
                self.agent(request, tool)
            if self.maybe(8):
                self.compact(2)
        if self.shape == "anthropic" and self.list[-1].role == "tool" and self.maybe(3):
            self.list.append(Word("user", "Please continue."))
        if self.maybe(6) and self.list[-1].role == "tool":
            return  # stopped by the person
        made = Word("assistant", f"answer {self.calls}.")
        self.call(request, turn, made)
        self.list.append(made)

    def restyle(self, turn: int) -> None:
        """Another model has another system prompt; old words are sent without what was around them."""
        bare = [
            (w.text.removeprefix("<userRequest>\n").removesuffix("\n</userRequest>"), w)
            for w in self.list
        ]
        self.list = [w._replace(text=text) if w.role == "user" else w for text, w in bare]
        self.list[0] = Word("system", f"be good, model {turn}.")

    def compact(self, keep: int) -> None:
        """Before a turn the summary stands alone; within one, its last round is kept."""
        kept = self.list[-2:] if keep == 2 else []
        text = f"<conversation-summary>\nWe came to {self.second}.\n</conversation-summary>"
        self.list = [self.list[0], Word("user", text), *kept]

    def tell_session(self, request: str) -> None:
        for number in range(self.draw(st.integers(0, 3))):
            name = self.draw(
                st.sampled_from(("interactiveSessionMessage", "interactiveSessionResponse"))
            )
            model = self.draw(
                st.sampled_from(("auto", f"model-{self.calls + 1}", f"session-{request}-{number}"))
            )
            key = self.draw(st.sampled_from(("baseModel", "model")))
            intents = {"intent": "fix", "detectedIntent": "explain"} if "Message" in name else {}
            self.send(name, sessionId=self.ident, requestId=request, **{key: model}, **intents)

    def tell_user(self, turn: int, request: str, asked: str) -> None:
        if self.maybe(3):
            return
        ids = self.draw(
            st.sampled_from((("fetch", request), (request, None), (None, None), (request, request)))
        )
        index: Any = self.draw(st.sampled_from((turn, str(turn), None)))
        common = {"conversationId": self.ident, "messageId": ids[1], "headerRequestId": ids[0]}
        mode = self.draw(st.sampled_from(MODES))
        self.send(
            self.draw(st.sampled_from(USER_EVENTS)),
            **common,
            source="user",
            turnIndex=index,
            mode=mode,
            messageText=asked,
            suggestion="fix" if self.maybe() else None,
        )
        if self.maybe():
            self.send(
                "conversation.messageText",
                **{**common, "messageId": request},
                source="model",
                turnIndex=turn + 1,
                mode="never",
            )

    def utility(self) -> None:
        words = [Word("user", f"title {n}") for n in range(30)]
        source = self.draw(st.sampled_from(("title", "progressMessages")))
        self.engine(
            words, Word("assistant", "A title"), f"{self.ident}-u", {"messageSource": source}, "u"
        )

    def agent(self, request: str, tool: str) -> None:
        words = [Word("system", "be an agent."), Word("user", f"help with {tool}")]
        more = {"subType": "subagent", "parentRequestId": request}
        self.engine(
            words, Word("assistant", f"helped {tool}."), f"{self.ident}-sub-{tool}", more, tool
        )

    def call(self, request: str, turn: int, made: Word) -> None:
        self.calls += 1
        common = {"turnIndex": str(turn)} if self.maybe() else {}
        if self.channel != "model":
            self.engine(
                self.list, made, request, {**common, "messageSource": "chat.agent"}, str(self.calls)
            )
        if self.channel != "engine":
            self.model(request, made)

    def rendered(self, words: list[Word]) -> list[dict[str, Any]]:
        left = [w for w in words if w.role != "system"] if self.shape == "anthropic" else words
        return [item for word in left for item in RENDER[self.shape](word, self.parts)]

    def answer(self, made: Word) -> dict[str, Any]:
        """Only the Messages API tells the calls of an answer."""
        if self.shape == "anthropic":
            return anthropic(made, False)[0]
        return {"role": "assistant", "content": made.text}

    def options(self, words: list[Word], model: str) -> dict[str, str]:
        made = {"request.option.model": json.dumps(model), "request.option.stop": "undefined"}
        if self.shape == "anthropic":
            text = words[0].text if words[0].role == "system" else ""
            blocks: Any = [{"type": "text", "text": text}] if self.parts else text
            made["request.option.system"] = json.dumps(blocks)
        return made

    def engine(
        self, words: list[Word], made: Word, request: str, more: dict[str, str], name: str
    ) -> None:
        ident = f"{self.ident}-m{name}"
        common = {
            "conversationId": self.ident,
            "headerRequestId": request,
            "messageId": request,
            **more,
        }
        options = self.options(words, f"asked-{name}")
        if self.maybe():
            options = {key.replace(".", "_"): value for key, value in options.items()}
        text = json.dumps(self.rendered(words))
        self.send("engine.messages", modelCallId=ident, messagesJson=text, **common, **options)
        text = json.dumps([self.answer(made)])
        self.send(
            "engine.messages",
            modelCallId=ident,
            messagesJson=text,
            baseModel=f"model-{name}",
            **common,
        )

    def model(self, request: str, made: Word) -> None:
        ident = f"{self.ident}-m{self.calls}"
        common = {"conversationId": self.ident, "headerRequestId": request}
        if f"request {request}" not in self.sent:
            self.sent[f"request {request}"] = ""
            self.send("model.request.added", **common, conversationTurn="1")
        uuids = [self.body(item, common) for item in self.rendered(self.list)]
        chosen = self.pieces(
            "model.request.options.added",
            "requestOptionsJson",
            json.dumps(self.options(self.list, f"asked-{self.calls}")),
            requestOptionsId=f"o{self.calls}-{self.ident}",
            **common,
        )
        self.pieces(
            "model.modelCall.input",
            "messageUuids",
            json.dumps(uuids),
            modelCallId=ident,
            requestOptionsId=chosen["requestOptionsId"],
            messageCount=str(len(uuids)),
            **common,
        )
        uuid = self.body(self.answer(made), common)
        self.pieces(
            "model.modelCall.output",
            "messageUuids",
            json.dumps([uuid]),
            modelCallId=ident,
            **common,
        )

    def body(self, item: dict[str, Any], common: dict[str, str]) -> str:
        text = json.dumps(item)
        if text not in self.sent:
            self.sent[text] = f"{self.ident}-uuid-{len(self.sent)}"
            self.pieces(
                "model.message.added", "messageJson", text, messageUuid=self.sent[text], **common
            )
        return self.sent[text]

    def pieces(self, name: str, key: str, text: str, **common: str) -> dict[str, str]:
        size = self.draw(st.sampled_from((37, 8000)))
        cut = [text[at : at + size] for at in range(0, len(text), size)]
        for number, piece in enumerate(cut):
            self.send(
                name, **common, **{key: piece}, chunkIndex=str(number), totalChunks=str(len(cut))
            )
        return common


@st.composite
def telemetry(draw: st.DrawFn) -> list[Event]:
    made: list[Event] = []
    for number in range(draw(st.integers(1, 2))):
        world = World(draw, f"c{number}", number * 10_000)
        world.live()
        made += world.events
    lost: set[int] = set()
    for number, one in enumerate(made):
        if (
            one["name"].endswith(("engine.messages", "messageText"))
            and draw(st.integers(0, 3)) == 0
        ):
            lost.add(number)
            # An answer whose call was lost is the other oracle's.
            if one["name"].endswith("engine.messages") and not _is_answer(one):
                lost.add(number + 1)
    return [e for number, e in enumerate(made) if number not in lost]


def _is_answer(one: Event) -> bool:
    return "baseModel" in one["data"]["baseData"]["properties"]


def as_said(message: Message) -> Said:
    calls = tuple((call.id, call.function.arguments) for call in message.tool_calls or ())
    images = sum(a.kind == "image" for a in message.attachments or ())
    word = Word(message.role, message.content, calls, message.tool_call_id or "", images)
    return Said(
        word,
        message.turn,
        message.mode,
        message.model,
        message.model_source,
        message.model_conflict,
    )


def settled(said: list[Said]) -> list[Said]:
    """Where the answer to a call was lost, the last message of its list is the one that it saw or the
    one that stands behind that in another list: either may show that the session disagrees."""
    open_calls = [one.source == "engine-request" for one in said[:-1]]
    return [
        one._replace(conflict=None) if unknown else one
        for one, unknown in zip(said, [*open_calls, False], strict=True)
    ]


def check(found: Trajectory, right: Expected) -> None:
    assert settled([as_said(message) for message in found.messages]) == settled(right.said)
    said = {as_said(message).word for message in found.messages if not message.copied}
    assert said == {one.word for one in right.said}  # nothing stands there as a copy alone
    assert len(found.marks or ()) == max(0, right.segments - 1)
    metadata = {key: str(value) for key, value in (found.metadata or {}).items()}
    assert metadata == right.metadata
    modes = [one.mode for one in right.said if one.mode]
    assert (found.mode_distribution or {}) == {mode: modes.count(mode) for mode in modes}
    assert sorted(link.conversation_id for link in found.children or ()) == right.children


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_same_as_the_plain_rules(data: st.DataObject) -> None:
    events = data.draw(telemetry())
    files: list[list[Event]] = [[], [], []]
    for made in events:
        files[data.draw(st.integers(0, 2))].append(made)
    with spread(files, True) as (folder, placed):
        tally = Tally()
        found = {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder), tally))}
        expected, _ = expect(placed)
    expected = {ident: right for ident, right in expected.items() if right.said}
    for ident, right in expected.items():
        check(found[ident], right)
