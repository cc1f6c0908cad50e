"""A plain second reading of VS Code chats, rule by rule from the format, held against the source."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, corpus, facts_of, origins_of, reduce_all
from unspool.trajectory import Message

DAMAGED = {
    "wrong_types",
    "spoilt",
    "cut_off",
    "log_headless",
    "log_torn",
    "replay",
    "replay_other_model",
    "replay_compaction",
    "repeated_calls",
}
COPIES = {"two_folders", "forked_copies", "exported_twice"}
APART = ("command", "confirmation", "systemNotification", "warning", "info", "progressTask",
         "progressTaskSerialized")  # fmt: skip
TOOL = "toolInvocationSerialized"


def state_of(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        return json.loads(text)
    state: Any = {}
    for line in text.splitlines():
        change = json.loads(line)
        kind, keys = change["kind"], change.get("k", [])
        if kind == 0:
            state = change["v"]
        if kind not in (1, 2, 3) or not keys:
            continue
        at = state
        for key in keys[:-1]:
            at = at[key]
        if kind == 2:
            target = at.setdefault(keys[-1], []) if isinstance(at, dict) else at[keys[-1]]
            if "i" in change:
                del target[change["i"] :]
            target += change.get("v", [])
        elif "v" in change and kind == 1:
            at[keys[-1]] = change["v"]
        else:
            at.pop(keys[-1], None)
    return state


def typed(message: Any) -> str:
    if isinstance(message, str):
        return message
    if message.get("text"):
        return message["text"]
    made = ""
    for part in message["parts"]:
        mark = {"agent": "@", "subcommand": "/", "tool": "#"}.get(part["kind"], "")
        held = part.get("agent") or part.get("command") or {"name": part.get("toolName")}
        made += part["text"] if "text" in part else mark + held["name"]
    return made


def uri(value: Any) -> str:
    value = value.get("uri", value)
    return (
        value.get("external") or f"{value['scheme']}://{value.get('authority', '')}{value['path']}"
    )


def texts(response: Any) -> list[str]:
    """What was said between tool calls, a paragraph behind everything that is shown as a block."""
    made = [""]
    for part in [response] if isinstance(response, str) else response or []:
        part = {"value": part} if isinstance(part, str) else part
        kind = part.get("kind")
        if kind is None and "value" in part:
            made[-1] += part["value"]
        elif part.get("fromSubagent") or "subAgentInvocationId" in part:
            continue
        elif kind in ("markdownContent", "markdownVuln"):
            text = part["content"]["value"]
            for name, reference in part.get("inlineReferences", {}).items():
                target = uri(reference["inlineReference"])
                text = text.replace(f"http://_vscodecontentref_/{name}", target)
            made[-1] += text
        elif kind == "inlineReference":
            target = uri(part["inlineReference"])
            made[-1] += f"[{part.get('name') or target.rpartition('/')[2]}]({target})"
        elif kind in APART and made[-1]:
            made[-1] += "\0"
        elif kind == TOOL:
            made.append("")
        elif kind == "clearToPreviousToolInvocation":
            made[-1] = ""
    paragraphs = ([p.strip("\n") for p in text.split("\0") if p] for text in made)
    return [text for held in paragraphs if (text := "\n\n".join(held))]


def render(node: dict[str, Any]) -> str:
    if node["type"] == 2:
        return ("\n" if node.get("lineBreakBefore") else "") + node.get("text", "")
    if node.get("ctor") == 3:
        return "<image>"
    return "".join(render(child) for child in node["children"])


def result_text(result: dict[str, Any]) -> str:
    texts = []
    for item in result["content"]:
        value = item["value"]
        if isinstance(value, str):
            texts.append(value)
        elif "node" in value:
            texts.append(render(value["node"]))
    return "\n".join(texts)


Plain = tuple[str, str, list[tuple[str, str]]]


def expected(request: dict[str, Any]) -> list[Plain]:
    """(role, text, calls) of every message of a request; results only where the model's are kept."""
    made: list[Plain] = [("user", typed(request["message"]), [])]
    result = request.get("result") or {}
    metadata = result.get("metadata") or {}
    rounds = metadata.get("toolCallRounds") or []
    results = metadata.get("toolCallResults") or {}
    for held in rounds:
        calls = [(c["name"], c["arguments"]) for c in held["toolCalls"]]
        made.append(("assistant", held["response"], calls))
        made += [
            ("tool", result_text(results[c["id"]]), [])
            for c in held["toolCalls"]
            if c["id"] in results
        ]
    if not rounds:
        error = (result.get("errorDetails") or request.get("responseErrorDetails") or {}).get(
            "message"
        )
        said = texts(request.get("response")) or [error or ""]
        made += [("assistant", text, []) for text in said]
    return made


