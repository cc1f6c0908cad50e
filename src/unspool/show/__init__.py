"""Show: a conversation in the terminal, or as plain text in a pipe.

blocks.py    what is shown, in order: both ways of showing it read these
plain.py     as text
terminal.py  with colours, Markdown and a margin
"""
