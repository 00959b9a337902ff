"""A human's exit word to a discussion that is under way (BMAD-5.4.1): said anywhere, heard by the run at once.

It is kept in the document of the session, for that one discussion, before anybody is told that it was heard; the run
looks for it while a round is going on. It stays there: what the run makes of it is written later, and a run that is
killed in between hears it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio

from interlock.errors import InterlockError
from interlock.workflow.engine.context import Postponed, RunContext
from interlock.workflow.engine.ports import Superseded
from interlock.workflow.party.party_mode_driver import RUNNING, exit_word
from interlock.workflow.state.document import WorkflowState

KEY = "party"
"""Where the document of a session keeps it."""
LOOK = 1.0  # seconds between two looks
KEPT = 20  # runs of a session whose last word is kept

T = TypeVar("T")


def understood(text: str, state: WorkflowState | None) -> str | None:
    """The exit word that a message is, and nothing else, where a discussion of that run is under way."""
    return alone(text) if state is not None and under_way(state.party) else None


def alone(text: str) -> str | None:
    """The exit word that a message is, and nothing else."""
    word = exit_word(text)
    return word if word is not None and text.strip(" \t\n.!").lower() == word else None


def under_way(party: Mapping[str, Any]) -> bool:
    """Whether a discussion, as a run keeps it, goes on."""
    return party.get("status") == RUNNING


def say(document: dict[str, Any], state: WorkflowState, word: str) -> None:
    """Keep it for the discussion that is under way in that run."""
    others = {id: one for id, one in document.get(KEY, {}).items() if id != state.workflow_id}
    document[KEY] = {**dict(list(others.items())[1 - KEPT :]), state.workflow_id: {"word": word, **_which(state)}}


async def heard(run: RunContext) -> str | None:
    """The word that was said to the discussion under way."""
    try:
        return said(await run.desk.session(), run.state)
    except InterlockError:
        return None  # The ledger is busy: the next look finds it.


def said(document: Mapping[str, Any], state: WorkflowState) -> str | None:
    """The same, in the session's document."""
    found = document.get(KEY, {}).get(state.workflow_id)
    if not isinstance(found, Mapping) or any(found.get(name) != value for name, value in _which(state).items()):
        return None
    return str(found["word"])


async def unless(run: RunContext, round: Callable[[], Awaitable[T]]) -> tuple[T | None, str | None]:
    """(what a round came to, None) or (None, the exit word): who still speaks then gets the grace to end.

    Raises:
        Postponed: the round did.
    """
    word, found, postponed = None, None, None
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            nonlocal word
            while (word := await heard(run)) is None:
                await anyio.sleep(LOOK)
            group.cancel_scope.deadline = anyio.current_time() + run.limits.exit_grace

        group.start_soon(listen)
        try:
            found = await round()
        except Postponed as error:  # raised again below, not wrapped in a group
            postponed = error
        group.cancel_scope.cancel()
    if postponed is not None:
        raise postponed
    return found, word


async def during(run: RunContext, turn: Callable[[anyio.Event], Awaitable[T]]) -> tuple[T, bool]:
    """(what came of a turn of the run's own agent, which holds the discussion itself; whether an exit word ended it).
    The turn is given what is set to end it, after the grace.

    Raises:
        InterlockError, Superseded: the turn did.
    """
    stop = anyio.Event()
    found: T
    failed: Exception | None = None
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            while await heard(run) is None:
                await anyio.sleep(LOOK)
            await anyio.sleep(run.limits.exit_grace)
            stop.set()

        group.start_soon(listen)
        try:
            found = await turn(stop)
        except (InterlockError, Superseded) as error:  # raised again below, not wrapped in a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return found, stop.is_set()


def _which(state: WorkflowState) -> dict[str, Any]:
    return {name: state.party.get(name) for name in ("number", "step", "visit", "purpose")}
