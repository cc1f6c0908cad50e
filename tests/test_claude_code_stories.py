"""Random homes with every kind of line against the ledger that was kept while they were written."""

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.claude_home import Home
from tests.claude_ledger import Ledger
from tests.claude_lines import read
from tests.harness import facts_of, origins_of, plain, reduce_all
from unspool.trajectory import Message, Trajectory

KINDS = ("compaction", "microcompaction", "hook", "api_error")


def everything(made: Trajectory) -> list[Message]:
    gone = [m for branch in made.branches or () for m in branch.messages]
    return [*made.messages, *gone]


def check(made: Trajectory, ledger: Ledger) -> None:
    kept = {m.id: m for m in made.messages if m.id}
    gone = {m.id: m for branch in made.branches or () for m in branch.messages if m.id}
    assert not kept.keys() & gone.keys()
    ours = ledger.prompts.keys() | ledger.answers.keys()
    assert [m.id for m in made.messages if m.id in ours] == ledger.chain
    assert gone.keys() & ours == ledger.gone
    known = {**kept, **gone}
    for uuid, words in ledger.prompts.items():
        assert known[uuid].typed == words, uuid
    for ident, answer in ledger.answers.items():
        found = known[ident]
        assert found.content == "\n\n".join(answer.texts)
        assert (found.thinking or "") == "\n\n".join(answer.thoughts)
        assert [c.id for c in found.tool_calls or ()] == answer.calls
        assert found.usage is not None
        tokens = (found.usage.prompt_tokens, found.usage.completion_tokens)
        assert tokens == answer.tokens, ident
    results = [(m.tool_call_id, m.content) for m in everything(made) if m.role == "tool"]
    assert sorted(results) == sorted(ledger.results.items())
    copied = {m.id for m in made.messages if m.copied and m.id in ours}
    assert copied == ledger.copied - ledger.gone
    if not ledger.partly:
        check_rest(made, ledger)


def check_rest(made: Trajectory, ledger: Ledger) -> None:
    """Nothing is lost, and nothing is there that nobody said."""
    ours = ledger.prompts.keys() | ledger.answers.keys()
    rest = [m for m in everything(made) if m.id not in ours and m.role != "tool"]
    said = Counter((m.typed if m.kind == "command" else m.content) for m in rest)
    assert said == Counter([*ledger.beside, *ledger.queued])
    found = [
        *(made.marks or ()),
        *(m for branch in made.branches or () for m in branch.marks or ()),
    ]
    marks = Counter(mark.kind for mark in found)
    assert {kind: marks[kind] for kind in KINDS} == {
        kind: ledger.marks.count(kind) for kind in KINDS
    }
    # Hooks tell of ends too, where the transcript has none.
    assert marks["turn_end"] >= ledger.marks.count("turn_end")
    own = [ledger.answers[i].tokens for i in ledger.chain
           if i in ledger.answers and i not in ledger.copied]  # fmt: skip
    usage = made.usage
    total = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    assert total == (sum(p for p, _ in own), sum(c for _, c in own))


def check_home(home: Home, folder: Path) -> None:
    made = read(folder)
    assert made.keys() == home.ledgers.keys()
    for key, ledger in home.ledgers.items():
        check(made[key], ledger)
        above = made[key].parent
        told = (above.conversation_id, above.tool_call_id) if above is not None else None
        assert told == ledger.parent
        for message in everything(made[key]):
            for call in message.tool_calls or ():
                assert call.child_id is None or call.child_id in made
        assert {link.conversation_id for link in made[key].children or ()} <= made.keys()


@pytest.mark.parametrize("seed", range(60))
def test_any_home(tmp_path: Path, seed: int) -> None:
    home = Home(seed)
    for number in range(home.dice.randint(1, 2)):
        home.session(number)
    check_home(home, home.write(tmp_path / "projects" / "shop"))


@pytest.mark.parametrize("seed", range(60))
def test_forks_hold_copies_and_the_sub_agents_stay_where_they_were(
    tmp_path: Path, seed: int
) -> None:
    """Also a fork of a fork."""
    home = Home(seed)
    story = home.session(0)
    for number in range(1, home.dice.randint(2, 3)):
        story = home.fork(story, number)
    check_home(home, home.write(tmp_path / "projects" / "shop"))


@pytest.mark.parametrize("seed", range(40))
def test_an_aside_holds_the_session_so_far_as_a_copy(tmp_path: Path, seed: int) -> None:
    home = Home(seed)
    story = home.session(0)
    if not story.ledger.gone:  # it is told of the conversation as it stands
        home.aside(story)
    check_home(home, home.write(tmp_path / "projects" / "shop"))


@pytest.mark.parametrize(
    "left_out", [(), ("prompt_id",), ("logged_at",), ("logged_at", "prompt_id")]
)
@pytest.mark.parametrize("seed", range(25))
def test_hooks_add_nothing_to_what_the_transcript_knows(
    tmp_path: Path, seed: int, left_out: tuple[str, ...]
) -> None:
    home = Home(seed)
    story = home.session(0)
    if seed % 2:
        home.fork(story, 1)
    home.write(tmp_path / "projects" / "shop")
    told = [{k: v for k, v in row.items() if k not in left_out} for row in home.payloads]
    (tmp_path / "hooks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    check_home(home, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_the_files_in_any_order_say_the_same(tmp_path: Path, seed: int) -> None:
    home = Home(seed)
    home.fork(home.session(0), 1)
    origins = origins_of(home.write(tmp_path / "projects" / "shop"))
    size = home.dice.randint(200, 5000)
    pieces = [
        msgspec.structs.replace(origin, start=start, end=min(start + size, origin.size))
        for origin in origins
        for start in range(0, origin.size, size)
        if origin.path.endswith(".jsonl")
    ]
    pieces += [origin for origin in origins if not origin.path.endswith(".jsonl")]
    home.dice.shuffle(pieces)
    whole, cut = (plain(reduce_all(facts_of(these))) for these in (origins, pieces))
    assert cut == whole
