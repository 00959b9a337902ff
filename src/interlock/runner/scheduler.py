"""The scheduler: recovers what nobody works on any more, so that no task stays stuck.

Nobody leads. Any number of schedulers and workers poll at once; each action asks again, inside its own transaction,
whether what was found still holds, so that polling twice is harmless and the second one finds nothing to do. Work is
never handed out here: free workers pull it (decision 7 of the house).

A run that ended without a word goes by the evidence: a result that it left behind is applied first, by the same
mapping as a message (AOF-61.04 to 61.09). A poll that does nothing writes nothing (decision 21).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from interlock.agents.session import Update
from interlock.core import shutdown
from interlock.core.mailbox import notify
from interlock.core.tasks import answer, change, finish, review
from interlock.core.tasks.transition import end_run
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, close_session
from interlock.errors import Conflict, InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.model.names import LEAD, SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.protocol import dropped
from interlock.protocol.dropped import apply_within
from interlock.protocol.routing import missing_file
from interlock.runner.context import RunnerContext, setting
from interlock.runner.merge_queue import take_up as merge_up
from interlock.runner.recovery_scan import LivenessProbe, RecoveryAction, RecoveryFinding, RecoveryScan
from interlock.runner.verify import BaselineChecks, look_before, recheck
from interlock.settings import Settings
from interlock.storage.ledger import Rows

T = TypeVar("T")

UNCOUNTED = frozenset({"stale_heartbeat", "remind"})
"""Actions that are carried out, but are no dispatching (AOF-61.13)."""
TAKEN_UP = ("requeue", "close_run", "close_session")
LAPSED = {"stale_heartbeat": "stale_heartbeat", "expire_lease": "lease_expired"}
PAUSE = 5.0
"""Seconds before a check that could not be run is tried again."""
JUMP = 2.0
"""Seconds by which the wall clock may run away from the monotonic one before that counts as a jump."""


@dataclass(slots=True, frozen=True)
class Remains:
    """What one look found that somebody has to see to: recoveries, checks that nobody runs any more, and the merge that
    is to be taken up now."""

    recoveries: list[RecoveryFinding]
    verifies: list[RecoveryFinding]
    merge: RecoveryFinding | None

    @staticmethod
    def of(scan: RecoveryScan) -> Remains:
        """What `scan` finds."""
        return Remains(scan.everything(), scan.verifies(), scan.next_merge())


@dataclass(slots=True, frozen=True)
class PollReport:
    """What a poll did, or with `dry_run` would do; `stale_heartbeat` is not counted as executed."""

    actions: list[RecoveryAction]
    actions_executed: int


class Scheduler:
    """One scheduler. Kept running, it notices when it slept, or when the clock jumped.

    Args:
        interval: seconds between two looks, at most.
        run_verify: runs the verify of a task whose verifier is gone.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        interval: float = math.inf,
        probe: LivenessProbe | None = None,
        run_verify: Callable[[Task, Run], None] | None = None,
    ) -> None:
        self._workspace = workspace
        self._interval = interval
        self._probe = probe or LivenessProbe()
        self._run_verify = run_verify or self._recheck
        self._last: tuple[float, float] | None = None
        self._woke = -math.inf

    def poll(self, *, dry_run: bool = False) -> PollReport:
        """Poll once; with `dry_run` only say what that would do.

        Raises:
            LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: what was done stands; the next poll does the rest.
        """
        if dry_run:
            return PollReport([one.action() for one in self._preview()], 0)
        done = self.carry_out(self.look())
        for one in self.verifies():
            assert one.task is not None and one.run is not None
            self._run_verify(one.task, one.run)
            done.append(one)
        merged: dict[str, RecoveryFinding] = {}
        while (merge := self.next_merge()) is not None and merge.task is not None and merge.task.id not in merged:
            if not anyio.run(merge_up, self._workspace, merge.task, self._probe.merges, lambda update: None):
                break  # Another process was faster.
            merged[merge.task.id] = merge
        done += merged.values()
        return PollReport([one.action() for one in done], self.written_down(done))

    def look(self) -> list[RecoveryFinding]:
        """What is to be done now, but for verifies and merges."""
        return self.read(RecoveryScan.everything)

    def read(self, reader: Callable[[RecoveryScan], T]) -> T:
        """What `reader` sees of one moment, by which heartbeats that agents have laid down are taken in."""
        workspace = self._workspace
        with workspace.look() as rows:
            self._mind_the_clock(workspace.settings(rows))
            scan = self._scan(rows)
            found, by_hand = reader(scan), rows.runs.by_hand() if scan.there.by_hand else []
        if dropped.adopt_all(workspace, dropped.with_heartbeat(workspace.directory, by_hand)):
            with workspace.ledger.snapshot() as rows:
                return reader(self._scan(rows))
        return found

    def verifies(self) -> list[RecoveryFinding]:
        """The verifies that nobody runs any more."""
        with self._workspace.ledger.snapshot() as rows:
            return self._scan(rows).verifies()

    def rests(self) -> bool:
        """Whether nothing can become this one's to take up before something changes in the ledger."""
        with self._workspace.ledger.snapshot() as rows:
            # What waits for a review, or for its time, is no scheduler's.
            return not any(self._scan(rows).there._replace(review=False, ready_after=None))

    def next_merge(self) -> RecoveryFinding | None:
        """The merge that is to be taken up now."""
        with self._workspace.ledger.snapshot() as rows:
            return self._scan(rows).next_merge()

    def _recheck(self, task: Task, run: Run) -> None:
        async def look() -> None:
            if await recheck(self._workspace, task, run, partial(self._probe.gone, run), lambda update: None):
                with suppress(InterlockError):  # It is not known then.
                    await look_before(self._workspace, task)

        anyio.run(look)

    def carry_out(self, found: Sequence[RecoveryFinding]) -> list[RecoveryFinding]:
        """Act on what was found, as far as it still holds; what was done."""
        # Take in the files that these runs have left, and ask once more before anything is ended for their sake.
        dropped.adopt_all(self._workspace, [one.run.task_id for one in found if one.run and one.type != "close_run"])
        with self._workspace.ledger.snapshot() as rows:
            scan = self._scan(rows)
            again = [scan.run(one.run) if one.run is not None else one for one in found]
        held = [one for one in again if one is not None]
        for one in held:
            if one.type == "close_session" and one.session is not None:
                self._probe.end_session(one.session[1], float(setting(self._workspace, "stop_grace")))
        ended = self._end_programs([one.run for one in held if one.run is not None])
        done = (self._act_on(one, one.run is None or ended[one.run.id]) for one in held)
        return [one for one in done if one is not None]

    def written_down(self, done: Sequence[RecoveryFinding]) -> int:
        """Log a poll that did something; how many of its actions count as executed."""
        executed = sum(one.type not in UNCOUNTED for one in done)
        if done:
            with self._workspace.act(Principal(SYSTEM)) as act:
                act.event("scheduler.poll", actions=dict(Counter(one.type for one in done)), executed=executed)
        return executed

    def _mind_the_clock(self, settings: Settings) -> None:
        """Note when the time since the last look is not what it should be: every lease then starts over."""
        clock = self._workspace.clock
        now, ticks = clock.now(), clock.monotonic()
        if self._last is not None:
            passed, ticked = now - self._last[0], ticks - self._last[1]
            # So long without a look lets no lease run out: a run beats three times in its lease.
            longest = 2 * self._interval + float(settings.get("heartbeat_ttl")) / 4
            if abs(passed - ticked) > JUMP or ticked > longest:
                self._woke = ticks
        self._last = now, ticks

    def _scan(self, rows: Rows) -> RecoveryScan:
        clock, settings = self._workspace.clock, self._workspace.settings(rows)
        return RecoveryScan(rows, settings, self._probe, clock.now(), clock.monotonic() - self._woke)

    def _end_programs(self, runs: Sequence[Run]) -> dict[str, bool]:
        """End the programs of all these runs at once, since each may take its grace to go: which are gone."""
        if not runs:
            return {}
        grace = float(setting(self._workspace, "stop_grace"))
        gone: dict[str, bool] = {run.id: True for run in runs}

        def end(run: Run) -> None:
            gone[run.id] = False
            gone[run.id] = self._probe.end(run, grace)

        # What was begun by hand is not ours to end.
        threads = [Thread(target=end, args=(run,), name=f"interlock-end-{run.id}") for run in runs if run.runner]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return gone

    def _act_on(self, finding: RecoveryFinding, gone: bool) -> RecoveryFinding | None:
        missing = None
        if finding.run is not None and finding.run.result is not None:
            missing = missing_file(self._workspace, finding.run.task_id, finding.run.result.get("summaryRef"))
        number = None if finding.run is None else finding.run.number
        try:
            with self._workspace.act(Principal(SYSTEM, run=number)) as act:
                scan = self._scan(act.rows)
                if finding.type == "expire_request":
                    return finding if shutdown.expire(act) else None
                if finding.type == "close_session":
                    assert finding.session is not None
                    left = scan.left_behind(*finding.session)
                    if left is not None:
                        close_session(act, *finding.session)
                    return left
                if finding.type in ("take_default", "remind"):
                    return finding if _waited_long(act, finding) else None
                if finding.session is not None:
                    lost = scan.lost_session(*finding.session)
                    if lost is not None:
                        act.rows.sessions.note_gone(*finding.session, act.at)
                        act.event("session.lost", **lost.evidence)
                    return lost
                assert finding.run is not None
                again = scan.run(finding.run)
                if again is not None:
                    _recover(act, again, gone, missing)
                return again
        except Conflict:
            return None  # It was settled otherwise at this very moment.

    def _preview(self) -> list[RecoveryFinding]:
        """What a poll would do now, files that lie there taken in; nothing of it stays."""
        workspace = self._workspace
        with workspace.ledger.snapshot() as rows:
            self._mind_the_clock(workspace.settings(rows))
            remains, by_hand = Remains.of(self._scan(rows)), rows.runs.by_hand()
        found = remains.recoveries
        ids = [*dropped.with_heartbeat(workspace.directory, by_hand), *(one.task_id for one in found if one.run)]
        lying = {id: dropped.lying(workspace.directory, id) for id in ids if id is not None}
        if any(lying.values()):
            try:
                with workspace.act(Principal(SYSTEM)) as act:
                    for id, files in lying.items():
                        dropped.adopt_within(act, id, files)
                    found = self._scan(act.rows).everything()
                    raise _DryRun
            except _DryRun:
                pass
        return [*found, *remains.verifies, *([remains.merge] if remains.merge is not None else [])]


