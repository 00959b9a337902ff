"""poll HOME TEAM ROUNDS: polls so many times; prints the type and the task of each action."""

from __future__ import annotations

import sys

from starting import ready

import interlock

path, name, rounds = sys.argv[1:]
team = interlock.connect(path).team(name)
ready()
for _ in range(int(rounds)):
    for action in team.poll().actions:
        print(action.type, action.task_id)
