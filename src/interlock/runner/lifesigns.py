"""How processes and what they started stand in the ledger, and whether they still live.

`<host>|<boot>|<pid>|<start>#<token>`: the process, and the run token in the environment of every program it starts
under that name (see `processes`). The token is chosen before there is a program, so that no moment is left in which a
crash could lose sight of one: for a run it is the second half of its session's id, for a verify it stands in the name
of the verifier. Kept light, for the verbs that hooks call.
"""

from __future__ import annotations

import os

from interlock import processes
from interlock.errors import InvalidRequest
from interlock.sessions import RUN_SESSION as SESSION


def new_session() -> tuple[str, str]:
    """(session id, run token) for a run that is to begin."""
    token = os.urandom(16).hex()
    return f"{SESSION}{token}", token


def session_token(session: str) -> str | None:
    """The run token of a session that a runner opened; null for one that only somebody else calls so."""
    token = session.removeprefix(SESSION)
    return token if session.startswith(SESSION) and len(token) >= processes.TOKEN_CHARS else None


def written(identity: processes.Identity, token: str) -> str:
    """How a process is written down that carries `token`, or starts what does."""
    return f"{identity.as_text()}#{token}"


def verifier() -> str:
    """This process as the one that is going to run a verify, with a token for the verify's program."""
    return written(processes.current(), os.urandom(16).hex())


def token_of(text: str) -> str | None:
    """The run token in what `written` wrote."""
    return text.partition("#")[2] or None


def lives(text: str) -> bool | None:
    """Whether the process written down as `text` lives; null when it is another machine's."""
    try:
        return processes.alive(processes.Identity.parse(text.partition("#")[0]))
    except InvalidRequest:
        return False
