"""Live: conversations while they happen.

queue.py     events between their arrival and the store, in a file of their own
intake.py    the spool into the queue
logs.py      events as the dated hook log that batch reads
"""
