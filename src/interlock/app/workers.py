"""The workers of a team: who they are, how they are steered, and what remote ones ask of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from interlock import app, core, model
from interlock.app.base import TeamBase
from interlock.core.tasks.find import find
from interlock.errors import InvalidRequest


def tokens(workspace: core.unit_of_work.Workspace) -> app.tokens.Tokens:
    """Those of the home that the team is in."""
    return app.tokens.Tokens(workspace.home, document=workspace.catalog.access)


def run_of(workspace: core.unit_of_work.Workspace, token: str) -> model.run.Run | None:
    """The run elsewhere whose programs have that token, until it has ended."""
    run_id, _, _ = token.removeprefix(f"{app.tokens.RUN_PREFIX}{workspace.name}.").rpartition(".")
    task_id, _, number = run_id.rpartition(".")
    if not re.fullmatch("[0-9]{1,9}", number):
        return None
    with workspace.look() as rows:
        run = rows.runs.get(task_id, int(number))
    if run is None or run.ended_at is not None or run.runner is None:
        return None
    return run if tokens(workspace).is_of_run(token, workspace.name, run.id, run.session) else None


class WorkerVerbs(TeamBase):
    """See `core.workers`, `runner.remote_runs`. A `process` is a worker's, `session` that of a run it was offered."""

    def workers(self) -> list[model.worker.WorkerRecord]:
        """The workers of the team, those that live first, with what each holds."""
        with self._workspace.look() as rows:
            return core.workers.listed(rows, self._workspace.settings(rows), self._now())

    def set_worker(self, name: str, status: str) -> model.worker.WorkerRecord:
        """Let a worker start nothing (`paused`), finish what it does and end (`draining`), or work again (`active`).
        One that is not `alive` now hears of it once it is back.

        Raises:
            InvalidRequest: there is no such status.
            WorkerNotFound: there is no such worker, or it has ended.
            Forbidden: the caller is a plain member.
        """
        if status not in model.worker.STATUSES:
            raise InvalidRequest(f"status must be one of: {', '.join(model.worker.STATUSES)}.", field="status")
        with self._act() as act:
            return core.workers.set_status(act, name, status)

    def worker_on(
        self, process: str, *, name: str | None = None, labels: Sequence[str] = (),
        members: Sequence[str] | None = None, parallel: int | None = None, version: str = "",
    ) -> model.worker.WorkerRecord:  # fmt: skip
        """Enter a worker of another machine, which is then offered runs.

        Raises:
            InvalidRequest: the name or a label is none, or the team does not work in worktrees.
            Forbidden: the caller is a plain member.
        """
        return app.running.remote_runs.sign_on(
            self._workspace, self._caller, process=process, name=name, labels=labels, members=members,
            parallel=parallel, version=version,
        )  # fmt: skip

    def worker_beat(
        self, name: str, process: str, load: float | None, said: Mapping[str, str], *, free: bool = True,
        spent: Mapping[str, Mapping[str, float]] | None = None,
    ) -> model.worker.WorkerBeat:  # fmt: skip
        """Show that a worker lives, and its runs with it: `said` is what each has printed since, by its session, and
        `spent` what each has used so far: `turns`, `input_tokens`, `output_tokens`, `cost_usd`. One that is `free` is
        told whether there is work for it.

        Raises:
            WorkerNotFound: it is no worker of this team any more, and signs on again.
        """
        return app.running.remote_runs.beat(self._workspace, name, process, load, said, free, spent or {})

    def worker_off(self, name: str, process: str) -> None:
        """Note that a worker has ended."""
        app.running.remote_runs.sign_off(self._workspace, name, process)

    def work_offer(self, name: str, process: str, session: str | None = None) -> model.worker.WorkOffer | None:
        """Begin a run of the next task that a worker can do; None where there is none now.

        Args:
            session: what the run's session is to be called. A worker that got no answer asks with it again, and gets
                the run that was begun for it.

        Raises:
            WorktreeRefused, GitFailed: git does not allow it now.
            InvalidRequest: `session` is not called as sessions of runs are.
        """
        offer = app.running.remote_runs.offer(self._workspace, name, process, session)
        if offer is None:
            return None
        return replace(offer, token=tokens(self._workspace).of_run(offer.team, offer.run_id, offer.session))

    def work_objects(
        self, task: str, session: str, commits: Sequence[str], have: Sequence[str], start: int = 0
    ) -> bytes:
        """The history of commits that a run starts from, as a git bundle, without what the worker has: a piece of it,
        from byte `start`; nothing at its end.

        Raises:
            StaleRun: there is no such run.
        """
        return app.running.remote_runs.objects(self._workspace, task, session, commits, have, start)

    def work_delivered(
        self, task: str, session: str, head: str, piece: bytes, start: int = 0, last: bool = True
    ) -> str:
        """Take in what a run has committed, as a git bundle, on a branch of its own; that branch. It is kept also
        where the run counts no more.

        Args:
            head: the last commit.
            piece: a part of the bundle, from byte `start`; nothing is done with it before the `last` one is here.

        Raises:
            StaleRun: there never was such a run.
            InvalidRequest, GitFailed: it is no such bundle.
        """
        return app.running.remote_runs.deliver(self._workspace, task, session, head, piece, start, last)

    def work_reported(
        self, task: str, session: str, base: str, result: app.running.Result, said: str = ""
    ) -> model.worker.WorkStep:
        """Take in how a run has ended, which started from `base` and has `said` that since the last beat; what it is to
        do next.

        Raises:
            StaleRun, Forbidden: it was superseded; nothing was changed.
        """
        step = app.running.remote_runs.report(self._workspace, task, session, base, result, said)
        return self._after(task, step)

    def work_checked(
        self, task: str, session: str, evidence: app.running.Evidence, before: app.running.Evidence | None = None
    ) -> model.worker.WorkStep:
        """Take in how the check of a run has ended, and how it ended on what was there `before` the work; what it is to
        do next.

        Raises:
            StaleRun: it was superseded; nothing was changed.
        """
        return self._after(task, app.running.remote_runs.checked(self._workspace, task, session, evidence, before))

    def _after(self, task: str, step: model.worker.WorkStep) -> model.worker.WorkStep:
        """Where nobody drives the team here, its merges are carried out by the verb that made one due."""
        if step.kind == "end":
            with self._workspace.look() as rows:
                found = find(rows, task)
            self._merged(found)
        return step
