"""Reading: a conversation laid out as a person reads it, for the terminal, the page and Markdown.

Turns with their prompt, answers with the tool calls that they made and what came of each, sub-agents
at the call that started them, rules where history was compacted or rewound, abandoned branches.

items.py       what there is to read          layout.py      put in order
parts.py       what of a message is shown, and the facts of all
calls.py       a tool call in a line          edits.py       a tool call as a diff
characters.py  what is safe to look at        figures.py     numbers for people
families.py    a conversation and its sub-agents as a tree
blocks.py      flattened, one after the other
plain.py       blocks in a pipe               terminal.py    blocks on a screen
"""

from unspool.views.items import Aside, Call, Item, Reading, Rule, Said, Turn
from unspool.views.layout import read_family

__all__ = [
    "Aside",
    "Call",
    "Item",
    "Reading",
    "Rule",
    "Said",
    "Turn",
    "read_family",
]
