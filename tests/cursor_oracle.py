"""A second reader of Cursor's databases, plain and slow, written from the notes on the format alone.

It knows nothing of facts or of the source's code: rows in, `Talk`s out. `story` brings a trajectory
into the same shape, so that the two can be compared.
"""

import base64
import json
import posixpath
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from unspool.trajectory import Message, Trajectory

STATUSES = {"completed": "completed", "error": "failed", "cancelled": "cancelled"}
CONTEXT = ("<user_info>", "<system_reminder>", "<rules>", "<git_status>", "<agent_transcripts>")
HIDDEN = ("injected", "summary", "notification", "output")


@dataclass
class Talk:
    """One conversation: events are (what, words or name, …), times stand beside the prompts."""

    ident: str
    events: list[tuple[Any, ...]] = field(default_factory=list)
    sent: list[str | None] = field(default_factory=list)
    """When each prompt was sent."""
    tokens: list[tuple[int, int] | None] = field(default_factory=list)
    """Of each request: what its last call took in, what all its calls gave."""
    models: list[str | None] = field(default_factory=list)
    branches: list[tuple[int, list[tuple[Any, ...]]]] = field(default_factory=list)
    """How many prompts stand before it, and its events."""
    project: str | None = None
    title: str | None = None
    spans: list[tuple[str | None, str | None]] = field(default_factory=list)
    """Of each request: its first and last moment, where they are told."""
    answered: list[list[str]] = field(default_factory=list)
    """Of each request: the moments of its bubbles, where they have them."""


