"""Every field of the description of VS Code's chat export, and where it is in the trajectory.

One export that holds them all, each with a value of its own; one row for each field. What is no row
(positions inside plain text, marks of the format itself) is named in DERIVED. Written as a chat and
read again, all of it is still there.
"""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from tests.harness import facts_of, origins_of, reduce_all
from tests.importer import refusals
from unspool.facts import AnyFact, Problem
from unspool.io.origins import Tally
from unspool.io.packing import Packer
from unspool.sinks import Family
from unspool.sinks.chat_json import write
from unspool.sinks.html import write as write_page
from unspool.sinks.markdown import make_page
from unspool.trajectory import Trajectory
from unspool.views import read_family
from unspool.views.blocks import Options, iter_blocks

unpack = msgspec.msgpack.Decoder(list[AnyFact]).decode
START = 1_760_000_000_000
AT = {
    "range": {"start": 0, "endExclusive": 3},
    "editorRange": {"startLineNumber": 1, "startColumn": 1, "endLineNumber": 1, "endColumn": 4},
}


def uri(path: str) -> dict[str, Any]:
    return {"$mid": 1, "path": path, "scheme": "file"}


def lines(first: int, last: int) -> dict[str, int]:
    return {"startLineNumber": first, "startColumn": 1, "endLineNumber": last, "endColumn": 1}


AGENT = {
    "id": "acme.agent", "name": "acme", "fullName": "Acme Agent", "description": "agent says",
    "isDefault": True, "isDynamic": True, "isCore": True, "extensionId": {"value": "acme.ext"},
    "extensionVersion": "9.8.7", "extensionPublisherId": "publisher-1",
    "publisherDisplayName": "Acme Inc", "extensionDisplayName": "Acme Extension",
    "metadata": {
        "helpTextPrefix": "help before", "helpTextPostfix": {"value": "help after"},
        "icon": uri("/icon.svg"), "iconDark": uri("/dark.svg"), "themeIcon": {"id": "rocket"},
        "sampleRequest": "sample words", "supportIssueReporting": True,
        "followupPlaceholder": "placeholder words", "isSticky": True,
    },
    "slashCommands": [{"name": "fix", "description": "fixes it"}],
    "locations": ["panel"], "modes": ["agent"],
}  # fmt: skip

MESSAGE_PARTS = [
    {"kind": "agent", "agent": {"id": "acme.agent", "name": "acme"}, **AT},
    {"kind": "subcommand", "command": {"name": "fix"}, **AT},
    {"kind": "text", "text": " plain ", **AT},
    {"kind": "tool", "toolName": "codebase", "toolId": "tool-id-7", **AT},
    {"kind": "toolset", "name": "webset", "tools": [{"kind": "tool", "toolName": "in-set"}], **AT},
    {"kind": "dynamic", "text": "#file:x.py", "id": "dyn-1", "data": uri("/dyn/x.py"),
     "modelDescription": "dyn described", "isFile": True, "isDirectory": True, **AT},
    {"kind": "var", "variableName": "selection", "variableArg": "arg9", **AT},
    {"kind": "slash", "slashCommand": {"command": "clear"}, **AT},
    {"kind": "prompt", "name": "my-prompt", **AT},
]  # fmt: skip

COMMON = {
    "fullName": "full entry name", "icon": {"id": "entry-icon"},
    "range": {"start": 31, "endExclusive": 37}, "modelDescription": "entry described",
    "references": [{"kind": "reference", "reference": uri("/entry/reference.py")}],
    "omittedState": 1,
}  # fmt: skip
VALUES: dict[str, Any] = {
    "file": uri("/v/file.py"), "directory": uri("/v/directory"),
    "symbol": {"uri": uri("/v/symbol.py"), "range": lines(41, 43)},
    "image": {"$base64": "aW1hZ2U="}, "tool": "tool value", "toolset": [{"id": "set-member"}],
    "implicit": {"uri": uri("/v/implicit.py"), "range": lines(51, 53)}, "paste": "paste value",
    "diagnostic": "diagnostic value", "terminalCommand": "command value",
    "generic": {"deep": "generic value"}, "workspace": "workspace value", "string": "string value",
    "promptFile": uri("/v/promptFile.md"), "promptText": "promptText value",
    "notebookOutput": "notebookOutput value", "element": "element value",
    "scmHistoryItem": uri("/v/scmHistoryItem"),
    "scmHistoryItemChange": uri("/v/scmHistoryItemChange"), "debugVariable": "debugVariable value",
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "paste": {"code": "pasted code", "language": "python", "pastedLines": "3 lines"},
    "terminalCommand": {"command": "ls -l", "output": "total 0", "exitCode": 17},
    "debugVariable": {"expression": "x.y", "type": "int"},
    "diagnostic": {"owner": "pylint", "filterSeverity": 8},
}
VARIABLES = [
    {"id": f"id-{kind}", "name": f"name-{kind}", "kind": kind, "value": value, **OWN.get(kind, {}),
     **(COMMON if kind == "file" else {})}
    for kind, value in VALUES.items()
]  # fmt: skip

