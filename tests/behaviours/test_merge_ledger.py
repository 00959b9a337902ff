"""What the ledger says of a merge: who may do it, what it leaves behind, and to whom it goes when it comes to nothing.

Git does nothing here; `test_merging` merges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.core.tasks import merge
from interlock.core.tasks.change import cancel
from interlock.core.tasks.find import find
from interlock.core.tasks.finish import wait_for_merge
from interlock.core.unit_of_work import Principal, UnitOfWork
from interlock.errors import InvalidRequest, InvalidTransition
from interlock.model.names import SYSTEM
from interlock.model.task import Task

ME, OTHER = "here|boot|7|1", "here|boot|8|1"
PROOF = {"head": "h1", "commit": "c1", "tree": "t1", "changes": {"files": [], "count": 0}}


def lives(process: str) -> bool:
    return True


def gone(process: str) -> bool:
    return False


def within(team: Team, do: Callable[[UnitOfWork], Any]) -> Any:
    with team._workspace.act(Principal(SYSTEM)) as act:
        return do(act)


def of(team: Team, task: str, verb: Callable[..., Any], *words: Any, **more: Any) -> Any:
    """What a verb of `merge` answers about that task."""
    return within(team, lambda act: verb(act, find(act.rows, task), *words, **more))


def waiting(team: Team, by: str = "ada", **worktree: Any) -> str:
    """A finished task whose branch waits for its merge."""
    task = team.create_task("Write the parser").id
    team.claim(task, by=by)
    known = {"path": f"/w/{task}", "branch": f"work/{task}", **worktree}

    def finish(act: UnitOfWork) -> None:
        act.rows.tasks.update(find(act.rows, task), worktree=known)
        wait_for_merge(act, find(act.rows, task), {"output": "done"})

    within(team, finish)
    return task


def under_way(team: Team, by: str = "ada", **worktree: Any) -> str:
    task = waiting(team, by, **worktree)
    assert of(team, task, merge.begin, ME, alive=gone)
    return task


def told(team: Team, type: str) -> list[dict[str, Any]]:
    return [event.payload for event in team.events()[0] if event.type == type]


def state(team: Team, task: str) -> dict[str, Any]:
    with team._workspace.look() as rows:
        return dict(find(rows, task).merging or {})


def queue(team: Team) -> list[Task]:
    with team._workspace.look() as rows:
        return rows.tasks.merging()


def test_one_merge_at_a_time_and_one_whose_process_is_gone_is_taken_over(team: Team) -> None:
    first, second = waiting(team), waiting(team)
    assert not any(merge.under_way(task) for task in queue(team))
    assert of(team, second, merge.begin, ME, alive=gone)
    for alive in (lives, lambda process: None):
        assert not of(team, first, merge.begin, OTHER, alive=alive)
    assert [task.id for task in merge.in_order(queue(team))] == [second, first], "what was begun comes first"
    assert of(team, second, merge.begin, OTHER, alive=gone)
    assert state(team, second)["process"] == OTHER and state(team, first)["process"] is None
    assert [one["branch"] for one in told(team, "merge.started")] == [f"work/{second}"] * 2


def test_those_that_wait_are_merged_in_the_order_in_which_they_came(team: Team) -> None:
    tasks = [waiting(team) for _ in range(3)]
    assert [task.id for task in merge.in_order(queue(team)[::-1])] == tasks


def test_what_waits_for_no_merge_is_not_begun(team: Team) -> None:
    task = team.create_task("Write the parser").id
    assert not of(team, task, merge.begin, ME, alive=gone)
    reviewed = team.create_task("Write the lexer", review="bob").id
    team.claim(reviewed, by="ada")
    team.complete(reviewed, by="ada")
    assert not of(team, reviewed, merge.begin, ME, alive=gone)
    called_off = waiting(team)
    of(team, called_off, cancel, reason="not needed")
    assert not of(team, called_off, merge.begin, ME, alive=gone)


def test_whoever_lost_a_merge_writes_nothing(team: Team) -> None:
    task = under_way(team)
    assert of(team, task, merge.begin, OTHER, alive=gone)
    seen, head = state(team, task), team.head()
    assert not of(team, task, merge.proved, ME, commit="c1")
    assert not of(team, task, merge.landing, ME)
    assert not of(team, task, merge.merged, ME, PROOF, branch="interlock/crew")
    assert not of(team, task, merge.failed, ME, "red", "It is red.")
    of(team, task, merge.postpone, ME, "stopped")
    assert (state(team, task), team.head(), team.task(task).state) == (seen, head, "review")
    waits = waiting(team)
    assert not of(team, waits, merge.proved, "", commit="c1"), "nobody merges it"


def test_a_proof_is_written_down_before_it_lands(team: Team) -> None:
    task = under_way(team)
    assert of(team, task, merge.proved, ME, commit="c1", onto="o1")
    assert state(team, task)["landing"] is False
    with team._workspace.look() as rows:
        assert merge.landed(rows) == (None, None)
    assert of(team, task, merge.landing, ME)
    assert (state(team, task)["landing"], state(team, task)["commit"]) == (True, "c1")
    with team._workspace.look() as rows:
        assert merge.landed(rows) == (None, "c1")
    assert of(team, task, merge.merged, ME, PROOF, branch="interlock/crew")
    with team._workspace.look() as rows:
        assert merge.landed(rows) == ("c1", None)


def test_what_is_being_landed_goes_nowhere_else(team: Team) -> None:
    task = under_way(team)
    assert of(team, task, merge.proved, ME, commit="c1") and of(team, task, merge.landing, ME)
    with pytest.raises(InvalidTransition, match="is being put on the integration branch at this moment"):
        team.cancel(task)
    assert (team.task(task).state, state(team, task)["landing"]) == ("review", True)
    assert of(team, task, merge.proved, ME, commit="c2"), "it failed to be"
    team.cancel(task)
    assert (team.task(task).state, team.task(task).merging) == ("cancelled", None)


def test_what_is_merged_is_done_with_its_commit_as_evidence(team: Team) -> None:
    task = under_way(team)
    evidence = {"command": "make test", "exit_code": 0, "tree": "t1"}
    files = [f"f{number}" for number in range(21)]
    proof = {**PROOF, "evidence": evidence, "files": files}
    assert of(team, task, merge.merged, ME, proof, branch="interlock/crew")
    done = team.task(task)
    assert (done.state, done.merging, done.findings) == ("done", None, None)
    assert done.worktree is not None
    assert {name: done.worktree[name] for name in ("path", "head", "merged", "changes")} == {
        "path": f"/w/{task}", "head": "h1", "merged": "c1", "changes": {"files": [], "count": 0}
    }  # fmt: skip
    check, diff, artifact = done.evidence
    assert (check["kind"], check["command"], check["exit_code"]) == ("verify", "make test", 0)
    assert (diff["kind"], diff["by"], diff["tree"], diff["commit"]) == ("diff", "ada", "t1", "c1")
    assert (artifact["kind"], artifact["by"], artifact["count"], artifact["files"]) == (
        "artifact",
        "ada",
        21,
        files[:20],
    )
    assert told(team, "merge.finished") == [{"outcome": "merged", "commit": "c1", "files": [], "reason": None}]
    assert told(team, "task.transitioned")[-1]["reason"] == "merged into interlock/crew"


def test_what_has_changed_nothing_is_done_without_a_commit(team: Team) -> None:
    task = under_way(team)
    assert of(team, task, merge.merged, ME, {"head": "h1", "commit": None}, branch="interlock/crew")
    done = team.task(task)
    assert (done.state, done.evidence) == ("done", [])
    assert told(team, "task.transitioned")[-1]["reason"] == "nothing to merge into interlock/crew"
    with team._workspace.look() as rows:
        assert merge.landed(rows) == (None, None)


def test_a_conflict_goes_to_the_author_with_what_is_to_be_done(team: Team) -> None:
    task = under_way(team)
    reason = f"It conflicts in {'f' * 600}.\n\nThe markers."
    assert of(team, task, merge.failed, ME, "conflict", reason, todo="Fix it.", files=["story.txt"])
    back = team.task(task)
    first = reason.partition("\n")[0]
    assert (back.state, back.reserved_for, back.merging) == ("ready", "ada", None)
    assert back.findings == f"{first}\n\nFix it.\n\nThe markers."
    assert back.worktree is not None
    assert (back.worktree["returned"], back.worktree["update"], back.worktree["parted"]) == (1, True, None)
    assert back.worktree["unmerged"] == first[:500]
    assert told(team, "merge.finished") == [
        {"outcome": "conflict", "commit": None, "files": ["story.txt"], "reason": first}
    ]
    assert [one["text"] for one in told(team, "task.logged")] == [f"Not merged: {first}"]
    assert [text for _, _, text in team.work_log(task)] == [f"Not merged: {first}"]
    (mail,) = team.read("ada")
    assert mail.content.startswith(f"{task} could not be merged.\n\n") and mail.summary == "not merged"


def test_findings_are_cut_short(team: Team) -> None:
    task = under_way(team)
    assert of(team, task, merge.failed, ME, "red", "r" * 8001, evidence={"command": "make test", "exit_code": 1})
    back = team.task(task)
    assert back.findings == "r" * 8000
    assert [(row["command"], row["exit_code"]) for row in back.evidence] == [("make test", 1)]


QUESTION = "could not be merged: It conflicts. What now?"


@pytest.mark.parametrize(
    ("worktree", "parted", "outcome", "asked"),
    [
        ({}, None, "conflict", False),
        ({}, None, "failed", True),
        ({"returned": 1}, None, "conflict", True),
        ({"returned": 1, "parted": "p1"}, "p1", "red", True),
        ({"returned": 1, "parted": "p1"}, "p2", "red", False),
        ({"returned": 9, "parted": "p1"}, "p2", "conflict", False),
        ({"returned": 10, "parted": "p1"}, "p2", "conflict", True),
    ],
)
def test_a_person_is_asked_where_the_author_cannot_fix_it(
    team: Team, worktree: dict[str, Any], parted: str | None, outcome: str, asked: bool
) -> None:
    """It came back as it was, or ten times; what has met something newer goes back to its author."""
    task = under_way(team, **worktree)
    assert of(team, task, merge.failed, ME, outcome, "It conflicts.\nIn story.txt", parted=parted)
    found = team.task(task)
    assert (found.state, found.merging) == ("review" if asked else "ready", None)
    assert [one.text.endswith(QUESTION) for one in team.questions()] == ([True] if asked else [])
    if asked:
        (question,) = team.questions()
        assert (question.kind, question.options) == ("merge", merge.OPTIONS)
        assert str(question.context).startswith(
            f"In story.txt\n\nIts work lies in /w/{task}, on the branch work/{task}."
        )
    else:
        assert found.worktree is not None and found.worktree["returned"] == worktree.get("returned", 0) + 1
        assert found.worktree["parted"] == parted


def test_a_person_is_asked_where_the_author_has_left(team: Team) -> None:
    task = under_way(team)
    team.remove("ada")
    assert of(team, task, merge.failed, ME, "conflict", "It conflicts.")
    assert team.task(task).state == "review" and [one.kind for one in team.questions()] == ["merge"]


def test_what_only_its_own_tests_speak_for_is_reviewed_by_a_person(team: Team) -> None:
    task = under_way(team)
    evidence = {"command": "make test", "exit_code": 0, "changed_check": ["test.py"]}
    assert of(team, task, merge.failed, ME, "doubtful", "It changed its tests.", evidence=evidence)
    found = team.task(task)
    assert (found.state, found.merging) == ("review", None)
    assert [(row["kind"], row["exit_code"]) for row in found.evidence] == [("verify", 0)]
    (question,) = team.questions()
    assert question.kind == "review" and "It changed its tests." in question.text


@pytest.mark.parametrize(
    ("by", "files", "vouched"),
    [
        ("human", ["a.py"], True),
        ("human", ["a.py", "b.py"], True),
        ("human", ["c.py"], False),
        ("bob", ["a.py"], False),
    ],
)
def test_a_person_who_knew_which_tests_were_changed_vouches_for_these(
    team: Team, by: str, files: Sequence[str], vouched: bool
) -> None:
    team.acting("human").create_task("so that the person has a place")
    task = waiting(team)
    check = {"kind": "verify", "exit_code": 0, "by": SYSTEM, "earlier": False}
    rows = [
        {**check, "changed_check": ["a.py", "b.py"]}, {**check, "changed_check": ["c.py"], "earlier": True},
        {"kind": "approval", "by": by}, {**check, "changed_check": ["c.py"]},
    ]  # fmt: skip

    def ask(act: UnitOfWork) -> bool:
        act.rows.tasks.update(find(act.rows, task), evidence=rows)
        return merge.vouched_for(act.rows, find(act.rows, task), files)

    assert within(team, ask) is vouched


def test_an_approval_from_before_the_change_vouches_for_nothing(team: Team) -> None:
    team.acting("human").create_task("so that the person has a place")
    task = waiting(team)
    rows = [{"kind": "approval", "by": "human"}, {"kind": "verify", "changed_check": ["a.py"], "earlier": False}]

    def ask(act: UnitOfWork) -> bool:
        act.rows.tasks.update(find(act.rows, task), evidence=rows)
        return merge.vouched_for(act.rows, find(act.rows, task), ["a.py"])

    assert within(team, ask) is False


def test_a_merge_that_is_put_off_waits_again(team: Team) -> None:
    task = under_way(team)
    of(team, task, merge.postpone, ME, "stopped")
    assert (state(team, task)["stage"], state(team, task)["process"]) == ("waiting", None)
    assert told(team, "merge.finished") == [{"outcome": "postponed", "commit": None, "files": [], "reason": "stopped"}]
    assert of(team, task, merge.begin, OTHER, alive=lives)


def asked_about(team: Team) -> str:
    task = under_way(team)
    assert of(team, task, merge.failed, ME, "failed", "It cannot be had.")
    return task


def test_drop_calls_the_work_off(team: Team) -> None:
    task = asked_about(team)
    for nonsense in ("perhaps", "changes:", "changes"):
        with pytest.raises(InvalidRequest, match="`retry`"):
            of(team, task, merge.answer, nonsense)
    of(team, task, merge.answer, " Drop ")
    assert team.task(task).state == "cancelled" and team.task(task).worktree is not None


def test_retry_queues_it_again_and_changes_give_it_to_its_author(team: Team) -> None:
    task = asked_about(team)
    of(team, task, merge.answer, "RETRY")
    assert state(team, task)["stage"] == "waiting"
    other = asked_about(team)
    of(team, other, merge.answer, "changes: Use the new names.")
    back = team.task(other)
    assert (back.state, back.findings) == ("ready", "Use the new names.")


def test_an_integration_branch_that_follows_the_users_has_delivered_what_it_had(team: Team) -> None:
    task = under_way(team)
    of(team, task, merge.merged, ME, PROOF, branch="interlock/crew")
    within(team, lambda act: merge.begun(act, "c2", None))
    first = team.task(task).worktree
    assert first is not None and "delivered" not in first
    within(team, lambda act: merge.begun(act, "c3", "main"))
    second = team.task(task).worktree
    assert second is not None and second["delivered"] == "main" and second["merged"] == "c1"
    started = [(one["branch"], one["commit"]) for one in told(team, "integration.started")]
    assert started == [("interlock/alpha-squad", "c2"), ("interlock/alpha-squad", "c3")]
    with team._workspace.look() as rows:
        assert merge.landed(rows) == ("c3", None)


def test_commits_that_no_task_made_become_a_task_in_review_once(team: Team) -> None:
    def put(here: str, lines: Sequence[str], work_of: str | None = None) -> str | None:
        return within(  # type: ignore[no-any-return]
            team, lambda act: merge.put_back(act, here, "landed-commit", lines, work_of=work_of, root="/w")
        )

    kept = [put("h1", ["h1 A change"]) for _ in range(2)]
    (task,) = team.tasks()
    own = f"interlock-work/alpha-squad/{task.id}"
    assert kept == [f"refs/heads/{own}"] * 2
    assert (task.state, task.subject) == ("review", "Commits on interlock/alpha-squad that no task has made")
    assert (task.output, task.worktree) == (
        "h1 A change",
        {"path": f"/w/{task.id}", "directory": f"/w/{task.id}", "branch": own, "base": "landed-commit", "head": "h1",
         "found": "h1"},
    )  # fmt: skip
    assert "put back to landed-commi, the commit" in str(task.body)
    assert [one.kind for one in team.questions()] == ["review"]
    moved = told(team, "integration.moved")
    assert [(one["found"], one["commit"], one["kept"]) for one in moved] == [("h1", "landed-commit", kept[0])], "once"
    assert put("h2", ["h2 Another"]) != kept[0]
    assert len(team.tasks()) == 2 and len(told(team, "integration.moved")) == 2


def test_an_integration_branch_that_was_moved_back_or_to_a_tasks_branch_makes_no_task(team: Team) -> None:
    task = waiting(team)

    def put(here: str | None, lines: Sequence[str], work_of: str | None) -> str | None:
        return within(  # type: ignore[no-any-return]
            team, lambda act: merge.put_back(act, here, "l1", lines, work_of=work_of, root="/w")
        )

    assert put("h1", [], None) is None
    kept = put("h2", ["h2 A change"], f"work/{task}")
    assert kept is not None and kept.startswith("refs/interlock/moved/") and kept.endswith("/h2")
    assert [one.id for one in team.tasks()] == [task]
    assert put(None, [], None) is None
    moved = [event for event in team.events()[0] if event.type == "integration.moved"]
    assert [(one.task_id, one.payload["found"], one.payload["kept"]) for one in moved] == [
        (None, "h1", None), (task, "h2", kept), (None, None, None)
    ]  # fmt: skip
