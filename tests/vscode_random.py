"""Random VS Code chats: every kind of part, attachment and ending, as a model's rounds make them."""

import random
from typing import Any

from tests.vscode import START

PLACE = {"startLineNumber": 1, "startColumn": 1, "endLineNumber": 9, "endColumn": 1}
NAMES = {"copilot_readFile": "read_file", "copilot_findFiles": "file_search"}
VARIABLES = (
    "file", "directory", "symbol", "tool", "toolset", "implicit", "diagnostic", "generic", "workspace",
    "string", "promptFile", "promptText", "notebookOutput", "element", "scmHistoryItem", "command",
    "scmHistoryItemChange", "debugVariable", "agentFeedback", "sessionReference", "browserView",
    "chatReference", "transcriptContext", "debugEvents",
)  # fmt: skip
AGENT = {"id": "github.copilot.editsAgent", "name": "agent", "extensionId": {"value": "x"},
         "extensionVersion": "0.3", "metadata": {"helpTextPrefix": "h"}, "slashCommands": [],
         "locations": ["panel"], "modes": ["agent"], "disambiguation": []}  # fmt: skip


class Maker:
    """Every word is followed by a number of its own, so that it is known again."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.number = 0

    def next(self) -> int:
        self.number += 1
        return self.number

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def some(self, most: int) -> range:
        return range(self.rng.randint(0, most))

    def text(self) -> str:
        words = f"word {self.next()}"
        return self.one(
            words, f"{words}\n", f"\n\n{words}", f"**{words}** ", f"```\n{words}\n```\n"
        )

    def uri(self) -> dict[str, Any]:
        path = f"/p/{self.one('a', 'c d', 'ü')}{self.rng.randint(0, 3)}.py"
        plain = {"$mid": 1, "scheme": "file", "path": path}
        return self.one(plain, {**plain, "fsPath": path, "external": f"file://{path}"})

    def words(self) -> dict[str, Any]:
        text = self.text()
        return self.one(
            {"value": text},
            {"kind": "markdownContent", "content": {"value": text}},
            {"value": text, "isTrusted": True, "baseUri": self.uri()},
            {"value": self.one("\n```\n", "\n", "- ", "")},
        )

    def other(self) -> dict[str, Any]:
        """A part that is neither the model's words nor a call."""
        return self.one(
            {"kind": "thinking", "value": [self.text(), self.text()], "id": f"t{self.next()}"},
            {"kind": "thinking", "value": "", "id": "", "metadata": {"done": True}},
            {"kind": "warning", "content": {"value": self.text()}},
            {"kind": "info", "content": {"value": self.text()}},
            {"kind": "progressMessage", "content": {"value": self.text()}},
            {"kind": "progressTaskSerialized", "content": {"value": self.text()}, "progress": []},
            {"kind": "command", "command": {"id": "x", "title": "Run"}},
            {"kind": "confirmation", "title": "Sure?", "message": "m", "isUsed": self.maybe(0.5)},
            {"kind": "elicitationSerialized", "title": "E", "state": self.one("pending", "accepted")},
            {"kind": "questionCarousel", "questions": [{"id": "q"}], "data": {"q": self.next()}},
            {"kind": "planReview", "title": "P", "data": {"action": "ok"}},
            {"kind": "codeblockUri", "uri": self.uri(), "isEdit": True},
            {"kind": "textEditGroup", "uri": self.uri(), "done": True,
             "edits": [[{"text": "a\nb", "range": PLACE}]]},
            {"kind": "notebookEditGroup", "uri": self.uri(), "edits": []},
            {"kind": "workspaceEdit", "edits": [{"newResource": self.uri()}]},
            {"kind": "externalEdit", "uri": self.uri(), "diff": {"added": 1, "removed": 2}},
            {"kind": "treeData", "treeData": {"label": "r", "uri": self.uri()}},
            {"kind": "inlineReference", "inlineReference": self.uri(), "name": "nm"},
            {"kind": "inlineReference", "inlineReference": {"uri": self.uri(), "range": PLACE}},
            {"kind": "reference", "reference": self.uri()},
            {"kind": "pullRequest", "title": "PR", "uri": self.uri(), "linkTag": "#1"},
            {"kind": "undoStop", "id": f"stop{self.rng.randint(0, 2)}"},
            {"kind": "autoModeResolution", "resolvedModel": "gpt-x"},
            {"kind": "systemNotification", "content": {"value": "sn"}},
            {"kind": "markdownVuln", "content": {"value": self.text()}, "vulnerabilities": [{"x": 1}]},
            {"kind": "hologram", "x": 1},
        )  # fmt: skip

    def tool(self, ident: str, **more: Any) -> dict[str, Any]:
        made = {"kind": "toolInvocationSerialized", "toolCallId": ident, "isComplete": True,
                "toolId": self.one("copilot_readFile", "copilot_findFiles", "mcp_x"),
                "invocationMessage": self.one("Doing", {"value": "Doing it"}), **more}  # fmt: skip
        image = {"type": "embed", "isText": False, "mimeType": "image/png", "value": "aGVsbG8="}
        text = {"type": "embed", "isText": True, "value": f"shown {self.next()}"}
        self.add(made, 0.5, pastTenseMessage="Did",
                 isConfirmed=self.one(True, False, {"type": 0}, {"type": 4}, {"type": 5}))  # fmt: skip
        self.add(made, 0.3, presentation=self.one("hidden", "hiddenAfterComplete"))
        self.add(made, 0.3, generatedTitle="gt", originMessage="om", source={"type": "mcp"})
        self.add(made, 0.5, resultDetails=self.one(
            [self.uri()], {"input": '{"a":1}', "output": [text], "isError": self.maybe(0.5)},
            {"input": '{"b":2}', "output": [image, {"type": "ref", "uri": self.uri()}]},
            {"output": {"type": "data", "mimeType": "image/png", "base64Data": "aGk="}}))  # fmt: skip
        self.add(made, 0.4, toolSpecificData=self.one(
            {"kind": "terminal", "commandLine": {"original": "ls"},
             "terminalCommandOutput": {"text": "o"}, "terminalCommandState": {"duration": 5}},
            {"kind": "input", "rawInput": {"q": self.next()}}, {"kind": "search"},
            {"kind": "simpleToolInvocation", "input": "in", "output": "out"},
            {"kind": "todoList", "todoList": [{"id": "1", "title": "t"}]}))  # fmt: skip
        self.add(made, 0.1, result=self.one("res", {"x": 1}), novelty={"x": [1]})
        return made

    def add(self, made: dict[str, Any], chance: float, **fields: Any) -> None:
        made |= {name: value for name, value in fields.items() if self.maybe(chance)}

    def answer(self, name: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """The parts of an answer, the rounds that made them, and what the model got."""
        parts: list[Any] = []
        rounds: list[Any] = []
        results: dict[str, Any] = {}
        own_ids = self.maybe(0.2)
        for number in range(self.rng.randint(0, 4)):
            parts += [self.other() for _ in self.some(1)]
            held: dict[str, Any] = {"id": f"round_{name}_{number}", "toolCalls": []}
            if self.maybe(0.3):
                held["thinking"] = {"id": f"x{self.next()}", "text": self.text()}
                parts.append({"kind": "thinking", "value": held["thinking"]["text"], "id": "th"})
            said = [self.words() for _ in self.some(2)]
            parts += said
            held["response"] = "".join(
                p["value"] if "value" in p else p["content"]["value"] for p in said
            )
            for _ in self.some(2):
                held["toolCalls"].append(self._call(parts, results, own_ids))
            rounds.append(held)
            if not held["toolCalls"]:
                break
        return parts + [self.other() for _ in self.some(2)], rounds, results

    def _call(self, parts: list[Any], results: dict[str, Any], own_ids: bool) -> dict[str, Any]:
        ident = f"call_{self.next()}"
        part = self.tool(f"guid-{self.next()}" if own_ids else ident + self.one("", "__vscode-7"))
        tool = part["toolId"]
        if self.maybe(0.9):
            parts.append(part)
        if self.maybe(0.8):
            results[ident] = {"$mid": 20, "content": self.one(
                [], [{"$mid": 21, "value": f"got {self.next()}"}],
                [{"$mid": 24, "value": {"mimeType": "image/png", "data": {"$base64": "aGVsbG8="}}}],
                [{"$mid": 23, "value": {"node": {"type": 2, "text": "tsx"}}}])}  # fmt: skip
        if self.maybe(0.1) and part in parts:
            part["toolSpecificData"] = {
                "kind": "subagent",
                "agentName": "A",
                "prompt": "P",
                "result": "R",
            }
            run = part["toolCallId"].partition("__")[0]
            parts += [self.tool(f"in_{self.next()}", subAgentInvocationId=run) for _ in range(2)]
        parts += [self.other() for _ in self.some(1)]
        return {"id": ident, "name": NAMES.get(tool, tool), "arguments": f'{{"n":{self.next()}}}'}

    def variable(self) -> dict[str, Any]:
        value = self.one(self.uri(), {"uri": self.uri(), "range": PLACE}, "text", None)
        ident = f"v{self.next()}"
        made = {"id": ident, "name": f"of {ident}", "kind": self.one(*VARIABLES), "value": value}
        self.add(made, 0.2, modelDescription="md", omittedState=self.rng.randint(0, 3))
        image = {"kind": "image", "mimeType": "image/png", "value": {"$base64": "aGVsbG8="}}
        return self.one(made, made, {**made, **image}, {**made, "kind": "paste", "code": "pasted"})

    def request(self, name: str) -> dict[str, Any]:
        """With all its rounds, only the first of them, or none."""
        parts, rounds, results = self.answer(name)
        time = START + int(name) * 60_000
        text = f"question {self.next()}"
        whole = {"kind": "text", "text": text, "range": {"start": 0, "endExclusive": len(text)}}
        made = {"requestId": f"request_{name}", "responseId": f"response_{name}", "timestamp": time,
                "message": self.one(text, {"text": text, "parts": [whole]}), "response": parts,
                "variableData": {"variables": [self.variable() for _ in self.some(2)]}}  # fmt: skip
        metadata: dict[str, Any] = {}
        if rounds and self.maybe(0.7):
            kept = len(rounds) if self.maybe(0.7) else self.rng.randint(1, len(rounds))
            metadata = {"toolCallRounds": rounds[:kept], "toolCallResults": results}
        self.add(metadata, 0.2, sessionId="s", resolvedModel="rm", custom={"a": 1},
                 renderedUserMessage=[{"type": 1, "text": f"sent {self.next()}"}],
                 codeBlocks=[{"code": "word", "language": "py"}])  # fmt: skip
        result = {"metadata": metadata} if metadata else {}
        self.add(result, 0.2, timings={"totalElapsed": 900}, details="d",
                 errorDetails={"message": "boom", "code": "canceled"})  # fmt: skip
        self.add(made, 0.9, result=result)
        self.add(made, 0.6, modelState=self.one(
            {"value": 1, "completedAt": time + 5000}, {"value": 2, "completedAt": time + 10},
            {"value": 3}, {"value": 0}, {"value": 4}))  # fmt: skip
        self.add(made, 0.2, vote=self.one(0, 1), agent=AGENT, slashCommand={"name": "fix"},
                 modelId="copilot/gpt-5", modeInfo={"kind": self.one("ask", "agent")},
                 contentReferences=[{"kind": "reference", "reference": self.uri()}],
                 followups=[{"kind": "reply", "message": "m"}], elapsedMs=55, promptTokens=70,
                 completionTokens=7)  # fmt: skip
        self.add(made, 0.2, editedFileEvents=[{"uri": self.uri(), "eventKind": 1}])
        self.add(made, 0.05, shouldBeRemovedOnSend={"requestId": "x"}, isHidden=True,
                 isSystemInitiated=True, isCanceled=True, future={"q": 1},
                 modelTotals=[{"model": "m", "inputTokens": 9, "outputTokens": 2}])  # fmt: skip
        return made
