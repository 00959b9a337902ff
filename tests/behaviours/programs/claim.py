"""claim HOME TEAM TASK MEMBER [SESSION]: claims once; prints `claimed`, or the error's code and message."""

from __future__ import annotations

import sys

from starting import ready

import interlock

home, team, task, member, *session = sys.argv[1:]
opened = interlock.connect(home).team(team).acting(member, session=session[0] if session else None)
opened.members()
ready()
try:
    opened.claim(task)
    print("claimed")
except interlock.InterlockError as error:
    print(f"{error.code} {error.message}")
