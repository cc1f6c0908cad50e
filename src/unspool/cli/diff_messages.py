"""`unspool diff-messages`: one conversation in two trajectory files, message by message."""

import click

from unspool.cli.diffing import (
    DIFFERENT,
    SAME,
    exits_like_diff,
    print_differences,
    print_number,
)
from unspool.cli.display import print_json
from unspool.cli.screen import say, verdict
from unspool.errors import UnknownConversation, UsageError
from unspool.inspect.comparison import find_pair
from unspool.inspect.differences import message_differences, messages_of


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
def command(a: str, b: str, ident: str, idx: int | None, as_json: bool) -> int:
    """Show, field by field, how the messages of conversation ID differ in files A and B.

    Exits with 0 where they are the same, 1 where not, 2 in trouble.
    """
    pair = find_pair(a, b, ident, lambda one, two: bool(message_differences(one, two, idx)))
    sides = {"A": pair.a, "B": pair.b}
    absent = " nor ".join(name for name, side in sides.items() if side is None)
    if absent and pair.number == 1:
        raise UnknownConversation(f"no conversation {ident!r} in {absent}")
    print_number(pair)
    counts = {name: len(messages_of(side or {})) for name, side in sides.items()}
    if idx is not None and idx >= max(counts.values()):
        raise UsageError(f"no message {idx}: A has {counts['A']}, B has {counts['B']}")
    found = message_differences(pair.a or {}, pair.b or {}, idx)
    code = verdict(DIFFERENT if found or absent else SAME)
    if as_json:
        print_json({"conversation_id": ident, "messages": counts, "differences": found})
    else:
        print_differences(found)
        if counts["A"] != counts["B"]:
            say(f"A has {counts['A']:,} messages, B has {counts['B']:,}", err=True)
    return code
