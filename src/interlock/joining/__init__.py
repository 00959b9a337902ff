"""`interlock join` and `leave`: a project's agent program gets our hooks and MCP entry, and gives them back.

events.py    what the hooks of each program are called; loaded by every hook
entries.py   which entries go into which files of which program
json_text.py edits in the text of a JSON file that leave the rest of it as it is
restore.py   taking the entries out again; needs nothing but Python, and is laid beside the backup
project.py   both verbs, with what git has to know
"""
