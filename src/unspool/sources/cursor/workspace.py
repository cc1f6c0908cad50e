"""A workspace's ItemTable: prompts, generations, composers and, before 2025, whole chats.

Prompts have no id and no time; generations have both, but no conversation. Where the chats stand in
the same database, their bubbles get the times of the generations with the same text. What is left is
a conversation's by its time, where exactly one was under way.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from unspool.facts import ECHO, INDEXED, AnyFact, MessageSeen, Noted
from unspool.io.dirty_json import clean
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import parse_time
from unspool.sources.cursor.bubbles import RANK, words_of
from unspool.sources.cursor.composers import Reader
from unspool.sources.cursor.entries import request_id
from unspool.sources.cursor.heads import Composer, common_folder
from unspool.sources.cursor.kv import Broken, parse
from unspool.sources.cursor.paths import workspace_folder

COMPOSERS = "composer.composerData"
CHATS = "workbench.panel.aichat.view.aichat.chatdata"
PROMPTS = "aiService.prompts"
GENERATIONS = "aiService.generations"
HEADERS = "composer.composerHeaders"
PANES = "workbench.panel.composerChatViewPane"
_VIEW = "workbench.panel.aichat.view."
KEYS = (COMPOSERS, CHATS, PROMPTS, GENERATIONS, HEADERS)
GUESS = ECHO + 3
"""By time alone: everybody else knows better."""


class Values(Protocol):
    """Values by key: a table, or a folder with a file for each."""

    def get(self, key: str) -> bytes | None: ...

    def keys(self, prefix: str) -> Iterator[str]: ...


class Folder:
    """ItemTable values as files, one per key (`<key>.json`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        path = self._folder / f"{key}.json"
        if not path.is_file():
            return None
        with open_origin(str(path)) as file:
            return file.read()

    def keys(self, prefix: str) -> Iterator[str]:
        names = (path.name.removesuffix(".json") for path in self._folder.glob(f"{prefix}*.json"))
        yield from sorted(names)


def claims(head: Head) -> bool:
    """A file named after one of the keys. The folder is read once, for its first such file."""
    if not is_value(head.name):
        return False
    key = head.name.removesuffix(".json")
    return not any((Path(head.path).parent / f"{other}.json").is_file() for other in _before(key))


def is_value(name: str) -> bool:
    return name.endswith(".json") and name.removesuffix(".json") in KEYS


def _before(key: str) -> tuple[str, ...]:
    return KEYS[: KEYS.index(key)]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    reader = Reader(origin.path, tally, "workspace")
    folder = Path(origin.path).parent
    workspace = Workspace(reader, Folder(folder), workspace_folder(origin.path))
    yield from workspace.read(folder.name)


class Workspace:
    """One workspace's values."""

    def __init__(self, reader: Reader, values: Values, folder: str | None) -> None:
        self._reader = reader
        self._values = values
        self._folder = folder
        self._generations: list[dict[str, Any]] = []
        self._told: dict[str, int] = defaultdict(int)
        """How often each text was said in the chats that stand here."""

    def read(self, name: str) -> Iterator[AnyFact]:
        problems: list[AnyFact] = []
        listed = self._value(GENERATIONS, problems)
        self._generations = _objects(listed)
        composers = _objects(_part(self._value(COMPOSERS, problems), "allComposers"))
        composers += _objects(_part(self._value(HEADERS, problems), "allComposers"))
        tabs = _objects(_part(self._value(CHATS, problems), "tabs"))
        prompts = _objects(self._value(PROMPTS, problems))
        yield from problems
        self._folder = self._folder or common_folder(composers)
        self._give_times([*composers, *({"conversation": t.get("bubbles")} for t in tabs)])
        for composer in composers:
            yield from self._composer(composer)
        for tab in tabs:
            ident = tab.get("tabId")
            if isinstance(ident, str) and ident:
                chat = {**tab, "conversation": tab.get("bubbles")}
                yield from self._reader.read(ident, chat, self._folder)
        yield from self._panes()
        yield from self._left(name, composers, prompts)

    def _value(self, key: str, problems: list[AnyFact]) -> Any:
        data = self._values.get(key)
        if data is None:
            return None
        try:
            return clean(parse(data))
        except Broken as broken:
            self._reader.tally.records += 1
            problems.append(self._reader.problem(("", ""), broken.code, broken.data))
            return None

    def _composer(self, composer: Composer) -> Iterator[AnyFact]:
        ident = composer.get("composerId")
        if not isinstance(ident, str) or not ident:
            return
        if composer.get("conversation"):
            yield from self._reader.read(ident, composer, self._folder)
        else:
            self._reader.tally.records += 1
            yield from self._reader.head(ident, composer, self._folder)

    def _panes(self) -> Iterator[AnyFact]:
        """Composers that were open in this workspace: it is theirs."""
        if not self._folder:
            return
        known: set[str] = set()
        for key in self._values.keys(PANES):
            value = self._value(key, [])
            known.update(
                name[len(_VIEW) :] for name in (value if isinstance(value, dict) else ())
                if name.startswith(_VIEW)
            )  # fmt: skip
        selected = self._value(COMPOSERS, [])
        if isinstance(selected, dict):
            listed = selected.get("selectedComposerIds")
            known.update(i for i in (listed if isinstance(listed, list) else ()) if i)
        for ident in sorted(i for i in known if isinstance(i, str)):
            self._reader.tally.records += 1
            yield Noted(
                key=("cursor", ident), origin=self._reader.origin,
                offset=next(self._reader.offsets), entry=f"pane:{ident}", name="workspace.path",
                value=self._folder, rank=RANK + 1,
            )  # fmt: skip

    def _give_times(self, chats: list[Composer]) -> None:
        """The generations of a text, the last to the last bubble with it, and so on backwards."""
        by_text: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for generation in self._generations:
            by_text[_text(generation)].append(generation)
        for chat in reversed(chats):
            listed = _objects(chat.get("conversation"))
            for bubble in reversed(listed):
                text = words_of(bubble).strip() if bubble.get("type") in (1, "user") else ""
                if not text:
                    continue
                self._told[text] += 1
                if by_text[text]:
                    generation = by_text[text].pop()
                    bubble.setdefault("createdAt", generation.get("unixMs"))
                    bubble.setdefault("requestId", _ident(generation))
        self._generations = [g for group in by_text.values() for g in group]

    def _left(
        self, name: str, composers: list[Composer], prompts: list[dict[str, Any]]
    ) -> Iterator[AnyFact]:
        """What no chat here holds: its composer's by its time, else the workspace's own."""
        reader = self._reader
        rest: list[dict[str, Any]] = []
        for generation in sorted(self._generations, key=lambda g: parse_time(g.get("unixMs")) or 0):
            reader.tally.records += 1
            owners = _under_way(generation, composers)
            if len(owners) == 1:
                yield self._echo(("cursor", owners[0]), generation, GUESS)
            else:
                rest.append(generation)
        known = {*self._told, *map(_text, self._generations)}
        for prompt in prompts:
            reader.tally.records += 1
            if _text(prompt) in known:
                reader.tally.noise += 1  # Said again by a bubble or a generation.
            else:
                rest.append(prompt)
        spare = _has_global(reader.origin)
        if spare:
            # The global database has their conversations: only who knows their id gains from them.
            reader.tally.noise += sum(1 for prompt in rest if not _ident(prompt))
            rest = [prompt for prompt in rest if _ident(prompt)]
        for prompt in rest:
            yield self._echo(("cursor", f"prompts-{name}"), prompt, ECHO)
        if rest:
            yield from self._prompts_notes(f"prompts-{name}", spare)

    def _prompts_notes(self, ident: str, spare: bool) -> Iterator[AnyFact]:
        notes: dict[str, Any] = {
            "partial": "prompts-without-conversation",
            "workspace.path": self._folder,
            "spare": spare or None,
        }
        offset = next(self._reader.offsets)
        for number, (name, value) in enumerate(notes.items()):
            yield Noted(
                key=("cursor", ident), origin=self._reader.origin, number=number, offset=offset,
                entry=f"notes:{ident}", name=name, value=value, rank=ECHO,
            )  # fmt: skip

    def _echo(self, key: tuple[str, str], said: dict[str, Any], rank: int) -> AnyFact:
        """A prompt, known by its text alone or with its generation."""
        ident = _ident(said)
        number = next(self._reader.offsets)
        return MessageSeen(
            key=key, origin=self._reader.origin, offset=number, id=INDEXED + ident if ident else "",
            entry=f"generation:{ident}" if ident else f"prompt:{key[1]}:{self._nth(_text(said))}",
            role="user", text=_text(said), time=parse_time(said.get("unixMs")), rank=rank,
            request=ident,
        )  # fmt: skip

    def _nth(self, text: str) -> str:
        key = f"\0{text}"
        self._told[key] += 1
        return f"{self._told[key]}:{text}"


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _ident(said: dict[str, Any]) -> str:
    """The id that hooks and bubbles know a generation by."""
    return request_id(said.get("generationUUID"))


def _text(said: dict[str, Any]) -> str:
    text = said.get("textDescription", said.get("text"))
    return text.strip() if isinstance(text, str) else ""


def _under_way(generation: dict[str, Any], composers: list[Composer]) -> list[str]:
    """The composers between whose beginning and last change the generation was made."""
    time = parse_time(generation.get("unixMs"))
    found: list[str] = []
    for composer in composers if time is not None else ():
        first = parse_time(composer.get("createdAt"))
        last = parse_time(composer.get("lastUpdatedAt"))
        if first is not None and last is not None and time is not None and first <= time <= last:
            found.append(str(composer.get("composerId")))
    return found


def _has_global(origin: str) -> bool:
    return (Path(origin).parent.parent.parent / "globalStorage" / "state.vscdb").is_file()
