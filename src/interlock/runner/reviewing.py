"""How the end of a reviewer's program becomes a verdict.

What it said by a verb or a message counts. Else the last line of a program that ended well is looked at: `approve`,
`changes: …`, or JSON with a `status` (`COMPLETE` approves, `INCOMPLETE` with an `output` asks for changes). Whatever
else it says, or however it ends, is no verdict: silence never approves.
"""

from __future__ import annotations

from interlock.errors import InvalidRequest
from interlock.executor import Result
from interlock.model.task import Task
from interlock.output import plain
from interlock.questions import review_answer
from interlock.runner import capacity, outcome
from interlock.runner.hearing import without_messages
from interlock.sessions import Act, Caller
from interlock.tasks import finish, review, reviewers
from interlock.tasks.find import find
from interlock.workspace import Workspace

REASON_CHARS = 10_000


def settle(workspace: Workspace, task: Task, caller: Caller, result: Result, why: str | None) -> None:
    """Write down what the run of a review came to. `why` says how the program ended, where that was not well.

    Raises:
        StaleRun, Conflict: the run was superseded at this very moment.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        run = reviewers.under_review(act.rows, current)
        if run is None or run.number != task.run:
            return  # It has been decided, or taken from the reviewer.
        verdict = None if why is not None else read(result.output)
        if verdict is None:
            counts = result.status not in ("cancelled", "capacity")
            review.no_verdict(act, current, why or "it ended without a verdict", counts=counts)
            if result.status == "capacity":
                capacity.wait_to_review(act, current, why or "no capacity", result)
        else:
            give(act, current, *verdict)


def give_up(act: Act, task: Task, number: int, why: str, counts: bool) -> None:
    """The run of a review cannot go on, for a reason of ours."""
    run = reviewers.under_review(act.rows, task)
    if run is not None and run.number == number:
        review.no_verdict(act, task, why, counts=counts)


def give(act: Act, task: Task, approved: bool, findings: str) -> None:
    """Apply a verdict."""
    if approved:
        finish.approve(act, task)
    else:
        finish.reject(act, task, findings[:REASON_CHARS], author_lives=review.author_lives(act, task))


def read(output: str) -> tuple[bool, str] | None:
    """(approved, findings) of the last line that says anything; null where that is no verdict."""
    text = without_messages(plain(output))
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    said = outcome.read(last)
    if said is not None:
        if said.status == "COMPLETE":
            return True, ""
        return (False, said.output) if said.status == "INCOMPLETE" and said.output else None
    try:
        return review_answer(last.strip("`*. "))
    except InvalidRequest:
        return None
