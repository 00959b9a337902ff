"""`interlock join` and `leave`: a project's agent program gets our hooks and MCP entry, and gives them back.

events.py    what the hooks of each program are called; loaded by every hook
entries.py   which entries go into which files of which program
inserting.py putting them in, so that the rest of the file stays as it is, to the byte
restore.py   taking them out again; needs nothing but Python, and is laid beside the backup
project.py   both verbs, with what git has to know
"""
