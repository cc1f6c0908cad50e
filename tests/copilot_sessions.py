"""Made-up Copilot CLI sessions: any order of anything that a log may hold, from a seed."""

import hashlib
import json
import random
from typing import Any

MODELS = ("model-a", "model-b", "model-c")
_NOISE = """
    session.remote_steerable_changed session.schedule_created session.schedule_cancelled
    session.schedule_rearmed session.autopilot_objective_changed session.info session.warning
    session.model_deselected session.session_limits_changed
    session.permissions_changed session.plan_changed session.workspace_file_changed
    session.truncation session.usage_checkpoint session.usage_record
    session.fusion_change_checkpoint session.request_body_compression_disabled
    session.context_changed session.context_cleared session.task_complete
    session.completion_receipt session.fusion_route_failed session.fusion_resolved
    session.fusion_handoff session.fusion_commit_started session.fusion_completed
    session.permission_recovery assistant.fusion_phase_failed tool_search.activated
    skill.invoked_ref subagent.selected subagent.deselected hook.start hook.end
    permission.requested permission.completed permission.carriedForward
    permission.messageAuthorization permission.assentDetected mcp.oauth_recovery_completed
    external_tool.requested human_response.recorded session.canvas.recorded
    session.canvas.removed custom_agent.selected session.idle session.title_changed
    session.usage_info assistant.intent assistant.reasoning_delta assistant.message_delta
    assistant.streaming_delta tool.execution_partial_result tool.execution_progress
    user_input.requested user_input.completed never.heard_of session.brand_new
"""
NOISE = tuple(_NOISE.split())
_FIELDS = """
    id prompt message url path operation summary success reason mode newMode previousMode
    tokenLimit toolNames name agentName agentDisplayName tools hookType input output requestId
    response infoType warningType fusionId model inputTokens outputTokens totalNanoAiu title
    intent messagesCleared cwd branch repository
"""
FIELDS = tuple(_FIELDS.split())


