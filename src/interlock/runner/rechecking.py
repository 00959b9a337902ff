"""Running the verify that a process which is gone had begun."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread

from interlock.agent import Update
from interlock.model.names import SYSTEM
from interlock.model.task import Run, Task
from interlock.output import plain
from interlock.runner import checking, recovery
from interlock.runner.lifesigns import verifier
from interlock.sessions import Caller
from interlock.tasks import finish
from interlock.tasks.find import find
from interlock.workspace import Workspace


async def recheck(
    workspace: Workspace, task: Task, run: Run, author_is_gone: Callable[[], bool], hear: Callable[[Update], None]
) -> None:
    """Take the verify of `task` over from a process that is gone, and run it; the old one's programs end first.

    Where nobody drives the author's program any more, a failed check gives the task back to the queue; an agent that
    lives, or a person, keeps it and gets the findings.
    """

    def take_over() -> Task | None:
        with workspace.ledger.snapshot() as rows:
            grace = float(workspace.settings(rows).get("stop_grace"))
        recovery.end_verify_program(task, grace)
        if author_is_gone():
            recovery.end_run_programs(run, grace)
        with workspace.act(Caller(SYSTEM)) as act:
            current = find(act.rows, task.id)
            if current.state != "review" or current.verifying != task.verifying:
                return None  # Somebody was faster.
            return finish.take_up_verify(act, current, verifier())

    current = await anyio.to_thread.run_sync(take_over)
    if current is None:
        return
    hear(Update("notice", f"checking again: {current.verify}"))
    evidence = await checking.examine(workspace, current, on_line=lambda line: hear(Update("text", plain(line))))
    found = evidence.as_dict()

    def decide() -> None:
        with workspace.act(Caller(SYSTEM)) as act:
            decided = finish.verified(act, find(act.rows, task.id), found, run=task.run)
            if decided.state == "in-progress" and author_is_gone():
                finish.fail(act, decided, "its check failed after its runner was gone", counts=False)

    await anyio.to_thread.run_sync(decide)
