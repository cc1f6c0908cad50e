"""Where `list`, `show` and `export` take conversations from, and how an argument names one."""

import os
from collections.abc import Iterable

import click

from unspool.cli.screen import Display
from unspool.errors import AmbiguousId, NothingToRead, StoreError, UnknownConversation
from unspool.inspect.collection import Collection, Entry, FileCollection, with_candidates
from unspool.inspect.scan import Place, found_paths, main_places, usual_places
from unspool.views.figures import plural

WAIT = 3
"""Seconds for a daemon to finish what it is writing."""


def open_collection(paths: Iterable[str], display: Display) -> Collection:
    """What the paths hold; without any, the store, brought up to date first.

    Where the store cannot be written it is read as it is; where it cannot be read, or somebody is
    only just filling it, the files themselves are.
    """
    given = list(paths)
    if given:
        return FileCollection(given, display.start)
    # Imported here: with paths, `list` and `show` need no store and start faster.
    from unspool.cli.sync import sync
    from unspool.store.collection import StoreCollection
    from unspool.store.opening import connect_for_reading, default_path

    path = default_path()
    problems: dict[str, int] = {}
    trouble: StoreError | None = None
    stored: Collection | None = None
    try:
        problems = sync([], path, quiet=display.quiet, complete=False, wait_seconds=WAIT).problems
    except StoreError as error:
        trouble = error
    try:
        store = StoreCollection(connect_for_reading(path), problems)
        stored = store if store.entries() else None
    except StoreError as error:
        trouble = trouble or error
    if trouble is None and stored is None:
        raise NothingToRead(_nothing_here(usual_places()))
    if trouble is not None:
        what = "not brought up to date" if stored else "the files are read without a store"
        click.echo(f"unspool: {what}: {trouble}", err=True)
    if stored is not None:
        return stored
    places = usual_places()
    existing = found_paths(places)
    if not existing:
        raise NothingToRead(_nothing_here(places))
    return FileCollection(existing, display.start)


def _nothing_here(places: Iterable[Place]) -> str:
    paths = dict.fromkeys(place.path for place in main_places(places))
    looked = "\n".join(f"  {path}" for path in paths)
    return (
        "no conversations in the usual places; looked in\n"
        f"{looked}\nand more (`unspool scan -v`); or name a file or folder"
    )


def tell_problems(collection: Collection) -> None:
    """One line on stderr where something could not be read."""
    codes = collection.problems()
    if codes:
        kinds = ", ".join(f"{code.replace('-', ' ')}: {count}" for code, count in codes.items())
        number = plural(sum(codes.values()), "problem")
        click.echo(
            f"unspool: {number} in the data ({kinds}); `unspool scan -v` shows them", err=True
        )


def says_something(entry: Entry) -> bool:
    """Whether anything was said in it, or at least checkpoints of it are left."""
    return bool(entry.messages) or entry.partial


def choose(
    argument: str, paths: tuple[str, ...], display: Display
) -> tuple[Collection, list[Entry]]:
    """The conversations that an argument means: all of a file, or the one with that id."""
    if not paths and os.path.exists(argument):  # noqa: PTH110 - False where it may not be looked at
        collection = open_collection([argument], display)
        entries = collection.entries()
        ids = {(entry.source, entry.id) for entry in entries}
        # A sub-agent comes with its parent; one whose parent is not in the file stands for itself.
        chosen = [
            entry
            for entry in entries
            if says_something(entry)
            and (entry.parent_id is None or (entry.source, entry.parent_id) not in ids)
        ]
        if not chosen:
            raise UnknownConversation(f"{argument} holds no conversation")
        return collection, chosen
    if not paths and argument.startswith(("/", "./", "../", "~/")):
        raise NothingToRead(f"{argument} is not there")
    collection = open_collection(paths, display)
    return collection, [collection.find(argument)]


def choose_one(argument: str, paths: tuple[str, ...], display: Display) -> tuple[Collection, Entry]:
    collection, chosen = choose(argument, paths, display)
    if len(chosen) > 1:
        told = f"{argument} holds {len(chosen)} conversations; name one with --from {argument}:"
        raise AmbiguousId(with_candidates(told, chosen))
    return collection, chosen[0]
