"""HTTP: the contract's addresses over the application services, translation only, one file per resource.

    application.py           create(...): everything below as one ASGI application; /openapi.json
    security_middleware.py   Host, Origin, sizes and times; the security headers
    auth.py                  who calls (token or cookie); the middleware that every request passes
    request_context.py       what endpoints work with: the home and its teams as the caller may see them; roles
    failures.py              every failure as `{"error", "message", …}` with the contract's status; pages before sign-in
    requests.py types.py     what requests hold; unknown fields are refused
    responses.py             what answers hold, for /openapi.json

    sign_in.py               /open/{code}: a link becomes a cookie
    verbs.py                 addresses that are one verb of a team each
    front_door.py            projects, chat, task groups, tasks, replies
    teams.py team_tasks.py mail.py       one team
    events.py                            server-sent events over all teams
    workflows.py monitoring.py mcp_endpoint.py

Verbs block, so every endpoint that calls one is a plain `def`, which FastAPI runs in a thread; one that may take
minutes is `slow`, and uses none of those threads.
"""
