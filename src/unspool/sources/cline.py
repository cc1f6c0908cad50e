"""Cline and Roo Code: a task is a folder with two lists, each one JSON array.

    tasks/1769053680585/api_conversation_history.json   the messages, as the model gets them:
    [{"role":"user","content":[{"type":"text","text":"<task>\\nFix it\\n</task>"},{…}]},
     {"role":"assistant","content":[{"type":"tool_use","id":"t1",…}],"modelInfo":{"modelId":"…"}}, …]

    tasks/1769053680585/ui_messages.json                the screen, with a row per request:
    [{"ts":1769053681259,"say":"api_req_started","conversationHistoryIndex":-1,
      "text":"{\\"tokensIn\\":10,\\"tokensOut\\":595,\\"cacheWrites\\":9573,\\"cost\\":0.04}"}, …]

Messages have no ids: their number in the list stands for one (the program only adds to the list, or
cuts its end off). A request is known by the moment in which it began.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from unspool.facts import ROOT, AnyFact, Attachment, Key, Rank
from unspool.io.door import iter_json_lines, read_json
from unspool.io.origins import Head, Origin, Tally, open_origin, plain_name
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.blocks import (
    Block,
    Content,
    blocks_of,
    calls_of,
    images_of,
    tell_answer,
    text_of,
)
from unspool.sources.cursor.paths import user_folder
from unspool.sources.scribe import Scribe, all_input, title_of
from unspool.sources.vscode_chat.folders import user_folders

NAME = "cline"
RANGES = False  # a file is one array

_HISTORY = "api_conversation_history.json"
_SCREEN = "ui_messages.json"
_EXTENSIONS = {"saoudrizwan.claude-dev": "Cline", "rooveterinaryinc.roo-cline": "Roo Code"}
_SAID = re.compile(r"<(task|feedback|user_message|answer)>\n?(.*?)\n?</\1>", re.DOTALL)
"""What the program puts around words that a person typed."""
_ADDED = re.compile(r"<environment_details>.*?</environment_details>", re.DOTALL)
_MODE = re.compile(r"^# Current Mode\n(\w+)", re.MULTILINE)
_FOLDER = re.compile(r"^# Current W\w+ Directory \(([^\n]+)\) Files$", re.MULTILINE)
_RESULT = re.compile(r"\[(\w+)[^\n]*\] Result:(?:\n|$)")
"""Before a result that is told as text: `[read_file for 'limiter.py'] Result:`."""
_DENIED = "The user denied this operation."
_TOUCHES = {
    "read_file": "read",
    "write_to_file": "create",
    "replace_in_file": "edit",
    "apply_diff": "edit",
    "insert_content": "edit",
}


class ModelInfo(msgspec.Struct, gc=False):
    modelId: str = ""


class Message(msgspec.Struct, gc=False):
    """An element of the history."""

    role: str = ""
    content: Content = None
    ts: int | float | None = None
    modelInfo: ModelInfo | None = None


class Row(msgspec.Struct, gc=False):
    """An element of the screen's list."""

    ts: int | float | None = None
    type: str = ""
    say: str = ""
    text: str | None = None
    conversationHistoryIndex: int | None = None
    """How many messages the history had, less one, when the row was written."""


class Request(msgspec.Struct, gc=False):
    """The text of an `api_req_started` row. `tokensIn` leaves out what the cache read or wrote."""

    tokensIn: int | None = None
    tokensOut: int | None = None
    cacheReads: int | None = None
    cacheWrites: int | None = None
    cost: float | None = None


_MESSAGE = Shape(Message)
_ROW = Shape(Row)
_REQUEST = Shape(Request)


def claims(head: Head) -> bool:
    if head.name == _HISTORY:
        return b'"role"' in head.data[:4096]
    return head.name == _SCREEN and b'"ts"' in head.data


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    users = [*user_folders(home, env, platform), user_folder(home, env, platform)]
    return [user / "globalStorage" / name / "tasks" for user in users for name in _EXTENSIONS]


def session_of(path: str) -> str | None:
    """A task is a folder, and its name is the task's id."""
    return Path(path).absolute().parent.name or None  # `unspool extract ui_messages.json`


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    is_screen = plain_name(origin.path) == _SCREEN
    key = (NAME, session_of(origin.path) or "")
    return (_read_screen if is_screen else _read_history)(origin, tally, key, recover)


def _read_screen(origin: Origin, tally: Tally, key: Key, recover: bool) -> Iterator[AnyFact]:
    """Of the screen only the tokens and cost of requests: its words are those of the history."""
    for offset, _, row in iter_json_lines(origin, _ROW, tally, recover):
        request = _request_of(row)
        if request is None:
            tally.noise += 1
            continue
        entry = f"request-{row.ts}"
        scribe = Scribe(key, origin.path, offset, time=parse_time(row.ts), entry=entry)
        scribe.usage(
            on="request",
            subject=entry,
            prompt=all_input(request.tokensIn, request.cacheReads, request.cacheWrites),
            completion=request.tokensOut,
            cached=request.cacheReads,
            cache_write=request.cacheWrites,
            cost_usd=request.cost,
        )
        yield from scribe.facts


