"""Made-up stored chats of VS Code, flat and as logs of changes, and what `extract` costs on them.

Modelled on real chats of 2025 (some 24 kB to a round): requests in agent mode with several rounds, tool
results as rendered prompt trees with the references that they carry, markdown with its base folder.
"""

import random
import sys
from pathlib import Path
from typing import Any

import orjson

from bench.measure import Row, extract_rows, made_data
from bench.telemetry import Pool

CHATS = 2000
START = 1_760_000_000_000
AGENT = {
    "id": "github.copilot.editsAgent",
    "name": "agent",
    "fullName": "GitHub Copilot",
    "description": "Edit files in your workspace in agent mode",
    "isDefault": True,
    "extensionId": {"value": "GitHub.copilot-chat", "_lower": "github.copilot-chat"},
    "extensionVersion": "0.42.0",
    "extensionPublisherId": "GitHub",
    "extensionDisplayName": "GitHub Copilot Chat",
    "metadata": {
        "themeIcon": {"id": "tools"},
        "hasFollowups": False,
        "supportIssueReporting": True,
    },
    "slashCommands": [
        {"name": name, "description": f"Run {name} on the active file and explain the result"}
        for name in ("list", "fix", "explain", "tests", "setup", "review", "new", "search")
    ],
    "locations": ["panel"],
    "modes": ["agent"],
    "disambiguation": [],
}


def uri(path: str) -> dict[str, Any]:
    return {"$mid": 1, "external": f"file://{path}", "path": path, "scheme": "file"}


def chat(number: int, pool: Pool) -> dict[str, Any]:
    clock = START + number * 3_600_000
    requests = [
        request(f"{number}-{n}", pool, clock + n * 60_000) for n in range(pool.rng.randint(1, 4))
    ]
    return {
        "version": 3,
        "responderUsername": "GitHub Copilot",
        "initialLocation": "panel",
        "requests": requests,
        "sessionId": f"session-{number}",
        "creationDate": clock - 1000,
        "customTitle": pool.cut(20, 60),
    }


def request(ident: str, pool: Pool, clock: int) -> dict[str, Any]:
    text = pool.cut(30, 400)
    rounds, results, parts = _rounds(ident, pool, clock)
    rendered = (
        f"<context>\n{pool.cut(2000, 8000)}\n</context>\n<userRequest>\n{text}\n</userRequest>"
    )
    place = {"startLineNumber": 1, "startColumn": 1, "endLineNumber": 1, "endColumn": len(text) + 1}
    part = {"kind": "text", "text": text, "editorRange": place}
    file = {"kind": "file", "id": ident, "name": "a.py", "value": uri(f"/work/{ident}/a.py")}
    return {
        "requestId": f"request_{ident}",
        "message": {
            "text": text,
            "parts": [{**part, "range": {"start": 0, "endExclusive": len(text)}}],
        },
        "variableData": {"variables": [file]},
        "response": parts,
        "agent": AGENT,
        "timestamp": clock,
        "modelId": "copilot/claude-sonnet-4.5",
        "responseId": f"response_{ident}",
        "result": {
            "timings": {"firstProgress": 1000, "totalElapsed": 30_000},
            "metadata": {
                "sessionId": f"session-{ident.partition('-')[0]}",
                "renderedUserMessage": [{"type": 1, "text": rendered}],
                "toolCallRounds": rounds,
                "toolCallResults": results,
                "codeBlocks": [],
            },
            "details": "Claude Sonnet 4.5 • 1x",
        },
        "modelState": {"value": 1, "completedAt": clock + 30_000},
        "followups": [],
        "contentReferences": [{"kind": "reference", "reference": uri(f"/work/{ident}/a.py")}],
        "codeCitations": [],
    }


