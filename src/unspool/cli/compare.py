"""`unspool compare` and `unspool diff-messages`: two trajectory files, by conversation.

Both end as `diff` does: 0 where all is the same, 1 where not, 2 in trouble.
"""

from collections.abc import Callable, Iterable
from difflib import unified_diff
from functools import wraps
from typing import ParamSpec

import click
import msgspec

from unspool.cli.screen import Display, print_json, say, verdict
from unspool.errors import UnknownConversation, UnspoolError, UsageError
from unspool.inspect import compare as comparing
from unspool.inspect.compare import ABSENT, SHOWN, Comparison, Difference, Json, Pair
from unspool.views.characters import printable
from unspool.views.figures import plural

SAME, DIFFERENT, TROUBLE = 0, 1, 2
_VALUE_CHARS = 300
_DIFF_LINES = 4000
"""Longer texts would take long to be aligned."""
P = ParamSpec("P")


def exits_like_diff(command: Callable[P, int]) -> Callable[P, int]:
    """0 same, 1 different, 2 trouble: also where another command would end with 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            code = command(*args, **kwargs)
        except UnspoolError as error:
            click.echo(f"unspool: {printable(str(error))}", err=True)
            code = TROUBLE
        click.get_current_context().exit(code)

    return wrapped


@click.command(
    "compare",
    epilog="\b\nExamples:\n"
    "  unspool compare old.jsonl new.jsonl\n"
    "  unspool compare old.jsonl new.jsonl --id 4f0c2d1e --json",
)
@click.argument("a")
@click.argument("b")
@click.option(
    "--id", "ident", metavar="ID", help="Show how this conversation differs, field by field."
)
@click.option(
    "--ignore", multiple=True, metavar="FIELD", help="A field that does not count, e.g. file_path."
)
@click.option(
    "--limit", type=click.IntRange(0), default=SHOWN, show_default=True, help="Ids shown of a kind."
)
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@exits_like_diff
def command(
    a: str, b: str, ident: str | None, ignore: tuple[str, ...], limit: int, as_json: bool
) -> int:
    """Compare trajectory files A and B by conversation.

    Says which conversations are only in A, only in B, equal, different in payload, and different only
    in context or file path. Null and an empty object count as absent. Exits with 0 where all is the
    same, 1 where not, 2 in trouble.
    """  # fmt: skip
    if ident is not None:
        return _compare_one(a, b, ident, frozenset(ignore), as_json)
    with Display(quiet=as_json) as display:
        report = comparing.compare(a, b, frozenset(ignore), limit, display.start)
    code = verdict(TROUBLE if report.unreadable else SAME if report.same else DIFFERENT)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report.unreadable:
        lines = plural(report.unreadable, "line is no conversation", "lines are no conversations")
        say(f"unspool: {lines}", err=True)
    return code


def _compare_one(a: str, b: str, ident: str, ignore: frozenset[str], as_json: bool) -> int:
    def pick(side: Json) -> Json:
        return {name: value for name, value in side.items() if name not in ignore}

    pair = comparing.compare_one(a, b, ident, pick)
    if pair is None:
        raise UnknownConversation(f"no conversation {ident!r} in either file")
    _print_number(pair)
    head = {"conversation_id": ident, **({"number": pair.number} if pair.number > 1 else {})}
    if pair.a is None or pair.b is None:
        where = "A" if pair.b is None else "B"
        if as_json:
            print_json({**head, "only_in": where})
        else:
            say(f"only in {where}: {ident}")
        return DIFFERENT
    code = verdict(DIFFERENT if pair.differences else SAME)
    if as_json:
        print_json({**head, "differences": pair.differences})
    else:
        _print_differences(pair.differences)
    return code


def _print(report: Comparison) -> None:
    say(f"A: {plural(report.in_a, 'conversation')}, B: {report.in_b:,}")
    say(f"equal: {report.equal:,}")
    changes = {
        name: [
            f"{change.conversation_id}  {', '.join(change.fields)}"
            + ("" if change.first_message is None else f" (from message {change.first_message})")
            for change in listed
        ]
        for name, listed in (("payload", report.payload), ("context", report.context))
    }
    for title, count, lines in (
        ("only in A", report.only_in_a, report.ids_only_in_a),
        ("only in B", report.only_in_b, report.ids_only_in_b),
        ("different in payload", report.different_payload, changes["payload"]),
        ("different in context only", report.different_context, changes["context"]),
    ):
        say(f"{title}: {count:,}")
        for line in lines:
            say(f"  {line}")
        if lines and count > len(lines):
            say(f"  … and {count - len(lines):,} more")
    if report.fields:
        listed = ", ".join(f"{name} {count:,}" for name, count in report.fields.items())
        say(f"fields that differ: {listed}")


@click.command(
    "diff-messages",
    epilog="\b\nExample:\n  unspool diff-messages old.jsonl new.jsonl 4f0c2d1e --idx 3",
)
@click.argument("a")
@click.argument("b")
@click.argument("ident", metavar="ID")
@click.option("--idx", type=click.IntRange(0), metavar="N", help="Only this message (from 0).")
@click.option("--json", "as_json", is_flag=True, help="The differences as JSON.")
@exits_like_diff
def diff_messages(a: str, b: str, ident: str, idx: int | None, as_json: bool) -> int:
    """Show, field by field, how the messages of conversation ID differ in files A and B.

    Exits with 0 where they are the same, 1 where not, 2 in trouble.
    """

    def pick(side: Json) -> Json:
        numbered = enumerate(comparing.messages_of(side))
        return {f"messages[{n}]": message for n, message in numbered if idx in (None, n)}

    pair = comparing.compare_one(a, b, ident, pick)
    sides = {"A": pair.a if pair else None, "B": pair.b if pair else None}
    absent = " nor ".join(name for name, side in sides.items() if side is None)
    if pair is None or (absent and pair.number == 1):
        raise UnknownConversation(f"no conversation {ident!r} in {absent}")
    _print_number(pair)
    counts = {name: len(comparing.messages_of(side or {})) for name, side in sides.items()}
    if idx is not None and idx >= max(counts.values()):
        raise UsageError(f"no message {idx}: A has {counts['A']}, B has {counts['B']}")
    code = verdict(DIFFERENT if pair.differences or absent else SAME)
    if as_json:
        print_json({"conversation_id": ident, "messages": counts, "differences": pair.differences})
    else:
        _print_differences(pair.differences)
        if counts["A"] != counts["B"]:
            say(f"A has {plural(counts['A'], 'message')}, B has {counts['B']:,}", err=True)
    return code


def _print_number(pair: Pair) -> None:
    """Of several conversations with one id, which it is."""
    if pair.number > 1:
        ending = {2: "nd", 3: "rd"}.get(pair.number, "th")
        say(f"the {pair.number}{ending} with this id", err=True)


def _print_differences(differences: Iterable[Difference]) -> None:
    for difference in differences:
        say(difference.path, bold=True)
        a, b = difference.a, difference.b
        if isinstance(a, str) and isinstance(b, str) and 0 < (a + b).count("\n") < _DIFF_LINES:
            lines = unified_diff(a.split("\n"), b.split("\n"), lineterm="", n=2)
            for line in list(lines)[2:]:  # without its header
                say(f"  {line}", fg={"-": "red", "+": "green", "@": "cyan"}.get(line[:1]))
            continue
        for sign, value, colour in (("-", a, "red"), ("+", b, "green")):
            if value is not ABSENT:
                text = msgspec.json.encode(value).decode()
                if len(text) > _VALUE_CHARS:
                    text = text[: _VALUE_CHARS - 1] + "…"
                say(f"  {sign} {text}", fg=colour)
