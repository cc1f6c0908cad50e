"""The command line. Every command is a module of its own, imported when it is called."""

import atexit
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from unspool import __version__
from unspool.errors import UnspoolError
from unspool.io import signals as stops

COMMANDS: dict[str, tuple[str, str]] = {
    "scan": ("unspool.cli.scan", "See what this machine holds."),
    "list": ("unspool.cli.list", "List conversations, newest first."),
    "show": ("unspool.cli.show", "Read a conversation in the terminal."),
    "export": ("unspool.cli.export", "Write conversations as HTML, Markdown, ATIF …"),
    "extract": ("unspool.cli.extract", "Rebuild conversations and write them out."),
    "sync": ("unspool.cli.sync", "Bring the store up to date with this machine's traces."),
    "watch": ("unspool.cli.watch", "Follow conversations while they happen."),
    "service": ("unspool.cli.service", "Start `unspool watch` at every login."),
    "serve": ("unspool.cli.serve", "Show the store in the browser, and answer an API."),
    "search": ("unspool.cli.search", "Find what was typed, answered, called or returned."),
    "stats": ("unspool.cli.stats", "Count conversations, tokens, cost, tools and files."),
    "sql": ("unspool.cli.sql", "Ask the store, Parquet tables or any traces in SQL."),
    "align": ("unspool.cli.align", "Find the same work in conversations of different agents."),
    "store": ("unspool.cli.store", "Look after the store: info, verify, export, rebuild …"),
    "hooks": ("unspool.cli.hooks", "Have agents report what happens at the moment it happens."),
    "check": ("unspool.cli.check", "Look at raw telemetry: which events, which models."),
    "compare": ("unspool.cli.compare", "Compare two trajectory files by conversation."),
    "conversation-tags": (
        "unspool.cli.conversation_tags",
        "List the prompt tags in conversations.",
    ),
    "diff-messages": (
        "unspool.cli.compare:diff_messages",
        "Show how a conversation differs in two files.",
    ),
    "validate": ("unspool.cli.validate", "Check ATIF files against the rules of the format."),
}
"""Name → (module, with the name of its command where it has two; one line of help). Help is here so
that nothing is imported."""


def plain_wanted() -> bool:
    """Whether colours are unwelcome: https://no-color.org."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


VERDICT = "unspool.verdict"
"""Where a command notes what it will end with, before it says why."""


class Lazy(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with stops.AtOnce():
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command: Any = getattr(import_module(module), name or "command")
        return command  # type: ignore[no-any-return]  # a module attribute has no type

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a reader that went away is no error
            return result
        except BrokenPipeError:
            # The reader of our output went away (`| head`): not an error of ours. Caught before
            # click, which would end with 1.
            _drop_output()
            return ctx.exit(ctx.meta.get(VERDICT, 0))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="unspool")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Rebuild whole AI coding conversations from the traces that coding agents leave behind.

    Alone, it says what this machine holds, as `unspool scan` does.
    """
    if plain_wanted():
        ctx.color = False
    if ctx.invoked_subcommand is None:
        scan = group.get_command(ctx, "scan")
        assert scan is not None
        ctx.invoke(scan)


def main() -> None:
    """The console command: errors are one line on stderr and an exit code, never a traceback."""
    # All three are there, whatever the caller closed, and can take any character.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Nothing comes in, messages go nowhere; results that nobody could get are an error,
            # as a descriptor that is only for reading makes of them.
            handle = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - kept open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or a locale that cannot show a character does not end a command.
            stream.reconfigure(errors="replace")
    stops.listen()
    try:
        code = group.main(standalone_mode=False)
        sys.stdout.flush()
        stops.go_deaf()  # it is done; Python on its way out would let a stop kill it
    except click.ClickException as error:
        error.show()
        _leave(error.exit_code)
    except UnspoolError as error:
        # Imported only now: `--help` and what goes well do without it.
        from unspool.views.characters import printable

        click.echo(f"unspool: {printable(str(error))}", err=True)
        _leave(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        stops.go_deaf()
        click.echo(stops.TOLD, err=True)
        # `python -m unspool` would end by SIGINT, whatever it is told here, if the stop came while a
        # module that was being imported ran exec(): Python remembers that as nobody's interrupt.
        atexit.register(os._exit, stops.exit_code())
        _leave(stops.exit_code())
    except OSError as error:
        where = error.filename or "cannot write the output"
        click.echo(f"unspool: {where}: {error.strerror or error}", err=True)
        _leave(1)
    _leave(code if isinstance(code, int) else 0)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:  # told before; Python would try once more and complain
        _drop_output()
    sys.exit(code)


def _drop_output() -> None:
    """What is still in the buffer of standard output goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
