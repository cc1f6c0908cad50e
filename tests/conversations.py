"""Conversations made by hand, for what shows them: one of everything, a hostile one, a long one."""

import base64
import json
import struct
import zlib
from typing import Any

from unspool.facts import Attachment
from unspool.reduce.totals import complete
from unspool.trajectory import (
    Branch,
    Link,
    Mark,
    Message,
    ToolCall,
    ToolFunction,
    Trajectory,
    Usage,
    Workspace,
)


def call(ident: str, name: str, arguments: dict[str, Any] | str, **more: Any) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=ident, function=ToolFunction(name, text), **more)


def result(ident: str, content: str, **more: Any) -> Message:
    return Message(role="tool", content=content, tool_call_id=ident, **more)


def picture(colour: bytes = b"\x2a\x9d\x8f", side: int = 64) -> str:
    """A one-coloured PNG as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = (b"\0" + colour * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(data + chunk(b"IEND", b"")).decode()


ANSWER = """\
The limiter refilled **per call**, so a burst of short calls never waited. I changed two things:

1. the bucket refills by the clock, not by the call;
2. `acquire()` sleeps for exactly the missing tokens.

```python
def refill(self, now: float) -> None:
    # whole tokens only: fractions stay in the clock
    gained = int((now - self.stamp) * self.rate)
    self.tokens = min(self.size, self.tokens + gained)
    self.stamp += gained / self.rate
```

| case | before | after |
|---|---:|---:|
| burst of 100 | 0.02 s | 9.90 s |
| steady 10/s | 10.0 s | 10.0 s |

> The old behaviour was relied on in `bench/`; I left that alone.

