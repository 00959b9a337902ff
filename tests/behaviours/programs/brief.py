"""brief HOME TEAM ROUNDS: opens the home, does one verb and closes it again, so many times."""

from __future__ import annotations

import sys

from starting import ready

import interlock

path, name, rounds = sys.argv[1:]
ready()
for number in range(int(rounds)):
    home = interlock.connect(path)
    home.team(name).create_task(f"task {number}")
    home.team(name).tasks()
    home.close()
