"""Why a task goes no further: the same line where one task is shown, in the status and in the report, true after each
change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.core import workers
from interlock.core.tasks.claim import claim
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.processes.ref import current
from interlock.wakeup.inprocess import InProcessNotifier


def sign_on(home: Home, team: Team, name: str = "ci-1", process: str = "", **known: object) -> str:
    """Enter a worker that lives as long as this process."""
    process = process or current().as_text()
    with home.workspace(team.name).act(Principal(SYSTEM)) as act:
        workers.begin(act, process, name=name, **known)  # type: ignore[arg-type]
    return process


def why(team: Team, task: str) -> str | None:
    """The line of a task, which is the same everywhere that it is told."""
    found = team.task(task).why
    assert team.story(task).task.why == found
    status = team.status()
    assert all(one.why == found for one in (*status.next, *status.waiting) if one.task_id == task)
    assert all(found in (None, one.why) for one in team.report().left if one.task_id == task)
    return found


def test_a_task_waits_for_others_and_what_they_wait_for(team: Team) -> None:
    first, ada = team.create_task("Parse"), team.acting("ada", session="s")
    second = team.create_task("Test", blocked_by=[first.id])
    third = team.create_task("Ship", blocked_by=[second.id])
    assert why(team, second.id) == f"blocked by {first.id} (ready)"
    assert why(team, third.id) == f"blocked by {second.id}, blocked in turn by {first.id} (ready)"
    ada.claim(first.id)
    assert why(team, second.id) == f"blocked by {first.id} (in progress)"
    assert why(team, first.id) is None, "somebody is at it"
    ada.block(first.id, reason="the staging server is down")
    assert why(team, first.id) == "the staging server is down"
    ada.unblock(first.id)
    ada.complete(first.id)
    assert why(team, second.id) is None, "whoever likes may claim it"
    team.cancel(second.id)
    assert why(team, third.id) == f"blocked by {second.id} (cancelled)" and why(team, second.id) is None
    assert team.tasks(status="cancelled")[0].why is None


def test_a_task_waits_for_a_member_to_claim_or_review_it_or_for_an_answer(team: Team) -> None:
    task, ada = team.create_task("Parse", assignee="ada", review="bob"), team.acting("ada", session="s")
    assert why(team, task.id) == "waits for ada to claim it"
    team.configure({"member_parallel": 1})
    other = team.create_task("Other")
    ada.claim(other.id)
    assert why(team, task.id) == "ada: at 1, as many tasks as a member may be at"
    ada.complete(other.id)
    assert why(team, task.id) == "waits for ada to claim it"
    ada.claim(task.id)
    question = ada.ask(task.id, "Which grammar?")
    assert why(team, task.id) == "waits for an answer"
    team.reply(task.id, "LL", question=question.id)
    ada.claim(task.id)
    ada.complete(task.id)
    assert why(team, task.id) == "waits for review by bob"
    team.acting("bob", session="t").approve(task.id)
    assert why(team, task.id) is None


def test_a_ready_task_waits_for_a_worker_that_may_and_can_take_it(
    connect: Callable[..., Home], clock: ManualClock
) -> None:
    home = connect(clock=clock, notifier=InProcessNotifier())
    team = home.create_team("alpha")
    task = team.create_task("Train", run="true", labels=["gpu"])
    assert why(team, task.id) == "no worker with label gpu has been here yet"
    team.update(task.id, labels=[])
    assert why(team, task.id) == "nobody can take this: the team has no agent"
    team.spawn("ada", agent="shell")
    team.spawn("seat")
    assert why(team, task.id) == "no worker is running"
    team.assign(task.id, to="seat")
    assert why(team, task.id) == "this waits for seat, who has no agent that could begin it"
    team.assign(task.id, to=None)
    process = sign_on(home, team)
    assert why(team, task.id) is None, "it begins at any moment"
    team.pause()
    assert why(team, task.id) == "the team is paused"
    team.resume()
    team.pause("ada")
    assert why(team, task.id) == "ada is paused"
    team.resume("ada")
    team.set_worker("ci-1", "draining")
    at = team.workers()[0].status_at[11:16]
    said = why(team, task.id) or ""
    assert said.startswith("no worker takes new tasks: ci-1 has been draining since ") and said.endswith(f"{at}Z")
    team.set_worker("ci-1", "active")
    other = team.create_task("Other", run="true")
    with home.workspace("alpha").act(Principal("ada", session="s")) as act:
        claim(act, find(act.rows, other.id), runner=process)
    assert why(team, task.id) == f"ada is working on {other.id}"
    team.spawn("ben", agent="shell")
    team.configure({"parallel": 1})
    assert why(team, task.id) == "1 runs are open, and the limit is 1"
    team.acting("ada", session="s").complete(other.id)
    assert why(team, task.id) is None
    with home.workspace("alpha").act(Principal(SYSTEM)) as act:
        workers.end(act, "ci-1", process)
    assert (why(team, task.id) or "").startswith("no worker has been running since ")


def test_a_task_that_failed_waits_for_its_next_try(connect: Callable[..., Home], clock: ManualClock) -> None:
    home = connect(clock=clock, notifier=InProcessNotifier(), settings={"retry_delay": 600})
    team = home.create_team("alpha")
    team.spawn("ada", agent="shell")
    task = team.create_task("Flaky", run="false")
    with home.workspace("alpha").act(Principal(SYSTEM)) as act:
        found = act.rows.tasks.get(task.id)
        assert found is not None
        act.rows.tasks.update(found, not_before=act.later(600), failures=2)
    at = str(team.task(task.id).not_before)[11:16]
    assert (why(team, task.id) or "").endswith(f"{at}Z") and "failed 2 times; next try at " in str(why(team, task.id))
    clock.advance(601)
    assert why(team, task.id) == "no worker is running"


def test_a_check_that_was_stopped_is_told_apart_from_one_that_runs(team: Team, home: Home) -> None:
    task, ada = team.create_task("Parse", verify="true"), team.acting("ada", session="s")
    ada.claim(task.id)
    with home.workspace(team.name).act(Principal("ada", session="s")) as act:
        found = act.rows.tasks.get(task.id)
        assert found is not None
        act.rows.tasks.update(found, state="review", verifying={"process": current().as_text(), "token": "x"})
    assert why(team, task.id) == "its check is running"
    gone = replace(current(), pid=2**22 + 1).as_text()
    with home.workspace(team.name).act(Principal("ada", session="s")) as act:
        found = act.rows.tasks.get(task.id)
        assert found is not None
        act.rows.tasks.update(found, verifying={"process": gone, "token": "x"})
    assert (why(team, task.id) or "").startswith("its check was stopped; ")