EDIT = {"range": lines(5, 7), "text": "one\ntwo\n"}
RESPONSE: list[dict[str, Any]] = [
    {"kind": "markdownContent", "fromSubagent": True, "content": {"value": "Of a sub-agent. "}},
    {"kind": "markdownContent",
     "content": {"value": "Words. ", "isTrusted": True, "supportThemeIcons": True,
                 "supportHtml": True, "baseUri": uri("/base")},
     "inlineReferences": {"r1": {"kind": "inlineReference", "name": "inner reference",
                                 "inlineReference": uri("/inner.py")}}},
    {"kind": "markdownVuln", "content": {"value": "Vulnerable. "},
     "vulnerabilities": [{"title": "sql", "description": "injected"}]},
    {"kind": "thinking", "value": ["I ", "think."], "id": "think-1", "metadata": {"step": "deep"}},
    {"kind": "warning", "content": {"value": "Beware. "}},
    {"kind": "progressMessage", "content": {"value": "Progressing"}},
    {"kind": "command", "command": {"id": "cmd.id", "title": "cmd title", "arguments": ["arg-1"]}},
    {"kind": "confirmation", "title": "sure?", "message": {"value": "really"}, "isUsed": True,
     "buttons": ["yes-button", "no-button"]},
    {"kind": "elicitation2", "title": "elicit-2", "message": "give-2", "state": "accepted"},
    {"kind": "elicitationSerialized", "title": "elicit-s", "message": "give-s",
     "state": "rejected"},
    {"kind": "codeblockUri", "uri": uri("/block.py"), "isEdit": True, "undoStopId": "stop-1"},
    {"kind": "textEditGroup", "uri": uri("/edited.py"), "edits": [[EDIT]], "done": True,
     "state": {"sha1": "sha-of-it", "applied": 61}, "isExternalEdit": True},
    {"kind": "notebookEditGroup", "uri": uri("/edited.ipynb"), "done": True,
     "edits": [{"editType": 1, "index": 71, "count": 0, "cells": [{"source": "a cell"}]}]},
    {"kind": "treeData", "treeData": {"label": "tree label", "uri": "file:///tree",
                                      "children": [{"label": "leaf", "uri": "file:///leaf"}]}},
    {"kind": "multiDiffData", "multiDiffData": {"title": "diffs", "resources": [
        {"originalUri": uri("/before.py"), "modifiedUri": uri("/after.py")}]}},
    {"kind": "inlineReference", "name": "located",
     "inlineReference": {"uri": uri("/located.py"), "range": lines(81, 83)}},
    {"kind": "reference", "reference": uri("/referred.py"), "iconPath": {"id": "ref-icon"},
     "options": {"status": {"description": "used fully", "kind": 1}}},
    {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "call-1",
     "invocationMessage": "Reading", "pastTenseMessage": {"value": "Read it"},
     "result": {"raw": "plain result"}, "resultDetails": [uri("/detail.py")],
     "toolSpecificData": {"kind": "terminal", "commandLine": {
         "original": "make", "toolEdited": "make -s", "userEdited": "make -j"}},
     "isConfirmed": True},
    {"kind": "progressTask", "content": {"value": "Task. "}, "progress": [{"kind": "step-1"}]},
    {"kind": "progressTaskSerialized", "content": {"value": "Task 2. "},
     "progress": [{"kind": "step-2"}]},
    {"kind": "extensions", "extensions": ["acme.recommended"]},
    {"kind": "pullRequest", "owner": "octo", "repo": "cat", "pullRequestNumber": 91},
    {"kind": "undoStop", "id": "stop-2"},
    {"kind": "mcpServersStarting", "didStartServerIds": ["server-1"]},
    {"kind": "hologram", "beam": "unknown kind"},
]  # fmt: skip

