"""Which validators are complete, in progress and pending, as it is kept with the run and shown (BMAD-6.1.4).

What was heard stays there, so a run that is killed asks only the others again, as long as the artifact is the same.
Saves are made by one task at a time: a run's state has one writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from interlock.errors import InterlockError
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.ports import Superseded
from interlock.workflow.examinations.bmb_validators import Validator
from interlock.workflow.examinations.validator_answer import FAILED, ValidatorResult

PENDING, IN_PROGRESS, COMPLETED = "pending", "in_progress", "completed"


class Board:
    """The part `now` of the examination `name` in `run.state.examinations`: of that round, for that artifact."""

    def __init__(self, run: RunContext, name: str, round: int, digest: str, validators: Sequence[Validator]) -> None:
        self._run = run
        self._news = anyio.Event()
        self._lost: Superseded | InterlockError | None = None
        kept = run.state.examinations.setdefault(name, {"rounds": []})
        before = kept.get("now") or {}
        same = (before.get("round"), before.get("digest")) == (round, digest)
        known = before.get("validators", {}) if same else {}
        self.now: dict[str, Any] = {"round": round, "digest": digest, "validators": {}}
        for one in validators:
            found = known.get(one.label, {})
            entry = found if found.get("status") == COMPLETED else {"name": one.name, "status": PENDING}
            self.now["validators"][one.label] = entry
        kept["now"] = self.now

    def kept(self) -> list[ValidatorResult]:
        """What was heard of this round before it was interrupted."""
        entries = self.now["validators"].values()
        return [ValidatorResult.of(one["result"]) for one in entries if one["status"] == COMPLETED]

    def awaits(self, labels: Sequence[str]) -> None:
        """These are to be asked (again), and are not yet."""
        for label in labels:
            self.now["validators"][label]["status"] = PENDING

    def began(self, label: str) -> None:
        """A validator is at work."""
        entry = self.now["validators"][label]
        entry["status"], entry["attempts"] = IN_PROGRESS, int(entry.get("attempts", 0)) + 1
        self._news.set()

    def ended(self, result: ValidatorResult) -> None:
        """It is over with it; what it found before stays where it could not be heard again."""
        entry = self.now["validators"][result.label]
        if result.heard:
            entry |= {"status": COMPLETED, "result": result.as_dict()}
        elif "result" in entry:
            entry["status"] = COMPLETED
        else:
            entry |= {"status": FAILED, "detail": result.detail}
        self._news.set()

    async def keep(self, scope: anyio.CancelScope) -> None:
        """Write down what changes, until `scope` is cancelled; cancels it itself where the run is somebody else's."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            try:
                await self._run.save_soon()
            except (Superseded, InterlockError) as error:
                self.lost(error, scope)
                return

    def lost(self, error: Superseded | InterlockError, scope: anyio.CancelScope) -> None:
        """It is not ours to write any more, or cannot be written: everybody under `scope` stops."""
        self._lost = error
        scope.cancel()

    def check(self) -> None:
        """Whether the run is still ours. Asked outside of the tasks, which would wrap what is raised.

        Raises:
            Superseded, InterlockError: what was told to `lost`.
        """
        if self._lost is not None:
            raise self._lost

    async def save(self) -> None:
        """Write it down now."""
        self._news = anyio.Event()
        await self._run.save()
