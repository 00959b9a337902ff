"""Merging, as the ledger sees it: what becomes of finished work that lies in a worktree of its own.

    in-progress ──complete──> review ──verify──> ──approve──> waiting ──begin──> merging ──merged──> done
         ^                                                       ^                  │
         ├── a conflict, or a red merge, as findings ────────────┼──────────────────┤
         └── reply `changes: …` ──────────────┐   reply `retry` ─┘                  │
                                              └── a merge question to a human <─────┘ brought back as it was

The order is verify, review, merge: what a reviewer approves is what is merged, and nobody is asked about work that does
not even pass its own check. One merge at a time per team: `begin` takes the team's slot in a transaction, and whoever
finds its process gone takes it up. What git does stands in `runner.merging`; here only rows change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks.change import cancel
from interlock.core.tasks.create import create
from interlock.core.tasks.finish import ask_human, back_to_author, done, wait_for_merge
from interlock.core.tasks.review import author_lives
from interlock.core.tasks.transition import move
from interlock.core.tasks.verify import red_before
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidRequest
from interlock.model.evidence import check, row
from interlock.model.names import HUMAN
from interlock.model.question import CHANGES, changes_asked
from interlock.model.task import Task
from interlock.processes import ref
from interlock.storage.ledger import Rows

RETRY, DROP = "retry", "drop"
OPTIONS = [RETRY, CHANGES, DROP]
ANSWERS = """\
`retry` merges it again, once you have fixed it there. `changes: …` sends it back to its author with your words. `drop`
gives it up; the branch is kept."""
RETURNS = 10
"""How often a merge that came to nothing is given back to the author, whatever lands meanwhile."""
FINDINGS_CHARS = 8000
REASON_CHARS = 500
FILES_NAMED = 20

FOREIGN = "Commits on {branch} that no task has made"
ADOPTED = """\
Somebody else than Interlock has put commits on {branch}, which has been put back to {landed}, the commit
that was landed last. Nothing is lost: they are on a branch of their own. Approve, and they are merged as the work of a
task is; cancel, and they stay where they are."""

Alive = Callable[[str], bool | None]


def slot(tasks: list[Task], alive: Alive) -> Task | None:
    """Of the tasks in the queue for their merge, the one that is being merged by a process that may live."""
    return next((one for one in tasks if under_way(one) and alive(process_of(one)) is not False), None)


def under_way(task: Task) -> bool:
    """Whether somebody merges it now, or did when its process ended; false while it waits."""
    return task.merging is not None and task.merging["stage"] == "merging"


def process_of(task: Task) -> str:
    """Who merges it, as text; empty where nobody does."""
    return str((task.merging or {}).get("process") or "")


def in_order(tasks: list[Task]) -> list[Task]:
    """The queue: what was begun before a crash first, then first come, first served."""
    return sorted(tasks, key=lambda one: (not under_way(one), str((one.merging or {}).get("since")), one.n))


def landed(rows: Rows) -> tuple[str | None, str | None]:
    """The commit at which the integration branch was left last, and the one that a merge is moving it to now."""
    moving = (one.merging or {} for one in rows.tasks.merging() if under_way(one))
    return rows.team.get().landed, next((state.get("commit") for state in moving if state.get("landing")), None)


def begun(act: UnitOfWork, commit: str, into: str | None) -> None:
    """The integration branch is made at `commit`, or follows the user's branch `into`, which has all that it had."""
    team = act.rows.team.get()
    act.rows.team.update(team, landed=commit)
    for task in act.rows.tasks.undelivered() if into is not None else ():
        act.rows.tasks.update(task, worktree={**(task.worktree or {}), "delivered": into})
        act.topics.add("tasks")
    act.event("integration.started", branch=f"interlock/{team.name}", commit=commit)


def put_back(
    act: UnitOfWork, here: str | None, landed: str, lines: Sequence[str], *, work_of: str | None, root: str
) -> str | None:
    """The integration branch, which somebody else has moved to `here`, is put back to `landed`.

    The commits that came with it, told by `lines`, take their way where a task's branch `work_of` has them. Else they
    become the work of a task in review, whose worktree would be below `root`. The reference by which they are kept;
    None where there are none.
    """
    team = act.rows.team.get()
    branch, kept = f"interlock/{team.name}", f"refs/interlock/moved/{team.id}/{here}" if lines else None
    about = next((one for one in act.rows.tasks.worktrees() if (one.worktree or {}).get("branch") == work_of), None)
    if lines and work_of is None:
        known = (one for one in act.rows.tasks.worktrees() if (one.worktree or {}).get("found") == here)
        about = next(known, None) or _adopt(act, branch, str(here), landed, lines, root)
        kept = f"refs/heads/{(about.worktree or {})['branch']}"
    told = act.rows.events.latest(None, 1, ["integration.moved"])
    if not told or (told[0].payload["found"], told[0].payload["commit"]) != (here, landed):
        act.event("integration.moved", about.id if about else None, branch=branch, commit=landed, found=here, kept=kept)
    return kept


