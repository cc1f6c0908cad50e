"""`unspool watch`: follow conversations while they happen."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from unspool.cli.options import store_option
from unspool.cli.screen import say
from unspool.errors import UsageError
from unspool.hooks.spool import Layout
from unspool.inspect.scan import topmost, usual_places
from unspool.live.daemon import Daemon, News
from unspool.live.forward import run_intake
from unspool.live.mirror import mirror_folder
from unspool.live.queue import RemoteQueue
from unspool.live.reducers import REDUCERS
from unspool.views.characters import one_line

EXAMPLES = """
\b
Examples:
  unspool watch
  unspool watch --json | jq -c 'select(.state == "waiting")'
  unspool watch ~/.claude/projects --store work.db
"""
WORDS = {"waiting": "waiting for you"}


@click.command("watch", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change.")
@click.option("--once", is_flag=True, help="Take in what has arrived so far, and end.")
@click.option("--no-raw", is_flag=True, help="Do not keep the records themselves.")
@click.option("--queue", "address", metavar="URL", help="redis://…: many machines feed one store.")
@click.option(
    "--role",
    type=click.Choice(["all", "intake", "worker"]),
    default="all",
    show_default=True,
    help="With --queue: send what arrives here, write the store, or both.",
)
@click.option(
    "--reducers",
    type=click.IntRange(0, 64),
    default=REDUCERS,
    show_default=True,
    metavar="N",
    help="Processes that make conversations anew; 0: none beside this one.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what goes wrong.")
def command(
    paths: tuple[str, ...],
    store: Path,
    as_json: bool,
    once: bool,
    no_raw: bool,
    address: str | None,
    role: str,
    reducers: int,
    quiet: bool,
) -> None:
    """Keep the store current while agents work, with one line per change, until it is stopped.

    Follows the files and databases under PATH… (or in the usual places), and what installed hooks
    hand over (`unspool hooks install`). One may run per store.
    """
    # Also the places that do not exist yet: an agent may be installed while we watch.
    tops = list(paths) or topmost(place.path for place in usual_places())

    def tell(news: News) -> None:
        if news.kind == "trouble":
            say(f"unspool: {news.text}", err=True)
        elif as_json:
            click.echo(msgspec.json.encode(news))
        elif not quiet:
            say(_line(news))
        sys.stdout.flush()

    if role != "all" and address is None:
        raise UsageError(f"--role {role} needs --queue")
    open_queue = _redis(address) if address is not None else None
    if role == "worker" or open_queue is not None:
        mirror = mirror_folder(Layout.beside(store))
        tops = [*([] if role == "worker" and not paths else tops), str(mirror)]
    daemon = Daemon(store, tops, tell, not no_raw, open_queue, role != "worker", reducers)

    def stop(*_: Any) -> None:
        daemon.stop.set()
        daemon.bell.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    if not quiet and not as_json and not once:
        say(f"unspool: watching for {store}; Ctrl-C ends it", err=True)
    if role == "intake" and open_queue is not None:
        said = [""]

        def tell_once(trouble: str) -> None:
            if trouble != said[-1]:
                say(f"unspool: {trouble or 'it works again'}", err=True)
            said[:] = [trouble]

        run_intake(daemon.layout, daemon.stop, tell_once, open_queue, tops[:-1])
    else:
        daemon.run(once)


def _redis(address: str) -> Callable[[], RemoteQueue]:
    def connect() -> RemoteQueue:
        # Imported here: the extra is needed by nobody who has one machine.
        from unspool.live.redis_queue import RedisQueue

        return RedisQueue(address)

    return connect


def _line(news: News) -> str:
    state = WORDS.get(news.state or "", news.state or "")
    parts = [
        news.at[11:19],
        one_line(news.conversation, 48),
        news.kind if news.kind != "state" else "",
        f"{state} ({one_line(news.tool, 30)})" if news.tool else state,
        f"{news.messages} messages" if news.messages is not None else "",
        f"{news.backlog} events wait" if news.backlog is not None else "",
        f"{news.lag_ms} ms" if news.lag_ms is not None else "",
        one_line(news.title or "", 60),
    ]
    return "  ".join(part for part in parts if part)
