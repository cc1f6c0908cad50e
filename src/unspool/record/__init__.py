"""Record: a library for people who build agents. What happens is journalled at once, and bounded.

    recorder = Recorder(agent="my-agent", path="journal")
    with recorder.conversation("chat-1"):
        with recorder.request("some-model", messages, tools) as request:
            request.respond(client.chat(messages))
        with recorder.tool("read_file", {"path": "a.txt"}, "call-1") as tool:
            tool.result("contents")
    recorder.export("trajectories")

`docs/record.md` is the page to read.
"""

from unspool.record.ledger import Change
from unspool.record.recorder import Recorder
from unspool.record.replaying import replay
from unspool.record.spans import Conversation, Executor, Request, Tool, bind

__all__ = [
    "Change",
    "Conversation",
    "Executor",
    "Recorder",
    "Request",
    "Tool",
    "bind",
    "replay",
]