def poll(workspace: Workspace, *, dry_run: bool = False) -> PollReport:
    """Poll once; see `Scheduler.poll`."""
    return Scheduler(workspace).poll(dry_run=dry_run)


def take_up(workspace: Workspace) -> list[str]:
    """Give back only what dead runners left; the ids of the tasks that can be taken again."""
    scheduler = Scheduler(workspace)
    done = scheduler.carry_out([one for one in scheduler.look() if one.type in TAKEN_UP])
    scheduler.written_down(done)
    with workspace.ledger.snapshot() as rows:
        tasks = [rows.tasks.get(one.task_id) for one in done if one.task_id is not None]
    return [task.id for task in tasks if task is not None and task.state in ("ready", "backlog")]


class _DryRun(Exception):
    """Rolls a transaction back that was only for looking."""


def _waited_long(act: UnitOfWork, finding: RecoveryFinding) -> bool:
    """Remind of the question, or take its default; False where it has been answered meanwhile."""
    question = act.rows.questions.get(str(finding.evidence["question"]))
    task = act.rows.tasks.get(str(finding.task_id))
    if question is None or task is None or question.state != "open":
        return False
    if finding.type == "take_default":
        answer.take_default(act, task, question)
        return True
    act.rows.questions.update(question, reminded_at=act.at)
    act.event("question.reminded", task.id, id=question.id, kind=question.kind, asked_at=question.asked_at)
    act.topics.add("questions")
    return True


