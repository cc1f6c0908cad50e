"""Screen: what commands tell a person. Words that come out of data do nothing to the terminal."""

from typing import Any

import click

from unspool.reading.characters import printable


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """One line, whatever stands in it."""
    made = printable(text).replace("\n", " ")
    click.echo(click.style(made, **style) if any(style.values()) else made, err=err, nl=nl)
