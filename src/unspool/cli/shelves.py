"""Where `list`, `show` and `export` take conversations from, and how an argument names one."""

import os
from collections.abc import Iterable

import click

from unspool.cli.display import Display
from unspool.errors import AmbiguousId, NothingToRead, StoreError, UnknownConversation
from unspool.inspect.loose import LooseShelf
from unspool.inspect.scan import Place, found_paths, main_places, usual_places
from unspool.inspect.shelf import Entry, Shelf, short_ids
from unspool.views.characters import one_line
from unspool.views.figures import plural


def open_shelf(paths: Iterable[str], display: Display) -> Shelf:
    """The shelf over the paths; without any, over all that this machine holds."""
    given = list(paths)
    return LooseShelf(given, display.start) if given else _store_shelf(display)


def _store_shelf(display: Display) -> Shelf:
    """The store, brought up to date first; as it is where it cannot be written now; the files
    themselves where it cannot be read, or somebody is only just filling it."""
    # Imported here: with paths, `list` and `show` need no store and start faster.
    from unspool.cli.sync import sync
    from unspool.store.opening import connect_for_reading, default_path
    from unspool.store.shelf import StoreShelf

    path = default_path()
    problems: dict[str, int] = {}
    trouble: StoreError | None = None
    shelf: Shelf | None = None
    try:
        problems = sync([], path, quiet=display.quiet, pieces=False).problems
    except StoreError as error:
        trouble = error
    try:
        stored = StoreShelf(connect_for_reading(path), problems)
        shelf = stored if stored.entries() else None
    except StoreError as error:
        trouble = trouble or error
    if trouble is not None:
        said = "not brought up to date" if shelf else "the files are read without a store"
        click.echo(f"unspool: {said}: {trouble}", err=True)
        return shelf or LooseShelf(_everything(), display.start)
    if shelf is None:
        raise NothingToRead(nothing_here(usual_places()))
    return shelf


def _everything() -> list[str]:
    places = usual_places()
    found = found_paths(places)
    if not found:
        raise NothingToRead(nothing_here(places))
    return found


def nothing_here(places: Iterable[Place]) -> str:
    paths = dict.fromkeys(place.path for place in main_places(places))
    looked = "\n".join(f"  {path}" for path in paths)
    return (
        "no conversations in the usual places; looked in\n"
        f"{looked}\nand more (`unspool scan -v`); or name a file or folder"
    )


def tell_problems(shelf: Shelf) -> None:
    """One line on stderr where something could not be read."""
    found = shelf.problems()
    if found:
        kinds = ", ".join(f"{code.replace('-', ' ')}: {count}" for code, count in found.items())
        number = plural(sum(found.values()), "problem")
        click.echo(
            f"unspool: {number} in the data ({kinds}); `unspool scan -v` shows them", err=True
        )


def roots(shelf: Shelf) -> list[Entry]:
    """Conversations in which something was said, or of which only checkpoints are left; sub-agents
    only where their parent is missing."""
    entries = shelf.entries()
    known = {(entry.source, entry.id) for entry in entries}
    return [
        entry
        for entry in entries
        if (entry.messages or entry.partial)
        and (entry.parent_id is None or (entry.source, entry.parent_id) not in known)
    ]


def choose(argument: str, paths: tuple[str, ...], display: Display) -> tuple[Shelf, list[Entry]]:
    """The conversations that an argument means: all of a file, or the one with that id."""
    if not paths and os.path.exists(argument):  # noqa: PTH110 - False where it may not be looked at
        shelf = open_shelf([argument], display)
        found = roots(shelf)
        if not found:
            raise UnknownConversation(f"{argument} holds no conversation")
        return shelf, found
    if not paths and argument.startswith(("/", "./", "../", "~/")):
        raise NothingToRead(f"{argument} is not there")
    shelf = open_shelf(paths, display)
    return shelf, [shelf.find(argument)]


def choose_one(argument: str, paths: tuple[str, ...], display: Display) -> tuple[Shelf, Entry]:
    shelf, found = choose(argument, paths, display)
    if len(found) > 1:
        short = short_ids(found)
        lines = [
            f"  {one_line(short(entry))}  {one_line(entry.title or '', 60)}" for entry in found[:20]
        ]
        if len(found) > 20:
            lines.append(f"  … and {len(found) - 20} more")
        raise AmbiguousId(
            f"{argument} holds {len(found)} conversations; name one with --from {argument}:\n"
            + "\n".join(lines)
        )
    return shelf, found[0]
