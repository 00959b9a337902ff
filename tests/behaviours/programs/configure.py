"""configure HOME TEAM NUMBER ROUNDS: changes the configuration of one team and of the home again and again."""

from __future__ import annotations

import sys

from starting import ready

import interlock
from interlock.settings import SETTINGS

path, name, number, rounds = sys.argv[1:]
home = interlock.connect(path)
team = home.team(name)
own = [setting for setting in SETTINGS if isinstance(setting.default, int) and setting.team][int(number)].name
ready()
for value in range(1, int(rounds) + 1):
    team.configure({own: 5000 + value})
    home.configure({own: 6000 + value})
    team.spawn(f"m{number}-{value}")
print(own)