def _adopt(act: UnitOfWork, branch: str, here: str, landed: str, lines: Sequence[str], root: str) -> Task:
    """A task in review, which a person decides, whose work are the commits up to `here`."""
    told = ADOPTED.format(branch=branch, landed=landed[:12])
    task = create(act, FOREIGN.format(branch=branch), review=HUMAN, body=told)
    path, own = os.path.join(root, task.id), f"interlock-work/{act.rows.team.get().name}/{task.id}"
    worktree = {"path": path, "directory": path, "branch": own, "base": landed, "head": here, "found": here}
    move(act, task, "in-progress", "review", reason=f"found on {branch}", worktree=worktree, output="\n".join(lines))
    ask_human(act, task)
    return task


def begin(act: UnitOfWork, task: Task, process: str, *, alive: Alive) -> bool:
    """Take the team's merge slot for `task`, as `process`; false where somebody else has it, or the task waits for no
    merge any more. A merge whose process is gone is taken over."""
    if task.state != "review" or task.merging is None or slot(act.rows.tasks.merging(), alive) is not None:
        return False
    state = {**task.merging, "stage": "merging", "process": process, "at": act.at}
    act.rows.tasks.update(task, merging=state, updated_at=act.at)
    act.event("merge.started", task.id, branch=(task.worktree or {}).get("branch"), process=ref.without_token(process))
    act.topics.add("tasks")
    return True


def mine(task: Task, process: str) -> bool:
    """Whether `process` still merges the task: nobody cancelled it, or took the merge over."""
    return task.state == "review" and under_way(task) and process_of(task) == process


def proved(act: UnitOfWork, task: Task, process: str, **proof: Any) -> bool:
    """Write down what is about to be landed (`commit`, `onto`, `head`, `evidence`), so that whoever finds us gone knows
    what it was; false where the merge is ours no more."""
    if not mine(task, process):
        return False
    act.rows.tasks.update(task, merging={**(task.merging or {}), "landing": False, **proof})
    return True


def landing(act: UnitOfWork, task: Task, process: str) -> bool:
    """Write down that the integration branch is about to be moved to what was proved: from now on the task can only be
    merged, or fail to be, until `merged`, `failed` or a new proof. False where the merge is ours no more."""
    if not mine(task, process):
        return False
    act.rows.tasks.update(task, merging={**(task.merging or {}), "landing": True})
    return True


def merged(act: UnitOfWork, task: Task, process: str, proof: dict[str, Any], *, branch: str) -> bool:
    """The end of a merge that went well: the integration branch has it, and the task is done. False, and nothing has
    changed, where the merge is ours no more: whoever took it over finds the branch moved, and ends it."""
    if not mine(task, process):
        return False
    commit = proof.get("commit")
    if commit is not None:
        act.rows.team.update(act.rows.team.get(), landed=commit)
    act.event("merge.finished", task.id, outcome="merged", commit=commit, files=[], reason=None)
    changes: dict[str, Any] = {"merging": None, "findings": None}
    made = {"head": proof["head"], "merged": commit, **({"changes": proof["changes"]} if proof.get("changes") else {})}
    changes["worktree"] = {**(task.worktree or {}), **made}
    changes["evidence"] = list(task.evidence)
    if proof.get("evidence") is not None:
        changes["evidence"].append(check({**proof["evidence"], "red_before": red_before(act, task)}, act.at))
    if commit is not None:
        changes["evidence"].append(row("diff", act.at, task.owner, tree=proof.get("tree"), commit=commit))
    if files := proof.get("files"):
        changes["evidence"].append(row("artifact", act.at, task.owner, files=files[:FILES_NAMED], count=len(files)))
    done(act, task, f"merged into {branch}" if commit else f"nothing to merge into {branch}", changes)
    return True


