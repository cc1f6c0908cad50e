"""`unspool extract` as its user sees it: a real process on real files."""

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from bench.telemetry import generate

from tests.harness import CASES, cases, obey_modes
from unspool.pipeline import collect
from unspool.pipeline.batch import Run, open_run
from unspool.pipeline.discover import discover
from unspool.pipeline.job import Job
from unspool.reduce import reduce_facts

TELEMETRY = CASES / "copilot_telemetry"
ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
Done = subprocess.CompletedProcess[bytes]


def run(*args: object, stdin: bytes = b"", limit: int | None = None, modes: bool = False) -> Done:
    def lower() -> None:
        if modes:
            obey_modes()
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-m", "unspool", "extract", *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, env=ENV, preexec_fn=lower)


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n") if line]


def idents(done: Done) -> list[str]:
    return [found["conversation_id"] for found in lines(done.stdout)]


def summary(done: Done) -> dict[str, Any]:
    return json.loads(done.stderr)


def conversation(
    ident: str, *texts: str, stamp: str = "2026-03-04T10:00:00Z", system: bool = True
) -> bytes:
    messages = [{"role": "system", "content": "You help."}] if system else []
    messages += [{"role": "user", "content": text} for text in texts]
    messages.append({"role": "assistant", "content": f"to {ident}"})
    properties = {
        "conversationId": ident,
        "baseModel": "gpt-5",
        "messagesJson": json.dumps(messages, ensure_ascii=False),
    }
    event = {"name": "GitHub.copilot-chat/engine.messages", "time": stamp, "properties": properties}
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """13 conversations in three files, two of them in two files, and a file of no known format."""
    made = tmp_path / "in"
    (made / "sub").mkdir(parents=True)
    for number, name in enumerate(("a.jsonl", "b.jsonl", "sub/c.jsonl")):
        data = b"".join(conversation(f"c{number * 4 + k}", f"hello {k}") for k in range(5))
        (made / name).write_bytes(data)
    (made / "notes.txt").write_text("nothing of ours")
    return made


def test_same_bytes_for_any_number_of_workers(folder: Path) -> None:
    every = [
        run(CASES, folder, "-q", "--workers", n, "--no-require-system-first") for n in (1, 2, 4)
    ]
    assert every[0].stdout == every[1].stdout == every[2].stdout
    assert len(lines(every[0].stdout)) > 20


def test_same_bytes_when_facts_go_to_disk(folder: Path) -> None:
    generate(folder, 6_000_000, files=3)
    plain = run(folder, "-q", "--workers", 2).stdout
    assert plain == run(folder, "-q", "--workers", 2, "--memory-limit", "1M").stdout
    assert plain == run(folder, "-q", "--workers", 1, "--memory-limit", "1M").stdout
    assert len(lines(plain)) > 13


def test_order_and_file_path(folder: Path) -> None:
    found = lines(run(folder, "-q").stdout)
    assert [t["conversation_id"] for t in found] == [f"c{n}" for n in range(13)]
    assert found[0]["file_path"] == "a.jsonl"
    assert found[-1]["file_path"] == "sub/c.jsonl"
    assert {found[4]["file_path"], *found[4]["origins"]} == {"a.jsonl", "b.jsonl"}


def test_summary_counts(folder: Path) -> None:
    done = run(folder, "--json", "-o", folder / "out.jsonl")
    made = summary(done)
    assert done.returncode == 0
    assert (made["files"], made["files_skipped"], made["records"]) == (3, 1, 15)
    assert made["conversations"] == made["written"] == 13
    assert made["merged"] == 2
    parts = ("used", "superseded", "noise", "unrecognised", "problem_records")
    assert sum(made[part] for part in parts) == made["records"]


def test_the_same_summary_for_any_number_of_workers(folder: Path, tmp_path: Path) -> None:
    """Also the samples of problems, of which only some are kept."""
    for number in range(12):
        (folder / f"bad-{number:02d}.jsonl").write_bytes(conversation("c", "x") + b"{bad\n{bad\n")
    told = []
    for workers in (1, 2, 4):
        made = summary(run(folder, "--json", "-o", tmp_path / "x.jsonl", "--workers", workers))
        told.append({k: v for k, v in made.items() if k not in ("seconds", "tag_summary")})
        told[-1].pop("megabytes_per_second")
    assert told[0] == told[1] == told[2]
    assert (told[0]["problems"], len(told[0]["samples"])) == ({"invalid-json": 24}, 5)


def test_stdin(folder: Path) -> None:
    found = lines(run("-", "-q", stdin=(folder / "a.jsonl").read_bytes()).stdout)
    assert len(found) == 5
    assert found[0]["file_path"] == "-"