def _recover(act: UnitOfWork, finding: RecoveryFinding, gone: bool, missing: str | None) -> None:
    """Take the task of that run where the evidence says. `gone`: nothing of its programs is left."""
    task, run = finding.task, finding.run
    assert task is not None and run is not None
    cause = finding.reason.partition(";")[0]
    act.event(
        "task.recovered", task.id, action=finding.type, run=run.id, reason=finding.reason, evidence=finding.evidence
    )
    lapsed = LAPSED.get(finding.type)
    if task.state == "review" and gone:
        review.no_verdict(act, task, cause, counts=lapsed is not None)
    elif task.state == "review":
        review.abstain(act, task, "programs of an earlier review could not be ended")
    elif finding.type == "close_run":
        answer.park(act, task, cause)
    elif not gone:
        reason = "programs of an earlier run could not be ended; end them, then unblock it"
        change.block(act, task, reason)
        end_run(act, task, "blocked", reason)
    elif apply_within(act, task.id, run.number, missing=missing, verifier=None, source=finding.type) is not None:
        applied = act.rows.tasks.get(task.id)
        if applied is not None and applied.state in ("blocked", "awaiting-response"):
            end_run(act, applied, applied.state, cause)
    else:
        finish.fail(act, task, cause, counts=lapsed is not None, lapsed=lapsed)
        if run.runner is None:  # Its member hears of it; of a program that is gone the lead hears, too.
            text = f"{run.task_id} was taken from {run.member}: {finding.reason}."
            again = " Claim it again to continue." if task.state in ("ready", "backlog") else ""
            notify(act, run.member, text + again, summary="claim released")
            if finding.type == "requeue" and run.member != LEAD:
                notify(act, LEAD, text, summary="claim released")
    if run.runner is not None and finding.type in ("requeue", "close_run"):
        close_session(act, run.member, run.session)


