"""The catalogue of prompt tags: which tags programs write, where, and what they mean.

It is data (`data/prompt_tags.json`), replaced as a whole by the file that the environment variable
PROMPT_CONTEXT_TAG_MAP names; `--context-tag-map` sets that variable, so that worker processes see it
too. `docs/prompt-tags.md` explains the fields.
"""

import json
import os
import re
from functools import cached_property, lru_cache
from pathlib import Path
from pkgutil import get_data
from typing import Literal

import msgspec

from unspool.errors import BrokenCatalogue
from unspool.prompts.tags import LineStart

VARIABLE = "PROMPT_CONTEXT_TAG_MAP"
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")

Placement = Literal["user", "system", "assistant", "tool"]


class TagEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tag that programs are known to write."""

    name: str
    placement: list[Placement]
    """The roles of the messages that it stands in."""
    route: str
    """Which part of `context.message_contexts[]` its content goes to."""
    meaning: str = ""
    inside: list[str] = []
    """The tags that it stands in; empty where it stands by itself."""
    common: bool = False
    """People write it too: alone it is no sign that a program wrote the message."""
    legacy: str = ""
    """How prompts said the same before they had the tag: a regular expression for a line's start."""


class Phrase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that programs write around blocks, outside of any tag."""

    pattern: str
    """A regular expression for a line's start."""
    meaning: str = ""


class Catalogue(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """All tags, by name."""

    tags: list[TagEntry]
    phrases: list[Phrase] = []
    version: int = 1

    @cached_property
    def by_name(self) -> dict[str, TagEntry]:
        return {entry.name: entry for entry in self.tags}

    @cached_property
    def telling(self) -> frozenset[str]:
        """Blocks in a user message that only a program writes."""
        return frozenset(e.name for e in self.tags if "user" in e.placement and not e.common)

    @cached_property
    def standing(self) -> frozenset[str]:
        """Blocks that a program may put around what was typed: the telling ones, and others that
        stand by themselves."""
        own = (e.name for e in self.tags if "user" in e.placement and not e.inside)
        return self.telling | frozenset(own)

    @cached_property
    def requests(self) -> frozenset[str]:
        """Blocks that hold what the person typed."""
        return frozenset(e.name for e in self.tags if e.route == "user_request")

    @cached_property
    def summaries(self) -> frozenset[str]:
        """Blocks in a user message that stand for compacted history."""
        entries = (e for e in self.tags if e.route == "conversation_summary")
        return frozenset(e.name for e in entries if "user" in e.placement)

    @cached_property
    def containers(self) -> frozenset[str]:
        """Tags that others stand in."""
        return frozenset(name for entry in self.tags for name in entry.inside)

    @cached_property
    def legacy(self) -> LineStart | None:
        """All legacy patterns as one, each a group named by the number of its entry."""
        entries = [(number, e.legacy) for number, e in enumerate(self.tags) if e.legacy]
        if not entries:
            return None
        return LineStart("|".join(f"(?P<t{n}>{text})" for n, text in entries))

    def is_legacy(self, text: str) -> bool:
        """Whether the text says in words what programs put into tags later."""
        return self.legacy is not None and any(True for _ in self.legacy.finditer(text))

    def legacy_route(self, match: re.Match[str]) -> str:
        """The route of what a legacy pattern found."""
        return self.tags[int((match.lastgroup or "t0")[1:])].route

    @cached_property
    def lead(self) -> re.Pattern[str] | None:
        """All phrases as one pattern."""
        if not self.phrases:
            return None
        return re.compile("|".join(f"^(?:{p.pattern})" for p in self.phrases), re.MULTILINE)

    def route(self, name: str) -> str:
        entry = self.by_name.get(name)
        return entry.route if entry is not None else ""


def active() -> Catalogue:
    """The catalogue in force."""
    return _load(os.environ.get(VARIABLE, ""))


def use(path: str | os.PathLike[str]) -> Catalogue:
    """Put another catalogue in force, in this process and in those that it starts."""
    catalogue = _load(str(Path(path).absolute()))
    os.environ[VARIABLE] = str(Path(path).absolute())
    return catalogue


@lru_cache(maxsize=8)
def _load(path: str) -> Catalogue:
    if not path:
        return parse_catalogue(get_data("unspool", "data/prompt_tags.json") or b"", "")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BrokenCatalogue(f"tag catalogue {path}: {error.strerror or error}") from None
    return parse_catalogue(data, path)


def parse_catalogue(data: bytes, path: str) -> Catalogue:
    """The catalogue in a JSON text; a broken one raises one line with the place of the error."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
        catalogue = msgspec.convert(value, Catalogue)
    except json.JSONDecodeError as error:
        raise _broken(path, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise _broken(path, f"byte {error.start}: not UTF-8") from None
    except msgspec.ValidationError as error:
        raise _broken(path, _place(str(error), value)) from None
    except RecursionError:
        raise _broken(path, "nested too deep") from None
    seen: dict[str, int] = {}
    for number, entry in enumerate(catalogue.tags):
        place = f"tags[{number}] ({entry.name})"
        if not _NAME.fullmatch(entry.name):
            raise _broken(path, f"tags[{number}].name: {entry.name!r} is no name of a tag")
        if entry.name in seen:
            raise _broken(path, f"{place}: already stands at tags[{seen[entry.name]}]")
        seen[entry.name] = number
        _check_pattern(entry.legacy, path, f"{place}.legacy")
    for number, phrase in enumerate(catalogue.phrases):
        _check_pattern(phrase.pattern, path, f"phrases[{number}].pattern")
    return catalogue


def _broken(path: str, text: str) -> BrokenCatalogue:
    return BrokenCatalogue(f"tag catalogue {path or 'of the package'}: {text}")


def _place(text: str, value: object) -> str:
    """msgspec's message with the place in front, and the tag's name where it has one."""
    what, _, where = text.partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    number = re.match(r"tags\[(\d+)\]", where)
    name = ""
    if number and isinstance(value, dict):
        entry = value["tags"][int(number[1])]
        name = f" ({entry['name']})" if isinstance(entry, dict) and "name" in entry else ""
    return f"{where or 'top level'}{name}: {what}"


def _check_pattern(pattern: str, path: str, place: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _broken(path, f"{place}: {error}") from None