def test_stdin_is_unpacked(folder: Path) -> None:
    data = (folder / "a.jsonl").read_bytes()
    for packed in (gzip.compress(data), zstandard.compress(data)):
        assert len(lines(run("-", "-q", stdin=packed).stdout)) == 5


def test_stdin_of_no_known_format_is_called_so() -> None:
    done = run("-", stdin=b'{"a": 1}\n')
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "unspool: nothing readable in standard input "
        "(standard input: not a format that unspool knows)\n"
    )


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_file_is_written_to_where_it_stands(
    folder: Path, tmp_path: Path, target: str
) -> None:
    """`-o /dev/stdout >> file` appends, as `>> file` does."""
    file = tmp_path / "kept.jsonl"
    file.write_text("kept\n")
    command = [sys.executable, "-m", "unspool", "extract", str(folder), "-q", "-o", target]
    with file.open("ab") as out:
        assert subprocess.run(command, stdout=out, env=ENV).returncode == 0
    kept, *rest = file.read_bytes().splitlines()
    assert (kept, len(rest)) == (b"kept", 13)


def test_problems_go_to_standard_output(folder: Path, tmp_path: Path) -> None:
    (folder / "a.jsonl").write_bytes(conversation("c", "x")[:-20])
    done = run(folder, "-q", "-o", tmp_path / "x.jsonl", "--problems", "-")
    assert [problem["code"] for problem in lines(done.stdout)] == ["truncated-json"]
    assert run(folder, "-q", "--problems", "-").returncode == 2


def closed(number: int, *command: str) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "unspool", *command],
        capture_output=True,
        env=ENV,
        preexec_fn=lambda: os.close(number),
    )


def test_streams_that_the_caller_closed(folder: Path, tmp_path: Path) -> None:
    assert closed(0, "extract", "-").stderr == b"unspool: nothing readable in standard input\n"
    for command in (["extract", str(folder), "-q"], ["list", str(folder)], ["--help"]):
        done = closed(1, *command)
        assert done.returncode == 1
        assert done.stderr == b"unspool: cannot write the output: Bad file descriptor\n"
    assert closed(2, "extract", str(folder), "-o", str(tmp_path / "x")).returncode == 0
    assert len(lines((tmp_path / "x").read_bytes())) == 13


