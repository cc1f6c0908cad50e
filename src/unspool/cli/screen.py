"""Screen: what commands tell a person. Words that come out of data do nothing to the terminal."""

import shutil
import sys
from typing import Any

import click

from unspool.cli import VERDICT, plain_wanted
from unspool.views.characters import printable


def coloured() -> bool:
    """Whether what goes to standard output may have colours."""
    return sys.stdout.isatty() and not plain_wanted()


def columns() -> int:
    """How wide the terminal is; 0 where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """One line, whatever stands in it."""
    made = printable(text).replace("\n", " ")
    click.echo(click.style(made, **style) if any(style.values()) else made, err=err, nl=nl)


def verdict(code: int) -> int:
    """The code that the command ends with, also where nobody reads all of what it says."""
    click.get_current_context().meta[VERDICT] = code
    return code


def cut(text: str, width: int) -> str:
    """As much of it as the screen has room for."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 3 else ""
