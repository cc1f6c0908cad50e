"""`unspool show`: a conversation in the terminal."""

import shutil
import sys

import click

from unspool.cli.screen import Display, paged
from unspool.cli.selection import choose_one, tell_problems
from unspool.errors import AmbiguousId, UnknownConversation, UsageError
from unspool.inspect.collection import make_entry
from unspool.sinks import Family
from unspool.views import read_family
from unspool.views.blocks import Options, iter_blocks
from unspool.views.figures import plural
from unspool.views.plain import iter_lines

EXAMPLES = """
\b
Examples:
  unspool show 7d1e2f3
  unspool show 7d1e2f3 --turn 3
  unspool show conversation.jsonl --full
  unspool show 7d1e2f3 --from ~/backup/.claude | grep -n TypeError
"""


@click.command("show", epilog=EXAMPLES)
@click.argument("conversation", metavar="ID|FILE")
@click.option("--from", "paths", multiple=True, metavar="PATH", help="Look for the id in there.")
@click.option("--queue", "address", metavar="URL", help="As a worker on another machine wrote it.")
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Begin at this turn.")
@click.option("--full", is_flag=True, help="Open tool calls; show reasoning and what was undone.")
@click.option("--context", is_flag=True, help="Show injected context too.")
@click.option("--no-pager", is_flag=True, help="Do not go through the pager.")
def command(
    conversation: str,
    paths: tuple[str, ...],
    address: str | None,
    turn: int | None,
    full: bool,
    context: bool,
    no_pager: bool,
) -> None:
    """Read a conversation in the terminal; in a pipe it is plain text."""
    if address is not None:
        family = _recent(address, conversation)
        entry = make_entry(family.root)
    else:
        with Display(quiet=False) as display:
            collection, entry = choose_one(conversation, paths, display)
            family = collection.family(entry)
        tell_problems(collection)
    reading = read_family(family.root, family.descendants)
    options = Options(full=full, context=context, turn=turn or 0)
    if turn and not any((one.number or 0) >= turn - 1 for one in reading.turns):
        raise UsageError(f"it has {plural(entry.turns, 'turn')}: there is no turn {turn}")
    blocks = iter_blocks(reading, options)
    on_terminal = sys.stdout.isatty()
    with paged(enabled=not no_pager) as out:
        if on_terminal:
            # Imported here: in a pipe nobody waits for the library that draws.
            from unspool.views.terminal import make_screen, print_blocks

            print_blocks(make_screen(out, shutil.get_terminal_size().columns), blocks)
        else:
            for line in iter_lines(blocks):
                out.write(line + "\n")


def _recent(address: str, ident: str) -> Family:
    """The conversation, with its sub-agents, as it was written last."""
    from unspool.live.redis_queue import RedisQueue

    queue = RedisQueue(address)
    try:
        matching = queue.recent(ident)
        if not matching:
            raise UnknownConversation(f"no conversation {ident!r} was written lately")
        roots = [one for one in matching if one.parent is None] or matching
        if len(roots) > 1:
            raise AmbiguousId(f"{ident!r} means {len(roots)} conversations")
        children = [
            child
            for link in roots[0].children or ()
            if link.kind == "subagent"
            for child in queue.recent(f"{link.source or roots[0].source}/{link.conversation_id}")
        ]
    finally:
        queue.close()
    return Family(roots[0], tuple(children))