def test_standard_output_is_full(folder: Path) -> None:
    for command in (["extract", str(folder), "-q"], ["list", str(folder)], ["--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "unspool", *command],
                stdout=full,
                stderr=subprocess.PIPE,
                env=ENV,
            )
        assert done.returncode == 1
        assert done.stderr == b"unspool: cannot write the output: No space left on device\n"


def test_a_folder_that_may_not_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    done = run(folder, "-q", "--to", "atif", "-o", shut / "out", modes=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"unspool: cannot write {shut}/out".encode())


def test_disk_full_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (folder / "big.jsonl").write_bytes(conversation("big", *(["word " * 4000] * 20)))
    for workers in (1, 2):
        done = run(folder, "-o", out / "x.jsonl", "--workers", workers, limit=100_000)
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr
        assert b"unspool: cannot" in done.stderr
        assert list(out.iterdir()) == []


def test_no_room_even_to_start(folder: Path, tmp_path: Path) -> None:
    """What workers share lies in a file too."""
    done = run(folder, "-o", tmp_path / "x.jsonl", "--workers", 2, limit=100)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert not (tmp_path / "x.jsonl").exists()


def test_require_system_first(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(conversation("with", "hi") + conversation("without", "hi", system=False))
    default = run(file, "--json")
    assert idents(default) == ["with"]
    assert summary(default)["filtered"] == {"require-system-first": 1}
    flag = "--require-system-first"
    for option in ([flag, "false"], [f"{flag}=false"], ["--no-require-system-first"]):
        assert idents(run(*option, file, "-q")) == ["with", "without"]
    for option in ([flag], [flag, "true"]):
        assert idents(run(*option, file, "-q")) == ["with"]
    assert run(f"{flag}=perhaps", file).returncode == 2


def test_filters_are_told_in_the_order_in_which_they_are_asked(tmp_path: Path) -> None:
    old = conversation("old", "hi", stamp="2020-01-01T00:00:00Z", system=False)
    bare = conversation("bare", "hi", system=False)
    rest = b"".join(
        conversation(ident, text) for ident, text in (("a", "hi"), ("b", "hi"), ("c", "ho"))
    )
    (tmp_path / "t.jsonl").write_bytes(old + bare + rest)
    asked = ("--since", "2026-01-01", "--regex", "hi", "--sample", 1, "--json")
    told = summary(run(tmp_path / "t.jsonl", *asked))["filtered"]
    assert list(told.items()) == [
        ("since", 1),
        ("require-system-first", 1),
        ("regex", 1),
        ("sample", 1),
    ]


def test_what_is_no_message_in_a_list_is_told(tmp_path: Path) -> None:
    line = conversation("c", "hi").replace(b"[{", b"[7, {")
    (tmp_path / "t.jsonl").write_bytes(line)
    done = run(tmp_path / "t.jsonl", "--json")
    (made,) = lines(done.stdout)
    assert [message["role"] for message in made["messages"]] == ["system", "user", "assistant"]
    assert summary(done)["problems"] == {"message-not-an-object": 1}


def test_regex_and_since(folder: Path) -> None:
    assert len(idents(run(folder, "-q", "--regex", r"hello [34]"))) == 6
    late = conversation("late", "hi", stamp="2026-06-01T00:00:00Z")
    (folder / "late.jsonl").write_bytes(late)
    assert idents(run(folder, "-q", "--since", "2026-05-01")) == ["late"]
    assert run(folder, "--regex", "(").returncode == 2
    assert run(folder, "--since", "yesterday-ish").returncode == 2


def test_sample_is_the_same_every_time(folder: Path) -> None:
    one = run(folder, "-q", "--sample", 4, "--seed", 7)
    assert one.stdout == run(folder, "-q", "--sample", 4, "--seed", 7, "--workers", 1).stdout
    assert len(idents(one)) == 4
    assert one.stdout != run(folder, "-q", "--sample", 4, "--seed", 8).stdout
    first = run(folder, "-q", "--sample", 2, "--sample-mode", "first")
    assert idents(first) == ["c0", "c1"]


def test_problems_and_strict(tmp_path: Path) -> None:
    bad = TELEMETRY / "bad_input" / "input" / "log.jsonl"
    done = run(bad, "--json", "--strict", "--problems", tmp_path / "p.jsonl")
    assert done.returncode == 3
    found = lines((tmp_path / "p.jsonl").read_bytes())
    assert {problem["code"] for problem in found} == {
        "missing-conversation-id",
        "messages-part-missing",
        "messages-cut-off",
        "messages-not-an-array",
        "too-deep",
        "invalid-utf8",
        "truncated-json",
    }
    assert all(problem["file"] == str(bad) for problem in found)
    torn = next(problem for problem in found if problem["code"] == "truncated-json")
    assert bad.read_bytes()[torn["offset"] :].startswith(b'{"name"')


def test_recovery_uses_what_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "torn.jsonl"
    file.write_bytes(conversation("whole", "hi") + conversation("torn", "hello there")[:-40])
    assert idents(run(file, "-q")) == ["whole"]
    assert idents(run(file, "-q", "--json-recovery")) == ["whole", "torn"]


def test_a_named_file_of_no_known_format_is_a_problem(folder: Path) -> None:
    done = run(folder / "notes.txt", folder / "a.jsonl", "--json")
    assert done.returncode == 0
    assert summary(done)["problems"] == {"unknown-format": 1}


def test_nothing_readable(folder: Path) -> None:
    for path in (folder / "notes.txt", folder / "absent.jsonl"):
        done = run(path)
        assert done.returncode == 1
        assert b"nothing readable" in done.stderr
        assert b"Traceback" not in done.stderr


def test_a_file_that_vanishes(folder: Path, tmp_path: Path) -> None:
    job = Job(paths=[str(folder)])
    made = Run(job, tmp_path, discover(job.paths))
    (folder / "b.jsonl").unlink()
    written = made.write()
    made.workers.close()
    assert len(written) == 10
    assert made.finish().problems == {"unreadable": 1}


def test_no_permission(folder: Path) -> None:
    (folder / "a.jsonl").chmod(0)
    done = run(folder, "--json", modes=True)
    assert done.returncode == 0
    assert summary(done)["problems"] == {"unreadable": 1}


def test_a_long_line_that_is_nobodys_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"x" * 300_000 + b"\n" + conversation("next", "go on"))
    done = run(path, "--json")
    assert [made["conversation_id"] for made in lines(done.stdout)] == ["next"]
    assert summary(done)["problems"] == {"invalid-json": 1}


def test_every_case_reads_without_a_traceback(tmp_path: Path) -> None:
    done = run(CASES, "--json", "--no-require-system-first", "-o", tmp_path / "all.jsonl")
    assert done.returncode == 0, done.stderr
    assert summary(done)["written"] >= len(cases())


def test_tag_scan_summary_beside_the_output(tmp_path: Path) -> None:
    source = TELEMETRY / "two_rounds"
    run(source, "-q", "-o", tmp_path / "out" / "x.jsonl")
    (made,) = (tmp_path / "out").rglob("tag_scan_summary.json")
    done = run(source, "-o", tmp_path / "told" / "a.jsonl")
    (told,) = (tmp_path / "told").rglob("tag_scan_summary.json")
    assert f"prompt tags  {told}\n" in done.stderr.decode()
    assert made.parent.parent == tmp_path / "out" / "analysis" / "prompt_context"
    run(source, "-q", "-o", tmp_path / "a.jsonl", "--no-context-tag-summary")
    run(source, "-q", "-o", tmp_path / "b.jsonl", "--context-tag-summary-dir", tmp_path / "tags")
    assert [p.parent.parent.name for p in tmp_path.glob("*/*/tag_scan_summary.json")] == ["tags"]


def test_a_named_folder_gets_the_tag_scan_summary_of_every_output(tmp_path: Path) -> None:
    source = TELEMETRY / "two_rounds"
    run(source, "-q", "--context-tag-summary-dir", tmp_path / "stdout")
    run(source, "-q", "--to", "atif", "-o", tmp_path / "out",
        "--context-tag-summary-dir", tmp_path / "many")  # fmt: skip
    for name in ("stdout", "many"):
        (made,) = (tmp_path / name).rglob("tag_scan_summary.json")
        assert json.loads(made.read_bytes())


def test_no_reasoning(tmp_path: Path) -> None:
    source = TELEMETRY / "anthropic_shape"
    assert b"let me look" in run(source, "-q").stdout
    assert b"let me look" not in run(source, "-q", "--no-reasoning").stdout


def test_no_reasoning_in_what_is_exported() -> None:
    source = str(TELEMETRY / "anthropic_shape" / "input" / "log.jsonl")
    command = [sys.executable, "-m", "unspool", "export", source, "--to", "jsonl"]
    whole = subprocess.run(command, capture_output=True, env=ENV, check=True).stdout
    bare = subprocess.run([*command, "--no-reasoning"], capture_output=True, env=ENV, check=True)
    assert b"let me look" in whole
    assert b"let me look" not in bare.stdout


def test_many_files_need_a_folder(tmp_path: Path) -> None:
    source = TELEMETRY / "two_rounds"
    assert run(source, "--to", "atif").returncode == 2
    assert run(source, "-q", "--to", "atif", "-o", tmp_path / "t").returncode == 0
    assert [p.name for p in (tmp_path / "t").iterdir()] == ["conv-1.trajectory.json"]


def test_a_source_that_is_asked_for_is_believed(tmp_path: Path) -> None:
    """Nothing in the file says what it is: an event without a name that we know, and one with."""
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b'{"name": "x/unheard.of"}\n' * 3000 + conversation("late", "hi"))
    assert run(file).returncode == 1
    assert idents(run(file, "-q", "--source", "copilot-telemetry")) == ["late"]


