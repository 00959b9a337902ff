"""`interlock up`: scheduler, workers of all teams, HTTP API, page and MCP over HTTP, in one process.

    up.py        begins, announces itself, ends within two seconds
    place.py     which server serves a home: one at a time, and where it listens
    listener.py  the socket, and HTTP on it (uvicorn)
    crews.py     every team with agents at work, one thread each

Imported by the commands that need it only: it loads FastAPI and uvicorn.
"""
