"""read HOME TEAM MEMBER SESSION COUNT: waits for mail until so many messages have come; prints each as it was read.

With a sixth argument it prints `holding` once it has messages in its hands, and keeps them until it is told to go on.
"""

from __future__ import annotations

import json
import sys

from starting import ready

import interlock

path, name, member, session, count, *hold = sys.argv[1:]
team = interlock.connect(path).team(name).acting(member, session=session if session != "-" else None)
ready()
seen = 0
while seen < int(count):
    with team.mail(wait=60) as mail:
        if mail.timed_out:
            raise SystemExit(f"only {seen} messages came")
        if hold:
            print("holding", flush=True)
            sys.stdin.readline()
        for message in mail.messages:
            print(json.dumps(message.as_dict()), flush=True)
        seen += len(mail.messages)
