"""The store: every conversation in one SQLite file, kept, searched, measured, aligned.

schema.py    the tables, as migrations
opening.py   where it lies, who may read it, who writes it
survey.py    what changed since the store read it
counters.py  what tells that a database changed
reading.py   an origin's facts and raw records
batches.py   changed origins read, reduced, linked and made into rows, apart from the store
readers.py   worker processes that do this ahead of the one that writes
intake.py    what was read of an origin into the store, whole or not at all
blocks.py    facts and raw records, compressed
update.py    touched conversations reduced, linked and written
sync.py      the store brought up to date with files and databases
rows.py      a trajectory as rows of the tables, and back
metrics.py   the figures of a conversation
rebuild.py   every trajectory made anew from what was kept
changes.py   what changed, for readers in any process
events.py    single events of live capture, and raw records read back
collection.py  the store as a collection of conversations
care.py      verify, info, vacuum
"""
