"""`unspool serve`: a page and an API over the store, for a browser on this machine.

answers.py       what the API says, as structs: the shapes that `openapi.py` describes
queries.py       what may be asked: the parameters of every endpoint
conversations.py the list: filters, sorting, cursors, where every page of it begins
conversation.py  one conversation in pieces, its branches, raw records and downloads
records.py       what the agent itself wrote of a message
findings.py      search, figures, alignment
now.py           what every agent is doing
patterns.py      regular expressions, looked for in a process of their own that can be stopped
events.py        the store's changes, as they come, for readers that listen
recent.py        what was made lately, for the next question
readers.py       threads that read the store, each with a connection of its own
endpoints.py     the table of all endpoints
openapi.py       the description of the API, made from that table
guard.py         who may ask: host, origin, token; what every answer says about safety
page.py          the page's files, and what every view begins with
app.py           the web application and the server
static/          the page: no build step, nothing from anywhere else
"""
