"""Who waits for whom: both ends know, completion unblocks, cycles are refused, broken blockers are shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.errors import (
    DependencyCycle,
    Forbidden,
    InvalidRequest,
    InvalidTransition,
    TaskNotFound,
    UnmetDependencies,
)


def states(team: Team, *ids: str) -> list[str]:
    return [team.task(id).state for id in ids]


def finish(team: Team, task_id: str) -> None:
    team.claim(task_id, by="ada")
    team.complete(task_id, by="ada")


@pytest.mark.req("TEAM-2.2", "CORE-FR-009")
def test_a_task_knows_what_it_waits_for_and_what_it_blocks(team: Team) -> None:
    one, two = team.create_task("one"), team.create_task("two")
    three = team.create_task("three", blocked_by=[one.id, two.id, one.id])
    assert (three.state, three.status, three.blocked_by) == ("backlog", "pending", [one.id, two.id])
    assert team.task(one.id).blocks == team.task(two.id).blocks == [three.id]
    shown = (Path(team.directory) / "tasks" / "backlog" / f"{three.id}.md").read_text()
    assert f'blocked_by: ["{one.id}", "{two.id}"]' in shown
    with pytest.raises(TaskNotFound):
        team.create_task("four", blocked_by=["TASK-2026-01-01-777"])
    with pytest.raises(InvalidRequest):
        team.create_task("four", blocked_by=three.id)
    assert len(team.tasks()) == 3


@pytest.mark.req("TEAM-2.8", "CORE-FR-010", "CORE-P3.1", "CORE-SC.3")
def test_completing_a_task_unblocks_all_that_waited_for_it(team: Team) -> None:
    root = team.create_task("root")
    waiting = [team.create_task(f"task {n}", blocked_by=[root.id]).id for n in range(5)]
    other = team.create_task("other")
    both = team.create_task("both", blocked_by=[root.id, other.id])
    team.claim(root.id, by="ada")
    assert team.task(root.id).blocks == [*waiting, both.id]
    team.complete(root.id, by="ada")
    assert states(team, *waiting, both.id) == ["ready"] * 5 + ["backlog"]
    assert all(root.id not in task.blocked_by for task in team.tasks())
    assert team.task(both.id).blocked_by == [other.id]
    assert team.task(root.id).blocks == []
    assert all(team.claim(id, by="bob").owner == "bob" for id in waiting)
    met = [event.task_id for event in team.events()[0] if event.type == "dependency.met"]
    assert met == [*waiting, both.id]


@pytest.mark.req("CORE-P3.2", "CORE-SC.3", "TEAM-4.4")
def test_a_chain_unblocks_link_by_link(team: Team) -> None:
    chain = [team.create_task("link 0").id]
    for number in range(1, 8):
        chain.append(team.create_task(f"link {number}", blocked_by=[chain[-1]]).id)
    for place, link in enumerate(chain):
        assert states(team, *chain) == ["done"] * place + ["ready"] + ["backlog"] * (7 - place)
        finish(team, link)
    assert states(team, *chain) == ["done"] * 8


@pytest.mark.req("TEAM-4.4")
def test_a_graph_is_worked_off_by_many_without_a_deadlock(team: Team, together: Callable[..., list[list[str]]]) -> None:
    # A depends on B and B on C, as in the specification; and around it a wide graph of forty tasks.
    c = team.create_task("C").id
    b = team.create_task("B", blocked_by=[c]).id
    a = team.create_task("A", blocked_by=[b]).id
    ids = [c]
    for number in range(40):
        ids.append(
            team.create_task(f"task {number}", blocked_by=[ids[i] for i in range(len(ids)) if number % (i + 2) == 0]).id
        )
    finished = together(
        "work", *[(Path(team.directory).parents[1], team.name, member) for member in ("ada", "bob", "lead")]
    )
    assert sorted(itertools.chain.from_iterable(finished)) == sorted([*ids, b, a]), "each was done once, by one"
    done_at = {
        event.task_id: event.seq
        for event in team.events()[0]
        if event.type == "task.transitioned" and event.payload["to"] == "done"
    }
    claimed_at = {event.task_id: event.seq for event in team.events()[0] if event.type == "task.claimed"}
    assert all(done_at[blocker] < claimed_at[blocked] for blocker, blocked in team.graph()[1])


@pytest.mark.req("TEAM-2.10", "CORE-FR-012", "CORE-SC.5")
def test_an_edge_that_would_close_a_circle_is_refused(team: Team) -> None:
    one = team.create_task("one")
    two = team.create_task("two", blocked_by=[one.id])
    three = team.create_task("three", blocked_by=[two.id])
    head = team.events()[1]
    for task, on in ((one.id, three.id), (one.id, two.id), (two.id, three.id), (one.id, one.id)):
        with pytest.raises(DependencyCycle) as refused:
            team.depend(task, on=on)
        cycle = refused.value.details["cycle"]
        assert refused.value.code == "dependency_cycle"
        assert cycle[0] == cycle[-1] == task and on in cycle
        assert all(id in refused.value.message for id in cycle)
    assert team.events()[1] == head and team.graph()[1] == [(one.id, two.id), (two.id, three.id)]
    assert states(team, one.id, two.id, three.id) == ["ready", "backlog", "backlog"]


@pytest.mark.req("CORE-SC.5", "CORE-FR-012")
def test_of_every_ordered_pair_exactly_those_are_refused_that_close_a_circle(team: Team) -> None:
    ids = [team.create_task(f"task {n}").id for n in range(6)]
    reachable: dict[str, set[str]] = {id: {id} for id in ids}  # what waits for it, itself too
    for blocker, blocked in [(ids[(7 * n) % 6], ids[(5 * n + n // 6) % 6]) for n in range(36)]:
        if blocker in reachable[blocked]:
            with pytest.raises(DependencyCycle):
                team.depend(blocked, on=blocker)
        else:
            team.depend(blocked, on=blocker)
            for after in reachable.values():
                if blocker in after:
                    after |= reachable[blocked]


def test_a_dependency_can_be_added_and_taken_away(team: Team) -> None:
    one, two = team.create_task("one"), team.create_task("two")
    assert team.depend(two.id, on=one.id).state == "backlog"
    head = team.events()[1]
    assert team.depend(two.id, on=one.id).blocked_by == [one.id]
    assert team.events()[1] == head, "again it changes nothing"
    assert team.depend(two.id, on=one.id, remove=True).state == "ready"
    head = team.events()[1]
    team.depend(two.id, on=one.id, remove=True)
    assert team.events()[1] == head
    finish(team, one.id)
    assert team.depend(two.id, on=one.id).state == "ready", "a done task never blocks"
    finish(team, two.id)
    with pytest.raises(InvalidTransition):
        team.depend(two.id, on=team.create_task("three").id)


def test_a_task_at_work_that_gets_a_blocker_keeps_its_owner_and_is_warned(team: Team) -> None:
    one, two = team.create_task("one"), team.create_task("two")
    team.claim(two.id, by="bob")
    warned = team.depend(two.id, on=one.id)
    assert (warned.state, warned.owner) == ("in-progress", "bob")
    assert one.id in warned.warnings[0]
    assert team.release(two.id, by="bob").state == "backlog"


@pytest.mark.req("CORE-EC.4")
@pytest.mark.parametrize("end", ["deleted", "cancelled", "deadletter"])
def test_a_broken_blocker_unblocks_nobody_by_itself_and_is_shown(team: Team, end: str) -> None:
    team.configure({"verify_rounds": 1})
    root = team.create_task("root", verify="false" if end == "deadletter" else None)
    waiting = team.create_task("waiting", blocked_by=[root.id])
    if end == "deleted":
        team.delete(root.id)
    elif end == "cancelled":
        team.cancel(root.id)
    else:
        finish(team, root.id)
    shown = team.task(waiting.id)
    assert (shown.state, shown.blocked_by) == ("backlog", [root.id])
    said = {"deleted": "was deleted", "cancelled": "was cancelled", "deadletter": "failed"}[end]
    assert any(root.id in warning and said in warning for warning in shown.warnings), shown.warnings
    warnings = [event for event in team.events()[0] if event.type == "task.warning" and event.task_id == waiting.id]
    assert [event.payload["task"] for event in warnings] == [root.id]
    assert any(need.kind == "broken" and need.task_id == waiting.id for need in team.status().needs_me)
    freed = team.depend(waiting.id, on=root.id, remove=True)
    assert (freed.state, freed.warnings) == ("ready", [])


def test_a_blocker_in_deadletter_unblocks_once_it_is_retried_and_done(team: Team) -> None:
    team.configure({"verify_rounds": 1})
    root = team.create_task("root", verify="false")
    waiting = team.create_task("waiting", blocked_by=[root.id])
    finish(team, root.id)
    team.retry(root.id)
    assert team.task(waiting.id).warnings == []
    team.update(root.id, verify=None)
    finish(team, root.id)
    assert team.task(waiting.id).state == "ready"


@pytest.mark.req("CORE-EC.4")
def test_dependencies_survive_reassignment_and_release(team: Team) -> None:
    root = team.create_task("root")
    waiting = team.create_task("waiting", blocked_by=[root.id])
    team.claim(root.id, by="ada")
    team.assign(root.id, to="bob")
    assert team.task(waiting.id).blocked_by == [root.id] and team.task(root.id).blocks == [waiting.id]
    team.claim(root.id, by="bob")
    team.release(root.id, by="bob")
    assert team.task(waiting.id).state == "backlog"
    team.claim(root.id, by="bob")
    team.complete(root.id, by="bob")
    assert team.task(waiting.id).state == "ready"


def test_cancelling_with_cascade_takes_all_that_waits_along_and_warns_nobody(team: Team) -> None:
    a = team.create_task("a")
    c = team.create_task("c", blocked_by=[a.id])
    b = team.create_task("b", blocked_by=[a.id])
    d = team.create_task("d", blocked_by=[c.id])
    team.depend(c.id, on=b.id)
    aside = team.create_task("aside")
    cancelled = team.cancel(a.id, cascade=True, reason="no longer wanted")
    assert cancelled[0].id == a.id
    assert {task.id for task in cancelled} == {a.id, b.id, c.id, d.id}
    assert states(team, a.id, b.id, c.id, d.id, aside.id) == ["cancelled"] * 4 + ["ready"]
    assert not [event for event in team.events()[0] if event.type == "task.warning"]
    assert team.cancel(a.id) and states(team, a.id) == ["cancelled"], "again it changes nothing"


def test_cascade_needs_the_right_to_each_task_and_a_task_that_is_not_done(team: Team) -> None:
    mine = team.create_task("mine", by="ada")
    other = team.create_task("other", blocked_by=[mine.id], by="lead")
    with pytest.raises(Forbidden, match=other.id):
        team.cancel(mine.id, cascade=True, by="ada")
    assert states(team, mine.id, other.id) == ["ready", "backlog"]
    finish(team, mine.id)
    with pytest.raises(InvalidTransition):
        team.cancel(mine.id, cascade=True)
    assert states(team, mine.id, other.id) == ["done", "ready"]


def test_an_edge_is_removed_by_who_made_it_the_lead_or_a_person(team: Team) -> None:
    first, second = team.create_task("first").id, team.create_task("second", by="bob").id
    for maker in ("lead", "human", "bob"):
        team.depend(second, on=first, by=maker)
        with pytest.raises(Forbidden, match=f"only {maker}, the lead or a human") as refused:
            team.depend(second, on=first, remove=True, by="ada")
        assert refused.value.details["created_by"] == maker and team.task(second).blocked_by == [first]
        assert team.depend(second, on=first, remove=True, by=maker).blocked_by == []
    team.depend(second, on=first, by="ada")
    assert team.depend(second, on=first, by="bob").blocked_by == [first], "repeated it stays ada's"
    with pytest.raises(Forbidden):
        team.depend(second, on=first, remove=True, by="bob")
    assert team.depend(second, on=first, remove=True, by="lead").blocked_by == []
    third = team.create_task("third", blocked_by=[first], by="ada").id
    with pytest.raises(Forbidden):
        team.depend(third, on=first, remove=True, by="bob")
    assert team.depend(third, on=first, remove=True, by="ada").blocked_by == []
    assert team.depend(third, on=first, remove=True, by="bob").blocked_by == [], "there is none to remove"


@pytest.mark.parametrize(("force", "may"), [(None, {"ada", "lead", "human"}), ("members", {"ada", "lead", "human"}),
                                            ("lead", {"lead", "human"}), ("nobody", set())])  # fmt: skip
def test_the_setting_force_says_who_claims_past_open_blockers(team: Team, force: str | None, may: set[str]) -> None:
    if force is not None:
        team.configure({"force": force})
    first = team.create_task("first").id
    for by in ("ada", "lead", "human"):
        task = team.create_task("second", blocked_by=[first]).id
        with pytest.raises(UnmetDependencies) as unmet:
            team.claim(task, by=by)
        assert ("--force" in unmet.value.message) is (by in may), "what is not allowed is not advised"
        if by in may:
            assert team.claim(task, force=True, by=by).owner == by
        else:
            with pytest.raises(Forbidden, match=f"setting force: {force}"):
                team.claim(task, force=True, by=by)
            assert team.task(task).owner is None
    with pytest.raises(InvalidRequest):
        team.configure({"force": "everybody"})


def test_a_task_waits_until_the_last_of_its_blockers_is_done(team: Team) -> None:
    blockers = [team.create_task("First").id for _ in range(3)]
    task = team.create_task("Then", blocked_by=blockers).id
    for blocker in blockers:
        assert team.task(task).state == "backlog"
        team.claim(blocker, by="ada")
        team.complete(blocker, by="ada")
    assert team.task(task).state == "ready"
    assert team.claim(task, by="ada").warnings == []