See the [note on token buckets](https://example.org/buckets).
"""
OLD = "def refill(self):\n    self.tokens += self.rate\n    return self.tokens\n"
NEW = (
    "def refill(self, now):\n    gained = int((now - self.stamp) * self.rate)\n"
    "    self.tokens = min(self.size, self.tokens + gained)\n    return self.tokens\n"
)


def sample() -> tuple[Trajectory, list[Trajectory]]:
    """A conversation with one of everything, and its sub-agent."""
    child = Trajectory(
        "7d1e0000-child",
        [
            Message(role="user", content="Find every caller of refill()."),
            Message(
                role="assistant",
                content="",
                model="small-model",
                tool_calls=[
                    call("g1", "Grep", {"pattern": "refill\\(", "path": "/home/ada/limiter/src"})
                ],
            ),
            result("g1", "src/limiter.py:14\nsrc/pool.py:88"),
            Message(
                role="assistant",
                content="Two callers: `limiter.py` and `pool.py`.",
                model="small-model",
            ),
        ],
        source="claude-code",
        title="Find callers",
        parent=Link("7d1e2f3a-0001-4000-8000-000000000001", tool_call_id="c2"),
    )
    messages = [
        Message(role="system", content="You are a coding agent. Follow the house rules."),
        Message(
            role="user",
            content="<context>branch main</context>\nThe rate limiter lets bursts through. Why?",
            typed="The rate limiter lets bursts through. Why?",
            mode="agent",
            timestamp="2026-03-04T09:00:00Z",
            attachments=[
                Attachment(
                    kind="file",
                    name="limiter.py",
                    path="src/limiter.py",
                    text=OLD,
                    start_line=10,
                    end_line=12,
                ),
                Attachment(
                    kind="image",
                    name="burst.png",
                    media_type="image/png",
                    data=picture(),
                    size_bytes=500,
                ),
            ],
        ),
        Message(
            role="assistant",
            content="I'll look at the limiter first.",
            thinking="The person says bursts pass. Probably the refill is per call. Let me read it.",
            model="big-model-4",
            timestamp="2026-03-04T09:00:06Z",
            usage=Usage(prompt_tokens=18_230, completion_tokens=412, cached_tokens=16_000),
            tool_calls=[
                call("i1", "report_intent", {"intent": "Reading the limiter"}),
                call(
                    "c1",
                    "Read",
                    {"file_path": "/home/ada/limiter/src/limiter.py"},
                    duration_ms=31.0,
                ),
                call(
                    "c2",
                    "Task",
                    {"description": "Find callers", "prompt": "Find every caller"},
                    child_id=child.conversation_id,
                    duration_ms=18_400.0,
                ),
            ],
        ),
        result("i1", "Intent logged"),
        result("c1", OLD),
        result("c2", "Two callers: limiter.py and pool.py."),
        Message(
            role="assistant",
            content="",
            model="big-model-4",
            timestamp="2026-03-04T09:00:40Z",
            usage=Usage(prompt_tokens=19_800, completion_tokens=655),
            tool_calls=[
                call(
                    "c3",
                    "Edit",
                    {
                        "file_path": "/home/ada/limiter/src/limiter.py",
                        "old_string": OLD,
                        "new_string": NEW,
                    },
                    duration_ms=12.0,
                ),
                call(
                    "c4",
                    "Bash",
                    {
                        "command": "python -m pytest -q tests/test_limiter.py && echo ok",
                        "description": "Run tests",
                    },
                    status="failed",
                    duration_ms=4_210.0,
                ),
            ],
        ),
        result("c3", "The file was updated."),
        result(
            "c4",
            "\x1b[31mFAILED\x1b[0m test_burst - TypeError: refill() missing 'now'\n1 failed in 0.3s",
            is_error=True,
        ),
        Message(
            role="assistant",
            content=ANSWER,
            model="big-model-4",
            timestamp="2026-03-04T09:02:10Z",
            usage=Usage(prompt_tokens=21_000, completion_tokens=1_204),
        ),
        Message(
            role="user",
            content="Caveat: the messages below were made by the program.",
            kind="injected",
        ),
        Message(
            role="user",
            content="This session continues an earlier one. Summary: the limiter was fixed.",
            kind="summary",
        ),
        Message(
            role="user", content="/test --all", kind="command", timestamp="2026-03-04T09:05:00Z"
        ),
        Message(role="user", content="412 passed in 8.1s", kind="output"),
        Message(
            role="user",
            content="Good. Now the docs:\n\n```md\n# Limiter\n```\n",
            timestamp="2026-03-04T09:06:00Z",
        ),
        Message(
            role="assistant",
            content="Overloaded, try again",
            kind="error",
            model="big-model-4",
            timestamp="2026-03-04T09:06:03Z",
        ),
        Message(
            role="assistant",
            content="Done: the README says it now.",
            model="big-model-4",
            timestamp="2026-03-04T09:06:30Z",
        ),
    ]
    root = Trajectory(
        "7d1e2f3a-0001-4000-8000-000000000001",
        messages,
        source="claude-code",
        agent_version="2.1.97",
        title="Rate limiter lets bursts through",
        started_at="2026-03-04T09:00:00.000Z",
        ended_at="2026-03-04T09:06:30.000Z",
        workspace=Workspace(path="/home/ada/limiter", branch="main"),
        children=[Link(child.conversation_id, tool_call_id="c2", name="Find callers")],
        marks=[
            Mark("compaction", 10, data={"trigger": "auto", "pre_tokens": 155_000}),
            Mark("turn_end", 10),
        ],
        branches=[
            Branch(14, [Message(role="user", content="No, the other docs.")], reason="rewind")
        ],
    )
    for made in (root, child):
        complete(made, [])
    return root, [child]


HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "[click](javascript:document.title='owned')",
    "[data](data:text/html,<script>alert(1)</script>)",
    "![pixel](https://evil.example/pixel.png)",
    "<a href='java\tscript:alert(1)'>x</a> <svg/onload=alert(1)> <iframe src=//evil.example>",
    "</div></article></main></body><style>body{display:none}</style><base href='//evil.example'>",
    "```\"><script>document.title='owned'</script>\ncode\n```",
    "```html\n<script>document.title='owned'</script>\n```",
    "access\u202e\u2066// only admins\u2069\u2066 and \u202d more",
    "hidden \U000e0049\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065 text\u200b here",
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x9b1A \x07\x08\x00 end",
    "<!-- <!--> --!> ]]> &lt;script&gt; &#x3c;script&#x3e;",
    "| a | b |\n|---|\n| <b onclick=alert(1)>x |",
    "<form action=//evil.example><input name=q><button>go</button></form>"
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
)


def hostile() -> Trajectory:
    """Everything that a conversation may try, in every place where it is shown."""
    messages: list[Message] = []
    for number, text in enumerate(HOSTILE):
        ident = f"x{number}"
        messages += [
            Message(role="user", content=f"{text}\nplain", timestamp="2026-03-04T09:00:00Z"),
            Message(
                role="assistant",
                content=text,
                thinking=text,
                model=text,
                mode=text,
                tool_calls=[
                    call(ident, text, {"command": text, text: text}),
                    call(
                        f"{ident}e",
                        "Edit",
                        {"file_path": text, "old_string": "a", "new_string": text},
                    ),
                ],
            ),
            result(ident, text, is_error=True),
            Message(role="user", content=text, kind="injected"),
            Message(
                role="user",
                content=f"<b>{text}",
                typed=text,
                attachments=[
                    Attachment(kind=text, name=text, path=text, text=text),
                    Attachment(
                        kind="image", name=text, media_type="image/svg+xml", data="PHN2Zy8+"
                    ),
                    Attachment(kind="image", name=text, media_type="image/png", data='"><script>'),
                    Attachment(kind="image", name=text, uri="https://evil.example/i.png"),
                ],
            ),
        ]
    made = Trajectory(
        "../../<script>",
        messages,
        source="claude-code",
        title=HOSTILE[0] + "\u202e",
        agent_version=HOSTILE[1],
        workspace=Workspace(path=HOSTILE[0], branch=HOSTILE[9]),
        partial=[HOSTILE[1]],
        marks=[Mark(HOSTILE[0], 3), Mark("compaction", 4, data={"trigger": HOSTILE[1]})],
    )
    complete(made, [])
    return made


def long(count: int = 5000) -> Trajectory:
    """A conversation of `count` messages: a prompt and some tool rounds, over and over."""
    messages: list[Message] = []
    number = 0
    while len(messages) < count:
        number += 1
        if number % 12 == 1:
            messages.append(
                Message(role="user", content=f"Task {number}: make part {number} faster, please.")
            )
        ident = f"c{number}"
        made = (
            call(ident, "Bash", {"command": f"python -m part_{number} --profile"})
            if number % 3
            else call(
                ident,
                "Edit",
                {"file_path": f"src/part_{number}.py", "old_string": OLD, "new_string": NEW},
            )
        )
        messages.append(
            Message(
                role="assistant",
                content=ANSWER if number % 4 == 0 else f"Step {number}: looking at the `profile`.",
                thinking="Let me think about it. " * 10 if number % 5 == 0 else None,
                tool_calls=[made],
                usage=Usage(prompt_tokens=number * 10, completion_tokens=number),
            )
        )
        messages.append(
            result(ident, f"line of output {number}\n" * 60, is_error=number % 40 == 0 or None)
        )
    made_long = Trajectory("long-0001", messages[:count], source="claude-code", title="A long one")
    complete(made_long, [])
    return made_long
