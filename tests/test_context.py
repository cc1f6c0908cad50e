"""The context scan: what user messages say about the state around the request."""

import time
from typing import Any

import msgspec
import pytest

from tests.harness import corpus
from unspool.pipeline.finish import enrich
from unspool.prompts.context import code_snippets, file_mentions, participants
from unspool.trajectory import Branch, Message, Trajectory


def scan(*texts: str, telemetry: bool = True) -> Trajectory:
    messages = [Message("user", text) for text in texts]
    made = Trajectory("c", messages, telemetry_type="engine.messages" if telemetry else None)
    enrich(made)
    return made


def context(text: str) -> dict[str, Any]:
    made: dict[str, Any] = scan(text).context["message_contexts"][0]
    return made


def test_every_kind_of_context_goes_where_it_belongs() -> None:
    made = context(
        "<environment_info>\nBeOS\n</environment_info>\n"
        '<workspace_info>\n/w\n<workspaceFolder path="/w">\n</workspaceFolder>\n</workspace_info>\n'
        "<context>\nMonday\n<todoList>\n- sort\n</todoList>\n</context>\n"
        "<editorContext>\nThe user's current file is /w/a.py. Nothing is selected.\n</editorContext>\n"
        "<repoContext>\nbranch: main\n</repoContext>\n"
        "<codeToEdit>\nx = 1\n</codeToEdit>\n"
        "<reminderInstructions>\nBe brief\n</reminderInstructions>\n"
        "<userRequest>\nsort it\n</userRequest>"
    )
    assert made["environment_info"] == "BeOS"
    assert made["workspace_info"].startswith("/w\n")
    assert made["context_info"].startswith("Monday\n")
    assert made["todo_list"] == "- sort"
    assert made["editor_context"].startswith("The user's current file")
    assert made["repo_context"] == "branch: main"
    assert made["code_to_edit"] == ["x = 1"]
    assert made["reminder_instructions"] == "Be brief"
    assert made["user_request"] == "sort it"
    assert made["file_references"] == ["/w/a.py"]
    assert "other_tags" not in made


def test_the_request_is_the_one_that_was_typed() -> None:
    made = context("<userRequest>\none\n</userRequest>\n<request>\ntwo\n</request>")
    assert made["user_request"] == "one"
    assert "message_contexts" not in scan("improve this:\n<prompt>\nbe a cat\n</prompt>").context


def test_siblings_stay_apart_and_equal_ones_are_one() -> None:
    block = "<repoContext>\n{}\n</repoContext>\n"
    assert context(block.format("a") + block.format("b"))["repo_context"] == ["a", "b"]
    assert context(block.format("a") * 2)["repo_context"] == "a"


def test_attachments_are_listed_by_their_attributes_and_files_once() -> None:
    made = context(
        "<attachments>\n"
        '<attachment id="file:a.py" filePath="/w/a.py">\n<div>\n</div>\n</attachment>\n'
        '<attachment id="src" folderPath="/w/src" />\n'
        '<attachment id="again" filePath="/w/a.py">\nx\n</attachment>\n'
        '<error path="/w/b.py" line=3 severity="hint">\nodd\n</error>\n'
        "</attachments>\n<userRequest>\nlook at #file:c.py\n</userRequest>"
    )
    assert [a.get("id", a["tag"]) for a in made["attachments"]] == [
        "file:a.py",
        "src",
        "again",
        "error",
    ]
    assert made["attachments"][3]["line"] == 3
    assert made["file_references"] == ["/w/a.py", "/w/src", "/w/b.py", "c.py"]
    assert "other_tags" not in made, "what a file holds is no tag of the prompt"


def test_unknown_tags_are_kept_with_a_short_snippet() -> None:
    made = context(
        f"<novel>\n{'word ' * 100}\n</novel>\n<novel>\nagain\n</novel>\n"
        "<context>\n<fresh>\nx\n</fresh>\n</context>"
    )
    novel, fresh = made["other_tags"]
    assert (novel["name"], novel["count"]) == ("novel", 2)
    assert len(novel["snippet"]) <= 160
    assert (fresh["name"], fresh["inside"]) == ("fresh", "context")


def test_prompts_from_before_there_were_tags() -> None:
    made = context(
        "My current OS is: BeOS\nI have the following code in the selection:\nx = 1\nfix it"
    )
    assert made["environment_info"] == "My current OS is: BeOS"
    assert "code_to_edit" in made


def test_the_booleans_tell_what_any_message_holds() -> None:
    made = scan("<environment_info>\nBeOS\n</environment_info>", "@terminal why").context
    flags = made["message_context"]
    assert {name for name, value in flags.items() if value} == {
        "has_environment_info",
        "has_agent_mentions",
    }
    assert [entry["message_index"] for entry in made["message_contexts"]] == [0, 1]


