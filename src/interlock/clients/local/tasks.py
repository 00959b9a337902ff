"""The task ledger of a local team."""

from __future__ import annotations

import os

from interlock.clients.local.base import LocalBase, plain, warned, whole, whole_number
from interlock.core.tasks.find import find
from interlock.errors import RunNotFound
from interlock.mirror.task_view import complete as completed
from interlock.mirror.task_view import show
from interlock.model.names import HUMAN
from interlock.processes.ref import alive
from interlock.runner.run_processes import verifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from interlock.core.unit_of_work import UnitOfWork
    from interlock.model.run import Run
    from interlock.model.task import Task

READY_LIMIT = 1_000_000


class LocalTasks(LocalBase):
    """See `client.Tasks`."""

    def create_task(
        self,
        subject: str,
        *,
        body: str = "",
        type: str | None = None,
        priority: str = "normal",
        assignee: str | None = None,
        blocked_by: Sequence[str] = (),
        review: str | None = None,
        verify: str | None = None,
        run: str | None = None,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        env: Sequence[str] | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        limits: Mapping[str, float] | None = None,
        by: str | None = None,
    ) -> Task:
        from interlock.core.tasks import claim, create

        with self._act(by, acknowledge=True) as act:
            task = create.create(
                act, subject, body=body, type=type, priority=priority, assignee=assignee, blocked_by=blocked_by,
                review=review, verify=verify, command=run, parent_id=parent_id, metadata=plain(metadata),
                env=env, timeout=timeout, retries=retries, limits=limits,
            )  # fmt: skip
            claim.refuse_stopped(act.rows, task.assignee)
            whole(act, task)
        return warned(act, task)

    def task(self, task: str) -> Task:
        with self._workspace.look() as rows:
            return show(rows, find(rows, task))

    def tasks(
        self, *, status: str | None = None, owner: str | None = None, ready: bool = False, limit: int | None = None
    ) -> list[Task]:
        from interlock.model.task import states_filtered

        whole_number(limit, "limit")
        states = None if status is None else states_filtered(status)
        with self._workspace.look() as rows:
            if ready:
                queue = rows.tasks.ready(READY_LIMIT) if states is None or "ready" in states else []
                found = [task for task in queue if owner in (None, task.reserved_for)][:limit]
            else:
                found = rows.tasks.select(states=states, owner=owner, limit=limit)
            return completed(rows, found)

    def graph(self) -> tuple[list[Task], list[tuple[str, str]]]:
        with self._workspace.look() as rows:
            found = completed(rows, rows.tasks.select())
            shown = {task.id for task in found}
            return found, [edge for edge in rows.graph.edges() if shown.issuperset(edge)]

    def claim(self, task: str, *, force: bool = False, take_over: bool = False, by: str | None = None) -> Task:
        from interlock.core.tasks import claim

        return self._on(task, by, lambda act, found: claim.claim(act, found, force=force, take_over=take_over))

    def next_task(self, *, by: str | None = None) -> Task | None:
        from interlock.core.tasks import claim

        with self._act(by, acknowledge=True) as act:
            member = act.rows.team.member(act.name)
            task = claim.claim_next(act, shell=member is not None and member.agent == "shell")
            if task is not None:
                whole(act, task)
        return None if task is None else warned(act, task)

    def update(self, task: str, *, by: str | None = None, **fields: Any) -> Task:
        from interlock.core.tasks import change

        token = verifier()
        updated = self._on(task, by, lambda act, found: change.update(act, found, verifier=token, **fields))
        return self.verify_now(updated, token, by)

    def depend(self, task: str, *, on: str, remove: bool = False, by: str | None = None) -> Task:
        from interlock.core.tasks import change as depend

        verb = depend.independ if remove else depend.depend
        return self._on(task, by, lambda act, found: verb(act, found, find(act.rows, on)))

    def release(self, task: str, *, reason: str | None = None, by: str | None = None) -> Task:
        from interlock.core.tasks import claim

        return self._on(task, by, lambda act, found: claim.release(act, found, reason))

    def complete(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        from interlock.core.tasks import finish

        token = verifier()
        reported = self._on(task, by, lambda act, found: finish.complete(act, found, summary=summary, verifier=token))
        return self.verify_now(reported, token, by)

    def delete(self, task: str, *, by: str | None = None) -> Task:
        from interlock.core.tasks import change

        return self._on(task, by, change.delete)

    def approve(self, task: str, *, summary: str | None = None, by: str | None = None) -> Task:
        from interlock.core.tasks import finish

        return self.merge_now(self._on(task, by, lambda act, found: finish.approve(act, found, summary)))

    def reject(self, task: str, *, reason: str, by: str | None = None) -> Task:
        from interlock.core.tasks import finish
        from interlock.core.tasks.review import author_lives

        return self._on(
            task, by, lambda act, found: finish.reject(act, found, reason, author_lives=author_lives(act, found))
        )

    def retry(self, task: str, *, by: str | None = None) -> Task:
        from interlock.core.tasks import change

        return self._on(task, by, change.retry)

    def cancel(
        self, task: str, *, reason: str | None = None, cascade: bool = False, by: str | None = None
    ) -> list[Task]:
        from interlock.core.tasks import change

        with self._act(by, acknowledge=True) as act:
            cancelled = change.cancel(act, find(act.rows, task), reason=reason, cascade=cascade)
            completed(act.rows, cancelled)
        return [warned(act, here) for here in cancelled]

    def block(self, task: str, *, reason: str, by: str | None = None) -> Task:
        from interlock.core.tasks import change

        return self._on(task, by, lambda act, found: change.block(act, found, reason))

    def unblock(self, task: str, *, by: str | None = None) -> Task:
        from interlock.core.tasks import change

        return self._on(task, by, change.unblock)

    def assign(self, task: str, *, to: str | None, by: str | None = None) -> Task:
        from interlock.core.tasks import change

        return self._on(task, by, lambda act, found: change.assign(act, found, to))

    def heartbeat(self, task: str, *, by: str | None = None) -> Run:
        from interlock.core.tasks import claim

        with self._act(by) as act:
            return claim.heartbeat(act, find(act.rows, task))

    def runs(self, task: str) -> list[Run]:
        with self._workspace.look() as rows:
            return rows.runs.of_task(find(rows, task).id)

    def work_log(self, task: str) -> list[tuple[str, str, str]]:
        with self._workspace.look() as rows:
            return rows.tasks.log(find(rows, task).id)

    def output(self, task: str, run: int | None = None) -> tuple[str, int]:
        with self._workspace.look() as rows:
            found = find(rows, task)
            numbers = [attempt.number for attempt in rows.runs.of_task(found.id)]
        for number in [run] if run is not None else reversed(numbers):
            path = self._workspace.log_path(found.id, number)
            if number in numbers and os.path.exists(path):
                return path, number
        what = f"run {run}" if run is not None else "run"
        raise RunNotFound(f"{found.id} has no {what} with output. `interlock task show {found.id}` lists its runs.")

    def verify_pending(self) -> list[Task]:
        from interlock.core.tasks import verify

        with self._workspace.look() as rows:
            waiting = [task for task in rows.tasks.select(states=["review"]) if verifier_is_gone(task)]
        decided = []
        for task in waiting:
            token = verifier()
            with self._act(HUMAN, acknowledge=False) as act:
                found = find(act.rows, task.id)
                if verifier_is_gone(found):
                    verify.take_up(act, found, token)
                whole(act, found)
            decided.append(self.verify_now(found, token, HUMAN))
        return decided

    def _on(self, reference: str, by: str | None, verb: Callable[[UnitOfWork, Task], Task]) -> Task:
        with self._act(by, acknowledge=True) as act:
            task = verb(act, find(act.rows, reference))
            whole(act, task)
        return warned(act, task)

    def verify_now(self, task: Task, token: str, by: str | None) -> Task:
        """Run the task's verify, if this call is the one that has to."""
        if task.state != "review" or task.verifying is None or task.verifying["process"] != token:
            return self.merge_now(task)
        import anyio

        from interlock.core.tasks import verify
        from interlock.runner.verify import examine

        evidence = anyio.run(examine, self._workspace, task)
        with self._act(by, acknowledge=False) as act:
            found = find(act.rows, task.id)
            verify.verified(act, found, evidence.as_dict(), run=task.run, verifier=token)
            whole(act, found)
        return self.merge_now(warned(act, found))

    def merge_now(self, task: Task) -> Task:
        """Merge the task's branch, if it waits for that and no runner is there to do it."""
        if task.merging is None:
            return task
        from interlock.clients.local.copies import merge_now

        return self.task(task.id) if merge_now(self._workspace) else task


def verifier_is_gone(task: Task) -> bool:
    """Whether a verify is under way whose process has died."""
    return task.verifying is not None and alive(str(task.verifying.get("process") or "")) is False
