"""A worker without a ledger: it asks a team for runs, carries them out beside each other, and shows that it lives.

A run whose lease this worker could not hold, since the home did not answer for so long, is another's by now: its
programs are ended here, whatever the home will say. What it has done is delivered all the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Update
from interlock.app.team import Team
from interlock.core.workers import APART, load
from interlock.errors import GitFailed, InterlockError, InternalError, WorkerNotFound, WorktreeRefused
from interlock.lazy_dataclass import dataclass
from interlock.model.driving import Stop
from interlock.model.team import Member
from interlock.model.worker import SAID_AT_ONCE, WorkerBeat, WorkerRecord
from interlock.processes import groups, ref
from interlock.remote.checkout import Checkout, left_behind, take_place
from interlock.remote.home import RemoteTeam
from interlock.remote.run import REFUSALS, UNREACHED, OfferedRun, deliveries, tokens
from interlock.runner.executor import Executor
from interlock.runner.run_processes import new_session

WATCH = 0.25
"""Seconds between two looks at the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works. `directory` is its own, for clones; `parallel` bounds its runs, `shared_parallel` those of
    all workers with that directory (0: nothing does); `beat` is the seconds between two beats, at least: so long it
    takes to hear that a run was cancelled, or of new work; `refused` is the seconds after which a home that can offer
    no run, such as one whose repository is not there, is asked again."""

    directory: str
    name: str | None = None
    labels: Sequence[str] = ()
    members: Sequence[str] | None = None
    parallel: int = 1
    shared_parallel: int = 0
    beat: float = 1.0
    refused: float = 30.0


class RemoteWorker:
    """A worker of one team."""

    def __init__(
        self,
        team: Team,
        executor_for: Callable[[Member], Executor],
        options: WorkerOptions,
        *,
        stop: Stop,
        on_update: Callable[[Update], None],
    ) -> None:
        self._team = team
        self._executor_for = executor_for
        self._options = options
        self._url = team.url if isinstance(team, RemoteTeam) else None
        """Where its programs reach the home."""
        self._stop = stop
        self._hear = on_update
        process = ref.current()
        # It is judged by its beats alone, also where the home happens to be on this very machine; and nobody guesses
        # it, so nobody speaks for this worker.
        self._process = replace(process, host=f"{process.host}{APART}{uuid4().hex}").as_text()
        self._runs: dict[str, OfferedRun] = {}
        self._held_until = 0.0
        self._heard = WorkerBeat("active", [])
        self._refused, self._asks_from = "", 0.0
        self._asking = ""
        """The session of the run that was asked for and never answered with."""

    async def work(self) -> str:
        """Work until stopped or drained; why it ended.

        Raises:
            InterlockError: the team does not take this worker.
        """
        worker = await self._sign_on()
        async with anyio.create_task_group() as group, anyio.create_task_group() as watching:
            watching.start_soon(self._watch)
            for offer in await anyio.to_thread.run_sync(left_behind, self._options.directory, self._team.name):
                run = OfferedRun(self._team, offer, self._options.directory, self._hear)
                group.start_soon(self._put_away, run)
            try:
                worker, ended = await self._turns(group, worker)
            finally:
                with anyio.CancelScope(shield=True):
                    for run in self._runs.values():
                        await run.stop()
            watching.cancel_scope.cancel()
        with suppress(InterlockError, OSError):
            await anyio.to_thread.run_sync(self._team.worker_off, worker.name, self._process)
        return ended

    async def _sign_on(self) -> WorkerRecord:
        options = self._options
        members = None if options.members is None else list(options.members)
        return await anyio.to_thread.run_sync(
            partial(
                self._team.worker_on, self._process, name=options.name, labels=list(options.labels), members=members
            )
        )

    async def _turns(self, group: TaskGroup, worker: WorkerRecord) -> tuple[WorkerRecord, str]:
        signed_on, away = True, ""
        while True:
            try:
                if not signed_on:
                    worker, signed_on = await self._sign_on(), True
                await self._beat(worker)
                if (self._heard.work or self._asking) and self._free and time.monotonic() >= self._asks_from:
                    await self._take(group, worker)
                away = ""
            except WorkerNotFound:
                signed_on = False
            except (*UNREACHED, InternalError) as error:  # A defect of the home ends none of the runs here.
                if str(error) != away:
                    away = str(error)
                    self._hear(Update("notice", f"the home does not answer: {away}"))
            if self._stop.hard:
                for run in self._runs.values():
                    await run.stop()
            if not self._runs and (self._stop.soft or self._heard.status == "draining"):
                return worker, "drained" if self._heard.status == "draining" else self._stop.reason or "stopped"
            await anyio.sleep(max(self._options.beat, self._heard.rest))

    @property
    def _free(self) -> bool:
        return not self._stop.soft and len(self._runs) < self._options.parallel

    async def _beat(self, worker: WorkerRecord) -> None:
        runs = {session: run for session, run in self._runs.items() if not run.lost}
        said = {session: run.unsaid(SAID_AT_ONCE // len(runs)) for session, run in runs.items()}
        sent = _awake_or_not()
        spent = {session: told for session, run in runs.items() if (told := run.spent())}
        show = partial(self._team.worker_beat, worker.name, self._process, load(), said, free=self._free, spent=spent)
        try:
            self._heard = await anyio.to_thread.run_sync(show)
        except UNREACHED:
            for session, run in runs.items():
                run.unheard(said[session])
            raise
        self._held_until = sent + self._heard.lease
        for session in self._heard.lost:
            if session in runs and not runs[session].over:
                await runs[session].lose()
        for session in self._heard.over:
            if session in runs and not runs[session].over:
                await runs[session].pause()

    async def _watch(self) -> None:
        """Lose the runs whose lease is over. A beat on its way may wait for an answer for longer than that."""
        while True:
            await anyio.sleep(min(WATCH, self._options.beat))
            if self._held_until and _awake_or_not() >= self._held_until:
                for run in [one for one in self._runs.values() if not one.lost]:
                    self._hear(
                        Update("notice", "its lease is over", member=run.offer.member, task_id=run.offer.task_id)
                    )
                    await run.lose()

    async def _take(self, group: TaskGroup, worker: WorkerRecord) -> None:
        options, place = self._options, None
        if options.shared_parallel:
            place = take_place(options.directory, options.shared_parallel)
            if place is None:
                return  # Others have them all; the next beat asks again.
        offer = None
        try:
            self._asking = self._asking or new_session()
            offer = await anyio.to_thread.run_sync(self._team.work_offer, worker.name, self._process, self._asking)
            self._asking, self._refused = "", ""
        except (WorktreeRefused, GitFailed) as error:  # Its other runs go on, and it may be put right.
            self._asking = ""
            if error.message != self._refused:
                self._hear(Update("notice", f"the home can offer no run: {error.message}"))
            self._refused, self._asks_from = error.message, time.monotonic() + self._options.refused
        finally:
            if offer is None and place is not None:
                os.close(place)
        if offer is not None:
            run = OfferedRun(self._team, offer, options.directory, self._hear, self._url)
            self._runs[offer.session] = run
            group.start_soon(self._carry_out, run, place)

    async def _carry_out(self, run: OfferedRun, place: int | None) -> None:
        try:
            await run.carry_out(self._executor_for)
        except Exception as error:  # boundary: one run must not end the others; it is over when its lease is
            self._hear(Update("notice", repr(error), member=run.offer.member, task_id=run.offer.task_id))
        finally:
            del self._runs[run.offer.session]
            if place is not None:
                os.close(place)

    async def _put_away(self, run: OfferedRun) -> None:
        """End what a killed worker has left of a run, and deliver what it had done."""

        def put_away() -> None:
            place = Checkout(self._options.directory, run.offer)
            for token in tokens(run.offer):
                groups.end_marked(token, run.offer.stop_grace, whole=True)
            if not run.offer.review:
                with suppress(*REFUSALS):
                    for piece in deliveries(self._team, place, place.commit()):
                        piece()
            place.remove()

        with suppress(InterlockError, OSError):  # The next start tries again.
            await anyio.to_thread.run_sync(put_away)


def _awake_or_not() -> float:
    """Seconds that go on while this machine sleeps, where the system counts those."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
