"""`status.update`: a line in the Work Log, and, where it names a status, a step forward.

A status is `in-progress`, `blocked` or `review`; whatever else, and any step back, is `invalid_transition`
(decision 19).
"""

from __future__ import annotations

from interlock import questions
from interlock.errors import InterlockError
from interlock.model.task import HELD, Task
from interlock.protocol.authority import Refused, existing, not_stale, same_task, sender
from interlock.protocol.completion import REASON_CHARS, stop
from interlock.protocol.message import Handled, Incoming, words, write_log
from interlock.protocol.payloads import StatusUpdate
from interlock.sessions import Act
from interlock.tasks import finish
from interlock.tasks.claim import claim
from interlock.tasks.transition import move, reopen_run

FROM = {
    "in-progress": ("ready", "backlog", "awaiting-response", "blocked"),
    "blocked": ("ready", "backlog", "in-progress", "review"),
    "review": ("in-progress", "awaiting-response", "blocked"),
}
"""The statuses that may be named, and the states from which they are a step forward."""


def handle_status(act: Act, incoming: Incoming) -> Handled:
    """Take in an update. In the state that it names already, it is only logged.

    Raises:
        Refused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`, `stale_run`, `task_already_claimed`,
            `invalid_transition`, or why a task that nobody holds could not be claimed.
    """
    envelope = incoming.envelope
    payload: StatusUpdate = envelope.payload
    task = existing(act, envelope.task_id)
    same_task(envelope, payload.task_id)
    name = sender(act, envelope, task.owner)
    not_stale(act, envelope, task, name)
    moves = payload.status is not None and payload.status != task.state
    if moves:
        _check_step(act, task, str(payload.status), name)
        _step(act, task, str(payload.status), words(payload.blockers, payload.notes, payload.progress))
    logged = write_log(act, task, name, progress=payload.progress, notes=payload.notes, blockers=payload.blockers)
    return Handled(task, moves or logged)


def _check_step(act: Act, task: Task, status: str, name: str) -> None:
    if status not in FROM:
        raise Refused(
            "invalid_transition",
            f"a status update may say in-progress, blocked or review, not {status[:64]!r}; a completion.report ends "
            "the work",
            "payload.status",
        )
    unowned = task.owner is None and status != "blocked"
    claims = status == "in-progress" and task.state in ("ready", "backlog") and name == act.name
    if task.state not in FROM[status] or task.under_way or (unowned and not claims):
        raise Refused(
            "invalid_transition",
            f"{task.id} is {task.state}; that it is {status} is no step forward from there",
            "payload.status",
        )


def _step(act: Act, task: Task, status: str, said: str | None) -> None:
    reason = f"reported {status}: {said}"[:REASON_CHARS] if said else f"reported {status}"
    if status == "blocked":
        stop(act, task, reason, said)
    elif status == "review":
        finish.to_review(act, task, "needs_review", reason, {})
    elif task.state in HELD:
        # The agent found its own way out.
        questions.withdraw(act, task, reason)
        reopen_run(act, task)
        move(act, task, "in-progress", reason=reason)
    else:
        try:
            claim(act, task)
        except InterlockError as error:
            raise Refused(error.code, error.message, "taskId") from None
