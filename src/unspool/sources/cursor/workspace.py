"""A workspace's ItemTable: prompts, generations, composers and, before 2025, whole chats.

The prompts that no conversation says are a conversation of their own, `prompts-<workspace>`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unspool.facts import AnyFact, Rank
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.sources.cursor.bubbles import BUBBLE, RANK
from unspool.sources.cursor.composers import Composer, Reader
from unspool.sources.cursor.entries import digest
from unspool.sources.cursor.generations import (
    GENERATIONS,
    Generation,
    generations_in,
    said_beside,
)
from unspool.sources.cursor.paths import (
    DESCRIPTION,
    clean_path,
    folder_of,
    is_cursor_folder,
    workspace_folder,
)
from unspool.sources.cursor.tables import Keys

COMPOSERS = "composer.composerData"
CHATS = "workbench.panel.aichat.view.aichat.chatdata"
PROMPTS = "aiService.prompts"
HEADERS = "composer.composerHeaders"
PANES = "workbench.panel.composerChatViewPane"
_VIEW = "workbench.panel.aichat.view."
KEYS = (COMPOSERS, CHATS, PROMPTS, GENERATIONS, HEADERS)
_NO_TITLE = "New Chat"


class Folder:
    """ItemTable values as files, one per key (`<key>.json`), asked for as in the table (`Keys`)."""

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
    """A file named after one of the keys, or the one that tells whose storage this is."""
    if head.name == DESCRIPTION:
        return "workspaceStorage" in head.parts[-2:] and is_cursor_folder(head.parts)
    return head.name.endswith(".json") and head.name.removesuffix(".json") in KEYS


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    """A folder of values is read once, for its first. The others state nothing by themselves, but
    without them a kept copy of that one could not be read anew."""
    folder = Path(origin.path).parent
    first = next((f"{key}.json" for key in KEYS if (folder / f"{key}.json").is_file()), "")
    if Path(origin.path).name != first:
        tally.records += 1
        tally.noise += 1
        return
    reader = Reader(origin.path, tally, "workspace")
    yield from read_workspace(reader, Folder(folder))


def read_workspace(reader: Reader, values: Keys | Folder) -> Iterator[AnyFact]:
    """What the values of one workspace tell."""

    def value_of(key: str) -> Any:
        data = values.get(key)
        return reader.parse(data) if data is not None else None

    listed, heads = dicts_of(value_of(GENERATIONS)), value_of(COMPOSERS)
    composers = dicts_of(field_of(heads, "allComposers"))
    composers += dicts_of(field_of(value_of(HEADERS), "allComposers"))
    tabs = [_as_composer(tab) for tab in dicts_of(field_of(value_of(CHATS), "tabs"))]
    folder = workspace_folder(reader.origin) or _common_folder(composers)
    generations = [g for g in generations_in(listed, folder) if g.words]
    reader.tally.records += len(listed)
    reader.tally.noise += len(listed) - len(generations)
    reader.generations.add(generations)
    spoken = _give_times([*composers, *tabs], generations)
    for composer in (*composers, *tabs):
        ident = str_of(composer.get("composerId"))
        if ident and composer.get("conversation"):
            yield from reader.read(ident, composer, folder)
        elif ident and composer not in tabs:
            yield from reader.head(ident, composer, folder)
    if folder:
        # Composers that were open in this workspace: it is theirs.
        selected = set(map(str_of, list_of(field_of(heads, "selectedComposerIds"))))
        names = (name for key in values.keys(PANES) for name in dict_of(value_of(key)))
        opened = {name.removeprefix(_VIEW) for name in names if name.startswith(_VIEW)}
        for ident in sorted((opened | selected) - {""}):
            reader.tally.records += 1
            scribe = reader.scribe(("cursor", ident), f"pane:{ident}")
            scribe.note("workspace.path", folder, RANK + 1)
            yield from scribe.facts
    prompts = [str_of(prompt.get("text")) for prompt in dicts_of(value_of(PROMPTS))]
    if prompts or generations:
        yield from _read_prompts(reader, folder, prompts, generations, spoken)


def _read_prompts(
    reader: Reader,
    folder: str | None,
    prompts: list[str],
    generations: list[Generation],
    spoken: set[bytes],
) -> Iterator[AnyFact]:
    """The prompts that no conversation says, all of them, in their order."""
    reader.tally.records += len(prompts)
    beside = said_beside(reader.origin)
    # What a run that was abandoned was asked with stands in no bubble, but the run has its request.
    answered = {digest(g.words) for g in generations if g.ident and digest(g.ident) in beside}
    spoken = spoken | beside | answered
    # The name of the folder is how the editor knows the workspace.
    key = ("cursor", f"prompts-{Path(reader.origin).parent.name}")
    times: Counter[str] = Counter()
    for words, generation in _paired(prompts, generations):
        if not words.strip() or digest(words) in spoken:
            reader.tally.noise += 1
            continue
        times[words] += 1
        entry, time, ident = f"prompt:{key[1]}:{times[words]}:{words}", None, ""
        if generation is not None:
            time, ident = generation.time, generation.ident
        if ident:
            entry = f"generation:{ident}"
        scribe = reader.scribe(key, entry, time=time, rank=Rank.ECHO)
        scribe.message(id=f"index:{ident}" if ident else "", role="user", text=words, request=ident)
        yield from scribe.facts
    if times:
        scribe = reader.scribe(key, f"notes:{key[1]}")
        scribe.note("partial", "prompts-without-conversation", Rank.ECHO)
        scribe.note("workspace.path", folder, Rank.ECHO)
        yield from scribe.facts


def _common_folder(composers: list[Composer]) -> str | None:
    """The folder that the changed files of several composers share, where nothing names it."""
    changed = [uris for c in composers if isinstance(uris := c.get("codeBlockData"), dict) and uris]
    if len(changed) < 2:
        return None
    return folder_of([clean_path(str(uri)) for uris in changed for uri in uris])


def _as_composer(tab: dict[str, Any]) -> Composer:
    """A chat of 2023 or 2024. Its last bubble is the input box, where nothing answers it: none of
    seven such drafts was among the prompts that were sent. `lastSendTime` is the last prompt's."""
    bubbles = dicts_of(tab.get("bubbles"))
    if bubbles and bubbles[-1].get("type") == "user":
        bubbles = bubbles[:-1]
    asked = [bubble for bubble in bubbles if bubble.get("type") == "user"]
    if asked and tab.get("lastSendTime"):
        asked[-1].setdefault("createdAt", tab["lastSendTime"])
    title = tab.get("chatTitle")
    return {
        "composerId": tab.get("tabId"), "conversation": bubbles,
        "name": title if title != _NO_TITLE else None, "lastUpdatedAt": tab.get("lastSendTime"),
    }  # fmt: skip


