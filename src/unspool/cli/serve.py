"""`unspool serve`: the store in a browser."""

import secrets
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from unspool.cli.options import store_option
from unspool.cli.screen import say
from unspool.cli.sync import sync
from unspool.errors import MissingExtra, NothingToRead, UsageError
from unspool.hooks.spool import Layout
from unspool.live.daemon import is_running
from unspool.serve.guard import is_loopback
from unspool.store.conversations import WORDS, caught_up
from unspool.store.opening import reading

EXAMPLES = """
\b
Examples:
  unspool serve --open
  unspool serve --port 9000 --store work.db
  curl -s localhost:8765/api/conversations?limit=5
"""


@click.command("serve", epilog=EXAMPLES)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option("--token", "wants_token", is_flag=True, help="Ask for a token here, too.")
@click.option("--no-daemon", is_flag=True, help="Show the store as it is; keep nothing current.")
@store_option
def command(
    port: int, host: str, opens: bool, wants_token: bool, no_daemon: bool, store: Path
) -> None:
    """Show the store's conversations in a browser, and answer questions about them as JSON.

    Only this machine can reach it. With another --host a token is always needed. The store is kept
    current as `unspool watch` does it, unless that runs already.
    """
    # Imported here: the extra is needed by nobody who does not serve.
    try:
        from unspool.serve.app import listen, make_app, run
        from unspool.serve.events import Bell
    except MissingExtra:  # it uses the HTML page, which would ask for less
        raise MissingExtra("the server needs: pip install 'unspool[serve]'") from None

    if not store.exists():
        if not sys.stdin.isatty():
            raise NothingToRead(f"there is no store at {store} yet: `unspool sync` makes one")
        if not click.confirm(f"There is no store at {store} yet. Make one now?", err=True):
            raise UsageError("nothing to serve without a store")
        sync([], store)
    with reading(store) as connection:
        caught_up(connection, WORDS)  # the server itself only reads
    listener = listen(host, port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(24) if wants_token or not is_loopback(host) else None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{port}/" + (f"?token={token}" if token else "")
    say(f"unspool: {address}  (Ctrl-C ends it)")
    if opens:
        webbrowser.open(address)
    bell = Bell(store)
    with nullcontext() if no_daemon or is_running(Layout.beside(store)) else _watching(store):
        run(make_app(store, bell, port, (name,), token), bell, listener)


@contextmanager
def _watching(path: Path) -> Iterator[None]:
    """The daemon, in a process of its own that ends with ours."""
    command = [sys.executable, "-m", "unspool", "watch", "--quiet", "--store", str(path)]
    daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
