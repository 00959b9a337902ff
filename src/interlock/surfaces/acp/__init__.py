"""A whole team as one agent of the Agent Client Protocol, over stdin and stdout, for editors (contract, ACP).

    words.py     what a team has and does, in the words of the protocol
    turn.py      one prompt: a chat message, and what is told of it until it is answered
    agent.py     the protocol's methods: sessions are the chat sessions of a team
    lines.py     the two streams, a message a line, bounded

Nothing is kept here that the ledger does not have: a client that ends takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.app.home import Home
from interlock.app.team import Team


def serve(home: Home, team_in: Callable[[str | None], Team], person: str) -> None:
    """Speak ACP over stdin and stdout until stdin closes.

    Args:
        team_in: the team that is meant in a directory, seen by `person` on the face "acp".
        person: who writes.
    """
    from interlock.surfaces.acp.agent import run

    run(home, team_in, person)
