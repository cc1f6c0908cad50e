"""Fields of types that nobody expects: every record is used or counted, nothing is ever raised."""

import json
import random
from pathlib import Path

import pytest

from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.sources.copilot_cli.events import KNOWN
from unspool.trajectory import encode_trajectory

FIELDS = """sessionId context selectedModel modelMetrics codeChanges newModel newMode content kind role
transformedContent attachments source delivery agentMode interactionId messageId apiCallId chunkIndex
toolRequests reasoningText reasoningBlocks outputTokens toolCallId toolName arguments success result
error toolTelemetry shellExecution parentToolCallId agentName model parentId summaryContent
checkpointNumber legacySession permissionRequest name contentId prefix inputTokens message reason
remoteSessionId assetId data""".split()  # noqa: SIM905 - a list of words is read more easily
ODD = (
    None, 1, -1.5, True, "text", "", [], {}, ["a", 1, None], {"type": "x", "path": 3}, "c1", 10**30,
    [{"toolCallId": "c1", "name": "task", "arguments": {"prompt": "p"}}],
    [{"type": "file", "path": [1]}],
    {"m": {"usage": {"inputTokens": "x"}, "requests": 7}}, {"cwd": 5, "branch": "b"}, "\ud800",
    {"chatMessages": [{"role": 5, "content": {}}, 7]}, {"content": [], "binaryResultsForLlm": [{}]},
)  # fmt: skip
COMPANIONS = ("workspace.yaml", "vscode.metadata.json", "rewind-snapshots/index.json",
              "checkpoints/index.md", "checkpoints/001-x.md", "checkpoints/a.json",
              "vscode.requests.metadata.json", "plan.md")  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_odd_types_are_never_raised(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "session-state" / "00000000-0000-4000-8000-000000000001"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "rewind-snapshots").mkdir()
    types = sorted(KNOWN) * 2
    with open(folder / "events.jsonl", "w") as log:
        for number, kind in enumerate(types):
            data = {name: rng.choice(ODD) for name in FIELDS if rng.random() < 0.7}
            event = {"type": kind, "data": data if rng.random() < 0.95 else rng.choice(ODD)}
            event["id"] = f"e{number}" if rng.random() < 0.9 else rng.choice(ODD)
            event["timestamp"] = rng.choice((*ODD, "2026-05-04T10:00:00Z"))
            event["agentId"] = rng.choice((None, None, "a1", "c1", 5))
            log.write(json.dumps(event) + "\n")
    for name in COMPANIONS:
        held = {key: rng.choice(ODD) for key in ("id", "name", "snapshots", "customTitle", "title")}
        (folder / name).write_text(json.dumps(held))
    tally = Tally()
    made = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert tally.records >= len(types)
    for trajectory in made:
        encode_trajectory(trajectory)


def test_a_request_may_call_its_id_plainly_id(tmp_path: Path) -> None:
    folder = tmp_path / "session-state" / "00000000-0000-4000-8000-000000000002"
    folder.mkdir(parents=True)
    said = {"messageId": "m1", "content": "", "toolRequests": [{"id": "c1", "name": "bash"}]}
    returned = {"toolCallId": "c1", "success": True, "result": {"content": "two files"}}
    events = [
        {"type": "user.message", "id": "e0", "data": {"content": "go"}},
        {"type": "assistant.message", "id": "e1", "data": said},
        {"type": "tool.execution_start", "id": "e2", "data": {"toolCallId": "c1"}},
        {"type": "tool.execution_complete", "id": "e3", "data": returned},
    ]
    log = "".join(json.dumps({**e, "timestamp": "2026-05-04T10:00:00Z"}) + "\n" for e in events)
    (folder / "events.jsonl").write_text(log)
    (made,) = reduce_all(facts_of(origins_of(tmp_path)))
    assert [call.id for m in made.messages for call in m.tool_calls or ()] == ["c1"]
    assert [(m.tool_call_id, m.content) for m in made.messages[-1:]] == [("c1", "two files")]