def load(dump: Path, target: Path) -> Path:
    """Real databases from the masked dumps: one row a line, at the path that Cursor uses."""
    for source in sorted(dump.rglob("*")):
        if source.is_dir():
            continue
        place = target / source.relative_to(dump)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".jsonl":
            place.write_bytes(source.read_bytes())
            continue
        place = place.with_suffix("")
        with closing(sqlite3.connect(place)) as base, base:
            if place.name == "store.db":
                base.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
                base.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
            else:
                for table in ("ItemTable", "cursorDiskKV"):
                    base.execute(
                        f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
                    )
            with source.open(encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    base.execute(
                        f"INSERT INTO {row['table']} VALUES (?, ?)", (row["key"], _stored(row))
                    )
    return target


def _stored(row: dict[str, Any]) -> str | bytes | None:
    value: str | bytes
    match row["as"]:
        case "null":
            return None
        case "base64":
            return base64.b64decode(row["value"])
        case "text":
            value = row["value"]
        case "json":
            value = json.dumps(row["value"], ensure_ascii=False, separators=(",", ":"))
        case _:
            value = json.dumps(row["value"], ensure_ascii=False, separators=(",", ":"))
            value = value.encode().hex()
    return value.encode() if row.get("blob") and isinstance(value, str) else value


def talks(root: Path) -> dict[str, Talk]:
    """All conversations of one installation (a folder that holds `User`, or `.cursor`)."""
    spaces = [Workspace(path) for path in sorted(root.glob("User/workspaceStorage/*/state.vscdb"))]
    generations = {g["generationUUID"]: g for space in spaces for g in space.generations}
    made: dict[str, Talk] = {}
    for space in spaces:
        for talk in space.tabs():
            made[talk.ident] = talk
    for path in root.glob("User/globalStorage/state.vscdb"):
        rows = _rows(path, "cursorDiskKV")
        headers = _json(_rows(path, "ItemTable").get("composer.composerHeaders")) or {}
        heads = {h["composerId"]: h for h in headers.get("allComposers", [])}
        for key, value in rows.items():
            composer = _json(value) if key.startswith("composerData:") else None
            if composer:
                talk = read_composer(composer, rows, generations)
                if talk is None:
                    continue
                head = heads.get(talk.ident) or {}
                talk.project = project_of(composer, head, spaces, rows)
                made[talk.ident] = talk
    for path in sorted(root.glob(".cursor/chats/*/*/store.db")):
        talk = read_store(path)
        made[talk.ident] = talk
    said = {e[1] for talk in made.values() for e in _all_events(talk) if e[0] == "user"}
    for space in spaces:
        rest = [p["text"] for p in space.prompts if p["text"] not in said]
        if rest:
            talk = Talk("prompts of " + str(space.folder), project=space.folder)
            talk.events = [("user", words) for words in rest]
            talk.sent = space.times(rest)
            made[talk.ident] = talk
    return made


def _all_events(talk: Talk) -> list[tuple[Any, ...]]:
    return [*talk.events, *(e for _, events in talk.branches for e in events)]


def _rows(path: Path, table: str) -> dict[str, Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        return dict(base.execute(f"SELECT key, value FROM {table} ORDER BY rowid"))


def _json(value: Any) -> Any:
    if isinstance(value, str | bytes):
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value


def iso(milliseconds: float | None) -> str | None:
    if not milliseconds:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lexical(text: str | None) -> str:
    """The words of a rich text: Lexical's (`root`, `children`) or ProseMirror's (`content`)."""
    tree = _json(text)
    if not isinstance(tree, dict):
        return ""

    def words(node: dict[str, Any]) -> str:
        inner = node.get("children") or node.get("content") or []
        return node.get("text") or "".join(words(child) for child in inner)

    top = tree.get("root") or tree
    return "\n".join(words(child) for child in top.get("children") or top.get("content") or [])


class Workspace:
    def __init__(self, path: Path) -> None:
        self.items = _rows(path, "ItemTable")
        place = _json((path.parent / "workspace.json").read_bytes())
        self.folder = local(place.get("folder") or place.get("workspace"))
        self.prompts = _json(self.items.get("aiService.prompts")) or []
        self.generations = _json(self.items.get("aiService.generations")) or []
        held = _json(self.items.get("composer.composerData")) or {}
        self.composers = {c["composerId"] for c in held.get("allComposers", [])}
        self.composers |= {*held.get("selectedComposerIds", ())}

    def times(self, rest: list[str]) -> list[str | None]:
        """When the prompts were sent: the longest common sequence with the generations."""
        sends = [
            (g["textDescription"], g["unixMs"])
            for g in self.generations
            if g.get("type") == "composer" and g.get("textDescription")
        ]
        best = [[0] * (len(sends) + 1) for _ in range(len(rest) + 1)]
        for i in reversed(range(len(rest))):
            for j in reversed(range(len(sends))):
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
                if rest[i] == sends[j][0]:
                    best[i][j] = max(best[i][j], best[i + 1][j + 1] + 1)
        made: list[str | None] = [None] * len(rest)
        i = j = 0
        while i < len(rest) and j < len(sends):
            if rest[i] == sends[j][0] and best[i][j] == best[i + 1][j + 1] + 1:
                made[i] = iso(sends[j][1])
                i, j = i + 1, j + 1
            elif best[i + 1][j] >= best[i][j + 1]:
                i += 1
            else:
                j += 1
        return made

    def tabs(self) -> list[Talk]:
        held = _json(self.items.get("workbench.panel.aichat.view.aichat.chatdata")) or {}
        made = []
        for tab in held.get("tabs", []):
            talk = Talk(tab["tabId"], project=self.folder)
            bubbles = tab["bubbles"]
            if bubbles and bubbles[-1]["type"] == "user":
                bubbles = bubbles[:-1]  # the box's draft
            for bubble in bubbles:
                words = bubble.get("text") or bubble.get("rawText") or ""
                if bubble["type"] == "user":
                    talk.events.append(("user", words or lexical(bubble.get("initText"))))
                    talk.sent.append(None)
                    talk.models.append(None)
                elif words:
                    talk.events.append(("text", words))
                    talk.models[-1] = bubble.get("modelType")
            if talk.sent:
                talk.sent[-1] = iso(tab.get("lastSendTime"))
                made.append(talk)
        return made


def local(uri: str | None) -> str | None:
    if not uri:
        return None
    return unquote(re.sub(r"^file://", "", uri))


def project_of(
    composer: dict[str, Any], head: dict[str, Any], spaces: list[Workspace], rows: dict[str, Any]
) -> str | None:
    for holder in (composer, head):
        place = (holder.get("workspaceIdentifier") or {}).get("uri") or {}
        if place.get("fsPath"):
            return str(place["fsPath"])
    ident = composer["composerId"]
    for space in spaces:
        if ident in space.composers:
            return space.folder
    used = set()
    for key, value in rows.items():
        if key.startswith(f"bubbleId:{ident}:") and value:
            used.add(_json(value).get("usageUuid"))
    for space in spaces:
        if used & {g["generationUUID"] for g in space.generations}:
            return space.folder
    return _shared_folder(ident, rows)


def _shared_folder(ident: str, rows: dict[str, Any]) -> str | None:
    """What the files that tools name have in common, up to the folder whose name is told."""
    files, names = set(), set()
    for key, value in rows.items():
        if key.startswith(f"bubbleId:{ident}:") and value:
            tool = _json(value).get("toolFormerData") or {}
            given = _json(tool.get("params") or tool.get("rawArgs"))
            for name in ("targetFile", "target_file", "relativeWorkspacePath", "file_path"):
                path = given.get(name) if isinstance(given, dict) and tool.get("name") else None
                if isinstance(path, str) and path.startswith("/"):
                    files.add(path)
        elif key.startswith(f"messageRequestContext:{ident}:") and value:
            for layout in _json(value).get("projectLayouts") or []:
                names.add((_json(layout) or {}).get("rootPath"))
    if len(files) < 2:
        return None
    shared = posixpath.commonpath([posixpath.dirname(path) for path in files])
    parts = shared.split("/")
    named = [at for at, part in enumerate(parts) if part in names]
    return "/".join(parts[: named[-1] + 1]) if named else shared


def read_composer(
    composer: dict[str, Any], rows: dict[str, Any], generations: dict[str, Any]
) -> Talk | None:
    ident = composer["composerId"]
    stored = {
        key.split(":")[-1]: _json(value)
        for key, value in rows.items()
        if key.startswith(f"bubbleId:{ident}:") and value is not None
    }
    inline = {b["bubbleId"]: b for b in composer.get("conversation") or []}
    order = [h["bubbleId"] for h in composer.get("fullConversationHeadersOnly") or inline.values()]
    bubbles = [{**inline.get(b, {}), **stored.get(b, {})} for b in order]
    bubbles = [b for b in bubbles if b]
    if not bubbles:
        return None
    calls: dict[str, Any] = {}
    for capability in composer.get("capabilities") or []:
        if capability.get("type") == 15:
            calls |= _json((capability.get("data") or {}).get("bubbleDataMap")) or {}
    for bubble in bubbles:
        if bubble["bubbleId"] in calls and not (bubble.get("toolFormerData") or {}).get("name"):
            bubble["toolFormerData"] = calls[bubble["bubbleId"]]
    talk = Talk(ident, title=composer.get("name"))
    sent_model = default_model(composer)
    requests: list[list[dict[str, Any]]] = []
    for bubble in bubbles:
        if bubble["type"] == 1:
            requests.append([])
            talk.events.append(("user", prompt_words(bubble)))
            talk.models.append(model_of(bubble) or sent_model)
            talk.sent.append(bubble.get("createdAt"))
        else:
            requests[-1].append(bubble)
            talk.events += events_of(bubble)
    for number, request in enumerate(requests):
        timings = [b["timingInfo"] for b in request if b.get("timingInfo")]
        begin, end = None, None
        if timings:
            begin = timings[0].get("clientRpcSendTime")
            end = timings[-1].get("clientEndTime")
        if not begin:
            uses = [b.get("usageUuid") for b in request if b.get("usageUuid")]
            known = [generations[u]["unixMs"] for u in uses if u in generations]
            begin = known[0] if known else None
        talk.sent[number] = talk.sent[number] or iso(begin)
        talk.spans.append((iso(begin), iso(end)))
        talk.answered.append([b.get("createdAt") for b in request if events_of(b)])
        if talk.models[number] is None:
            told = [model_of(b) for b in request if model_of(b)]
            talk.models[number] = told[0] if told else None
        counts: dict[str, tuple[int, int]] = {}
        use = ""
        for bubble in request:
            use = bubble.get("usageUuid") or use
            count = bubble.get("tokenCount") or {}
            pair = (count.get("inputTokens") or 0, count.get("outputTokens") or 0)
            if any(pair):
                counts[use] = pair
        talk.tokens.append(
            (sum(i for i, _ in counts.values()), sum(o for _, o in counts.values()))
            if counts
            else None
        )
    for bubble in stored.values():
        details = ((bubble.get("errorDetails") or {}).get("error") or {}).get("details") or {}
        if details:  # the real one is the last thing in its conversation
            talk.events.append(("error", f"{details['title']}\n\n{details['detail']}"))
    talk.branches = abandoned(bubbles, [stored[b] for b in stored if b not in order], generations)
    return talk


def model_of(bubble: dict[str, Any]) -> str | None:
    name = (bubble.get("modelInfo") or {}).get("modelName")
    return name if name not in ("", "default") else None


def default_model(composer: dict[str, Any]) -> str | None:
    """`default` stands for "let Cursor choose": it names no model."""
    name = (composer.get("modelConfig") or {}).get("modelName")
    if not name and len(composer.get("usageData") or {}) == 1:
        (name,) = composer["usageData"]
    return name if name not in ("", "default") else None


def prompt_words(bubble: dict[str, Any]) -> str:
    return bubble.get("text") or bubble.get("rawText") or lexical(bubble.get("richText")).strip()


def events_of(bubble: dict[str, Any]) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    thought = (bubble.get("thinking") or {}).get("text")
    if thought:
        made.append(("thinking", thought))
    if (bubble.get("text") or "").strip():
        made.append(("text", bubble["text"]))
    call = bubble.get("toolFormerData") or {}
    if call.get("name"):
        status = STATUSES.get(call.get("status") or "", "pending")
        result = _json(call.get("result"))
        code = result.get("exitCodeV2", result.get("exitCode")) if isinstance(result, dict) else 0
        if status == "completed" and code:
            status = "failed"  # as Cursor's own hooks tell it
        if isinstance(result, dict) and str(result.get("endedReason")).endswith("_ABORTED"):
            status = "cancelled"
        if call.get("userDecision") == "rejected":
            status = "denied"
        made.append(("call", call["name"], call.get("toolCallId"), status))
    return made


def abandoned(
    kept: list[dict[str, Any]], others: list[dict[str, Any]], generations: dict[str, Any]
) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Runs outside the headers, each at the place where it was sent."""
    others = [b for b in others if not b.get("errorDetails")]
    if all(b.get("createdAt") for b in others):
        others = sorted(others, key=lambda b: b["createdAt"])
    made = []
    run: list[dict[str, Any]] = []
    runs = []
    for bubble in others:
        if bubble["type"] == 1 or (bubble.get("timingInfo") and run and run[0]["type"] != 1):
            run = []
        if not run:
            runs.append(run)
        run.append(bubble)
    for run in runs:
        events = [
            e
            for b in run
            for e in ([("user", prompt_words(b))] if b["type"] == 1 else events_of(b))
            if e[0] != "call" or e[3] != "pending"
        ]
        sends = [b["timingInfo"]["clientRpcSendTime"] for b in run if b.get("timingInfo")]
        if not events or not sends:
            continue
        place, prompts, words = None, 0, ""
        for bubble in kept:
            if bubble["type"] == 1:
                prompts += 1
                words = prompt_words(bubble)
            elif (bubble.get("timingInfo") or {}).get("clientRpcSendTime", 0) > sends[0]:
                place = prompts - 1
                break
        if place is None:
            place = prompts
        if run[0]["type"] != 1:
            use = next((b["usageUuid"] for b in run if b.get("usageUuid")), "")
            words = generations.get(use, {}).get("textDescription") or words
            events.insert(0, ("user", words))
        made.append((place, events))
    return made


def read_store(path: Path) -> Talk:
    meta = json.loads(bytes.fromhex(_rows2(path, "meta", "key", "value")["0"]))
    blobs = _rows2(path, "blobs", "id", "data")
    talk = Talk(meta["agentId"], title=meta.get("name"))
    for ident in children(blobs[meta["latestRootBlobId"]]):
        message = _json(blobs[ident]) or {}
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        text = "\n\n".join(p["text"] for p in parts if p["type"] == "text")
        if message.get("role") == "user":
            if text.lstrip().startswith(CONTEXT):
                continue
            query = re.search(r"<user_query>\n?(.*?)\n?</user_query>", text, re.DOTALL)
            talk.events.append(("user", query[1] if query else text))
            talk.sent.append(None)
            talk.models.append(
                meta["lastUsedModel"] if meta["lastUsedModel"] != "default" else None
            )
        elif message.get("role") == "assistant":
            for part in parts:
                if part["type"] == "reasoning":
                    talk.events.append(("thinking", part["text"]))
                elif part["type"] == "text" and part["text"]:
                    talk.events.append(("text", part["text"]))
                elif part["type"] == "tool-call":
                    talk.events.append(("call", part["toolName"], part["toolCallId"], "completed"))
    return talk


def _rows2(path: Path, table: str, key: str, value: str) -> dict[str, Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        return dict(base.execute(f"SELECT {key}, {value} FROM {table}"))


def children(root: bytes) -> list[str]:
    """Field 1, 32 bytes long, at the top of the root."""
    made = []
    while root.startswith(b"\x0a\x20"):
        made.append(root[2:34].hex())
        root = root[34:]
    return made


def story(trajectory: Trajectory) -> Talk:
    """What a trajectory says, in the oracle's words."""
    talk = Talk(trajectory.conversation_id, title=trajectory.title)
    talk.project = trajectory.workspace.path if trajectory.workspace else None
    if talk.ident.startswith("prompts-"):
        talk.ident = f"prompts of {talk.project}"
    talk.events = _told(trajectory.messages)
    for message in trajectory.messages:
        if message.role == "user" and message.kind not in HIDDEN:
            talk.sent.append(message.timestamp)
            talk.tokens.append(None)
            talk.models.append(None)
            talk.answered.append([])
        elif message.role == "assistant" and talk.sent:
            talk.models[-1] = talk.models[-1] or message.model
            if message.timestamp and _told([message]):
                talk.answered[-1].append(message.timestamp)
            usage = message.usage
            if usage and (usage.prompt_tokens or usage.completion_tokens):
                before = talk.tokens[-1] or (0, 0)
                talk.tokens[-1] = (
                    before[0] + (usage.prompt_tokens or 0),
                    before[1] + (usage.completion_tokens or 0),
                )
    for branch in trajectory.branches or ():
        before = _told(trajectory.messages[: branch.index])
        prompts = sum(event[0] == "user" for event in before)
        talk.branches.append((prompts, _told(branch.messages)))
    return talk


def _told(messages: list[Message]) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    for message in messages:
        if message.kind in HIDDEN:
            continue
        if message.kind == "error":
            made.append(("error", message.content))
        elif message.role == "user":
            made.append(("user", message.content if message.typed is None else message.typed))
        elif message.role == "assistant":
            if message.thinking:
                made.append(("thinking", message.thinking))
            if message.content:
                made.append(("text", message.content))
            for call in message.tool_calls or ():
                made.append(("call", call.name, call.id, call.status))
    return made
