"""A tiny made-up source proves that the reducer needs to know no format: only facts. And no room but
the sources names one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool
from tests.harness import CASES
from unspool.facts import (
    ROOT,
    AnyFact,
    Marked,
    MessageSeen,
    Noted,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
    UsageReported,
    View,
)
from unspool.prompts.catalogue import active
from unspool.reduce import reduce_facts
from unspool.sources import SOURCES

KEY = ("smoke-signals", "hill-7")


def read(script: str) -> list[AnyFact]:
    """One line per record: `id<after who: words`, calls as `!tool`, results as `=tool`."""
    facts: list[AnyFact] = []
    for offset, line in enumerate(script.strip().splitlines()):
        head, _, words = line.strip().partition(": ")
        link, _, who = head.partition(" ")
        ident, _, after = link.partition("<")
        common = {"key": KEY, "origin": "hill", "offset": offset, "entry": ident}
        common["after"] = after if after != "-" else ROOT
        if who == "=":
            facts.append(ToolReturned(**common, call="bell", text=words))  # type: ignore[arg-type]
        elif who == "!":
            facts.append(ToolCalled(**common, id="bell", message=words, name="ring"))  # type: ignore[arg-type]
        elif who == "#":
            facts.append(Marked(**common, kind="compaction", data={"why": words}))  # type: ignore[arg-type]
        else:
            role = "user" if who == "u" else "assistant"
            facts.append(MessageSeen(**common, id=ident, role=role, text=words))  # type: ignore[arg-type]
    return facts


def words(script: str) -> list[str]:
    (made,) = reduce_facts(KEY, read(script)).trajectories
    return [message.content for message in made.messages]


def test_chain_branch_and_compaction() -> None:
    script = """
        1<- u: hello
        2<1 a: hi
        3<2 u: first try
        4<3 a: to the first try
        5<2 u: second try
        6<5 a: to the second try
        7<- #: full
        8<7 u: go on
    """
    (made,) = reduce_facts(KEY, read(script)).trajectories
    assert [m.content for m in made.messages] == [
        "hello",
        "hi",
        "second try",
        "to the second try",
        "go on",
    ]
    assert made.branches is not None
    assert [m.content for m in made.branches[0].messages] == ["first try", "to the first try"]
    assert (made.branches[0].index, made.branches[0].fork_id) == (2, "2")
    assert made.marks is not None
    assert [(m.kind, m.index) for m in made.marks] == [("compaction", 4)]
    assert [m.segment for m in made.messages] == [0, 0, 0, 0, 1]


def test_results_go_to_their_call_wherever_they_stand() -> None:
    script = """
        1<- u: ring
        2<1 a: ringing
        3<2 !: 2
        4<3 a: meanwhile
        5<4 =: ding
    """
    assert words(script) == ["ring", "ringing", "ding", "meanwhile"]


def test_notes_and_usage_settle_by_rank_then_order() -> None:
    facts = read("1<- u: hello\n2<1 a: hi")
    common = {"key": KEY, "origin": "hill"}
    facts += [
        Noted(**common, offset=10, name="title", value="worse", rank=1),  # type: ignore[arg-type]
        Noted(**common, offset=11, name="title", value="old"),  # type: ignore[arg-type]
        Noted(**common, offset=12, name="title", value="new"),  # type: ignore[arg-type]
        UsageReported(**common, offset=13, subject="2", prompt=1, completion=1),  # type: ignore[arg-type]
        UsageReported(**common, offset=14, subject="2", prompt=5, completion=7),  # type: ignore[arg-type]
    ]
    (made,) = reduce_facts(KEY, reversed(facts)).trajectories
    assert made.title == "new"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (5, 7)


def test_lists_need_no_format_either() -> None:
    """A message list of nobody's format and the records of the same hill are one conversation."""
    text = b'[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}'
    view = View(size=len(text), origin="valley", offset=0)
    seen = SnapshotSeen(key=KEY, origin="valley", offset=0, text=text, views=(view,))
    facts = read("2<- a: hi\n3<2 u: and the weather?\n4<3 a: fine")
    for mixed in ([*facts, seen], [seen, *facts]):
        (made,) = reduce_facts(KEY, mixed).trajectories
        assert [m.content for m in made.messages] == ["hello", "hi", "and the weather?", "fine"]


ROOMS = (
    "io", "prompts", "reduce", "link", "views", "sinks", "pipeline", "inspect", "store", "live",
    "engines", "serve",
)  # fmt: skip
DECLARED = {
    "prompts/context.py": "names the tags of prompts: the catalogue's own room",
    "sinks/chat_json": "is the format of VS Code's own exports",
    "inspect/telemetry.py": "is the inspection of telemetry itself",
    "engines/spark/frames.py": "names the source whose events stand in tables",
    "views/calls.py": "names arguments of tools, whichever agent calls them so",
    "sinks/timeline.py": "is the format of a collector, with its names of fields",
    "store/align.py": "maps the ids of a collector's database, which begin with its names of agents",
    "store/rows.py": "fills the table of that collector",
    "store/tables.py": "holds the tables of that collector",
}
"""Who may name an agent, an event or a field of one, and why."""

NAMING = {
    "prompts": "knows the shapes of messages",
    "views": "knows what agents' tools call their arguments",
    "sinks": "knows the formats that go out",
}
"""Rooms that may use names as agents write them, though no agent's name, and why."""

_WORDS = {"cursor"}
"""Agents that are called by an ordinary word: only a text that is nothing else means them."""

_NATIVE = re.compile(r"[a-z]+(?:[A-Z][a-z]*)+|[a-z]+(?:\.[a-z]+)+\.")
"""Names as agents write them: `parentUuid`, `engine.messages.`"""


def _literals(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in the code of a file, without what only explains it; and the sources it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    explaining = {
        id(line.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        for line in body
        if isinstance(line, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in explaining:
            if isinstance(node.value, str):
                yield node.lineno, node.value
            elif isinstance(node.value, bytes):
                yield node.lineno, node.value.decode("latin-1")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "unspool.sources."
        ):
            yield node.lineno, str(node.module)


@pytest.mark.parametrize("room", ROOMS)
def test_no_format_is_known_outside_its_source(room: str) -> None:
    """No agent, no tag and no native name of an event or field, but where it is declared."""
    catalogue = active()
    agents = {name for source in SOURCES for name in (source, source.replace("-", "_"))}
    tags = {
        name
        for name in catalogue.standing | catalogue.requests | catalogue.summaries
        if not name.isalpha() or not name.islower()
    }
    package = Path(unspool.__file__).parent
    known = []
    for path in sorted((package / room).rglob("*.py")):
        place = path.relative_to(package).as_posix()
        if any(place == name or place.startswith(f"{name}/") for name in DECLARED):
            continue
        for line, text in _literals(path):
            words = set(re.findall(r"[\w-]+", text)) - (_WORDS - {text})
            native = room not in NAMING and _NATIVE.fullmatch(text)
            if words & (agents | tags) or native:
                known.append(f"{place}:{line}: {text[:60]}")
    assert not known


def test_cases_that_rules_name_exist() -> None:
    for path in sorted((Path(unspool.__file__).parent / "reduce").glob("*.py")):
        for named in re.findall(r"cases/(\w+/\w+)", path.read_text(encoding="utf-8")):
            assert (CASES / named).is_dir(), f"{path.name} names {named}"
