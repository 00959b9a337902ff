"""The task ledger of a team."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from interlock import core, mirror, model, runner
from interlock.app.base import TeamBase, place_after, plain, unknown_place, warned, whole_number
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidRequest
from interlock.model.json import Json
from interlock.model.names import HUMAN
from interlock.model.task import Task, TaskSpec, states_filtered, task_fields
from interlock.processes.ref import alive

READY_LIMIT = 1_000_000


class TaskVerbs(TeamBase):
    """Tasks, their states and their runs. Every verb that names a task raises TaskNotFound or AmbiguousId."""

    def create_task(self, subject: str, *, by: str | None = None, **fields: Unpack[TaskSpec]) -> Task:
        """Create a task. It is ready when nothing blocks it.

        Args:
            fields: what `TaskSpec` lists.

        Raises:
            InvalidRequest: a field is unknown or makes no sense.
            Forbidden: a control (`TaskField.control`) is set by somebody who is neither a person nor a lead outside
                every run.
            MemberNotFound, TaskNotFound: an assignee or blocker is unknown.
            TaskLimit: too many tasks are open.
        """
        if unknown := sorted(fields.keys() - task_fields().keys()):
            known = ", ".join(task_fields())
            raise InvalidRequest(f"A task has no {unknown[0]} to set; these it has: {known}.", field=unknown[0])
        fields["metadata"] = plain(fields.get("metadata"))
        with self._act(by, acknowledge=True) as act:
            task = core.tasks.create.create(act, subject, **fields)
            core.tasks.claim.refuse_stopped(act, task.assignee)
            mirror.task_view.show(act.rows, task)
        return warned(act, task)

    def task(self, task: str) -> Task:
        """Return one task, with its open blockers, its question, its warnings, and why it goes no further now."""
        with self._workspace.look() as rows:
            return core.reports.now.whole(rows, find(rows, task), self._workspace.settings(rows), self._now())

    def tasks(
        self,
        *,
        status: str | None = None,
        owner: str | None = None,
        ready: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Task]:
        """List tasks in order of creation; `ready` gives the ready queue in its order. `status` takes either
        vocabulary. `after`: the id of a task, to begin with the one after it.

        Raises:
            InvalidRequest: there is no such status, `limit` is not a whole number from 0 on, or no task, or none of the
                ready queue, has the id `after`.
        """
        whole_number(limit, "limit")
        states = None if status is None else states_filtered(status)
        with self._workspace.look() as rows:
            if ready:
                ageing = float(self._workspace.settings(rows).get("ageing"))
                queue = rows.tasks.ready(READY_LIMIT, ageing) if states is None or "ready" in states else []
                found = [task for task in queue if owner in (None, task.reserved_for)]
                found = found[place_after([task.id for task in found], after) :][:limit]
            else:
                last = None if after is None else rows.tasks.get(after)
                if after is not None and last is None:
                    raise unknown_place(after)
                found = rows.tasks.select(states=states, owner=owner, limit=limit, after=0 if last is None else last.n)
            return mirror.task_view.complete(rows, found)

    def graph(self) -> tuple[list[Task], list[tuple[str, str]]]:
        """All tasks but deleted ones, and the edges (blocker, blocked) between them."""
        with self._workspace.look() as rows:
            found = mirror.task_view.complete(rows, rows.tasks.select())
            shown = {task.id for task in found}
            return found, [edge for edge in rows.graph.edges() if shown.issuperset(edge)]

    def claim(self, task: str, *, force: bool = False, take_over: bool = False, by: str | None = None) -> Task:
        """Take a task, named by its id or its last digits, and start a run of it.

        Args:
            force: past open dependencies, as far as the setting `force` lets the caller.
            take_over: also where an earlier session of the same member holds it.

        Raises:
            TaskAlreadyClaimed: another member holds it.
            UnmetDependencies: it waits for other tasks.
            Forbidden: it is reserved for another member, or the caller has stopped.
            TaskNotFound, InvalidTransition: there is none, or it is in a state that cannot be claimed.
        """
        return self._on(
            task, by, lambda act, found: core.tasks.claim.claim(act, found, force=force, take_over=take_over)
        )

    def next_task(self, *, by: str | None = None) -> Task | None:
        """Claim the most urgent, oldest ready task that the caller may have; None where there is none."""
        with self._act(by, acknowledge=True) as act:
            task = core.tasks.claim.claim_next(act, shell=act.member is not None and act.member.agent == "shell")
            if task is not None:
                mirror.task_view.show(act.rows, task)
        return None if task is None else warned(act, task)

    def update(self, task: str, *, by: str | None = None, **fields: Any) -> Task:
        """Edit a task, add a `log` line to it, or move it forward to a `status`.

        Args:
            fields: the subject, and what `TaskSpec` lists and `TaskField.fixed` does not exclude (`run` is called
                `command` here).

        Raises:
            InvalidRequest: a field is unknown or makes no sense.
            Forbidden: the field is not the caller's to change.
            InvalidTransition: the task cannot move to that status.
        """
        mark = runner.run_processes.verifier()
        updated = self._on(task, by, lambda act, found: core.tasks.change.update(act, found, verifier=mark, **fields))
        return self._settled(updated, mark, by)

    def depend(self, task: str, *, on: str, remove: bool = False, by: str | None = None) -> Task:
        """Make `task` wait for `on`, or with `remove` no longer.

        Raises:
            DependencyCycle: `on` waits for `task`.
        """
        verb = core.tasks.change.independ if remove else core.tasks.change.depend
        return self._on(task, by, lambda act, found: verb(act, found, find(act.rows, on)))

    def release(self, task: str, *, reason: str | None = None, by: str | None = None) -> Task:
        """Return a task to the queue."""
        return self._on(task, by, lambda act, found: core.tasks.claim.release(act, found, reason))

    def complete(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        """Report a task as finished. Its `verify` is run now, before this returns; look at the `state` of the answer:
        `done`, `review`, or `ready` again where the check failed.

        Raises:
            Forbidden: another member holds it.
            StaleRun: the run was taken from the caller.
            InvalidTransition: it is not claimed.
        """
        mark = runner.run_processes.verifier()
        reported = self._on(
            task, by, lambda act, found: core.tasks.finish.complete(act, found, summary=summary, verifier=mark)
        )
        return self._settled(reported, mark, by)

    def delete(self, task: str, *, by: str | None = None) -> Task:
        """Delete a task that is not final."""
        return self._on(task, by, core.tasks.change.delete)

    def approve(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        """Approve the work, as its reviewer."""
        return self._merged(self._on(task, by, lambda act, found: core.tasks.finish.approve(act, found, summary)))

    def reject(self, task: str, *, reason: str, by: str | None = None) -> Task:
        """Reject the work, as its reviewer: it returns to the author with `reason` as findings."""
        return self._on(
            task,
            by,
            lambda act, found: core.tasks.finish.reject(
                act, found, reason, author_lives=core.tasks.review.author_lives(act, found)
            ),
        )

    def retry(self, task: str, *, by: str | None = None) -> Task:
        """Give a task that failed permanently (deadletter) another chance, or a check that could not start.

        Raises:
            InvalidTransition: the task has not failed, and its check could start.
            Forbidden: only people and the lead may.
        """
        return self._checked_again(self._on(task, by, core.tasks.answer.retry))

    def retry_alike(self, task: str, *, by: str | None = None) -> list[Task]:
        """Give a task that failed permanently another chance, with all that failed for the same reason."""
        with self._act(by, acknowledge=True) as act:
            first = find(act.rows, task)
            failed = act.rows.tasks.select(states=["deadletter"])
            alike = [one for one in failed if one.id != first.id and one.cause == first.cause]
            retried = [core.tasks.change.retry(act, one) for one in (first, *alike)]
            retried = mirror.task_view.complete(act.rows, retried)
        return [warned(act, here) for here in retried]

    def cancel(
        self, task: str, *, reason: str | None = None, cascade: bool = False, by: str | None = None
    ) -> list[Task]:
        """Cancel a task, with `cascade` also what waits for it; returns the cancelled tasks."""
        with self._act(by, acknowledge=True) as act:
            cancelled = mirror.task_view.complete(
                act.rows, core.tasks.change.cancel(act, find(act.rows, task), reason=reason, cascade=cascade)
            )
        return [warned(act, here) for here in cancelled]

    def block(self, task: str, *, reason: str, by: str | None = None) -> Task:
        """Stop work on a task for a reason that is not a dependency."""
        return self._on(task, by, lambda act, found: core.tasks.change.block(act, found, reason))

    def unblock(self, task: str, *, by: str | None = None) -> Task:
        """Let work on a blocked task continue."""
        return self._on(task, by, core.tasks.change.unblock)

    def assign(self, task: str, *, to: str | None, by: str | None = None) -> Task:
        """Reserve a task for a member; None frees it."""
        return self._on(task, by, lambda act, found: core.tasks.change.assign(act, found, to))

    def heartbeat(self, task: str, *, by: str | None = None) -> model.run.Run:
        """Show that the run is alive: its lease then ends `heartbeat_ttl` seconds from now.

        Raises:
            Forbidden: another member holds the task.
            StaleRun: the run was taken from the caller.
            InvalidTransition: it is not claimed.
        """
        with self._act(by) as act:
            return core.tasks.claim.heartbeat(act, find(act.rows, task))

    def runs(self, task: str) -> list[model.run.Run]:
        """All runs of the task, oldest first."""
        with self._workspace.look() as rows:
            return rows.runs.of_task(find(rows, task).id)

    def run_result(self, task: str) -> Json | None:
        """What the task's current run reported, as in `run_result.json`; None where it has not."""
        with self._workspace.look() as rows:
            found = find(rows, task)
            run = rows.runs.get(found.id, found.run) if found.run else None
            return None if run is None else run.result

    def work_log(self, task: str) -> list[tuple[str, str, str]]:
        """The task's work log as (at, author, text)."""
        with self._workspace.look() as rows:
            return rows.tasks.log(find(rows, task).id)

    def verify_pending(self) -> list[Task]:
        """Run the verify of tasks whose verifier has died; returns those tasks."""
        with self._workspace.look() as rows:
            waiting = [task for task in rows.tasks.select(states=["review"]) if _verifier_is_gone(task)]
        decided = []
        for task in waiting:
            mark = runner.run_processes.verifier()
            with self._act(HUMAN) as act:
                found = find(act.rows, task.id)
                if _verifier_is_gone(found):
                    core.tasks.verify.take_up(act, found, mark)
                mirror.task_view.show(act.rows, found)
            decided.append(self._settled(found, mark, HUMAN))
        return decided

    def _checked_again(self, task: Task) -> Task:
        """The task after its check was run again, where that waits and there is no runner to do it."""
        if task.verifying is None:
            return task
        with self._workspace.look() as rows:
            driven = bool(runner.registration.at_work(rows))
        if driven:
            return task
        self.verify_pending()
        return self.task(task.id)

    def _on(self, reference: str, by: str | None, verb: Callable[[UnitOfWork, Task], Task]) -> Task:
        with self._act(by, acknowledge=True) as act:
            task = mirror.task_view.show(act.rows, verb(act, find(act.rows, reference)))
        return warned(act, task)


def _verifier_is_gone(task: Task) -> bool:
    return task.verifying is not None and alive(str(task.verifying.get("process") or "")) is False
