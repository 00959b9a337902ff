"""`interlock up`: scheduler, workers of all teams, HTTP API, page and MCP over HTTP, in one process.

    up.py            starts, announces itself, ends within two seconds
    server_lock.py   one server serves a home at a time; where it listens
    listener.py      the socket, and HTTP on it (uvicorn)
    team_threads.py  every team with agents at work, one thread each

Only the commands that need it import it: it loads FastAPI and uvicorn.
"""
