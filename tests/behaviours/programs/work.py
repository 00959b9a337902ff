"""work HOME TEAM MEMBER: takes tasks with `next` and completes them until none is left; prints their ids."""

from __future__ import annotations

import sys

from starting import ready

import interlock

path, name, member = sys.argv[1:]
team = interlock.connect(path).team(name).acting(member, session=f"s-{member}")
ready()
while True:
    task = team.next_task()
    if task is not None:
        print(team.complete(task.id).id)
    elif not team.tasks(status="pending") and not team.tasks(status="in_progress"):
        break
