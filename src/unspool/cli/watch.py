"""`unspool watch`: follow conversations while they happen."""

import signal
import sys
from typing import Any

import click
import msgspec

from unspool.cli.options import path_of, store_option
from unspool.cli.screen import say
from unspool.inspect.scan import found_paths, usual_places
from unspool.live.daemon import Daemon, News
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
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what goes wrong.")
def command(
    paths: tuple[str, ...],
    store_path: str | None,
    as_json: bool,
    once: bool,
    no_raw: bool,
    quiet: bool,
) -> None:
    """Keep the store current while agents work, with one line per change, until it is stopped.

    Follows the files and databases under PATH… (or in the usual places), and what installed hooks
    hand over (`unspool hooks install`). One may run per store.
    """
    store = path_of(store_path)
    tops = list(paths) or found_paths(usual_places())

    def tell(news: News) -> None:
        if news.kind == "trouble":
            say(f"unspool: {news.text}", err=True)
        elif as_json:
            click.echo(msgspec.json.encode(news))
        elif not quiet:
            say(_line(news))
        sys.stdout.flush()

    daemon = Daemon(store, tops, tell, raw=not no_raw)

    def stop(*_: Any) -> None:
        daemon.stop.set()
        daemon.bell.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    if not quiet and not as_json and not once:
        say(f"unspool: watching for {store}; Ctrl-C ends it", err=True)
    daemon.run(once)


def _line(news: News) -> str:
    state = WORDS.get(news.state or "", news.state or "")
    parts = [
        news.at[11:19],
        one_line(news.conversation, 48),
        news.kind if news.kind != "state" else "",
        f"{state} ({one_line(news.tool, 30)})" if news.tool else state,
        f"{news.messages} messages" if news.messages is not None else "",
        f"{news.lag_ms} ms" if news.lag_ms is not None else "",
        one_line(news.title or "", 60),
    ]
    return "  ".join(part for part in parts if part)
