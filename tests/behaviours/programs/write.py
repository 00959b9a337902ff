"""write HOME TEAM SENDER RECIPIENT COUNT: sends so many messages, numbered."""

from __future__ import annotations

import sys

from starting import ready

import interlock

path, name, sender, recipient, count = sys.argv[1:]
team = interlock.connect(path).team(name)
ready()
for number in range(int(count)):
    team.send(sender, to=recipient, content=f"{sender} {number}")
