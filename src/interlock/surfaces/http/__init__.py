"""HTTP: the contract's addresses over the client port, translation only, one file per resource.

    application.py   create(...): everything below as one ASGI application
    access.py        who comes in (token or cookie) and what they may; the door that everybody passes
    guard.py         before that: Host, Origin, sizes and times; after it: the security headers
    visitor.py       a principal at work: the home and its teams as that one sees them
    failures.py      every failure as `{"error", "message", …}` with the contract's status
    models.py        what requests hold; unknown fields are refused
    documents.py     what answers hold, for /openapi.json
    answers.py       answers as JSON

    sessions.py      /open/{code}: a link becomes a cookie
    projects.py task_groups.py tasks.py        the front door
    teams.py members.py team_tasks.py messages.py inbox.py questions.py protocol.py     one team
    events.py feed.py                          server-sent events over all teams
    workflows.py health.py metrics.py tools.py (MCP)

Verbs block, so every endpoint that calls one is a plain `def`, which FastAPI runs in a thread.
"""
