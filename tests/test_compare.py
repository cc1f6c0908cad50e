"""Comparing trajectory files, and messages of one conversation, as a user would."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.harness import PEAK_KB
from unspool.cli import group
from unspool.inspect.compare import compare


def conversation(ident: str, *contents: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"conversation_id": ident, "messages": messages, **fields}


def write(folder: Path, name: str, *lines: Any) -> str:
    path = folder / name
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, list(arguments))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    a = write(
        tmp_path,
        "a.jsonl",
        conversation("same", "x"),
        conversation("gone", "x"),
        conversation("said", "one", "two", title="t"),
        conversation("around", "x", context={"contextTypes": "file"}),
        conversation("order", "x", title="t"),
    )
    b = write(
        tmp_path,
        "b.jsonl",
        # The same fields in another order are the same conversation.
        {"title": "t", **conversation("order", "x")},
        conversation("said", "one", "2", context={"x": 1}),
        conversation("around", "x", context={"contextTypes": "none"}),
        conversation("new", "x"),
        conversation("same", "x"),
    )
    return a, b


def test_all_five_outcomes(pair: tuple[str, str]) -> None:
    made = compare(*pair)
    assert (made.in_a, made.in_b, made.equal) == (5, 5, 2)
    assert (made.ids_only_in_a, made.ids_only_in_b) == (["gone"], ["new"])
    assert [change.conversation_id for change in made.payload] == ["said"]
    assert [change.conversation_id for change in made.context] == ["around"]
    assert made.payload[0].first_message == 1
    assert made.fields == {"context": 2, "messages": 1, "title": 1}


def test_shown_to_a_person_and_to_a_program(pair: tuple[str, str]) -> None:
    shown = run("compare", *pair)
    assert shown.exit_code == 1
    assert "different in context only: 1\n  around  context" in shown.stdout
    assert "said  messages, title, context (from message 1)" in shown.stdout
    made = json.loads(run("compare", *pair, "--json", "--limit", "0").stdout)
    assert (made["only_in_a"], made["ids_only_in_a"]) == (1, [])


def test_exit_codes_are_those_of_diff(pair: tuple[str, str], tmp_path: Path) -> None:
    a, _ = pair
    assert run("compare", a, a).exit_code == 0
    assert run("compare", *pair).exit_code == 1
    assert run("compare", a, str(tmp_path / "none.jsonl")).exit_code == 2
    broken = write(tmp_path, "broken.jsonl", conversation("same", "x"), '{"conversation_id"')
    assert run("compare", broken, broken).exit_code == 2
    other = write(tmp_path, "other.jsonl", {"some": "thing"})
    trouble = run("compare", a, other)
    assert (trouble.exit_code, trouble.stdout) == (2, "")
    assert "no trajectory JSONL" in trouble.stderr
    assert run("compare", a).exit_code == 2


def test_fields_can_be_ignored(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "x", file_path="old", origins=["o"]))
    b = write(tmp_path, "b.jsonl", conversation("c", "x", file_path="new"))
    assert run("compare", a, b).exit_code == 1
    ignored = ("--ignore", "file_path", "--ignore", "origins")
    assert run("compare", a, b, *ignored).exit_code == 0
    assert run("compare", a, b, "--id", "c", *ignored).exit_code == 0


def test_null_and_an_empty_object_are_absent(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "x", title=None, context={}, marks=[{"a": 1}]))
    b = write(tmp_path, "b.jsonl", conversation("c", "x", marks=[{"a": 1, "b": None, "c": {}}]))
    assert run("compare", a, b).exit_code == 0
    assert run("compare", a, b, "--id", "c").exit_code == 0
    zero = write(tmp_path, "zero.jsonl", conversation("c", "x", title="", marks=[{"a": 1}]))
    assert compare(a, zero).fields == {"title": 1}


def test_the_file_path_counts_as_context(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "x", file_path="old"))
    b = write(tmp_path, "b.jsonl", conversation("c", "x", file_path="new", context={"k": 1}))
    report = compare(a, b)
    assert (report.different_context, report.different_payload) == (1, 0)
    assert run("compare", a, b).exit_code == 1


def test_an_id_that_stands_twice_means_the_first_and_the_second(tmp_path: Path) -> None:
    first, second = conversation("c", "1"), conversation("c", "2")
    a = write(tmp_path, "a.jsonl", first, second)
    b = write(tmp_path, "b.jsonl", first, second, conversation("c", "3"))
    made = compare(a, b)
    assert (made.equal, made.only_in_a, made.only_in_b) == (2, 0, 1)
    back = compare(b, a)
    assert (back.equal, back.only_in_a, back.only_in_b) == (2, 1, 0)


def test_one_id_that_stands_twice_differs_where_any_of_them_does(tmp_path: Path) -> None:
    """What `compare` calls different must not be the same when it is looked at by itself."""
    first = conversation("c", "1")
    a = write(tmp_path, "a.jsonl", first, conversation("c", "2"))
    b = write(tmp_path, "b.jsonl", first, conversation("c", "3"))
    shown = run("compare", a, b, "--id", "c")
    assert (shown.exit_code, "the 2nd" in shown.stderr) == (1, True)
    assert 'messages[0].content\n  - "2"\n  + "3"' in shown.stdout
    assert json.loads(run("compare", a, b, "--id", "c", "--json").stdout)["number"] == 2
    assert run("compare", a, b, "--id", "c", "--ignore", "messages").exit_code == 0
    shown = run("diff-messages", a, b, "c")
    assert (shown.exit_code, "the 2nd" in shown.stderr) == (1, True)
    assert '  - "2"\n  + "3"' in shown.stdout
    one = write(tmp_path, "one.jsonl", first)
    only = run("compare", a, one, "--id", "c")
    assert (only.exit_code, only.stdout) == (1, "only in A: c\n")
    assert run("compare", one, one, "--id", "c").exit_code == 0
    assert run("diff-messages", a, one, "c").exit_code == 1
    assert run("diff-messages", one, one, "c").exit_code == 0


@pytest.mark.parametrize("messages", [None, 5, "x", {"a": 1}, [5, None]])
def test_messages_that_are_none(tmp_path: Path, messages: Any) -> None:
    lines = [conversation("x", "y"), {**conversation("c"), "messages": messages}]
    a = write(tmp_path, "a.jsonl", *lines)
    b = write(tmp_path, "b.jsonl", conversation("x", "y"), {"conversation_id": "c"})
    for command in ("compare", "diff-messages"):
        ident = ["c"] if command == "diff-messages" else ["--id", "c"]
        assert run(command, a, b, *ident).exit_code in (0, 1)


def test_lines_of_a_text_that_look_like_a_header(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "x\n-- old comment\n++ old sum"))
    b = write(tmp_path, "b.jsonl", conversation("c", "x\n-- new comment\n++ new sum"))
    shown = run("diff-messages", a, b, "c").stdout
    for line in ("--- old comment", "+-- new comment", "-++ old sum", "+++ new sum"):
        assert f"  {line}\n" in shown


def test_packed_files_compare_too(tmp_path: Path) -> None:
    lines = [conversation(f"c{number}", "x" * number) for number in range(50)]
    a = write(tmp_path, "a.jsonl.gz", *lines)
    b = write(tmp_path, "b.jsonl", *reversed(lines))
    assert compare(a, b).equal == 50
    assert compare(b, a).same


def test_trouble_with_the_contents_is_trouble_not_a_traceback(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "x"))
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(json.dumps(conversation("c", "Q")).encode().replace(b"Q", b"\xff") + b"\n")
    assert run("compare", a, str(bad)).exit_code == 2
    assert run("diff-messages", a, str(bad), "c").exit_code == 2
    packed = tmp_path / "cut.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(a).read_bytes() * 1000)[:-8])
    trouble = run("compare", a, str(packed))
    assert (trouble.exit_code, "damaged" in trouble.stderr) == (2, True)


def test_one_conversation_field_by_field(pair: tuple[str, str]) -> None:
    shown = run("compare", *pair, "--id", "said")
    assert shown.exit_code == 1
    assert 'messages[1].content\n  - "two"\n  + "2"' in shown.stdout
    assert 'title\n  - "t"\n' in shown.stdout
    assert run("compare", *pair, "--id", "same").exit_code == 0
    gone = run("compare", *pair, "--id", "gone")
    assert (gone.exit_code, gone.stdout) == (1, "only in A: gone\n")
    assert run("compare", *pair, "--id", "nobody").exit_code == 2


def test_diff_messages(tmp_path: Path) -> None:
    calls = [{"id": "t", "function": {"name": "ls", "arguments": "{}"}}]
    old = conversation("c", "one\ntwo\nthree", "same", "x", title="old")
    new = conversation("c", "one\n2\nthree", "same", "x", "y", title="new")
    new["messages"][2]["tool_calls"] = calls
    a, b = write(tmp_path, "a.jsonl", old), write(tmp_path, "b.jsonl", new)
    shown = run("diff-messages", a, b, "c")
    assert shown.exit_code == 1
    assert "messages[0].content\n" in shown.stdout
    assert "  -two\n  +2\n" in shown.stdout
    assert "messages[2].tool_calls\n  + [" in shown.stdout
    assert "title" not in shown.stdout
    assert run("diff-messages", a, b, "c", "--idx", "1").exit_code == 0
    one = json.loads(run("diff-messages", a, b, "c", "--idx", "3", "--json").stdout)
    assert one["messages"] == {"A": 3, "B": 4}
    assert one["differences"] == [{"path": "messages[3]", "b": {"role": "user", "content": "y"}}]
    assert run("diff-messages", a, b, "c", "--idx", "9").exit_code == 2
    assert run("diff-messages", a, b, "other").exit_code == 2


def test_colours_only_on_a_terminal(tmp_path: Path) -> None:
    a = write(tmp_path, "a.jsonl", conversation("c", "1"))
    b = write(tmp_path, "b.jsonl", conversation("c", "2"))
    assert "\x1b[" not in run("diff-messages", a, b, "c").stdout
    coloured = CliRunner().invoke(group, ["diff-messages", a, b, "c"], color=True).stdout
    assert "\x1b[31m" in coloured


MEASURE = (
    PEAK_KB
    + """
import sys
from unspool.inspect.compare import compare
before = peak_kb()
made = compare(sys.argv[1], sys.argv[2])
print(peak_kb() - before, made.equal, made.different_payload)
"""
)


def test_files_are_streamed_not_held(tmp_path: Path) -> None:
    """64 MB against 64 MB: what is kept is an index, so memory hardly grows."""
    for name, word in (("a.jsonl", "x"), ("b.jsonl", "y")):
        with open(tmp_path / name, "w") as file:
            for number in range(4_000):
                text = word if number % 10 == 0 else "z"
                file.write(json.dumps(conversation(f"c{number}", text * 16_000)) + "\n")
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert made[1:] == ["3600", "400"]
    assert int(made[0]) < 30_000, "kilobytes"
