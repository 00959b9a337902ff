"""A session that asked and waits: it goes on with its own run, or its task is anybody's once it is gone."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.core.tasks.answer import hold, park, resume
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.errors import StaleRun


def test_a_held_session_resumes_its_own_run_once_and_no_other(team: Team) -> None:
    def resumed(session: str) -> None:
        with team._workspace.act(Principal("bob", session)) as act:
            resume(act, find(act.rows, task))

    window = team.acting("bob", session="w1")
    task = window.claim(team.create_task("Another").id).id
    team.reply(task, "80", question=window.ask(task, "Which port?", held=True).id)
    with pytest.raises(StaleRun, match="does not wait for this session"):
        resumed("w2")
    resumed("w1")
    seen = team.head()
    resumed("w1")
    assert team.head() == seen, "it goes on already"
    window.ask(task, "Which host?")
    with pytest.raises(StaleRun):
        resumed("w1")


@pytest.mark.parametrize("answered", [False, True])
def test_a_held_session_that_is_gone_leaves_its_task_to_a_new_run(team: Team, answered: bool) -> None:
    window = team.acting("bob", session="w1")
    task = window.claim(team.create_task("Another").id).id
    window.ask(task, "Which port?", held=True)
    window.ask(task, "Which host?")
    with team._workspace.act(Principal("bob", "w1")) as act:
        hold(act, find(act.rows, task))
    assert [(one.held, one.session) for one in team.questions()] == [(True, "w1")] * 2
    for question in team.questions() if answered else []:
        team.reply(task, "80", question=question.id)
    with team._workspace.act(Principal("bob", "w1")) as act:
        park(act, find(act.rows, task), "its program has ended")
    assert not any(one.held for one in team.questions())
    (run,) = team.runs(task)
    assert (run.outcome, run.reason) == ("awaiting-response", "its program has ended")
    assert [event.payload["reason"] for event in team.events()[0] if event.type == "run.parked"] == [run.reason]
    now = team.task(task)
    assert (now.state, now.reserved_for) == (("ready", None) if answered else ("awaiting-response", None))
    assert team.doctor().healthy