def seen(messages: list[Message]) -> list[Plain]:
    made: list[Plain] = []
    for m in messages:
        if m.kind == "injected":
            continue
        calls = [(c.name, c.arguments) for c in m.tool_calls or ()]
        made.append((m.role, m.typed if m.typed is not None else m.content, calls))
    return made


def cases() -> list[Path]:
    folders = [p for p in (CASES / "vscode_chat").iterdir() if p.name not in DAMAGED | COPIES]
    found = [p for folder in folders for p in (folder / "input").rglob("*.json*")]
    return sorted(p for p in found if p.name != "workspace.json")


def real() -> list[Path]:
    folder = corpus("vscode", "chat-sessions")
    return sorted(folder.glob("*.json*")) if folder else []


@pytest.mark.parametrize("path", [*cases(), *real()], ids=lambda p: p.name)
def test_same_words_and_calls(path: Path) -> None:
    requests = state_of(path)["requests"]
    made = reduce_all(facts_of(origins_of(path)))
    main = next(t for t in made if t.parent is None)
    found = seen(main.messages)
    for request in requests:
        for wanted in expected(request):
            role, text, calls = wanted
            if role == "assistant" and not calls and not request.get("result", {}).get("metadata"):
                # Without rounds the calls are those of the parts; the words are what is compared.
                match = next((f for f in found if f[:2] == (role, text)), None)
                if match is None and not text:
                    continue
                assert match is not None, wanted
                found.remove(match)
            else:
                assert wanted in found, wanted
                found.remove(wanted)
    left = [message for message in found if message[0] != "tool"]
    assert left == []


EDITS = ("textEditGroup", "notebookEditGroup")


def counts(requests: list[dict[str, Any]]) -> dict[str, int]:
    """Counted straight off the file: nothing joined, nothing rebuilt."""
    metadata = [(r.get("result") or {}).get("metadata") or {} for r in requests]
    rounds = [held.get("toolCallRounds") or [] for held in metadata]
    parts = [p for r in requests for p in r.get("response") or [] if isinstance(p, dict)]
    return {
        "users": len(requests),
        "answers": sum(len(held) or 1 for held in rounds),
        "calls": sum(len(one["toolCalls"]) for held in rounds for one in held),
        "results": sum(len(held.get("toolCallResults") or {}) for held in metadata),
        "edits": sum(part.get("kind") in EDITS for part in parts),
        "votes": sum(r.get("vote") is not None for r in requests),
        "followups": sum(len(r.get("followups") or []) for r in requests),
        "attachments": sum(len(r["variableData"]["variables"]) for r in requests),
        "markdown": sum(bool(part.get("value")) for part in parts if "kind" not in part),
    }


@pytest.mark.parametrize("path", real(), ids=lambda p: p.name)
def test_same_counts(path: Path) -> None:
    """Of every real file: as many turns, rounds, calls, results, edits … as stand in it."""
    requests = state_of(path)["requests"]
    (made,) = reduce_all(facts_of(origins_of(path)))
    messages = [m for m in made.messages if m.kind != "injected"]
    answers = [m for m in messages if m.role == "assistant"]
    said = "\n".join(m.content for m in answers)
    parts = [p for r in requests for p in r["response"]]
    texts = [p["value"].strip() for p in parts if "kind" not in p and p.get("value")]
    assert counts(requests) == {
        "users": sum(m.role == "user" for m in messages),
        "answers": len(answers),
        "calls": sum(len(m.tool_calls or ()) for m in answers),
        "results": sum(m.role == "tool" for m in messages),
        "edits": sum(f.lines_added is not None for f in made.files or ()),
        "votes": sum("vote" in (m.extra or {}) for m in answers),
        "followups": sum(len((m.extra or {}).get("followups", ())) for m in answers),
        "attachments": sum(len(m.attachments or ()) for m in messages if m.role == "user"),
        "markdown": sum(text in said for text in texts),
    }
