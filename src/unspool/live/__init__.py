"""Live: conversations while they happen.

queue.py     events between their arrival and the store, in a file of their own
intake.py    the spool into the queue
logs.py      events as the dated hook log that batch reads; rows of editors' databases as events
writer.py    the queue, and files that grew, into the store
monitors.py  files and databases that change
notices.py   the same told by the system, where it can
schedule.py  when a conversation is made anew
reducers.py  the processes that make it
states.py    who works, who waits for you
daemon.py    all of it, once per store
drain.py     what has arrived, without a daemon
service.py   the daemon with every login
forward.py   the spool emptied; what it held sent on to another machine
redis_queue.py, mirror.py   many machines, one store
failpoints.py  where tests kill it
"""
