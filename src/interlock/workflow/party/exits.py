"""A human's exit word to a discussion that is under way (BMAD-5.4.1): said anywhere, and heard by the run at once.

It is kept in the document of the session, for that one discussion, before the person is told that it was heard; the run
looks for it while a round is under way. It stays there: what the run makes of it is written later, and a run that is
killed in between hears it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio

from interlock.errors import InterlockError
from interlock.model.json import Json
from interlock.workflow.engine.context import Postponed
from interlock.workflow.engine.ports import Desk, Superseded
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.party.party_mode_driver import (
    RUNNING,
    exit_word,
)
from interlock.workflow.state.document import WorkflowState

SPOKEN = "party"
"""Where the document of a session keeps an exit word."""
LOOK = 1.0  # seconds between two looks
KEPT = 20  # runs of a session whose last word is kept

T = TypeVar("T")


def exit_understood(text: str, state: WorkflowState | None) -> str | None:
    """The exit word that a message is, and nothing else, where a discussion of that run is under way."""
    return exit_alone(text) if state is not None and under_way(state.party) else None


def exit_alone(text: str) -> str | None:
    """The exit word that a message is, and nothing else."""
    word = exit_word(text)
    return word if word is not None and text.strip(" \t\n.!").lower() == word else None


def under_way(party: Mapping[str, Any]) -> bool:
    """Whether a discussion, as a run keeps it, has not ended."""
    return party.get("status") == RUNNING


def say_exit(document: Json, state: WorkflowState, word: str) -> None:
    """Keep it for the discussion that is under way in that run."""
    others = {id: one for id, one in document.get(SPOKEN, {}).items() if id != state.workflow_id}
    document[SPOKEN] = {
        **dict(list(others.items())[1 - KEPT :]),
        state.workflow_id: {"word": word, **_which(state.party)},
    }


async def exit_heard(desk: Desk, workflow_id: str, party: Mapping[str, Any]) -> str | None:
    """The word that was said to that discussion of the run."""
    try:
        return _said(await desk.session(), workflow_id, party)
    except InterlockError:
        return None  # The ledger is busy: the next look finds it.


def exit_said(document: Mapping[str, Any], state: WorkflowState) -> str | None:
    """The word that was said to the discussion under way, in the session's document."""
    return _said(document, state.workflow_id, state.party)


def _said(document: Mapping[str, Any], workflow_id: str, party: Mapping[str, Any]) -> str | None:
    found = document.get(SPOKEN, {}).get(workflow_id)
    if not isinstance(found, Mapping) or any(found.get(name) != value for name, value in _which(party).items()):
        return None
    return str(found["word"])


async def during(
    run: str,
    party: Mapping[str, Any],
    runtime: Runtime,
    turn: Callable[[anyio.Event], Awaitable[T]],
    cut: Callable[[], T] | None = None,
) -> tuple[T, bool]:
    """(what came of a turn, whether an exit word to that discussion of the run ended it). After the grace the turn's
    event is set; with `cut`, which says what it came to then, the turn is cancelled as well.

    Raises:
        InterlockError, Superseded, Postponed: the turn did.
    """
    stop = anyio.Event()
    found: list[T] = []
    failed: Exception | None = None
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            while await exit_heard(runtime.desk, run, party) is None:
                await anyio.sleep(LOOK)
            await anyio.sleep(runtime.limits.exit_grace)
            stop.set()
            if cut is not None:
                group.cancel_scope.cancel()

        group.start_soon(listen)
        try:
            found.append(await turn(stop))
        except (InterlockError, Superseded, Postponed) as error:  # raised again below, not wrapped in a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return (found[0], stop.is_set()) if found or cut is None else (cut(), True)


def _which(party: Mapping[str, Any]) -> Json:
    return {name: party.get(name) for name in ("number", "step", "visit", "purpose")}