def test_what_is_no_plain_file_is_written_to_and_never_replaced(
    folder: Path, tmp_path: Path
) -> None:
    """Else `-o /dev/null`, run by root, would turn the device into a file."""
    pipe = tmp_path / "out" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        done = run(folder, "-o", pipe)
        assert done.returncode == 0, done.stderr
        assert reader.stdout is not None
        assert reader.stdout.read() == run(folder).stdout
    assert pipe.is_fifo()
    assert list(pipe.parent.iterdir()) == [pipe]  # nor does the tag summary go beside it


def test_a_link_to_the_output_stays_one(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "out.jsonl"
    target.parent.mkdir()
    target.write_text("old")
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)
    assert run(folder, "-o", link).returncode == 0
    assert link.is_symlink()
    assert target.read_bytes() == run(folder).stdout


def test_a_folder_is_no_output_file(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "-o", tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Is a directory" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_fault_of_ours_costs_one_conversation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(key: tuple[str, str], *rest: Any) -> Any:
        if key[1] == "c3":
            raise KeyError("oh")
        return reduce_facts(key, *rest)

    monkeypatch.delenv("UNSPOOL_DEBUG")
    monkeypatch.setattr(collect, "reduce_facts", faulty)
    with open_run(Job(paths=[str(folder)])) as started:
        kept = started.write()
        problems = [(p.code, p.key[1], p.sample) for p in started.problems()]
    assert len(kept) == 12
    assert problems == [("internal-error", "c3", "KeyError: 'oh'")]
