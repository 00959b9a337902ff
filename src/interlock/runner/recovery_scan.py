"""What a scheduler finds at one look at a ledger: tasks that nobody works on any more, and how that is known.

    in progress, its runner gone from this machine ──> requeue          at once; nothing is used up (decision 20)
                 its program, which had joined, gone ──> session_lost, and a minute later requeue   (decision 11)
                 heartbeats, then none past the lease ──> stale_heartbeat                              (AOF-61)
                 claimed by hand, past `claim_ttl` ──> expire_lease
    blocked, awaiting-response, its runner gone ──> close_run: the answer begins a new run
    ready, kept for the session that asked, its runner gone ──> close_run
    review, the runner of the reviewer gone ──> close_run; or silent ──> stale_heartbeat: the review is done again
    review, the process that verified it gone ──> verify
            its branch waits for its merge, or the process that merged it is gone ──> merge
    nothing at work, but a session of a runner that is gone ──> close_session: its program waited for more
    a shutdown request past its time ──> expire_request
    a question open past its time ──> remind, where a scheduler keeps running; unattended, take_default where the
                                      question allows it

Everything else waits for something that will come by itself or by a person, and is left alone: a human (`blocked`,
`awaiting-response`, `review`), a dependency (`backlog`), capacity or its next attempt (`ready`, `not_before`).

A finding holds for one moment. Before acting on it, the scheduler asks again, by the same function, in its transaction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cached_property
from typing import Any

from interlock.clock import iso, seconds
from interlock.core import workers
from interlock.core.tasks import merge
from interlock.lazy_dataclass import dataclass
from interlock.model.names import SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Outstanding
from interlock.processes import ref
from interlock.protocol.dropped import unapplied
from interlock.runner import merge_queue, run_processes
from interlock.settings import Settings
from interlock.storage.ledger import Rows

CLAIM_GRACE = 60.0
"""Seconds a joined program's claims are kept after it was found to be gone: it may be about to come back."""


class LivenessProbe:
    """How a scheduler sees the processes that runs hang on. A simulation has another one."""

    own: str | None = None
    """This process, where it drives runs itself."""

    def alive(self, process: str) -> bool | None:
        """Whether the process written down as `process` lives; None where nobody here can tell."""
        return ref.alive(process)

    def gone(self, run: Run) -> bool:
        """Whether a runner drove that run, and is known to do so no more."""
        return run.runner is not None and self.alive(run.runner) is False

    def end(self, run: Run, grace: float) -> bool:
        """End everything that run started here; true when nothing of it is left. May take `grace` seconds and more."""
        return run_processes.end_run_programs(run, grace)

    def end_session(self, session: str, grace: float) -> None:
        """End the program that a runner which is gone kept for that session."""
        run_processes.end_programs(f"#{run_processes.session_token(session) or ''}", grace)

    def at(self, task: Task) -> bool:
        """Whether a worker of this process is at that task."""
        return False

    def merges(self, process: str) -> bool | None:
        """Whether the merge of that name is still carried out; None where nobody here can tell."""
        if ref.without_token(process) == ref.current().as_text():
            return process in merge_queue.here
        return self.alive(process)

    def unverified(self, task: Task, run: Run) -> bool:
        """Whether the task's verify was begun by a process that is gone, and no other sees to it."""
        if run.runner not in (None, self.own) and not self.gone(run):
            return False  # Its own runner does.
        process = str((task.verifying or {}).get("process") or "")
        if self.own is not None and ref.without_token(process) == self.own:
            return self.gone(run)
        return self.alive(process) is False


@dataclass(slots=True, frozen=True)
class RecoveryAction:
    """Something that a poll did about a task, or about what is no task's, and why."""

    type: str
    task_id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryFinding:
    """One thing to act on. `evidence` goes into the event; `run` and `task` are as they were when it was found."""

    type: str
    task_id: str | None
    reason: str
    run: Run | None = None
    task: Task | None = None
    session: tuple[str, str] | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def action(self) -> RecoveryAction:
        """What is told of it."""
        return RecoveryAction(self.type, self.task_id, self.reason)


