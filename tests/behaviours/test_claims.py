"""Two claims never both win, a run belongs to one session, and who lost it is told so (TEAM-2.4–2.6, decision 10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock, seconds
from interlock.errors import Forbidden, InvalidTransition, StaleRun, TaskAlreadyClaimed, UnmetDependencies

HOME = 1


def home_of(team: Team) -> Path:
    return Path(team.directory).parents[HOME]


@pytest.mark.req("TEAM-2.4")
def test_a_claim_sets_status_owner_and_time(timed: Team, clock: ManualClock) -> None:
    task = timed.create_task("T1")
    assert task.owner is None and task.status == "pending"
    clock.advance(5)
    claimed = timed.claim(task.id, by="ada")
    assert (claimed.status, claimed.state, claimed.owner) == ("in_progress", "in-progress", "ada")
    assert seconds(str(claimed.claimed_at)) == clock.now()
    assert claimed.run_id == f"{task.id}.1" and claimed.attempt == 1
    assert timed.members()[1].current_task == task.id


@pytest.mark.req("TEAM-2.5", "CORE-EC.3")
def test_a_task_that_somebody_holds_is_not_claimed_again(team: Team) -> None:
    task = team.create_task("T1")
    team.claim(task.id, by="bob")
    head = team.events()[1]
    for options in ({}, {"force": True}, {"take_over": True}):
        with pytest.raises(TaskAlreadyClaimed, match="Task already claimed by another agent") as refused:
            team.claim(task.id, by="ada", **options)
        assert refused.value.code == "task_already_claimed" and refused.value.details["owner"] == "bob"
    events = [event.type for event in team.events(head)[0]]
    assert not [type for type in events if type.startswith("task.")] and team.task(task.id).owner == "bob"


@pytest.mark.req("TEAM-2.6")
def test_a_task_with_open_blockers_is_not_claimed_under_the_strict_policy(team: Team) -> None:
    one = team.create_task("T1")
    two = team.create_task("T2", blocked_by=[one.id])
    with pytest.raises(UnmetDependencies, match="Task has unmet dependencies") as refused:
        team.claim(two.id, by="ada")
    assert refused.value.code == "unmet_dependencies"
    assert refused.value.details["blocked_by"] == [one.id]
    assert refused.value.as_dict()["blocked_by"] == [one.id]
    assert (team.task(two.id).state, team.task(two.id).owner) == ("backlog", None)
    assert team.next_task(by="ada").id == one.id  # type: ignore[union-attr]
    assert team.next_task(by="bob") is None


@pytest.mark.req("CORE-P4.1", "CORE-FR-013", "CORE-SC.4")
@pytest.mark.parametrize("way", ["soft policy", "force"])
@pytest.mark.parametrize("blockers", [1, 3])
def test_a_soft_claim_succeeds_with_a_warning_that_names_the_blockers(team: Team, way: str, blockers: int) -> None:
    if way == "soft policy":
        team.configure({"claim_policy": "soft"})
    open_ = [team.create_task(f"blocker {n}").id for n in range(blockers)]
    task = team.create_task("T2", blocked_by=open_)
    claimed = team.claim(task.id, by="ada", force=way == "force")
    assert (claimed.state, claimed.owner) == ("in-progress", "ada")
    assert all(id in claimed.warnings[0] for id in open_) and "unmet dependencies" in claimed.warnings[0]


@pytest.mark.req("CORE-P4.2", "CORE-FR-013")
def test_the_warning_stays_until_the_last_blocker_is_done(team: Team) -> None:
    one, two = team.create_task("one"), team.create_task("two")
    task = team.create_task("T", blocked_by=[one.id, two.id])
    team.claim(task.id, by="ada", force=True)
    assert one.id in team.task(task.id).warnings[0] and two.id in team.task(task.id).warnings[0]
    team.claim(one.id, by="bob")
    team.complete(one.id, by="bob")
    (left,) = team.task(task.id).warnings
    assert one.id not in left and two.id in left
    assert f'warnings: ["{left}"]' in (Path(team.directory) / "tasks" / "in-progress" / f"{task.id}.md").read_text()
    team.claim(two.id, by="bob")
    team.complete(two.id, by="bob")
    assert team.task(task.id).warnings == [] and team.task(task.id).state == "in-progress"


def test_a_reserved_task_is_for_its_assignee_only(team: Team) -> None:
    task = team.create_task("For bob", assignee="bob")
    for other in ("ada", "lead", "human"):
        with pytest.raises(Forbidden, match="reserved for bob"):
            team.claim(task.id, by=other, force=True)
    assert team.next_task(by="ada") is None
    assert team.next_task(by="bob").owner == "bob"  # type: ignore[union-attr]


@pytest.mark.req("TEAM-4.1", "CORE-EC.3", "TEAM-2.4")
def test_of_ten_that_claim_at_once_exactly_one_wins(team: Team, together: Callable[..., list[list[str]]]) -> None:
    team.configure({"member_limit": 20})
    members = [team.spawn(f"m{n}").name for n in range(10)]
    task = team.create_task("T1")
    answers = [lines[0] for lines in together("claim", *[(home_of(team), team.name, task.id, m) for m in members])]
    assert answers.count("claimed") == 1
    refused = [answer for answer in answers if answer != "claimed"]
    assert len(refused) == 9
    assert all(answer.startswith("task_already_claimed Task already claimed by another agent") for answer in refused)
    shown = team.task(task.id)
    assert shown.owner == members[answers.index("claimed")]
    assert [run.number for run in team.runs(task.id)] == [1]
    assert [event.type for event in team.events()[0]].count("task.claimed") == 1


@pytest.mark.req("CORE-EC.3")
def test_two_sessions_of_one_member_do_not_both_win(team: Team, together: Callable[..., list[list[str]]]) -> None:
    task = team.create_task("T1")
    answers = together("claim", *[(home_of(team), team.name, task.id, "ada", f"window-{n}") for n in range(2)])
    assert sorted(lines[0].split()[0] for lines in answers) == ["claimed", "task_already_claimed"]


def test_repeating_a_claim_release_or_completion_changes_nothing(team: Team) -> None:
    ada = team.acting("ada", session="s1")
    task = team.create_task("T1")
    for verb in (ada.claim, ada.release, ada.claim, ada.complete):
        first = verb(task.id)
        head = team.events()[1]
        assert verb(task.id).as_dict() == first.as_dict()
        assert [event for event in team.events(head)[0] if event.task_id] == []
    assert [run.outcome for run in team.runs(task.id)] == ["released", "done"]


def test_a_repeated_release_by_another_session_is_refused(team: Team) -> None:
    task = team.create_task("T1")
    team.acting("ada", session="s1").claim(task.id)
    team.acting("ada", session="s1").release(task.id)
    with pytest.raises(InvalidTransition):
        team.acting("ada", session="s2").release(task.id)
    with pytest.raises(InvalidTransition):
        team.release(task.id, by="bob")


def test_the_lead_may_repeat_what_it_did_for_somebody(team: Team) -> None:
    task = team.create_task("T1", review="human")
    team.claim(task.id, by="ada")
    team.release(task.id, by="lead")
    assert team.release(task.id, by="lead").state == "ready"
    team.claim(task.id, by="ada")
    assert team.complete(task.id).state == "review"
    assert team.complete(task.id).state == "review", "a human's repeated completion is no approval"
    assert team.approve(task.id).state == "done"
    assert team.complete(task.id).state == "done"


def test_a_second_session_is_refused_until_it_takes_over(team: Team) -> None:
    first, second = team.acting("ada", session="s1"), team.acting("ada", session="s2")
    task = team.create_task("T1")
    first.claim(task.id)
    with pytest.raises(TaskAlreadyClaimed, match="take-over"):
        second.claim(task.id)
    for verb in (second.complete, second.release, second.heartbeat):
        with pytest.raises(TaskAlreadyClaimed, match="take-over"):
            verb(task.id)
    assert second.claim(task.id, take_over=True).run_id == f"{task.id}.2"
    runs = team.runs(task.id)
    assert [(run.session, run.outcome) for run in runs] == [("s1", "superseded"), ("s2", None)]


def test_after_a_take_over_every_verb_of_the_first_session_is_stale(team: Team) -> None:
    first, second = team.acting("ada", session="s1"), team.acting("ada", session="s2")
    task = first.create_task("T1")
    first.claim(task.id)
    second.claim(task.id, take_over=True)
    head = team.events()[1]
    stale = {
        "complete": lambda: first.complete(task.id),
        "release": lambda: first.release(task.id),
        "heartbeat": lambda: first.heartbeat(task.id),
        "block": lambda: first.block(task.id, reason="stuck"),
        "update": lambda: first.update(task.id, subject="T1 again"),
        "log": lambda: first.update(task.id, log="still here"),
        "status": lambda: first.update(task.id, status="completed"),
        "cancel": lambda: first.cancel(task.id),
        "delete": lambda: first.delete(task.id),
        "assign": lambda: first.assign(task.id, to="bob"),
    }
    for name, verb in stale.items():
        with pytest.raises(StaleRun) as refused:
            verb()
        assert (refused.value.code, refused.value.details["current_run"]) == ("stale_run", 2), name
    assert team.events()[1] == head, "nothing was changed"


def test_a_session_that_gave_its_task_back_does_not_edit_it_once_another_of_the_same_member_has_it(team: Team) -> None:
    first, second = team.acting("ada", session="s1"), team.acting("ada", session="s2")
    task = team.create_task("T1")
    first.claim(task.id)
    first.release(task.id)
    second.claim(task.id)
    with pytest.raises(StaleRun):
        first.update(task.id, subject="T1 again")
    assert second.update(task.id, subject="T2").subject == "T2"
    assert second.complete(task.id).state == "done"


def test_a_worker_back_from_the_dead_does_not_overwrite_its_successor(team: Team) -> None:
    lost, successor = team.acting("ada", session="s1"), team.acting("bob", session="s2")
    task = team.create_task("T1")
    lost.claim(task.id)
    team.assign(task.id, to="bob")
    for verb in (lost.complete, lost.heartbeat):
        with pytest.raises(InvalidTransition):
            verb(task.id)
    successor.claim(task.id)
    for verb in (lost.complete, lost.heartbeat, lost.release):
        with pytest.raises(StaleRun):
            verb(task.id)
    assert successor.complete(task.id).owner == "bob"


def test_a_session_that_was_started_for_one_task_may_hold_another(team: Team) -> None:
    bob = team.acting("bob", session="s2", run=1)
    first, second = team.create_task("T1"), team.create_task("T2")
    for _ in range(2):
        bob.claim(first.id)
        bob.release(first.id)
    bob.claim(second.id)
    assert bob.claim(first.id).run == 3
    assert bob.update(first.id, log="going on").state == "in-progress"
    assert [bob.complete(task.id).state for task in (first, second)] == ["done", "done"]


def test_the_lead_may_act_for_an_owner_that_is_gone_though_it_once_held_the_task(team: Team) -> None:
    lead = team.acting("lead", session="l1")
    task = team.create_task("T1")
    lead.claim(task.id)
    lead.release(task.id)
    team.claim(task.id, by="ada")
    assert lead.release(task.id).state == "ready"


def test_a_take_over_in_review_is_refused(team: Team) -> None:
    task = team.create_task("T1", review="human")
    team.acting("ada", session="s1").claim(task.id)
    team.acting("ada", session="s1").complete(task.id)
    with pytest.raises(InvalidTransition, match="review"):
        team.acting("ada", session="s2").claim(task.id, take_over=True)


def test_a_status_update_to_in_progress_of_somebody_elses_task_is_refused(team: Team) -> None:
    task = team.create_task("T1")
    team.claim(task.id, by="bob")
    with pytest.raises(TaskAlreadyClaimed):
        team.update(task.id, status="in_progress", by="ada")
    assert team.update(task.id, status="in_progress", by="bob").owner == "bob"


def test_a_claim_by_hand_lasts_unless_the_team_says_otherwise(timed: Team, clock: ManualClock) -> None:
    one, two = timed.create_task("one"), timed.create_task("two")
    timed.claim(one.id, by="ada")
    timed.configure({"claim_ttl": 60})
    timed.claim(two.id, by="ada")
    assert timed.runs(one.id)[0].expires_at is None
    assert seconds(str(timed.runs(two.id)[0].expires_at)) == clock.now() + 60
    beaten = timed.heartbeat(two.id, by="ada")
    assert (beaten.beats, seconds(str(beaten.expires_at))) == (1, clock.now() + 300)
    clock.advance(86_400)
    assert timed.complete(one.id, by="ada").state == "done"


def test_nothing_is_forced_where_nothing_was_in_the_way(team: Team) -> None:
    team.create_task("T1")
    task = team.next_task(by="ada")
    assert task is not None and not task.warnings
    (claimed,) = [event for event in team.events()[0] if event.type == "task.claimed"]
    assert claimed.payload["forced"] is False


@pytest.mark.parametrize(("setting", "who"), [("nobody", "nobody goes"), ("lead", "only the lead or a human goes")])
def test_who_may_go_past_blockers_is_said_to_whoever_may_not(team: Team, setting: str, who: str) -> None:
    two = team.create_task("T2", blocked_by=[team.create_task("T1").id])
    team.configure({"force": setting})
    with pytest.raises(Forbidden, match=f"{who} past that .setting force: {setting}"):
        team.claim(two.id, by="ada", force=True)


def test_a_release_says_why_or_that_it_was_one(team: Team) -> None:
    task = team.create_task("T1").id
    for reason, told in (("no key", "no key"), (None, "released")):
        team.claim(task, by="ada")
        team.release(task, by="ada", reason=reason)
        moves = [event for event in team.events()[0] if event.type == "task.transitioned"]
        assert moves[-1].payload["reason"] == told


def test_who_gave_a_task_back_or_was_done_with_it_speaks_for_it_no_more(team: Team) -> None:
    task = team.create_task("T1").id
    ada, bob = team.acting("ada", session="a"), team.acting("bob", session="b")
    bob.claim(task)
    bob.release(task)
    ada.claim(task)
    with pytest.raises(StaleRun, match=r"Run 1 of .* was superseded by run 2"):
        bob.complete(task)
    ada.complete(task)
    with pytest.raises(InvalidTransition, match="is not claimed"):
        team.acting("bob", session="new").release(task)


def test_a_lead_that_lost_a_task_does_not_complete_it_for_its_successor(team: Team) -> None:
    task = team.create_task("T1").id
    lead = team.acting("lead", session="l")
    lead.claim(task)
    team.assign(task, to="ada")
    team.acting("ada", session="a").claim(task)
    with pytest.raises(StaleRun):
        lead.complete(task)
    assert team.acting("lead", session="another").complete(task).state == "done", "somebody must, where ada is gone"


def test_the_turn_of_a_task_is_that_of_the_queue(timed: Team, clock: ManualClock) -> None:
    from interlock.core.tasks.claim import turn

    timed.configure({"ageing": 100})
    tasks = []
    for priority in ("low", "critical", "normal", "high", "low", "critical"):
        tasks.append(timed.create_task(priority, priority=priority))
        clock.advance(70)
    order = [one.id for one in sorted(tasks, key=lambda one: turn(one, 100.0))]
    taken = [timed.next_task(by="ada") for _ in tasks]
    assert [one and one.id for one in taken] == order
