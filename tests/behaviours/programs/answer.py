"""answer HOME TEAM MEMBER: waits for a shutdown request and approves it."""

from __future__ import annotations

import sys

from starting import ready

import interlock

path, name, member = sys.argv[1:]
team = interlock.connect(path).team(name).acting(member, session="s1")
ready()
with team.mail(wait=60) as mail:
    (request,) = mail.messages
team.answer_shutdown(request.request_id, approve=True)