class Script:
    """A session in the making; every method writes some events."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[dict[str, Any]] = []
        self.session = f"00000000-0000-4000-8000-{seed % 10**12:012d}"
        self.number = 0
        self.rewinds = 0
        self.version = self.random.choice(("0.0.372", "0.0.420", "1.0.10", "1.0.40", "1.0.102"))
        self.named_agents = self.random.random() < 0.5
        self.waiting: list[tuple[str, str]] = []
        self.children: list[dict[str, str]] = []
        self.compacting = False
        self.skills: list[str] = []
        self.output: dict[str, int] = {}
        self.model: dict[str, str] = {}
        """Of the session and of each sub-agent: the model that answers now."""
        self.made_by: dict[str, str] = {}

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def next(self, word: str) -> str:
        self.number += 1
        return f"{word}{self.number}"

    def text(self, word: str = "words") -> str:
        odd = self.random.choice(("", "", "", " \u2028 x", " é漢🙂", "\nmore", ' "quoted" \\ '))
        return self.next(word) + odd

    def write(self, kind: str, data: dict[str, Any], **envelope: Any) -> None:
        at = len(self.events)
        event = {
            "type": kind,
            "data": data,
            "id": f"{self.session[-4:]}-{self.rewinds}-{at}",
            "timestamp": f"2026-05-04T{10 + self.rewinds}:{at // 60:02d}:{at % 60:02d}.000Z",
            "parentId": self.events[-1]["id"] if at and self.chance(0.8) else None,
        }
        self.events.append(event | {k: v for k, v in envelope.items() if v is not None})

    def of(self, child: dict[str, str] | None) -> tuple[dict[str, Any], str | None]:
        """The words by which an event says whose it is: in its data, in its envelope."""
        if child is None:
            return {}, None
        if self.named_agents:
            return ({"parentToolCallId": child["call"]} if self.chance(0.3) else {}), child["agent"]
        return {"parentToolCallId": child["call"]}, None

    def start(self) -> None:
        data: dict[str, Any] = {
            "sessionId": self.session,
            "version": 1,
            "producer": "copilot-agent",
        }
        data |= {"copilotVersion": self.version, "startTime": "2026-05-04T10:00:00.000Z"}
        if self.chance(0.5):
            data["selectedModel"] = self.model[""] = self.random.choice(MODELS)
        if self.chance(0.5):
            data["context"] = {
                "cwd": "/home/ana/shop",
                "gitRoot": "/home/ana/shop",
                "branch": "main",
            }
        self.write("session.start", data)

    def prompt(self) -> None:
        data: dict[str, Any] = {"content": self.text("ask"), "attachments": []}
        if self.chance(0.6):
            data["transformedContent"] = (
                f"<current_datetime>now</current_datetime>\n\n{data['content']}"
            )
        if self.chance(0.1):
            data["source"] = "skill-review"
        if self.chance(0.1):
            data["isAutopilotContinuation"] = True
        if self.chance(0.1):
            data["delivery"] = self.random.choice(("idle", "steering", "queued"))
        if self.chance(0.3):
            data["agentMode"] = self.random.choice(("interactive", "plan", "autopilot"))
        self.write("user.message", data)

    def turn(self, child: dict[str, str] | None = None) -> None:
        data, agent = self.of(child)
        if child is None:
            self.write("assistant.turn_start", {"turnId": str(self.random.randrange(3))})
        for _ in range(self.random.choice((1, 1, 1, 2, 3)) if self.version == "0.0.372" else 1):
            self.answer(dict(data), agent, child)
        if self.chance(0.8):
            self.finish_calls()
        if child is None and self.chance(0.9):
            self.write("assistant.turn_end", {"turnId": "0"})

    def answer(self, data: dict[str, Any], agent: str | None, child: dict[str, str] | None) -> None:
        whose = "" if child is None else child["call"]
        data |= {
            "messageId": self.next("m"),
            "content": self.text("say") if self.chance(0.7) else "",
        }
        model = self.model.setdefault(whose, self.random.choice(MODELS))
        if self.chance(0.3):
            data["model"] = model
        if self.chance(0.3):
            data |= {"reasoningText": self.text("think"), "reasoningOpaque": "b3BhcXVl"}
        if self.chance(0.15):
            thought = data.get("reasoningText") or self.text("think")
            told = {k: v for k, v in data.items() if k == "parentToolCallId"}
            self.write(
                "assistant.reasoning",
                told | {"reasoningId": self.next("r"), "content": thought},
                agentId=agent,
            )
        if self.chance(0.8):
            data["outputTokens"] = self.random.randrange(1, 100)
            self.output[model] = self.output.get(model, 0) + data["outputTokens"]
        calls = [self.call(whose) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        data["toolRequests"] = calls
        self.made_by |= {call["toolCallId"]: model for call in calls}
        parts = self.random.choice((1, 1, 1, 2)) if self.version == "1.0.102" else 1
        for part in range(parts):
            piece = dict(data)
            if parts > 1:
                piece |= {
                    "apiCallId": "api-" + data["messageId"],
                    "chunkIndex": part,
                    "chunkCount": parts,
                }
                piece |= {"messageId": f"{data['messageId']}.{part}"}
            if part:
                piece |= {"content": self.text("rest"), "toolRequests": []}
                piece.pop("outputTokens", None)
                piece.pop("reasoningText", None)
            self.write("assistant.message", piece, agentId=agent)
        for call in calls:
            if call["name"] == "task" and self.chance(0.9):
                self.spawn(call, agent)

    def call(self, whose: str) -> dict[str, Any]:
        name = self.random.choice(("bash", "view", "edit", "report_intent", "task", "apply_patch"))
        call: dict[str, Any] = {"toolCallId": self.next("c"), "name": name, "type": "function"}
        call["arguments"] = {"path": "/home/ana/shop/a.py", "note": self.text("note")}
        if name == "task":
            call["arguments"] = {
                "prompt": self.text("task"),
                "description": "d",
                "agent_type": "explore",
            }
        if name == "apply_patch":
            call |= {"type": "custom", "arguments": self.text("patch")}
        self.waiting.append((call["toolCallId"], whose))
        return call

    def spawn(self, call: dict[str, Any], spawner: str | None) -> None:
        child = {"call": call["toolCallId"], "agent": self.next("agent-")}
        if self.version == "1.0.40":
            child["agent"] = call["toolCallId"]
        self.children.append(child)
        old = self.version == "0.0.372"
        data: dict[str, Any] = {"toolCallId": child["call"], "agentName": "explore"}
        data |= {"agentDisplayName": "Explore", "agentDescription": "Looks"}
        if self.chance(0.3):
            data["model"] = self.model[child["call"]] = self.random.choice(MODELS)
        self.write(
            "custom_agent.started" if old else "subagent.started",
            data,
            agentId=child["agent"] if self.named_agents else None,
        )

    def finish_calls(self) -> None:
        self.random.shuffle(self.waiting)
        while self.waiting and self.chance(0.85):
            call, whose = self.waiting.pop()
            child = next((c for c in self.children if c["call"] == whose), None)
            data, agent = self.of(child)
            if self.chance(0.8):
                start = data | {
                    "toolCallId": call,
                    "toolName": self.name_of(call),
                    "arguments": {"x": 1},
                }
                self.write("tool.execution_start", start, agentId=agent)
            self.complete(call, data, agent)
            if self.chance(0.05):
                self.complete(call, data, agent)

    def name_of(self, call: str) -> str:
        for event in self.events:
            for request in event["data"].get("toolRequests") or []:
                if request["toolCallId"] == call:
                    return str(request["name"])
        return "bash"

    def complete(self, call: str, data: dict[str, Any], agent: str | None) -> None:
        data = data | {"toolCallId": call, "success": self.chance(0.85)}
        if self.chance(0.6):
            data["model"] = self.made_by[call]
        if data["success"]:
            data["result"] = {
                "content": self.text("got") if self.chance(0.9) else "",
                "detailedContent": "shown",
            }
        else:
            code = self.random.choice(("failure", "failure", "interrupted"))
            data["error"] = {"message": self.text("no"), "code": code}
        self.write("tool.execution_complete", data, agentId=agent)

    def child_turn(self) -> None:
        if self.children:
            child = self.random.choice(self.children)
            self.turn(child)
            if self.chance(0.3):
                data: dict[str, Any] = {
                    "toolCallId": child["call"],
                    "agentName": "explore",
                    "totalTokens": 5,
                }
                self.write(
                    "subagent.completed",
                    data,
                    agentId=child["agent"] if self.named_agents else None,
                )

    def shell(self) -> None:
        call = self.next("u")
        self.write(
            "tool.user_requested",
            {"toolCallId": call, "toolName": "bash", "arguments": {"command": "ls"}},
        )
        data = {
            "toolCallId": call,
            "success": True,
            "isUserRequested": True,
            "result": {"content": self.text("ls")},
        }
        self.write("tool.execution_complete", data)

    def compact(self) -> None:
        if not self.compacting:
            self.write(
                "session.compaction_start", {"conversationTokens": 9} if self.chance(0.5) else {}
            )
        else:
            data: dict[str, Any] = {"success": self.chance(0.8)}
            data |= (
                {"summaryContent": self.text("sum")} if data["success"] else {"error": "too long"}
            )
            self.write("session.compaction_complete", data)
        self.compacting = not self.compacting

    def model_change(self) -> None:
        kind, key = self.random.choice(
            (("session.model_change", "newModel"), ("session.auto_mode_resolved", "chosenModel"))
        )
        self.model[""] = self.random.choice(MODELS)
        self.write(kind, {key: self.model[""]})

    def mode_change(self) -> None:
        modes = ("interactive", "plan", "autopilot")
        self.write(
            "session.mode_changed", {"previousMode": "plan", "newMode": self.random.choice(modes)}
        )

    def system(self) -> None:
        text = self.random.choice(("You help.", "You help more."))
        self.write(
            "system.message", {"role": self.random.choice(("system", "developer")), "content": text}
        )

    def notify(self) -> None:
        kind = self.random.choice(("shell_completed", "agent_completed", "instruction_discovered"))
        self.write("system.notification", {"content": self.text("notice"), "kind": {"type": kind}})

    def skill(self) -> None:
        what = self.random.choice(("invoked", "delivered", "ref"))
        if what == "invoked" or not self.skills:
            self.skills.append(self.text("skill"))
            self.write(
                "skill.invoked", {"name": "review", "path": "/s", "content": self.skills[-1]}
            )
        elif what == "delivered":
            self.write(
                "skill.context_delivered", {"content": self.text("context"), "source": "review"}
            )
        else:
            known = hashlib.sha256(self.random.choice(self.skills).encode()).hexdigest()
            data = {"contentId": known, "prefix": "<s>", "suffix": "</s>", "source": "review"}
            self.write("skill.context_delivered_ref", data)

    def fail(self) -> None:
        self.write("session.error", {"errorType": "query", "message": self.text("error")})

    def notice(self) -> None:
        self.write("session.mode_notice_delivered", {"mode": "plan", "content": self.text("mode")})

    def abort(self) -> None:
        self.write("abort", {"reason": "user initiated"})
        self.waiting.clear()

    def end(self) -> None:
        if self.chance(0.6):
            metrics = {
                m: {"requests": {"count": 1, "cost": 1}, "usage": self.usage(n)}
                for m, n in self.output.items()
            }
            data = {
                "shutdownType": "routine",
                "modelMetrics": metrics,
                "codeChanges": {"linesAdded": 1},
            }
            self.write("session.shutdown", data)
        self.output.clear()
        self.waiting.clear()
        data = {"resumeTime": "2026-05-04T11:00:00.000Z", "eventCount": len(self.events)}
        if self.chance(0.4):
            data["selectedModel"] = self.model[""] = self.random.choice(MODELS)
        self.write("session.resume", data)

    def usage(self, output: int) -> dict[str, int]:
        return {
            "inputTokens": output * 10,
            "outputTokens": output,
            "cacheReadTokens": output,
            "cacheWriteTokens": 0,
        }

    def noise(self) -> None:
        junk = (1, "x", None, True, [], {}, {"a": 1}, "model-z")
        fields = self.random.sample(FIELDS, 3)
        data = {f: self.random.choice(junk) for f in fields if f not in ("model",)}
        self.write(self.random.choice(NOISE), data)

    def rewind(self, kept: int) -> None:
        """The end of the log is cut off; what follows is written as if it had never been."""
        self.rewinds += 1
        self.events = self.events[:kept]
        started = {
            e["data"].get("toolCallId") for e in self.events if e["type"].endswith("started")
        }
        self.children = [child for child in self.children if child["call"] in started]
        self.waiting.clear()
        self.compacting = False

    def play(self, steps: int) -> list[dict[str, Any]]:
        if not self.events and self.chance(0.9):
            self.start()
        often = [self.prompt, self.turn, self.turn, self.child_turn, self.finish_calls]
        rarely = [
            self.shell,
            self.compact,
            self.model_change,
            self.mode_change,
            self.system,
            self.notify,
            self.skill,
        ]
        rarely += [self.fail, self.notice, self.abort, self.end, self.noise, self.noise]
        for _ in range(steps):
            self.random.choice(often if self.chance(0.6) else rarely)()
        return self.events


def lines_of(events: list[dict[str, Any]]) -> list[bytes]:
    return [
        json.dumps(e, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for e in events
    ]