class RecoveryWorker:
    """Recovers runs, one batch at a time, and runs abandoned checks, beside everything else its runner does."""

    def __init__(
        self, context: RunnerContext, scheduler: Scheduler, probe: LivenessProbe, baselines: BaselineChecks
    ) -> None:
        self._context = context
        self._scheduler = scheduler
        self._probe = probe
        self._baselines = baselines
        self._checks: dict[str, anyio.CancelScope] = {}
        self.recovering = False

    @property
    def busy(self) -> bool:
        return bool(self._checks) or self.recovering

    def begin(self, group: TaskGroup, remains: Remains) -> None:
        """Begin to recover whatever was left: ending programs takes its time."""
        if self.recovering:
            return
        for one in remains.verifies:
            if one.task is not None and one.run is not None and one.task.id not in self._checks:
                self._checks[one.task.id] = scope = anyio.CancelScope()
                group.start_soon(self._recheck, one.task, one.run, scope)
        if remains.recoveries:
            self.recovering = True
            group.start_soon(self._recover, remains.recoveries)

    def cancel(self) -> None:
        """Stop the checks that run."""
        for scope in self._checks.values():
            scope.cancel()

    async def _recover(self, found: list[RecoveryFinding]) -> None:
        try:
            await anyio.to_thread.run_sync(lambda: self._scheduler.written_down(self._scheduler.carry_out(found)))
        except InterlockError as error:
            self._context.notice(f"abandoned tasks were not resumed: {error.message}")
            await anyio.sleep(1.0)
        finally:
            self.recovering = False
            self._context.wake()

    async def _recheck(self, task: Task, run: Run, scope: anyio.CancelScope) -> None:
        hear = partial(self._context.publish, run.member, task.id)
        try:
            with scope:
                if await recheck(self._context.workspace, task, run, partial(self._probe.gone, run), hear):
                    self._baselines.want(task)
        except Exception as error:  # boundary: one task's check must not end the others' work
            hear(Update("notice", f"its check could not be run: {error}"))
            await anyio.sleep(PAUSE)
        finally:
            del self._checks[task.id]
            self._context.wake()