REQUEST = {
    "requestId": "request_1", "responseId": "response_1", "timestamp": START,
    "message": {"text": "", "parts": MESSAGE_PARTS}, "variableData": {"variables": VARIABLES},
    "response": RESPONSE, "agent": AGENT, "slashCommand": {"name": "fix", "description": "fixes"},
    "modelId": "copilot/model-x",
    "result": {
        "errorDetails": {"message": "it broke", "code": "quotaExceeded", "responseIsRedacted": True,
                         "responseIsFiltered": True, "responseIsIncomplete": True},
        "timings": {"firstProgress": 150, "totalElapsed": 4321},
        "metadata": {"participantKey": {"any": "participant value"},
                     "codeBlocks": [{"code": "Words.", "language": "text"}]},
        "details": "details of it",
        "nextQuestion": {"prompt": "and next?", "participant": "next-one", "command": "next-cmd"},
    },
    "modelState": {"value": 3, "completedAt": START + 5000},
    "vote": 0, "voteDownReason": "incompleteCode",
    "usedContext": {"kind": "usedContext", "documents": [
        {"uri": uri("/used.py"), "version": 101, "ranges": [lines(111, 113)]}]},
    "contentReferences": [
        {"kind": "reference", "reference": {"variableName": "cited", "value": uri("/cited.py")},
         "iconPath": {"light": uri("/light.svg"), "dark": uri("/night.svg")},
         "options": {"status": {"description": "partly", "kind": 2},
                     "diffMeta": {"added": 121, "removed": 122},
                     "originalUri": uri("/original.py")}}],
    "codeCitations": [{"kind": "codeCitation", "license": "MIT", "snippet": "the snippet",
                       "value": uri("/cited/repo")}],
    "followups": [{"kind": "reply", "message": "what else?", "agentId": "follow.agent",
                   "subCommand": "follow-cmd", "title": "follow title", "tooltip": "follow tip"}],
    "confirmation": "confirmed so", "timeSpentWaiting": 131,
    "editedFileEvents": [{"uri": uri("/edited.py"), "eventKind": 1},
                         {"uri": uri("/undone.py"), "eventKind": 2},
                         {"uri": uri("/changed.py"), "eventKind": 3}],
    "shouldBeRemovedOnSend": {"requestId": "removed-by"},
    "responseMarkdownInfo": [{"suggestionId": "suggestion-1"}],
    "unheardOf": "field of a later version",
}  # fmt: skip
EXPORT = {
    "initialLocation": "terminal", "responderUsername": "Acme",
    "responderAvatarIconUri": {"id": "acme-icon"},
    "requests": [REQUEST, {"requestId": "request_2", "message": "plain", "isHidden": True,
                           "vote": 1, "response": [{"value": "bare"}]}],
}  # fmt: skip


def part(kind: str) -> str:
    """Where a response part is: they keep their order among each other."""
    kinds = [p["kind"] for p in RESPONSE if "fromSubagent" in p or p["kind"] not in
             ("markdownContent", "markdownVuln", "thinking", "toolInvocationSerialized")]  # fmt: skip
    return f"messages/1/extra/parts/{kinds.index(kind)}"


CALL = "messages/1/tool_calls/0"
ANSWER = "messages/1/extra"
USER = "messages/0/extra"