class RecoveryScan:
    """One look at `rows`, at the time `now` in seconds since the epoch.

    `awake`: for how many seconds the scheduler has been awake without a break and its clock has not jumped. A lease is
    judged only when that is at least as long as the lease: who lives has shown it by then (decision 11).
    """

    def __init__(
        self, rows: Rows, settings: Settings, probe: LivenessProbe, now: float, awake: float = math.inf
    ) -> None:
        self.rows = rows
        self._probe = probe
        self._now = now
        self._awake = awake
        self._heartbeat_ttl = float(settings.get("heartbeat_ttl"))
        self._claim_ttl = float(settings.get("claim_ttl"))
        self._settings = settings
        self._verify_timeout = float(settings.get("verify_timeout"))
        self._setup_timeout = float(settings.get("setup_timeout"))

    @cached_property
    def there(self) -> Outstanding:
        """The kinds of which there is anything: of the others nothing is read."""
        return self.rows.outstanding(iso(self._now))

    def everything(self) -> list[RecoveryFinding]:
        """All there is to act on, but for `verify`, each run once."""
        rows, there, now = self.rows, self.there, iso(self._now)
        found: dict[str, RecoveryFinding] = {}
        others = []
        sessions = rows.sessions.of_runners() if there.kept else []
        gone = {process for process in {one[2] for one in sessions} if self._probe.alive(process) is False}
        left = (self.left_behind(member, session) for member, session, process in sessions if process in gone)
        kept = [one for one in left if one is not None]
        late = [
            RecoveryFinding("expire_request", None, f"nobody answered the shutdown request {one.id} in time")
            for one in (rows.requests.open() if there.requests else ())
            if one.expires_at <= now
        ]
        by_kind = (
            self._runners() if there.driven else (),
            self._leases() if there.lapsed else (),
            self._sessions() if there.by_hand else (),
            kept,
            late,
            self._questions() if there.questions else (),
        )
        for one in itertools.chain.from_iterable(by_kind):
            if one.run is None:
                others.append(one)
            else:
                found.setdefault(one.run.id, one)
        return [*found.values(), *others]

    def verifies(self) -> list[RecoveryFinding]:
        """The checks that nobody runs any more."""
        found = []
        for task in self.rows.tasks.verifying() if self.there.verifying else ():
            run = self.rows.runs.get(task.id, task.run)
            if run is None:
                continue
            if self._probe.unverified(task, run):
                found.append(RecoveryFinding("verify", task.id, "the process that ran its check is gone", run, task))
            elif self._left(task, run):
                found.append(RecoveryFinding("verify", task.id, "its worker does not run its check", run, task))
            elif self._overdue(task):
                found.append(RecoveryFinding("verify", task.id, "its check was never answered", run, task))
        return found

    def next_merge(self) -> RecoveryFinding | None:
        """The merge that is to be taken up now: the first of the queue whose author's program has ended, unless one is
        under way."""
        queue = self.rows.tasks.merging() if self.there.merging else []
        if merge.slot(queue, self.merges) is not None:
            return None
        for task in merge.in_order(queue):
            run = self.rows.runs.get(task.id, task.run)
            if merge.under_way(task):
                return RecoveryFinding("merge", task.id, "the process that merged it is gone", run, task)
            if not self._held(task):
                return RecoveryFinding("merge", task.id, "its branch waits for its merge", run, task)
        return None

    def merges(self, process: str) -> bool | None:
        """As `Eyes.merges`; what must have ended by now on a machine we cannot see is gone."""
        found = self._probe.merges(process)
        if found is not None:
            return found
        ttl = self._setup_timeout + 2 * self._verify_timeout + self._heartbeat_ttl  # One that was changed runs twice.
        begun = [
            str((one.merging or {})["at"]) for one in self.rows.tasks.merging() if merge.process_of(one) == process
        ]
        late = self._awake >= ttl and all(seconds(at) + ttl <= self._now for at in begun)
        return False if late else None

    def run(self, run: Run) -> RecoveryFinding | None:
        """What there is to do about that run, as it is in the ledger now."""
        current = self.rows.runs.get(run.task_id, run.number)
        task = self.rows.tasks.get(run.task_id)
        if current is None or task is None or current.ended_at is not None or task.run != run.number:
            return None
        return self._by_runner(current, task) or self._by_lease(current, task) or self._by_session(current, task)

    def lost_session(self, member: str, session: str) -> RecoveryFinding | None:
        """The finding that the process of that session is gone, if that is so and was not known yet."""
        found = self.rows.sessions.get(member, session)
        if found is None or found[0] is None or found[1] is not None or self._probe.alive(found[0]) is not False:
            return None
        held = self.rows.runs.of_member_session(member, session)
        if not held:
            return None
        reason = f"the program of {member} is gone; what it holds goes back to the queue in {CLAIM_GRACE:.0f} s"
        return RecoveryFinding(
            "session_lost", held[0].task_id, reason, session=(member, session),
            evidence={"member": member, "session": session, "process": found[0]},
        )  # fmt: skip

    def left_behind(self, member: str, session: str) -> RecoveryFinding | None:
        """The finding that a session was kept for more work by a runner that is gone, and has no run that says so."""
        found = self.rows.sessions.get(member, session)
        if found is None or found[0] is None or found[1] is not None or self._probe.alive(found[0]) is not False:
            return None
        if any(run.session == session for run in self.rows.runs.of_runner(found[0])):
            return None
        evidence = {"member": member, "session": session, "process": found[0]}
        reason = f"the runner that kept the session of {member} is gone"
        return RecoveryFinding("close_session", None, reason, session=(member, session), evidence=evidence)

    def _held(self, task: Task) -> bool:
        """Whether the runner whose program did the work may still be busy with that program."""
        held = (task.merging or {}).get("held")
        if held is None:
            return False
        if held == self._probe.own:
            return self._probe.at(task)
        drivers = [self.rows.team.get().runner, *(process for _, process in self.rows.sessions.living(SYSTEM))]
        return held in drivers and self._probe.alive(str(held)) is not False

    def _left(self, task: Task, run: Run) -> bool:
        """Whether the worker that runs the check has not been heard of for as long as a lease lasts, or the check is to
        be run again and its worker is one elsewhere, which hears of that no more."""
        process = (task.verifying or {}).get("process")
        if process is None:
            return workers.APART in str(run.runner)
        if self._awake < self._heartbeat_ttl or self._probe.alive(process) is not None:
            return False
        known = (one for one in self.rows.team.workers().values() if one.process == ref.without_token(process))
        return any(not workers.lives(one, self._settings, iso(self._now)) for one in known)

    def _overdue(self, task: Task) -> bool:
        """Whether a check must have ended by now, and nothing here shows that it still runs: it, or the runner that
        would see to it, is on another machine."""
        state = task.verifying or {}
        ttl = self._verify_timeout + self._heartbeat_ttl
        late = self._awake >= ttl and seconds(str(state.get("at"))) + ttl <= self._now
        return late and self._probe.alive(str(state.get("process") or "")) is not True

    def _runners(self) -> Iterator[RecoveryFinding]:
        for runner in self.rows.runs.runners():
            if runner == self._probe.own or self._probe.alive(runner) is not True:
                yield from self._each(self._by_runner, self.rows.runs.of_runner(runner))

    def _leases(self) -> Iterator[RecoveryFinding]:
        yield from self._each(self._by_lease, self.rows.runs.lapsed(iso(self._now)))

    def _sessions(self) -> Iterator[RecoveryFinding]:
        for member, session, _, since in self.rows.runs.joined():
            if since is not None:
                yield from self._each(self._by_session, self.rows.runs.of_member_session(member, session))
            elif (lost := self.lost_session(member, session)) is not None:
                yield lost

    def _questions(self) -> Iterator[RecoveryFinding]:
        unattended = self._settings.get("unattended")
        timeout, reminder = self._settings.get("question_timeout"), self._settings.get("question_reminder")
        for one in self.rows.questions.open():
            known = {"question": one.id, "asked_at": one.asked_at}
            if unattended and one.reversible and one.default is not None:
                if seconds(one.asked_at) + timeout <= self._now:
                    reason = f"nobody is awake to answer {one.id}; its default is taken"
                    yield RecoveryFinding("take_default", one.task_id, reason, evidence=known)
            elif (
                self._probe.own is not None
                and reminder
                and seconds(one.reminded_at or one.asked_at) + reminder <= self._now
            ):
                yield RecoveryFinding("remind", one.task_id, f"{one.id} still waits for an answer", evidence=known)

    def _each(self, judge: Callable[[Run, Task], RecoveryFinding | None], runs: list[Run]) -> Iterator[RecoveryFinding]:
        for run in runs:
            task = self.rows.tasks.get(run.task_id)
            finding = judge(run, task) if task is not None and task.run == run.number else None
            if finding is not None:
                yield finding

    def _by_runner(self, run: Run, task: Task) -> RecoveryFinding | None:
        # `ready`: its question was answered while its runner was held for the answer, and is kept for it.
        kept = task.state in ("ready", "backlog") and task.reserved == run.member
        waiting = kept or _at_review(run, task) or task.state in ("blocked", "awaiting-response")
        if not (waiting or task.state == "in-progress") or not self._probe.gone(run):
            return None
        if task.state == "in-progress":
            return self._finding("requeue", run, task, "its runner died")
        return self._finding("close_run", run, task, f"its runner died; the task stays {task.state}")

    def _by_lease(self, run: Run, task: Task) -> RecoveryFinding | None:
        if (
            not (task.state == "in-progress" or _at_review(run, task))
            or run.expires_at is None
            or seconds(run.expires_at) > self._now
        ):
            return None
        beats = run.heartbeat_at is not None or run.runner is not None
        if self._awake < (self._heartbeat_ttl if beats else self._claim_ttl):
            return None
        if beats:
            return self._finding(
                "stale_heartbeat", run, task, f"no sign of life, and its lease ended at {run.expires_at}"
            )
        return self._finding("expire_lease", run, task, f"claimed by hand, and its lease ended at {run.expires_at}")

    def _by_session(self, run: Run, task: Task) -> RecoveryFinding | None:
        if task.state != "in-progress" or run.runner is not None or self._awake < CLAIM_GRACE:
            return None
        process, since = self.rows.sessions.get(run.member, run.session) or (None, None)
        if process is None or since is None or seconds(since) + CLAIM_GRACE > self._now:
            return None
        return self._finding("requeue", run, task, f"the program of {run.member} is gone", session=process, since=since)

    def _finding(self, type: str, run: Run, task: Task, reason: str, **evidence: Any) -> RecoveryFinding:
        runner = None if run.runner is None else _WORDS[self._probe.alive(run.runner)]
        known = {
            # Stuck: the process lives, and says nothing.
            "judged": "dead" if type in ("requeue", "close_run") else "stuck" if runner == "alive" else "silent",
            "runner": runner,
            "process": run.process and ref.without_token(run.process),
            "started_at": run.started_at,
            "heartbeat_at": run.heartbeat_at,
            "expires_at": run.expires_at,
            **evidence,
        }
        if unapplied(run) and run.result is not None and type != "close_run":
            known["outcome"] = run.result["outcome"]
            reason += f"; its result says {run.result['outcome']}"
        return RecoveryFinding(type, task.id, reason, run, task, evidence=known)


def _at_review(run: Run, task: Task) -> bool:
    """Whether that open run is the one of a reviewer, which a runner drives."""
    return task.state == "review" and not task.under_way and run.runner is not None


_WORDS = {True: "alive", False: "gone", None: "elsewhere"}