def failed(
    act: UnitOfWork,
    task: Task,
    process: str,
    outcome: str,
    reason: str,
    *,
    todo: str = "",
    files: list[str] | None = None,
    evidence: dict[str, Any] | None = None,
    parted: str | None = None,
) -> bool:
    """The end of a merge that came to nothing: `conflict` or `red` goes to the author, with `reason` and what is `todo`
    as findings; to a human goes what the author has brought back as it was, or `RETURNS` times, what no author can fix
    (`failed`), and, as a review, what only tests that it changed speak for (`doubtful`). `parted`: the last commit that
    the branch has of the integration branch, None where it has all of it. False where the merge is ours no more."""
    if not mine(task, process):
        return False
    worktree = dict(task.worktree or {})
    act.event("merge.finished", task.id, outcome=outcome, commit=None, files=files or [], reason=reason.split("\n")[0])
    if outcome == "doubtful":
        rows = [*task.evidence, check({**(evidence or {}), "red_before": red_before(act, task)}, act.at)]
        act.rows.tasks.update(task, updated_at=act.at, merging=None, evidence=rows)
        act.topics.add("tasks")
        ask_human(act, task, reason)
        return True
    changes: dict[str, Any] = {"merging": None, **({} if evidence is None else {"evidence": [check(evidence, act.at)]})}
    author = act.rows.team.member(str(task.owner))
    times = int(worktree.get("returned") or 0)
    # It has taken in what it met before, and has met something newer.
    newer = parted is not None and parted != worktree.get("parted") and times < RETURNS
    if outcome != "failed" and author is not None and (not times or newer):
        what, _, more = reason.partition("\n\n")
        _back(act, task, "\n\n".join(part for part in (what, todo, more) if part), changes, parted=parted)
        return True
    act.rows.tasks.update(task, updated_at=act.at, **changes)
    act.topics.add("tasks")
    what, _, more = reason.partition("\n")
    text = f"{task.id} ({task.subject}) could not be merged: {what} What now?"
    place = f"Its work lies in {worktree.get('path')}, on the branch {worktree.get('branch')}."
    context = "\n\n".join(part for part in (more.strip("\n"), place, ANSWERS) if part)
    questions.put(act, task, "merge", text, options=OPTIONS, context=context)
    return True


def vouched_for(rows: Rows, task: Task, files: Sequence[str]) -> bool:
    """Whether a person has approved the work knowing that only tests which it changed, these or more, speak for it."""
    people = {member.name for member in rows.team.members() if member.role == "person"}
    asked = set[str]()
    for one in task.evidence:
        if one["kind"] == "approval" and one["by"] in people and asked.issuperset(files):
            return True
        asked |= set(one.get("changed_check") or ()) if one.get("earlier") is False else set()
    return False


def postpone(act: UnitOfWork, task: Task, process: str, reason: str) -> None:
    """We stop before the merge has ended: it waits again."""
    if mine(task, process):
        act.event("merge.finished", task.id, outcome="postponed", commit=None, files=[], reason=reason)
        state = {**(task.merging or {}), "stage": "waiting", "process": None, "at": act.at}
        act.rows.tasks.update(task, merging=state, updated_at=act.at)
        act.topics.add("tasks")


def answer(act: UnitOfWork, task: Task, text: str) -> None:
    """Act on the answer to a merge question, which the caller has closed or closes: `retry` queues the branch again,
    `changes: …` gives the task to its author once more, `drop` calls it off; its branch and worktree are kept.

    Raises:
        InvalidRequest: it is none of these.
    """
    word = text.strip().lower()
    if word == RETRY:
        wait_for_merge(act, task, {})
    elif word == DROP:
        cancel(act, task, reason="its work was dropped instead of merged")
    elif findings := changes_asked(text):
        _back(act, task, findings, {})
    else:
        raise InvalidRequest(
            "Answer a merge question with `retry` (merge it again), `changes: what to do` (its author continues), or "
            "`drop` (call the task off; its branch is kept).",
            field="reply",
        )


def _back(act: UnitOfWork, task: Task, findings: str, changes: dict[str, Any], *, parted: str | None = None) -> None:
    known = task.worktree or {}
    worktree = {**known, "returned": int(known.get("returned") or 0) + 1, "parted": parted or known.get("parted")}
    author, first = task.owner, findings.partition("\n")[0]
    worktree |= {"unmerged": first[:REASON_CHARS], "update": True}
    changes |= {"findings": findings[:FINDINGS_CHARS], "worktree": worktree}
    act.rows.tasks.add_log(task.id, act.at, act.name, f"Not merged: {first}")
    act.event("task.logged", task.id, text=f"Not merged: {first}")
    back_to_author(act, task, "could not be merged", changes, author_lives=author_lives(act, task))
    notify(act, author, f"{task.id} could not be merged.\n\n{findings}", summary="not merged")
