"""Tasks are created, listed, edited, finished and deleted, and only ever go forward (TEAM-2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.errors import (
    AmbiguousId,
    Forbidden,
    InvalidRequest,
    InvalidTransition,
    MemberNotFound,
    TaskNotFound,
)
from interlock.model.task import STATUS


def file_of(team: Team, task_id: str) -> list[str]:
    """The state directories in which a task has a file."""
    return [path.parent.name for path in (Path(team.directory) / "tasks").glob(f"*/{task_id}.md")]


def hops(team: Team, task_id: str) -> list[tuple[str, str]]:
    return [
        (event.payload["from"], event.payload["to"])
        for event in team.events()[0]
        if event.type == "task.transitioned" and event.task_id == task_id
    ]


@pytest.mark.req("TEAM-2.1", "CORE-KE.2")
def test_a_task_is_created_with_what_it_was_given(team: Team) -> None:
    task = team.create_task(
        "Write the parser", body="For all of it.\n", type="IMPLEMENTATION", priority="high", review="bob",
        verify="true", metadata={"story": "1.2"}, by="lead",
    )  # fmt: skip
    assert re.fullmatch(r"TASK-\d{4}-\d{2}-\d{2}-001", task.id)
    shown = team.task(task.id).as_dict()
    assert shown | {
        "subject": "Write the parser", "body": "For all of it.\n", "state": "ready", "status": "pending",
        "owner": None, "assignee": None, "type": "IMPLEMENTATION", "priority": "high", "review": "bob",
        "verify": "true", "evidence": [], "blocked_by": [], "blocks": [], "warnings": [], "parent_id": None,
        "run_id": None, "attempt": 0, "metadata": {"story": "1.2"}, "claimed_at": None, "completed_at": None,
    } == shown  # fmt: skip
    assert shown["created_at"] == shown["updated_at"]
    assert file_of(team, task.id) == ["ready"]
    assert "For all of it." in (Path(team.directory) / "tasks" / "ready" / f"{task.id}.md").read_text()


def test_ids_count_by_day_and_keep_counting_past_999(timed: Team, clock: ManualClock) -> None:
    first = timed.create_task("a").id
    clock.advance(86_400)
    second = timed.create_task("b").id
    clock.advance(-86_400)
    third = timed.create_task("c").id
    assert first[-3:] == second[-3:] == "001" and first != second
    assert third == first[:-3] + "002", "a clock that was set back finds the day's numbers taken"
    with timed._workspace.ledger.transaction() as rows:  # type: ignore[attr-defined]
        rows.team.update(rows.team.get(), day_count=998)
    assert [timed.create_task("x").id[-4:] for _ in range(2)] == ["-999", "1000"]
    assert timed.task("1000").id.endswith("-1000")


def test_a_task_is_found_by_id_or_unique_suffix(timed: Team, clock: ManualClock) -> None:
    first = timed.create_task("a")
    assert timed.task("001").id == timed.task(first.id[5:]).id == first.id
    clock.advance(86_400)
    second = timed.create_task("b")
    with pytest.raises(AmbiguousId) as refused:
        timed.task("1")
    assert set(refused.value.details["candidates"]) == {first.id, second.id}
    for unknown in ("002", "%", "TASK-2026-01-01-999", "2", "../001"):
        with pytest.raises(TaskNotFound):
            timed.task(unknown)
    with pytest.raises(InvalidRequest):
        timed.task("")


@pytest.mark.req("TEAM-2.3")
def test_pending_tasks_are_listed_in_order_of_creation(team: Team) -> None:
    one, two, three, four = (team.create_task(name) for name in ("one", "two", "three", "four"))
    five = team.create_task("five", blocked_by=[one.id])
    team.claim(two.id, by="ada")
    team.claim(three.id, by="ada")
    team.complete(three.id, by="ada")
    team.delete(four.id)
    listed = {word: [task.id for task in team.tasks(status=word)] for word in
              ("pending", "ready", "backlog", "in_progress", "completed", "done", "deleted")}  # fmt: skip
    assert listed == {
        "pending": [one.id, five.id], "ready": [one.id], "backlog": [five.id], "in_progress": [two.id],
        "completed": [three.id], "done": [three.id], "deleted": [four.id],
    }  # fmt: skip
    assert [task.id for task in team.tasks()] == [one.id, two.id, three.id, five.id], "deleted ones are hidden"
    assert [task.id for task in team.tasks(owner="ada")] == [two.id, three.id]
    assert [task.id for task in team.tasks(limit=2)] == [one.id, two.id]
    with pytest.raises(InvalidRequest, match="pending"):
        team.tasks(status="finished")


def test_the_ready_queue_is_most_urgent_first_then_oldest(team: Team) -> None:
    made = [team.create_task(priority, priority=priority).id for priority in ("low", "normal", "critical", "high")]
    made.append(team.create_task("normal too").id)
    assert [task.id for task in team.tasks(ready=True)] == [made[2], made[3], made[1], made[4], made[0]]
    assert [task.id for task in team.tasks(ready=True, limit=1)] == [made[2]]
    taken = [team.next_task(by="ada") for _ in range(6)]
    assert [task.id if task else None for task in taken] == [made[2], made[3], made[1], made[4], made[0], None]


@pytest.mark.req("TEAM-2.7")
def test_a_completed_task_is_done_in_two_hops_and_keeps_its_owner(team: Team) -> None:
    task = team.create_task("Write it")
    team.claim(task.id, by="ada")
    done = team.complete(task.id, by="ada", summary="Wrote it all.")
    assert (done.state, done.status, done.owner, done.output) == ("done", "completed", "ada", "Wrote it all.")
    assert done.completed_at is not None and done.completed_at >= str(done.claimed_at)
    assert hops(team, task.id) == [("ready", "in-progress"), ("in-progress", "review"), ("review", "done")]
    assert file_of(team, task.id) == ["done"]
    assert [run.outcome for run in team.runs(task.id)] == ["done"]
    assert team.work_log(task.id)[0][1:] == ("ada", "Wrote it all.")


def test_only_who_holds_a_task_the_lead_or_a_human_completes_it(team: Team) -> None:
    task = team.create_task("Write it")
    with pytest.raises(InvalidTransition, match="claim"):
        team.complete(task.id, by="ada")
    team.claim(task.id, by="ada")
    with pytest.raises(Forbidden, match="ada"):
        team.complete(task.id, by="bob")
    assert team.complete(task.id, by="lead").owner == "ada"


@pytest.mark.req("TEAM-2.9")
def test_a_deleted_task_is_out_of_sight_but_not_forgotten(team: Team) -> None:
    pending, held = team.create_task("pending"), team.create_task("held")
    team.claim(held.id, by="ada")
    assert team.delete(pending.id).status == "deleted"
    assert team.delete(held.id).state == "deleted"
    assert team.tasks() == [] and team.graph() == ([], [])
    assert [task.id for task in team.tasks(status="deleted")] == [pending.id, held.id]
    assert team.task(held.id).state == "deleted"
    assert file_of(team, pending.id) == file_of(team, held.id) == ["deleted"]
    assert any("stop working" in message.content for message in team.read("ada")), "its owner is told"
    assert [run.ended_at is not None for run in team.runs(held.id)] == [True]
    assert team.delete(held.id).state == "deleted", "again it changes nothing"
    with pytest.raises(InvalidTransition):
        team.claim(pending.id, by="ada")


def test_not_everybody_may_delete_or_cancel(team: Team) -> None:
    task = team.create_task("Not yours", by="lead")
    for verb in (team.delete, team.cancel):
        with pytest.raises(Forbidden):
            verb(task.id, by="ada")
    mine = team.create_task("Mine", by="ada")
    assert team.delete(mine.id, by="ada").state == "deleted"


@pytest.mark.req("TEAM-2.status")
def test_a_task_goes_from_pending_over_in_progress_to_completed_or_is_deleted(team: Team) -> None:
    task = team.create_task("Whole life")
    seen = [task.status, team.claim(task.id, by="ada").status, team.complete(task.id, by="ada").status]
    assert seen == ["pending", "in_progress", "completed"]
    with pytest.raises(InvalidTransition):
        team.delete(task.id)
    assert team.delete(team.create_task("From pending").id).status == "deleted"
    held = team.create_task("From in progress")
    team.claim(held.id, by="ada")
    assert team.delete(held.id).status == "deleted"


@pytest.mark.req("CORE-FR-011", "CORE-EC.6")
@pytest.mark.parametrize(
    "status",
    ["pending", "ready", "backlog", "blocked", "review", "failed", "cancelled", "deleted", "done", "in_progress"],
)
def test_a_status_update_never_leads_back_or_aside(team: Team, status: str) -> None:
    done, held, open_ = team.create_task("done"), team.create_task("held"), team.create_task("open")
    team.claim(done.id, by="ada")
    team.complete(done.id, by="ada")
    team.claim(held.id, by="ada")
    head = team.events()[1]
    for task, forward in (
        (done, {"done"}),
        (held, {"done", "in_progress"}),
        (open_, {"in_progress", "pending", "ready"}),
    ):
        if status not in forward:
            with pytest.raises(InvalidTransition) as refused:
                team.update(task.id, status=status, by="ada")
            assert refused.value.code == "invalid_transition" and refused.value.details["state"] == task_state(
                team, task.id
            )
    assert team.events()[1] == head, "nothing was changed"


def task_state(team: Team, task_id: str) -> str:
    return team.task(task_id).state


@pytest.mark.req("CORE-FR-011")
def test_a_status_update_goes_forward(team: Team) -> None:
    task = team.create_task("Forward")
    assert team.update(task.id, status="in_progress", by="ada").owner == "ada"
    assert team.update(task.id, status="completed", by="ada").state == "done"
    assert team.update(task.id, status="completed", by="ada").state == "done", "again it changes nothing"


def test_every_state_is_shown_in_its_own_directory(team: Team) -> None:
    team.configure({"retries": 0})
    for state in STATUS:
        for path in (Path(team.directory) / "tasks").glob(f"{state}/*.md"):
            raise AssertionError(path)
    made = {name: team.create_task(name).id for name in ("a", "b", "c", "d")}
    team.block(made["a"], reason="no key")
    team.cancel(made["b"])
    team.claim(made["c"], by="ada")
    assert {name: file_of(team, id) for name, id in made.items()} == {
        "a": ["blocked"], "b": ["cancelled"], "c": ["in-progress"], "d": ["ready"],
    }  # fmt: skip


def test_editing_is_for_owner_maker_and_lead_and_gates_are_not_for_the_owner(team: Team) -> None:
    task = team.create_task("Write it", verify="false", review="lead", by="lead")
    with pytest.raises(Forbidden):
        team.update(task.id, subject="Mine now", by="ada")
    team.claim(task.id, by="ada")
    assert team.update(task.id, body="More of it", by="ada").body == "More of it"
    for gate in ({"verify": None}, {"review": "none"}, {"command": "true"}):
        with pytest.raises(Forbidden, match="good enough"):
            team.update(task.id, **gate, by="ada")
    assert team.update(task.id, verify=None, review=None, by="lead").verify is None
    with pytest.raises(InvalidRequest, match="owner"):
        team.update(task.id, owner="bob")
    with pytest.raises(InvalidRequest):
        team.update(task.id)


@pytest.mark.parametrize(
    "fields", [{"subject": ""}, {"subject": " "}, {"subject": "a\nb"}, {"subject": None}, {"subject": "\ud800"},
               {"body": "a\x00"}, {"type": "STORY"}, {"priority": "urgent"}, {"metadata": {"a": "\ud800"}},
               {"metadata": []}, {"verify": ""}],
)  # fmt: skip
def test_a_field_that_is_not_valid_is_refused_at_creation_and_later(team: Team, fields: dict[str, object]) -> None:
    head = team.events()[1]
    with pytest.raises(InvalidRequest):
        team.create_task(**{"subject": "Fine", **fields})  # type: ignore[arg-type]
    assert team.tasks() == []
    task = team.create_task("Fine")
    with pytest.raises(InvalidRequest):
        team.update(task.id, **fields)
    assert team.events(head)[1] == head + 1


def test_a_task_cannot_be_given_to_or_reviewed_by_nobody(team: Team) -> None:
    for fields in ({"assignee": "bbo"}, {"review": "bbo"}):
        with pytest.raises(MemberNotFound, match="bob"):
            team.create_task("For whom?", **fields)  # type: ignore[arg-type]
    with pytest.raises(TaskNotFound):
        team.create_task("Child", parent_id="TASK-2026-01-01-999")


def test_assigning_reserves_a_task_and_takes_it_from_who_holds_it(team: Team) -> None:
    task = team.create_task("Write it")
    team.claim(task.id, by="bob")
    team.read("bob")
    assigned = team.assign(task.id, to="ada", by="lead")
    assert (assigned.state, assigned.owner, assigned.assignee) == ("ready", None, "ada")
    with pytest.raises(Forbidden, match="reserved for ada"):
        team.claim(task.id, by="bob")
    assert [m.type for m in team.read("ada")] == ["task_assignment"]
    assert "taken from you" in team.read("bob")[0].content
    head = team.events()[1]
    team.assign(task.id, to="ada", by="lead")
    assert [event.type for event in team.events(head)[0] if event.task_id] == [], "again it changes nothing"
    assert team.next_task(by="bob") is None
    assert team.next_task(by="ada").id == task.id  # type: ignore[union-attr]
    with pytest.raises(Forbidden):
        team.assign(task.id, to="bob", by="bob")
    assert team.assign(task.id, to=None).state == "ready"


@pytest.mark.long
def test_a_task_in_deadletter_gets_another_chance_by_retry_or_reassignment(team: Team) -> None:
    one, two = dead(team, "one"), dead(team, "two")
    for verb in (lambda: team.retry(one, by="ada"), lambda: team.assign(one, to="ada", by="bob")):
        with pytest.raises(Forbidden):
            verb()
    with pytest.raises(InvalidTransition, match="retry"):
        team.claim(one, by="ada")
    assert (team.retry(one).state, team.assign(two, to="bob", by="lead").state) == ("ready", "ready")
    assert team.claim(two, by="bob").attempt == 1


def dead(team: Team, subject: str) -> str:
    """The id of a task that went to deadletter: its verify failed too often."""
    team.configure({"verify_rounds": 1})
    task = team.create_task(subject, verify="false")
    team.claim(task.id, by="ada")
    assert team.complete(task.id, by="ada").state == "deadletter"
    return task.id


def test_a_blocked_task_goes_on_with_its_owner_or_back_to_the_queue(team: Team) -> None:
    task = team.create_task("Deploy")
    team.claim(task.id, by="ada")
    with pytest.raises(InvalidRequest):
        team.block(task.id, reason=" ", by="ada")
    with pytest.raises(Forbidden):
        team.block(task.id, reason="I say so", by="bob")
    assert team.block(task.id, reason="no key", by="ada").status == "in_progress"
    head = team.events()[1]
    team.block(task.id, reason="no key", by="ada")
    assert team.events()[1] == head, "again it changes nothing"
    assert str(team.block(task.id, reason="no account either", by="ada").output).startswith("no account either\n\n")
    assert len(team.questions()) == 1, "the question about the old reason is withdrawn"
    assert team.unblock(task.id, by="ada").state == "in-progress"
    team.block(task.id, reason="no key", by="ada")
    freed = team.unblock(task.id, by="lead")
    assert (freed.state, freed.owner) == ("ready", None)
    with pytest.raises(InvalidTransition):
        team.unblock(task.id)


def test_a_blocked_task_may_be_finished_by_who_found_a_way_out(team: Team) -> None:
    task = team.create_task("Deploy")
    team.claim(task.id, by="ada")
    team.block(task.id, reason="no key", by="ada")
    assert team.complete(task.id, by="ada").state == "done"
    assert hops(team, task.id)[-3:] == [("in-progress", "blocked"), ("blocked", "review"), ("review", "done")]


def test_the_work_log_is_kept_and_shown_under_the_body(team: Team) -> None:
    task = team.create_task("Write it", body="Do it well.")
    team.claim(task.id, by="ada")
    team.update(task.id, log="Half of it", by="ada")
    team.update(task.id, log="I can help", by="bob")
    assert [(author, text) for _, author, text in team.work_log(task.id)] == [
        ("ada", "Half of it"),
        ("bob", "I can help"),
    ]
    shown = (Path(team.directory) / "tasks" / "in-progress" / f"{task.id}.md").read_text()
    assert shown.count("## Work Log") == 1 and "ada: Half of it" in shown
    assert team.task(task.id).body == "Do it well."


@pytest.mark.long
def test_a_verify_decides_in_three_rounds(team: Team, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    task = team.create_task("Make it", verify=f"test -e {proof}")
    team.claim(task.id, by="ada")
    back = team.complete(task.id, by="ada")
    assert (back.state, back.owner, back.check["passed"]) == ("in-progress", "ada", False)  # type: ignore[index]
    proof.touch()
    done = team.complete(task.id, by="ada")
    assert (done.state, done.check["passed"]) == ("done", True)  # type: ignore[index]
    proof.unlink()
    other = team.create_task("Make it again", verify=f"test -e {proof}")
    team.claim(other.id, by="ada")
    assert [team.complete(other.id, by="ada").state for _ in range(3)] == ["in-progress", "in-progress", "deadletter"]
    assert any("deadletter" in message.content for message in team.read("lead"))


def test_history_has_no_gaps_and_one_event_per_hop(team: Team, connect: Callable[..., Home]) -> None:
    for number in range(5):
        task = team.create_task(f"task {number}")
        team.claim(task.id, by="ada")
        team.complete(task.id, by="ada")
    events, head = connect().team("alpha-squad").events()
    assert [event.seq for event in events] == list(range(1, head + 1))
    state: dict[str | None, str] = {}
    for event in events:
        if event.type == "task.created":
            state[event.task_id] = event.payload["state"]
        elif event.type == "task.transitioned":
            assert state[event.task_id] == event.payload["from"]
            state[event.task_id] = event.payload["to"]
    assert set(state.values()) == {"done"}
    assert team.events(head) == ([], head)
    assert [event.seq for event in team.events(2, limit=3)[0]] == [3, 4, 5]
