"""What `compare` and `diff-messages` share: exit codes as `diff` has them, and how they show things."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec

import click
import msgspec

from unspool.cli.screen import say
from unspool.errors import UnspoolError
from unspool.inspect.comparison import Pair
from unspool.inspect.differences import ABSENT, Difference, text_diff
from unspool.views.characters import printable

SAME, DIFFERENT, TROUBLE = 0, 1, 2
_VALUE_CHARS = 300
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


def print_number(pair: Pair) -> None:
    """Of several conversations with one id, which it is."""
    if pair.number > 1:
        ending = {2: "nd", 3: "rd"}.get(pair.number, "th")
        say(f"the {pair.number}{ending} with this id", err=True)


def print_differences(differences: Iterable[Difference]) -> None:
    for difference in differences:
        say(difference.path, bold=True)
        a, b = difference.a, difference.b
        if isinstance(a, str) and isinstance(b, str) and ("\n" in a or "\n" in b):
            for line in text_diff(a, b):
                say(f"  {line}", fg={"-": "red", "+": "green", "@": "cyan"}.get(line[:1]))
            continue
        if a is not ABSENT:
            say(f"  - {_show(a)}", fg="red")
        if b is not ABSENT:
            say(f"  + {_show(b)}", fg="green")


def _show(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else text[: _VALUE_CHARS - 1] + "…"
