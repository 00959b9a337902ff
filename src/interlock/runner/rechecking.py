"""Running the verify that a process which is gone had begun."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
    """Take the verify of `task` over from a process that is gone, and run it; the old one's programs end first."""

    def begin() -> Task | None:
        with workspace.ledger.snapshot() as rows:
            grace = float(workspace.settings(rows).get("stop_grace"))
        recovery.end_verify_program(task, grace)
        if author_is_gone():
            recovery.end_run_programs(run, grace)
        return take_over(workspace, task, verifier())

    current = await anyio.to_thread.run_sync(begin)
    if current is None:
        return
    hear(Update("notice", f"checking again: {current.verify}"))
    evidence = await checking.examine(workspace, current, on_line=lambda line: hear(Update("text", plain(line))))
    await anyio.to_thread.run_sync(partial(decide, workspace, current, evidence.as_dict(), author_is_gone))


def take_over(workspace: Workspace, task: Task, mark: str) -> Task | None:
    """Become, as `mark`, the process that runs the verify of `task`; null where somebody was faster."""
    with workspace.act(Caller(SYSTEM)) as act:
        current = find(act.rows, task.id)
        if current.state != "review" or current.verifying != task.verifying:
            return None
        return finish.take_up_verify(act, current, mark)


def decide(workspace: Workspace, task: Task, evidence: dict[str, Any], author_is_gone: Callable[[], bool]) -> None:
    """Take in how the verify that was taken over as `task` has ended.

    Where nobody drives the author's program any more, a failed check gives the task back to the queue; an agent that
    lives, or a person, keeps it and gets the findings.
    """
    mark = str((task.verifying or {})["process"])
    with workspace.act(Caller(SYSTEM)) as act:
        decided = finish.verified(act, find(act.rows, task.id), evidence, run=task.run, verifier=mark)
        if decided.run == task.run and decided.state == "in-progress" and author_is_gone():
            finish.fail(act, decided, "its check failed after its runner was gone", counts=False)