def _give_times(composers: list[Composer], generations: list[Generation]) -> set[bytes]:
    """What the chats that stand here say. Their prompts have no time: where words were said once and
    generated once, the two are one."""
    prompts = [
        (bubble, digest(BUBBLE.convert(bubble).words))
        for composer in composers
        for bubble in dicts_of(composer.get("conversation"))
        if bubble.get("type") in (1, "user")
    ]
    often = Counter(words for _, words in prompts)
    generated = Counter(digest(generation.words) for generation in generations)
    sent = {digest(generation.words): generation for generation in generations}
    for bubble, words in prompts:
        if often[words] == generated[words] == 1:
            bubble.setdefault("createdAt", format_time(sent[words].time))
    return set(often)


def _paired(
    prompts: Sequence[str], generations: Sequence[Generation]
) -> list[tuple[str, Generation | None]]:
    """The prompts, each with its generation: the longest sequence of equal words that both lists have.
    Generations whose words are no prompt's, where the list of prompts is cut off, come behind."""
    spoken = [words.strip() for words in prompts]
    sent = [generation.words.strip() for generation in generations]
    best = [[0] * (len(sent) + 1) for _ in range(len(spoken) + 1)]
    for i in reversed(range(len(spoken))):
        for j in reversed(range(len(sent))):
            equal = best[i + 1][j + 1] + 1 if spoken[i] == sent[j] else 0
            best[i][j] = max(equal, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[str, Generation | None]] = []
    j = 0
    for i, words in enumerate(prompts):
        while j < len(sent) and best[i][j] == best[i][j + 1] and spoken[i] != sent[j]:
            j += 1
        if j < len(sent) and spoken[i] == sent[j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs.append((words, generations[j]))
            j += 1
        else:
            pairs.append((words, None))
    listed = set(spoken)
    return pairs + [(g.words, g) for g in generations if g.words.strip() not in listed]