ROWS: list[tuple[str, str, Any]] = [
    ("initialLocation", "metadata/initial_location", "terminal"),
    ("responderUsername", "agent", "Acme"),
    ("responderAvatarIconUri", "metadata/responder_icon/id", "acme-icon"),
    ("requestId", "messages/0/id", "request_1"),
    ("message.parts", "messages/0/typed",
     "@acme/fix plain #codebase#webset#file:x.py#selection:arg9/clear/my-prompt"),
    ("message: plain string", "messages/3/typed", "plain"),
    *((f"message part {p['kind']}", f"{USER}/mentions/{n}", p)
      for n, p in enumerate(q for q in MESSAGE_PARTS if q["kind"] != "text")),
    *((f"variable {v['kind']}: kind", f"messages/0/attachments/{n}/kind", v["kind"])
      for n, v in enumerate(VARIABLES)),
    *((f"variable {v['kind']}: name", f"messages/0/attachments/{n}/name", v["name"])
      for n, v in enumerate(VARIABLES)),
    *((f"variable {v['kind']}: id", f"messages/0/attachments/{n}/extra/id", v["id"])
      for n, v in enumerate(VARIABLES)),
    *((f"variable: {name}", f"messages/0/attachments/0/extra/{name}", value)
      for name, value in COMMON.items()),
    ("variable file: value", "messages/0/attachments/0/path", "/v/file.py"),
    ("variable symbol: lines", "messages/0/attachments/2/start_line", 41),
    ("variable image: size", "messages/0/attachments/3/size_bytes", 5),
    ("variable paste: code", "messages/0/attachments/7/text", "pasted code"),
    ("variable diagnostic: owner", "messages/0/attachments/8/extra/owner", "pylint"),
    ("variable terminalCommand: output", "messages/0/attachments/9/text", "total 0"),
    ("variable terminalCommand: command", "messages/0/attachments/9/extra/command", "ls -l"),
    ("variable terminalCommand: exit code", "messages/0/attachments/9/extra/exitCode", 17),
    ("variable string: value", "messages/0/attachments/12/text", "string value"),
    ("variable debugVariable: value", "messages/0/attachments/19/text", "debugVariable value"),
    ("responseId", f"{ANSWER}/response_id", "response_1"),
    ("timestamp", "messages/0/timestamp", "2025-10-09T08:53:20.000Z"),
    *((f"agent.{k}", f"{USER}/agent/{k}", v) for k, v in AGENT.items()
      if k not in ("metadata", "slashCommands")),
    *((f"agent.{k}", f"metadata/participants/acme.agent/{k}", AGENT[k])
      for k in ("metadata", "slashCommands")),
    ("slashCommand", f"{USER}/slash_command", REQUEST["slashCommand"]),
    ("modelId", "messages/1/model", "model-x"),
    ("modelId as it is", f"{ANSWER}/model_id", "copilot/model-x"),
    ("result.errorDetails", f"{ANSWER}/error", REQUEST["result"]["errorDetails"]),  # type: ignore[index]  # a dict
    ("errorDetails.code", "messages/1/stop_reason", "quotaExceeded"),
    ("result.timings", f"{ANSWER}/timings", {"firstProgress": 150, "totalElapsed": 4321}),
    ("result.metadata", f"{ANSWER}/native/metadata/participantKey/any", "participant value"),
    ("result.metadata.codeBlocks", f"{ANSWER}/code_blocks", [{"code": "Words.", "language": "text"}]),
    ("result.details", f"{ANSWER}/details", "details of it"),
    ("result.nextQuestion", f"{ANSWER}/next_question", REQUEST["result"]["nextQuestion"]),  # type: ignore[index]  # a dict
    ("modelState.value", f"{ANSWER}/state", "failed"),
    ("modelState.completedAt", "messages/1/duration_ms", 5000.0),
    ("vote: down", f"{ANSWER}/vote", "down"),
    ("vote: up", "messages/4/extra/vote", "up"),
    ("voteDownReason", f"{ANSWER}/vote_down_reason", "incompleteCode"),
    ("usedContext", f"{ANSWER}/used_context", REQUEST["usedContext"]),
    ("contentReferences", f"{ANSWER}/content_references", REQUEST["contentReferences"]),
    ("codeCitations", f"{ANSWER}/code_citations", REQUEST["codeCitations"]),
    ("followups", f"{ANSWER}/followups", REQUEST["followups"]),
    ("confirmation", f"{USER}/confirmation", "confirmed so"),
    ("editedFileEvents", f"{USER}/edited_file_events", REQUEST["editedFileEvents"]),
    ("eventKind 1", "files/0/outcome", "accepted"),
    ("eventKind 2", "files/2/outcome", "rejected"),
    ("eventKind 3", "files/3/outcome", "modified"),
    ("shouldBeRemovedOnSend", f"{USER}/removed/requestId", "removed-by"),
    ("undone", "messages/0/status", "undone"),
    ("isHidden", "messages/3/status", "hidden"),
    ("timeSpentWaiting", f"{ANSWER}/waited_ms", 131),
    ("responseMarkdownInfo", f"{ANSWER}/markdown_info/0/suggestionId", "suggestion-1"),
    ("a field of a later version", f"{USER}/native/request/unheardOf", "field of a later version"),
    ("the text", "messages/1/content",
     "Words. Vulnerable. \n\n[located](file:///located.py)"),
    ("markdownContent.content", f"{ANSWER}/markdown/0/isTrusted", True),
    ("supportThemeIcons", f"{ANSWER}/markdown/0/supportThemeIcons", True),
    ("supportHtml", f"{ANSWER}/markdown/0/supportHtml", True),
    ("baseUri", f"{ANSWER}/markdown/0/baseUri/path", "/base"),
    ("fromSubagent", f"{part('markdownContent')}/fromSubagent", True),
    ("inlineReferences", f"{ANSWER}/markdown/0/inlineReferences/r1/name", "inner reference"),
    ("markdownVuln", f"{ANSWER}/vulnerabilities/0/title", "sql"),
    ("thinking.value", "messages/1/thinking", "I think."),
    ("thinking: id and metadata", f"{ANSWER}/thoughts/0",
     {"id": "think-1", "metadata": {"step": "deep"}}),
    ("progressMessage", f"{part('progressMessage')}/content", "Progressing"),
    ("codeblockUri", part("codeblockUri"),
     {"kind": "codeblockUri", "uri": "file:///block.py", "isEdit": True, "undoStopId": "stop-1"}),
    *((f"response part {p['kind']}", part(p["kind"]), p) for p in RESPONSE
      if p["kind"] in ("warning", "command", "confirmation", "elicitation2", "textEditGroup",
                       "elicitationSerialized", "notebookEditGroup", "treeData", "multiDiffData",
                       "inlineReference", "reference", "progressTask", "progressTaskSerialized",
                       "extensions", "pullRequest", "undoStop", "mcpServersStarting", "hologram")),
    ("confirmation: answered", "marks/0/data/asked_by", "confirmation"),
    ("elicitation2: answered", "marks/1/data/answer", "accepted"),
    ("pullRequest", "references/0/pullRequestNumber", 91),
    ("textEditGroup: lines added", "files/0/lines_added", 2),
    ("textEditGroup: lines removed", "files/0/lines_removed", 2),
    ("notebookEditGroup", "files/1/path", "/edited.ipynb"),
    ("toolId", f"{CALL}/extra/tool_id", "copilot_readFile"),
    ("toolId: the model's name", f"{CALL}/function/name", "read_file"),
    ("toolCallId", f"{CALL}/id", "call-1"),
    ("invocationMessage", f"{CALL}/extra/invocation", "Reading"),
    ("pastTenseMessage", f"{CALL}/extra/past_tense", "Read it"),
    ("isConfirmed", f"{CALL}/extra/confirmed", True),
    ("toolSpecificData", f"{CALL}/extra/specific/commandLine/toolEdited", "make -s"),
    ("userEdited", f"{CALL}/function/arguments", '{"command":"make -j"}'),
    ("result of a tool", "messages/2/content", '{"raw":"plain result"}'),
    ("resultDetails", "messages/2/details/0/path", "/detail.py"),
]  # fmt: skip


