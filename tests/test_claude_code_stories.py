"""Random homes with every kind of line against the ledger that was kept while they were written."""

from collections import Counter
from pathlib import Path

import pytest

from tests.claude_lines import read
from tests.claude_story import Home, Ledger
from unspool.trajectory import Message, Trajectory

KINDS = ("compaction", "microcompaction", "hook", "turn_end", "api_error")


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
    check_rest(made, ledger)


def check_rest(made: Trajectory, ledger: Ledger) -> None:
    """Nothing is lost, and nothing is there that nobody said."""
    ours = ledger.prompts.keys() | ledger.answers.keys()
    rest = [m for m in everything(made) if m.id not in ours and m.role != "tool"]
    said = Counter((m.typed if m.kind == "command" else m.content) for m in rest)
    assert said == Counter(ledger.beside)
    marks = Counter(mark.kind for mark in made.marks or ())
    assert {kind: marks[kind] for kind in KINDS} == {kind: ledger.marks.count(kind) for kind in KINDS}
    own = [ledger.answers[i].tokens for i in ledger.chain
           if i in ledger.answers and i not in ledger.copied]  # fmt: skip
    usage = made.usage
    total = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    assert total == (sum(p for p, _ in own), sum(c for _, c in own))


@pytest.mark.parametrize("seed", range(200))
def test_any_home(tmp_path: Path, seed: int) -> None:
    home = Home(seed)
    for number in range(home.dice.randint(1, 2)):
        home.session(number)
    made = read(home.write(tmp_path / "projects" / "shop"))
    assert made.keys() == home.ledgers.keys()
    for key, ledger in home.ledgers.items():
        check(made[key], ledger)
        above = made[key].parent
        told = (above.conversation_id, above.tool_call_id) if above is not None else None
        assert told == ledger.parent