def _rounds(ident: str, pool: Pool, clock: int) -> tuple[list[Any], dict[str, Any], list[Any]]:
    rounds, results, parts = [], {}, []
    base = uri(f"/work/{ident}/")
    for n in range(pool.rng.randint(1, 4)):
        call = f"toolu_{ident}_{n}__vscode-{n}"
        path = f"/work/{ident}/file_{n}.py"
        said = pool.cut(40, 500)
        arguments = orjson.dumps({"filePath": path, "startLine": 1, "endLine": 200}).decode()
        rounds.append({"id": f"{ident}-{n}", "response": said, "toolInputRetry": 0,
                       "toolCalls": [{"name": "read_file", "arguments": arguments, "id": call}],
                       "timestamp": clock + n * 1000})  # fmt: skip
        results[call] = {
            "$mid": 20,
            "content": [{"$mid": 23, "value": {"node": _tree(path, pool)}}],
        }
        parts.append({"value": said, "isTrusted": False, "supportHtml": False, "baseUri": base})
        parts.append(
            {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": call,
             "invocationMessage": {"value": f"Reading [](file://{path})", "uris": {path: uri(path)}},
             "pastTenseMessage": {"value": f"Read [](file://{path})", "uris": {path: uri(path)}},
             "isConfirmed": {"type": 1}, "isComplete": True,
             "source": {"type": "internal", "label": "Built-In"}, "resultDetails": [uri(path)]}
        )  # fmt: skip
    rounds.append({"id": f"{ident}-end", "response": pool.cut(300, 2000), "toolCalls": []})
    parts.append({"value": rounds[-1]["response"], "supportHtml": False, "baseUri": base})
    edit = {"range": {"startLineNumber": 3, "startColumn": 1, "endLineNumber": 5, "endColumn": 1}}
    parts.append({"kind": "textEditGroup", "uri": uri(f"/work/{ident}/file_0.py"), "done": True,
                  "edits": [[{**edit, "text": pool.cut(200, 1500)}]]})  # fmt: skip
    return rounds, results, parts


def _tree(path: str, pool: Pool) -> dict[str, Any]:
    """A tool result as the prompt library keeps it: small texts, each with its references."""
    anchor = {
        "anchor": {**uri(path), "_formatted": f"file://{path}"},
        "options": {"isFromTool": True},
    }
    texts = [
        {"type": 2, "priority": 9007199254740991, "text": pool.cut(500, 4000), "references": [anchor],
         "lineBreakBefore": True}
        for _ in range(pool.rng.randint(1, 10))
    ]  # fmt: skip
    piece = {
        "type": 1,
        "ctor": 2,
        "ctorName": "x",
        "children": texts,
        "props": {},
        "references": [],
    }
    return {"type": 1, "ctor": 2, "ctorName": "y", "children": [piece], "props": {"priority": 10}}


def log_lines(made: dict[str, Any]) -> list[dict[str, Any]]:
    """The chat as a log: every request is pushed bare, then its parts, its result and its end."""
    lines: list[dict[str, Any]] = [{"kind": 0, "v": {**made, "requests": []}}]
    for number, held in enumerate(made["requests"]):
        late = {name: held[name] for name in ("result", "modelState")}
        bare = {**held, "response": [], "modelState": {"value": 0}}
        del bare["result"]
        lines.append({"kind": 2, "k": ["requests"], "v": [bare]})
        for at, part in enumerate(held["response"]):
            path = ["requests", number, "response"]
            lines.append({"kind": 2, "k": path, "v": [part], "i": at})
        for name, value in late.items():
            lines.append({"kind": 1, "k": ["requests", number, name], "v": value})
    return lines


def generate(folder: Path, chats: int = CHATS, seed: int = 3) -> None:
    """Stored chats over some workspaces, one half flat and one half as logs."""
    pool = Pool(random.Random(seed))
    for number in range(chats):
        place = folder / "User" / "workspaceStorage" / f"w{number % 40:02d}" / "chatSessions"
        place.mkdir(parents=True, exist_ok=True)
        made = chat(number, pool)
        if number % 2:
            data = b"\n".join(orjson.dumps(line) for line in log_lines(made)) + b"\n"
            (place / f"session-{number}.jsonl").write_bytes(data)
        else:
            (place / f"session-{number}.json").write_bytes(orjson.dumps(made))


def run() -> list[Row]:
    """Rows for the table."""
    with made_data("vscode-chat", generate) as folder:
        return extract_rows("vscode-chat", folder, (1,))


if __name__ == "__main__":
    generate(Path(sys.argv[1]), int(sys.argv[2]))