def read(path: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(path)))
    return made


@cache
def trajectory() -> Trajectory:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chat.json")
        path.write_text(json.dumps(EXPORT))
        return read(path)


def at(value: Any, pointer: str) -> Any:
    for step in pointer.split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@pytest.mark.parametrize(("field", "pointer", "wanted"), ROWS, ids=[row[0] for row in ROWS])
def test_field(field: str, pointer: str, wanted: Any) -> None:
    assert at(msgspec.to_builtins(trajectory()), pointer) == wanted


DERIVED = {
    ("requests", "message", "parts", "range"),
    ("requests", "message", "parts", "editorRange"),
    ("requests", "timestamp"),
    ("requests", "modelState"),
    ("requests", "response", "kind"),
    ("requests", "editedFileEvents"),
    ("requests", "variableData", "variables", "value"),  # the bytes of the image
}
"""What the trajectory tells in other words: places in plain text, times, states, kinds of parts."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [leaf for v in value for leaf in leaves(v, path)]
    return [(path, value)]


def told(made: Trajectory) -> str:
    return "\0".join(
        f"{v}" for path, value in leaves(msgspec.to_builtins(made)) for v in (*path, value)
    )


def is_derived(path: tuple[str, ...]) -> bool:
    return any(path[: len(known)] == known for known in DERIVED)


def test_no_value_is_lost() -> None:
    """Every value of the export is somewhere in the trajectory, also of fields that have no row."""
    whole = told(trajectory())
    lost = [(path, value) for path, value in leaves(EXPORT) if f"{value}" not in whole]
    assert [leaf for leaf in lost if not is_derived(leaf[0])] == []


def test_through_a_chat_and_back(tmp_path: Path) -> None:
    """All of it is written for VS Code, and read again equal."""
    (piece,) = write(Family(trajectory()), {})
    assert refusals(json.loads(piece.data)) == []
    path = tmp_path / "again.json"
    path.write_bytes(piece.data)
    first, again = (msgspec.to_builtins(t) for t in (trajectory(), read(path)))
    for name in first:
        if name not in ("file_path", "conversation_id"):
            assert again[name] == first[name], name


def test_unknown_kinds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(EXPORT))
    tally = Tally()
    facts_of(origins_of(path), tally)
    assert tally.unknown == {"part hologram": 1}
    assert tally.problems == 0


def test_unknown_kinds_and_answers_are_shown() -> None:
    """To people too: what is of no known kind as it is, what only moves the display not at all."""
    family = Family(trajectory())
    blocks = iter_blocks(read_family(trajectory()), Options())
    terminal = "\n".join(f"{block.label} {block.text}" for block in blocks)
    page = b"".join(piece.data for piece in write_page(family, {})).decode()
    for shown in (terminal, make_page(family), page):
        assert "hologram" in shown
        assert "unknown kind" in shown
        assert "elicit-2" in shown
        assert "it broke" in shown
        assert "undoStop" not in shown
        assert "Progressing" not in shown


NO_MATTER = {"$mid", "range", "editorRange", "eventKind", "type"}
"""Positions and marks of the format itself: whatever they are, nothing is read out of them."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, dict | list):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [p for k, v in items for p in ((*path, k), *places(v, (*path, k)))]


