"""The store: every conversation in one SQLite file, kept, searched, measured, aligned.

tables.py    the SQL that makes it, and what those who ask in SQL get of it
opening.py   where it lies, who may read it, who writes it
survey.py    what changed since the store read it
reading.py   an origin's facts and raw records
batches.py   changed origins read, reduced, linked and made into rows, apart from the store, in worker
             processes beside the one that writes
intake.py    what was read of an origin into the store, whole or not at all
blocks.py    facts and raw records, compressed
update.py    touched conversations reduced, written and linked
related.py   which conversations can concern each other
sync.py      the store brought up to date with files and databases
rows.py      a trajectory as rows of the tables
conversations.py  these rows in the tables: written, removed, read back, made searchable
ids.py       how a conversation is called in the store
prices.py    what its tokens cost
filters.py   which conversations are asked about, as conditions in SQL
stats.py     figures of many conversations, grouped
periods.py   how much of a conversation belongs to a day
search.py    what was said, by words, pieces of words or a pattern
align.py     conversations of two agents about one task
changes.py   what changed, for readers in any process
events.py    single events of live capture, and raw records read back
collection.py  the store as a collection of conversations, to list, show and write out
maintenance.py  what it holds, whether it is sound, less space, everything made anew
"""
