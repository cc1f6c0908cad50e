"""Steps: the rest of an answer cut into messages by the order of its parts, where rounds of the model
tell only its beginning.

Words or thinking behind a tool call are of the next time that the model spoke: they begin a message.
Calls without a word between them stand together.
"""

import re
from collections.abc import Iterable

import msgspec

from unspool.sources.vscode_chat.parts import Flow, Kept, Thought, Tool, Words

WORD = re.compile(r"\w")


def begins(item: Words | Kept) -> bool:
    """Whether the model spoke there: not where there are only marks (a fence, the point of a list), or
    words of the program (a warning, a task)."""
    spoken = isinstance(item, Kept) and item.spoken
    return not spoken and WORD.search(item.text) is not None


class Step(msgspec.Struct):
    """One message: what it says, then what it calls."""

    blocks: list[str] = []
    """Its words, cut apart where a block of its own was shown."""
    tools: list[int] = []
    """The numbers of its tool parts."""

    @property
    def text(self) -> str:
        return "\n\n".join(block.strip("\n") for block in self.blocks)


class Steps:
    """The messages of an answer, or of a part of it."""

    def __init__(self, flow: Iterable[Flow], single: bool = False) -> None:
        """`single`: it is one message, whatever stands in it."""
        self.made = [Step()]
        self._single = single
        self._open = False
        """Whether the last block goes on."""
        self._aside = ""
        """What stands behind a call and begins nothing."""
        for item in flow:
            self._take(item)
        self._settle()

    def _take(self, item: Flow) -> None:
        if isinstance(item, Tool):
            self._settle()
            self.made[-1].tools.append(item.number)
            self._open = False
        elif isinstance(item, Thought):
            if item.text:
                self._begin()
        else:
            if isinstance(item, Kept) and item.apart:
                self._settle()
                self._open = False
            self._say(item.text, begins(item))

    def _begin(self) -> None:
        if self.made[-1].tools and not self._single:
            self.made.append(Step())
            self._open = False

    def _say(self, text: str, spoke: bool) -> None:
        if not spoke and self.made[-1].tools and not self._single:
            self._aside += text
            return
        if spoke:
            self._begin()
        self._write(self._aside + text)
        self._aside = ""

    def _settle(self) -> None:
        """What no words of the model followed goes with those before."""
        if self._aside.strip():
            self._write(self._aside)
        self._aside = ""

    def _write(self, text: str) -> None:
        blocks = self.made[-1].blocks
        if self._open and blocks:
            blocks[-1] += text
        elif text:
            blocks.append(text)
            self._open = True


def steps_of(flow: Iterable[Flow]) -> list[Step]:
    return Steps(flow).made


def one_step(flow: Iterable[Flow]) -> Step:
    return Steps(flow, single=True).made[0]