def spoilt(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    made = holder = copy.deepcopy(value)
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = junk
    return made


def test_a_value_of_a_wrong_type_is_counted_or_kept(tmp_path: Path) -> None:
    """Wherever it stands: never a word lost in silence, never an end to the reading."""
    path = tmp_path / "chat.json"
    silent = []
    for place in places(EXPORT):
        held = at(EXPORT, "/".join(map(str, place)))
        junk: Any = {"spoilt": "junk-1"} if isinstance(held, int) else 987654321
        if NO_MATTER.intersection(place) or isinstance(held, bool):
            continue
        path.write_text(json.dumps(spoilt(EXPORT, place, junk)))
        tally = Tally()
        facts = facts_of(origins_of(path), tally)
        counted = any(isinstance(fact, Problem) for _, fact in facts)
        made = reduce_all(facts)
        kept = any("junk-1" in told(t) or "987654321" in told(t) for t in made)
        if not counted and tally.unknown == {"part hologram": 1} and not kept:
            silent.append(place)
    assert silent == []


@pytest.mark.parametrize(
    "number",
    [2**64, -(2**63) - 1, 10**20, 10**400],
    ids=["65 bits", "below", "21 digits", "no float"],
)
def test_numbers_that_no_machine_holds(tmp_path: Path, number: int) -> None:
    """JSON may write them, and what is kept goes through files."""
    entry = {"kind": "file", "id": "x", "name": "x", "value": number, "range": {"start": number}}
    request = {"requestId": "r", "message": "hi", "variableData": {"variables": [entry]},
               "response": [{"value": "there"}, {"kind": "hologram", "beam": number}],
               "promptTokens": number, "timestamp": number, "unheardOf": number}  # fmt: skip
    (tmp_path / "chat.json").write_text(
        json.dumps({"responderUsername": "", "requests": [request]})
    )
    (made,) = unspool.extract([tmp_path])
    assert [m.content for m in made.messages] == ["hi", "there"]
    facts = [fact for _, fact in facts_of(origins_of(tmp_path))]
    assert len(unpack(Packer().encode(facts))) == len(facts)