def _read_history(origin: Origin, tally: Tally, key: Key, recover: bool) -> Iterator[AnyFact]:
    path = Path(origin.path)
    requests = _requests_beside(path)
    after = ROOT
    open_calls: list[Block] = []
    """Calls of the answer before that have no result yet."""
    messages = iter_json_lines(origin, _MESSAGE, tally, recover)
    for number, (offset, _, message) in enumerate(messages):
        entry = f"message-{number}"
        scribe = Scribe(
            key, origin.path, offset, time=parse_time(message.ts), entry=entry, after=after
        )
        after = entry
        if number == 0:
            scribe.note("agent", next((a for e, a in _EXTENSIONS.items() if e in path.parts), NAME))
        if message.role == "user":
            _read_user(message, scribe, open_calls)
        elif message.role == "assistant":
            model = message.modelInfo.modelId if message.modelInfo else ""
            request = requests.get(number, "")
            tell_answer(message.content, entry, scribe, _TOUCHES, model=model, request=request)
            open_calls = calls_of(message.content)
        else:
            tally.unrecognise(message.role or "no role", origin.path, offset)
            scribe.link()
        yield from scribe.facts


def _read_user(message: Message, scribe: Scribe, open_calls: list[Block]) -> None:
    """Results of the calls before, and what the person and the program said beside them."""
    words: list[str] = []
    blocks = blocks_of(message.content)
    has_results = False
    for number, block in enumerate(blocks):
        if block.type == "tool_result":
            has_results = True
            text, images = text_of(block.content), images_of(block.content)
            _return(scribe, block.tool_use_id, text, block.is_error, images)
            open_calls[:] = [call for call in open_calls if call.id != block.tool_use_id]
        elif block.type == "text":
            head = _RESULT.match(block.text)
            call = next((c for c in open_calls if head and c.name == head[1]), None)
            if head is None or call is None:
                words.append(block.text)
                continue
            # [execute_command for 'pytest -q'] Result: … (case results_as_text)
            has_results = True
            open_calls.remove(call)
            text = block.text[head.end() :]
            if not text and number + 1 < len(blocks):
                text, blocks[number + 1].text = blocks[number + 1].text, ""
            _return(scribe, call.id, text, None, ())
    _read_words("\n\n".join(filter(None, words)), has_results, images_of(blocks), scribe)


def _return(
    scribe: Scribe, call: str, text: str, failed: bool | None, images: tuple[Attachment, ...]
) -> None:
    denied = text.startswith(_DENIED)
    status = "denied" if denied else ""
    scribe.returned(
        call=call, text=text, failed=denied or failed, status=status, attachments=images
    )
    # What a person says to a call (why not, what else, which one) stands in its result, behind a
    # sentence of the program's or none. In the middle of a result it is a file's text.
    feedback = _SAID.search(text)
    if feedback and (not text[: feedback.start()].strip() or text.startswith("The user ")):
        ident = f"{scribe.entry}-{call}"
        scribe.message(id=ident, role="user", text=feedback[0], typed=feedback[2].strip())


def _read_words(
    text: str, has_results: bool, images: tuple[Attachment, ...], scribe: Scribe
) -> None:
    if not text and not images:
        return
    words = "\n\n".join(match[2].strip() for match in _SAID.finditer(text))
    added = "\n".join(_ADDED.findall(text))
    if not words and not has_results:
        rest = _ADDED.sub("", text).strip()
        # [ERROR] You did not use a tool …, [TASK RESUMPTION] …: the program speaks.
        words = "" if rest.startswith("[") else rest
    if folder := _FOLDER.search(added):
        scribe.note("workspace.path", folder[1])
    mode = _MODE.search(added)
    is_said = bool(words or images)
    scribe.message(
        id=scribe.entry,
        role="user",
        text=text,
        kind="" if is_said else "injected",
        typed=words or None,
        mode=mode[1].lower() if mode and is_said else "",
        attachments=images,
    )
    if words:
        scribe.note("title", title_of(words), Rank.GUESS)


def _request_of(row: Row) -> Request | None:
    """The tokens of a request; None for all other rows, and while it has not answered."""
    if row.say != "api_req_started" or row.ts is None:
        return None
    value = next(iter(read_json((row.text or "").encode()).values), None)
    request = _REQUEST.convert(value if isinstance(value, dict) else {})
    return request if request != Request() else None


def _requests_beside(path: Path) -> dict[int, str]:
    """Number of an answer → its request, as the list beside the history tells.

    A request begins before its prompt is added to the history, so its answer is two further on.
    """
    try:
        with open_origin(str(path.with_name(_SCREEN))) as file:
            salvage = read_json(file.read())
    except OSError:
        return {}
    requests: dict[int, str] = {}
    for value in salvage.values:  # the array, or of a damaged one each row that is whole
        for item in value if isinstance(value, list) else [value]:
            row = _ROW.convert(item)
            if row.conversationHistoryIndex is not None and _request_of(row) is not None:
                requests[row.conversationHistoryIndex + 2] = f"request-{row.ts}"
    return requests