def test_messages_that_say_nothing_of_their_context_leave_none() -> None:
    assert scan("plain words").context == {}


def test_the_mode_of_the_message_stands_with_its_context() -> None:
    made = Trajectory("c", [Message("user", "@workspace hi", mode="ask")])
    enrich(made)
    assert made.context["message_contexts"][0]["mode"] == "ask"


def test_typed_is_set_on_every_user_message_and_branch_but_never_on_context() -> None:
    made = Trajectory(
        "c",
        [
            Message("user", "<environment_info>\nBeOS\n</environment_info>"),
            Message("user", "<userRequest>\none\n</userRequest>"),
            Message("user", "/init", kind="command"),
            Message("user", "done", kind="notification"),
            Message("user", "sent", typed="typed already"),
            Message("assistant", "yes"),
        ],
        branches=[
            Branch(index=1, messages=[Message("user", "<userRequest>\nold\n</userRequest>")])
        ],
    )
    enrich(made)
    assert [m.typed for m in made.messages] == [None, "one", "/init", None, "typed already", None]
    assert made.messages[0].kind == "injected"
    assert made.branches is not None
    assert made.branches[0].messages[0].typed == "old"


def test_enriching_twice_changes_nothing() -> None:
    made = scan(
        "<context>\nMonday\n</context>\n<userRequest>\nhi @workspace\n</userRequest>", "<x>\n</x>"
    )
    once = msgspec.json.encode(made)
    enrich(made)
    assert msgspec.json.encode(made) == once


def test_code_in_fences() -> None:
    text = (
        "```ts\n// filepath: /w/a.ts\nlet a;\n```\ntext\n````md\n```\ninner\n```\n````\n```\nopen"
    )
    first, second = code_snippets(text)
    assert first == {"language": "ts", "path": "/w/a.ts", "lines": 2, "snippet": "let a;"}
    assert second["snippet"] == "```\ninner\n```"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@workspace and @terminal, @workspace", ["@workspace", "@terminal"]),
        ("@docs how", ["@docs"]),
        ("see @docs", []),
        ("mail me@github.com or @github/tools or @vscode.test", []),
        ("@Override void x()", ["@Override"]),
    ],
)
def test_agent_mentions(text: str, expected: list[str]) -> None:
    assert participants(text) == expected


def test_file_mentions() -> None:
    text = "#file:a.py, #file:'my file.py' and #folder:src. #file:a.py"
    assert file_mentions(text) == ["a.py", "my file.py", "src"]


def test_real_rendered_prompts_give_the_words_of_the_person() -> None:
    folder = corpus("vscode", "prompt-snapshots")
    if folder is None:
        pytest.skip("no corpus here")
    import re

    seen = 0
    for path in sorted(folder.glob("*/*.snap")):
        bodies = re.findall(r"### User\n~~~md\n(.*?)\n~~~\n", path.read_text() + "\n", re.DOTALL)
        for body in bodies:
            body = re.sub(r"\n\[copilot_cache_control.*?\]", "", body).rstrip()
            (message,) = scan(body).messages
            if "<userRequest>" in body:
                seen += 1
                assert message.typed, path
                assert "<" not in message.typed, path
            elif body.startswith(("<environment_info>", "When generating code")):
                seen += 1
                assert message.kind == "injected", path
    assert seen > 40


PADDING = ("y" * 99 + "\n") * 50_000
HOSTILE = {
    "attachments": "<attachments>\n"
    + "".join(f'<attachment id="{n}">\n{"x" * 480}\n</attachment>\n' for n in range(10_000))
    + "</attachments>",
    "siblings": "".join(
        f"<instructions>\n{n} {'x' * 460}\n</instructions>\n" for n in range(10_000)
    ),
    "deep": "<context>\n<instructions>\n" * 2_500
    + PADDING
    + "</instructions>\n</context>\n" * 2_500,
    "unknown": "".join(f"<new{n}>\n{'x' * 470}\n</new{n}>\n" for n in range(10_000)),
    "requests": "<userRequest>\nx\n" * 5_000 + PADDING + "</userRequest>\n" * 5_000,
    "nested attribute": f"<attachment x={'[' * 1_000_000}>\nx\n</attachment>",
    "rows of blocks": "<reminder>x</reminder>" * 200_000,
    "fences": "```\n" * 1_200_000,
    "mentions": "@workspace #file:a.py " * 200_000,
    "files": "<editorContext>\n" + "current file is " * 300_000 + "\n</editorContext>",
    "phrases": "<reminder>\n</reminder>\n" + "When generating " * 300_000,
    "old prompts": "I am working in a workspace with the following folders:\n" * 80_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_take_linear_time(name: str) -> None:
    start = time.process_time()
    scan(HOSTILE[name])
    # 0.1 to 1 s on a slow core; anything quadratic takes minutes.
    assert time.process_time() - start < 8
