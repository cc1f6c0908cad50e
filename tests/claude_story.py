"""Made-up sessions of Claude Code with every kind of line, and a ledger of what must come of them.

The ledger is kept while the story is written; no line is ever read for it.
"""

import base64
from typing import TYPE_CHECKING, Any

from tests.claude_ledger import Answer, Ledger
from tests.claude_lines import Row, text

if TYPE_CHECKING:
    from tests.claude_home import Home

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n-picture").decode()


class Story:
    """A thread of lines: a session, or a sub-agent in a file of its own."""

    def __init__(self, home: "Home", ident: str, key: str, **fixed: Any) -> None:
        self.home = home
        self.dice = home.dice
        self.ident = ident
        self.key = key
        self.fixed = fixed
        self.ledger = home.ledgers.setdefault(key, Ledger())
        self.rows: list[Row] = []
        self.inline = True
        """Whether its lines stand in the session's own file."""
        self.last: str | None = None
        self.turns: list[tuple[str | None, int]] = []
        """Where a rewind may go back to: the line before the prompt, and how much there was."""

    def copy(self, known: Ledger, names: dict[str | None, str | None]) -> None:
        """What another conversation held, under the new names of its lines."""
        own = self.ledger
        own.prompts = {names.get(uuid, uuid) or "": words for uuid, words in known.prompts.items()}
        own.answers, own.results = dict(known.answers), dict(known.results)
        own.chain = [names.get(ident, ident) or "" for ident in known.chain]
        own.gone = {names.get(ident, ident) or "" for ident in known.gone}
        own.beside, own.marks = list(known.beside), list(known.marks)
        own.copied = {*own.prompts, *own.answers}

    # Lines

    def line(self, kind: str, **fields: Any) -> str:
        """A line of the chain."""
        uuid = self.home.name("u")
        parent = fields.pop("parent", self.last)
        row = {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/w/shop",
            "sessionId": self.ident, "version": "2.1.150", "gitBranch": "main", "type": kind,
            "uuid": uuid, "timestamp": self.home.now(), **self.fixed, **fields,
        }  # fmt: skip
        self.rows.append(row)
        self.last = uuid
        return uuid

    def bare(self, kind: str, **fields: Any) -> None:
        """A line without an id."""
        self.rows.append({"type": kind, **fields})

    def user(self, content: Any, **fields: Any) -> str:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def hook(self, event: str, **fields: Any) -> None:
        """The payload that a hook got at this moment."""
        if "/" in self.key:
            fields["agent_id"] = self.key.partition("/")[2]
        self.home.payloads.append({
            "session_id": self.ident, "transcript_path": f"/h/{self.ident}.jsonl", "cwd": "/w/shop",
            "hook_event_name": event, "logged_at": self.home.now(), **fields,
        })  # fmt: skip

    # What happens

    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            what = self.dice.random()
            if what < 0.15 and self.turns and "/" not in self.key:
                self.rewind()
            elif what < 0.25:
                self.compact()
            elif what < 0.3:
                self.restart()
            self.turn()

    def rewind(self) -> None:
        self.last, length = self.dice.choice(self.turns)
        self.ledger.gone.update(self.ledger.chain[length:])
        del self.ledger.chain[length:]
        self.turns = [turn for turn in self.turns if turn[1] < length]

    def compact(self) -> None:
        before = self.last
        self.line(
            "system", parent=None, logicalParentUuid=before, subtype="compact_boundary",
            content="Conversation compacted", isMeta=False, level="info",
            compactMetadata={"trigger": "auto", "preTokens": 1000},
        )  # fmt: skip
        self.ledger.marks.append("compaction")
        words = self.home.words("This session is being continued from a previous conversation")
        self.user(words, isCompactSummary=True, isVisibleInTranscriptOnly=True)
        self.ledger.beside.append(words)
        self.turns = []

    def restart(self) -> None:
        self.last, self.turns = self.dice.choice((None, self.home.name("gone"))), []
        if self.dice.random() < 0.5:
            self.hook_success("SessionStart")

    def hook_success(self, event: str) -> None:
        self.line("attachment", attachment={
            "type": "hook_success", "hookName": event, "hookEvent": event, "toolUseID": "h",
            "content": "", "stdout": self.home.words("hook"), "stderr": "", "exitCode": 0,
        })  # fmt: skip
        self.ledger.marks.append("hook")

    def turn(self) -> None:
        self.between()
        if any(row.get("uuid", "") == self.last for row in self.rows):  # a second root is no rewind
            self.turns.append((self.last, len(self.ledger.chain)))
        self.prompt()
        for _ in range(self.dice.randint(0, 3)):
            self.model_call()
            self.between()
        last = self.ledger.answers.get(self.ledger.chain[-1])
        if last is not None and last.texts and not last.calls:
            self.hook("Stop", last_assistant_message=last.texts[-1], stop_hook_active=False)
        if self.dice.random() < 0.5:
            self.line("system", subtype="turn_duration", durationMs=5, isMeta=False)
            self.ledger.marks.append("turn_end")

    def prompt(self, words: str = "") -> None:
        words = words or self.home.words("prompt")
        content: Any = words
        dice = self.dice.random()
        if dice < 0.15:
            image = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            content = [text(words), {"type": "image", "source": image}]
        elif dice < 0.25:
            opened = (
                "<ide_opened_file>The user opened the file /w/a.py in the IDE.</ide_opened_file>"
            )
            content = [text(opened), text(words)]
        elif dice < 0.35 and "/" not in self.key:
            queue = {"sessionId": self.ident, "timestamp": self.home.now()}
            self.bare("queue-operation", operation="enqueue", content=words, **queue)
            self.bare("queue-operation", operation="dequeue", **queue)
        prompt = self.home.name("q")
        uuid = self.user(content, promptId=prompt, permissionMode="default")
        self.hook("UserPromptSubmit", prompt=words, prompt_id=prompt)
        self.ledger.prompts[uuid] = words
        self.ledger.chain.append(uuid)

    def model_call(self) -> None:
        if self.dice.random() < 0.08:
            self.failure()
            return
        ident = f"msg_{self.home.name('01ABCDEFGHIJKLMNOP')}"
        made = self.ledger.answers[ident] = Answer()
        self.ledger.chain.append(ident)
        request = self.home.name("req_")
        blocks = self.blocks(made)
        at_once = self.dice.random() < 0.2  # tools run while the answer still goes on
        waiting: list[tuple[Row, str]] = []
        for number, block in enumerate(blocks):
            final = number == len(blocks) - 1
            usage = {
                "input_tokens": self.dice.randint(1, 9), "output_tokens": 1 + number,
                "cache_read_input_tokens": 10, "cache_creation_input_tokens": 3,
            }  # fmt: skip
            made.tokens = (usage["input_tokens"] + 13, usage["output_tokens"])
            body = {
                "id": ident, "type": "message", "role": "assistant", "model": "claude-opus-4-6",
                "content": [block], "stop_reason": "end_turn" if final else None, "usage": usage,
            }  # fmt: skip
            uuid = self.line("assistant", message=body, requestId=request)
            if block["type"] == "tool_use":
                self.hook("PreToolUse", tool_name=block["name"], tool_use_id=block["id"],
                          tool_input=block["input"])  # fmt: skip
                if at_once:
                    self.answer_call(block, uuid)
                    self.last = self.last if final else uuid
                else:
                    waiting.append((block, uuid))
            if self.dice.random() < 0.15:
                self.progress(block.get("id", "h"))
        self.dice.shuffle(waiting)
        for block, uuid in waiting:
            self.answer_call(block, uuid)

    def blocks(self, made: Answer) -> list[Row]:
        blocks: list[Row] = []
        if self.dice.random() < 0.3:
            words = self.home.words("thought")
            made.thoughts.append(words)
            blocks.append({"type": "thinking", "thinking": words, "signature": "x"})
        for _ in range(self.dice.choice((0, 1, 1, 2))):
            words = self.home.words("text")
            if (
                self.dice.random() < 0.15
            ):  # older versions wrote what there was so far, again and again
                blocks.append(text(words))
                words += " and on"
            made.texts.append(words)
            blocks.append(text(words))
        for _ in range(self.dice.choice((0, 1, 1, 3)) if blocks else 1):
            ident = self.home.name("toolu_01ABCDEFGHIJ")
            made.calls.append(ident)
            name, given = "Bash", {"command": self.home.words("command")}
            if self.home.depth < 2 and self.dice.random() < 0.12:
                name = self.dice.choice(("Task", "Agent"))
                given = {"description": "d", "prompt": self.home.words("task")}
            blocks.append({"type": "tool_use", "id": ident, "name": name, "input": given})
        return blocks

    def answer_call(self, called: Row, caller: str) -> None:
        ident = called["id"]
        told = ""
        if called["name"] != "Bash":
            told = self.home.spawn(self, ident, called["input"]["prompt"])
        if self.dice.random() < 0.06 and not told:
            return  # stopped
        words = self.home.words("result")
        kind = self.dice.random()
        content: Any = words
        details: Any = {"stdout": words, "stderr": "", "interrupted": False}
        if kind < 0.2:
            content = [text(words)]
        elif kind < 0.3:
            image = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            content = [text(words), {"type": "image", "source": image}]
        elif kind < 0.4:
            content, details = self.persisted(words)
        block = {"type": "tool_result", "tool_use_id": ident, "content": content}
        if 0.4 <= kind < 0.5:
            block["is_error"], details = True, f"Error: {words}"
        if told:
            details = {"status": "completed", "agentId": told}
        self.user([block], parent=caller, toolUseResult=details, sourceToolAssistantUUID=caller)
        self.ledger.results[ident] = flat(content)
        self.hook("PostToolUse", tool_name=called["name"], tool_use_id=ident,
                  tool_response=details, tool_input=called["input"])  # fmt: skip

    def persisted(self, words: str) -> tuple[str, Row]:
        name = f"{self.home.name('out')}.txt"
        path = f"/h/.claude/projects/shop/{self.ident}/tool-results/{name}"
        self.home.outputs[(self.ident, name)] = f"whole {words}"
        content = (
            f"<persisted-output>\nFull output saved to: {path}\n\n{words}\n</persisted-output>"
        )
        return content, {"stdout": words, "persistedOutputPath": path, "persistedOutputSize": 9}

    def failure(self) -> None:
        """The program's own answer."""
        words = self.home.words("API Error: 529")
        body = {
            "id": self.home.name("e"), "type": "message", "role": "assistant",
            "model": "<synthetic>", "content": [text(words)], "stop_reason": "stop_sequence",
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }  # fmt: skip
        self.line("assistant", message=body, isApiErrorMessage=True, error="overloaded")
        self.ledger.beside.append(words)

    def progress(self, call: str) -> None:
        kind = self.dice.choice(("hook_progress", "bash_progress", "waiting_for_task"))
        self.line(
            "progress", data={"type": kind, "output": self.home.words("progress")}, toolUseID=call
        )

    def between(self) -> None:
        """Lines that may stand anywhere."""
        known = ANYWHERE if "/" in self.key else ANYWHERE + TYPED
        for make in self.dice.sample(known, self.dice.choice((0, 0, 1, 2))):
            make(self)

    def micro(self) -> None:
        self.line("system", subtype="microcompact_boundary", content="Context microcompacted",
                  microcompactMetadata={"preTokens": 9, "tokensSaved": 3})  # fmt: skip
        self.ledger.marks.append("microcompaction")

    def api_error(self) -> None:
        self.line("system", subtype="api_error", error={"status": 529}, retryAttempt=1)
        self.ledger.marks.append("api_error")

    def told(self) -> None:
        words = self.home.words("away")
        self.line("system", subtype="away_summary", content=words, isMeta=False)
        self.ledger.beside.append(words)

    def injected(self) -> None:
        words = self.home.words("Base directory for this skill")
        self.user([text(words)], isMeta=True)
        self.ledger.beside.append(words)

    def reminder(self) -> None:
        words = self.home.words("remember")
        self.line("attachment", attachment={"type": "task_reminder", "content": words})
        self.ledger.beside.append(words)

    def hooked(self) -> None:
        self.hook_success("PostToolUse:Bash")

    def snapshot(self) -> None:
        self.bare("file-history-snapshot", messageId=self.last or "x", isSnapshotUpdate=False,
                  snapshot={"messageId": "x", "trackedFileBackups": {}})  # fmt: skip

    def titles(self) -> None:
        self.bare("ai-title", aiTitle="A title", sessionId=self.ident)
        self.bare("last-prompt", lastPrompt="p", leafUuid=self.last, sessionId=self.ident)

    def summary(self) -> None:
        self.bare("summary", summary="A summary", leafUuid=self.home.name("elsewhere"))

    def queued(self) -> None:
        """Typed ahead: it becomes an attachment, or stays where it was typed."""
        words = self.home.words("queued")
        stamp = self.home.now()
        queue = {"sessionId": self.ident, "timestamp": stamp}
        self.bare("queue-operation", operation="enqueue", content=words, **queue)
        self.bare("queue-operation", operation=self.dice.choice(("remove", "popAll")), **queue)
        if self.dice.random() < 0.5:
            self.ledger.queued.append(words)
            return
        self.line("attachment", attachment={
            "type": "queued_command", "prompt": words, "commandMode": "prompt",
        })  # fmt: skip
        self.ledger.beside.append(words)

    def interrupted(self) -> None:
        words = f"[Request interrupted by user] {self.home.name('')}"
        self.user([text(words)])
        self.ledger.beside.append(words)

    def notified(self) -> None:
        words = (
            f"<task-notification>\n<task-id>{self.home.name('b')}</task-id>\n</task-notification>"
        )
        self.user(words, origin={"kind": "task-notification"})
        self.ledger.beside.append(words)

    def command(self) -> None:
        name = self.home.words("command-output")
        self.user("<command-name>/model</command-name>\n<command-message>model</command-message>\n"
                  f"<command-args>{name}</command-args>")  # fmt: skip
        self.ledger.beside.append(f"/model {name}")
        words = f"<local-command-stdout>{self.home.words('Set')}</local-command-stdout>"
        self.user(words)
        self.ledger.beside.append(words)


ANYWHERE = [
    Story.micro, Story.api_error, Story.told, Story.injected, Story.reminder, Story.hooked,
]  # fmt: skip
TYPED = [
    Story.snapshot, Story.titles, Story.summary, Story.queued, Story.command, Story.interrupted,
    Story.notified,
]  # fmt: skip


def flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(block["text"] for block in content if block["type"] == "text")
