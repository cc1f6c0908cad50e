"""`unspool compare`: two trajectory files by conversation."""

from collections.abc import Iterator

import click

from unspool.cli.diffing import (
    DIFFERENT,
    SAME,
    TROUBLE,
    exits_like_diff,
    print_differences,
    print_number,
)
from unspool.cli.display import Display, print_json
from unspool.cli.screen import say, verdict
from unspool.errors import UnknownConversation
from unspool.inspect.comparison import SHOWN, Comparison, Json, compare, find_pair
from unspool.inspect.differences import Difference, iter_differences


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

    Says which conversations are only in A, only in B, equal, different in payload, and different in
    context only. Exits with 0 where all is the same, 1 where not, 2 in trouble.
    """
    if ident is not None:
        return _compare_one(a, b, ident, frozenset(ignore), as_json)
    with Display(quiet=as_json) as display:
        made = compare(a, b, frozenset(ignore), limit, display.start)
    code = verdict(TROUBLE if made.unreadable else SAME if made.same else DIFFERENT)
    if as_json:
        print_json(made)
    else:
        _print(made)
    if made.unreadable:
        say(f"unspool: {made.unreadable:,} lines are no conversations", err=True)
    return code


def _compare_one(a: str, b: str, ident: str, ignore: frozenset[str], as_json: bool) -> int:
    def differences(one: Json, two: Json) -> Iterator[Difference]:
        a, b = ({k: v for k, v in side.items() if k not in ignore} for side in (one, two))
        return iter_differences(a, b)

    pair = find_pair(a, b, ident, lambda one, two: any(differences(one, two)))
    if pair.a is None and pair.b is None:
        raise UnknownConversation(f"no conversation {ident!r} in either file")
    print_number(pair)
    head = {"conversation_id": ident, **({"number": pair.number} if pair.number > 1 else {})}
    if pair.a is None or pair.b is None:
        where = "A" if pair.b is None else "B"
        if as_json:
            print_json({**head, "only_in": where})
        else:
            say(f"only in {where}: {ident}")
        return DIFFERENT
    found = list(differences(pair.a, pair.b))
    code = verdict(DIFFERENT if found else SAME)
    if as_json:
        print_json({**head, "differences": found})
    else:
        print_differences(found)
    return code


def _print(made: Comparison) -> None:
    say(f"A: {made.in_a:,} conversations, B: {made.in_b:,}")
    say(f"equal: {made.equal:,}")
    for title, count, ids in (
        ("only in A", made.only_in_a, made.ids_only_in_a),
        ("only in B", made.only_in_b, made.ids_only_in_b),
    ):
        say(f"{title}: {count:,}")
        _print_ids(ids, count)
    for title, count, changes in (
        ("different in payload", made.different_payload, made.payload),
        ("different in context only", made.different_context, made.context),
    ):
        say(f"{title}: {count:,}")
        _print_ids(
            [
                f"{change.conversation_id}  {', '.join(change.fields)}"
                + (
                    f" (from message {change.first_message})"
                    if change.first_message is not None
                    else ""
                )
                for change in changes
            ],
            count,
        )
    if made.fields:
        listed = ", ".join(f"{name} {count:,}" for name, count in made.fields.items())
        say(f"fields that differ: {listed}")


def _print_ids(lines: list[str], count: int) -> None:
    for line in lines:
        say(f"  {line}")
    if lines and count > len(lines):
        say(f"  … and {count - len(lines):,} more")
