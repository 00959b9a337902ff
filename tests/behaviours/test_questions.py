"""Questions: asked with an id, shown one at a time, answered once and by whom it may be, held or parked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import (
    AmbiguousId,
    Forbidden,
    InvalidRequest,
    InvalidTransition,
    NotAwaitingResponse,
    QuestionNotFound,
)
from interlock.runner.recovery_scan import LivenessProbe
from interlock.runner.scheduler import Scheduler


@pytest.fixture
def held(team: Team) -> str:
    """A task that ada holds."""
    return team.claim(team.create_task("Deploy").id, by="ada").id


def test_an_answered_question_puts_the_task_back_for_who_asked(team: Team, held: str) -> None:
    question = team.ask(held, "Which port?", options=["80", "8080"], context="Both are free.", by="ada")
    task = team.task(held)
    assert (task.state, task.owner, task.output) == ("awaiting-response", "ada", "Which port?")
    assert team.runs(held)[-1].outcome == "awaiting-response", "nobody of that session waits"
    assert task.question == question.as_dict() and question.options == ["80", "8080"]
    back = team.reply(held, "80", question=question.id)
    assert (back.state, back.reserved_for, back.question) == ("ready", "ada", None)
    assert "Which port?" in team.read("ada")[-1].content
    assert team.claim(held, by="ada").run_id == f"{held}.2"


def test_further_questions_wait_behind_the_first(team: Team, held: str) -> None:
    first = team.ask(held, "Which port?", by="ada")
    second = team.ask(held, "Which host?", by="ada")
    assert [one.id for one in team.questions()] == [first.id, second.id]
    shown = team.task(held).question
    assert shown is not None and shown["id"] == first.id
    with pytest.raises(AmbiguousId, match=f"{first.id} “Which port.*{second.id} “Which host") as refused:
        team.reply(held, "80")
    assert refused.value.details["candidates"] == [first.id, second.id]
    waiting = team.reply(held, "80", question=first.id)
    assert (waiting.state, waiting.output) == ("awaiting-response", "Which host?")
    assert waiting.question is not None and waiting.question["id"] == second.id
    assert team.reply(held, "localhost").state == "ready"


def test_a_reply_cannot_hit_another_question(team: Team, held: str) -> None:
    first = team.ask(held, "Which port?", by="ada")
    team.unblock(held, by="ada")
    assert team.task(held).state == "in-progress", "ada found its own way out"
    second = team.ask(held, "Which host?", by="ada")
    with pytest.raises(NotAwaitingResponse) as refused:
        team.reply(held, "80", question=first.id)
    assert refused.value.details["current"]["id"] == second.id
    other = team.create_task("Another")
    with pytest.raises(QuestionNotFound):
        team.reply(other.id, "80", question=second.id)
    with pytest.raises(NotAwaitingResponse):
        team.reply(other.id, "80")
    assert [one.id for one in team.questions()] == [second.id]


def test_who_comes_late_is_told_who_answered_with_what_and_what_is_open_now(team: Team, held: str) -> None:
    first = team.ask(held, "Which port?", by="ada")
    second = team.ask(held, "Which host?", by="ada")
    team.reply(held, "80", question=first.id, by="lead")
    for named in (first.id, first.id[-5:]):
        with pytest.raises(NotAwaitingResponse) as refused:
            team.reply(held, "8080", question=named)
        assert f"{first.id} “Which port?” of {held} was answered by lead at 20" in refused.value.message
        assert "with “80”" in refused.value.message
        assert (
            f"interlock question reply {held} TEXT --question {second.id} --team alpha-squad" in refused.value.message
        )
        assert refused.value.details["question"]["answer"] == "80"
        assert refused.value.details["current"]["id"] == second.id
    team.reply(held, "localhost", question=second.id[-5:])
    with pytest.raises(NotAwaitingResponse, match=r"“Which host.*answered by human at .* with “localhost”"):
        team.reply(held, "8080")
    assert [one.answer for one in team.conversation(held)] == ["80", "localhost"]


def test_nobody_answers_their_own_question_and_members_answer_none(team: Team, held: str) -> None:
    question = team.ask(held, "Which port?", by="ada")
    for member in ("ada", "bob"):
        with pytest.raises(Forbidden):
            team.reply(held, "80", question=question.id, by=member)
    assert team.reply(held, "80", question=question.id, by="lead").state == "ready"


def test_a_permission_is_for_a_person_outside_of_a_run(team: Team, held: str, home: Home) -> None:
    question = team.ask(held, "May I delete build/?", kind="permission", options=["yes", "no"], by="ada")
    with pytest.raises(InvalidRequest, match=question.id):
        team.reply(held, "yes")
    with pytest.raises(Forbidden):
        team.reply(held, "yes", question=question.id, by="lead")
    with pytest.raises(Forbidden):
        home.team("alpha-squad").acting("human", face="mcp").reply(held, "yes", question=question.id)
    # What an agent starts carries the mark of its run, also where a program in between dropped it.
    verb = [
        sys.executable,
        "-m",
        "interlock.surfaces.cli",
        "--home",
        home.path,
        "--json",
        "question",
        "reply",
        held,
        "yes",
    ]
    verb += ["--question", question.id, "--team", "alpha-squad"]
    marked = {**os.environ, "INTERLOCK_RUN_TOKEN": "t", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    inner = (
        "import os, subprocess, sys\n"
        "env = {name: value for name, value in os.environ.items() if name != 'INTERLOCK_RUN_TOKEN'}\n"
        f"sys.exit(subprocess.run({verb!r}, env=env).returncode)"
    )
    for words in (verb, [sys.executable, "-c", inner]):
        refused = subprocess.run(words, env=marked, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and '"forbidden"' in refused.stderr
    free = {name: value for name, value in marked.items() if name != "INTERLOCK_RUN_TOKEN"}
    assert subprocess.run(verb, env=free, capture_output=True, timeout=60).returncode == 0
    (event,) = [event for event in team.events()[0] if event.type == "question.answered"]
    assert (event.actor, event.payload["face"], event.payload["answer"]) == ("human", "cli", "yes")


def test_asking_the_same_again_by_its_key_is_the_same_question(home: Home, team: Team, held: str) -> None:
    from interlock.core.tasks.answer import ask
    from interlock.core.tasks.find import find
    from interlock.core.unit_of_work import Principal

    workspace = team._workspace  # type: ignore[attr-defined]
    asked = []
    for _ in range(2):
        with workspace.act(Principal("ada")) as act:
            asked.append(ask(act, find(act.rows, held), text="Which port?", key="w1/3/1/1").id)
    team.reply(held, "80")
    with workspace.act(Principal("ada")) as act:
        again = ask(act, find(act.rows, held), text="Which port?", key="w1/3/1/1")
    assert asked == [again.id] * 2 and again.answer == "80" and not again.held
    assert team.task(held).state == "ready", "it was not asked again"


def test_a_held_session_goes_on_with_its_run_and_nobody_else_is_given_it(home: Home, team: Team, held: str) -> None:
    from interlock.core.tasks.answer import resume
    from interlock.core.tasks.find import find
    from interlock.core.unit_of_work import Principal

    window = team.acting("bob", session="w1")
    task = window.claim(team.create_task("Another").id).id
    question = window.ask(task, "Which port?", held=True)
    assert question.held
    answered = team.reply(task, "80", question=question.id)
    assert answered.state == "ready" and [run.ended_at for run in team.runs(task)] == [None]
    assert team.acting("bob", session="w2").next_task() is None, "it is kept for the session that asked"
    with team._workspace.act(Principal("bob", "w1")) as act:  # type: ignore[attr-defined]
        resume(act, find(act.rows, task))
    going = team.task(task)
    assert (going.state, going.owner, going.run_id) == ("in-progress", "bob", f"{task}.1")
    assert team.runs(task)[-1].expires_at is None, "a claim by hand lasts, as it did before"
    assert window.complete(task).state == "done"


def test_a_session_that_was_held_is_no_longer_once_it_asks_without_waiting(team: Team) -> None:
    window = team.acting("bob", session="w1")
    task = window.claim(team.create_task("Another").id).id
    first, second = window.ask(task, "Which port?", held=True), window.ask(task, "Which host?")
    team.reply(task, "80", question=first.id)
    assert [run.ended_at for run in team.runs(task)] == [None]
    back = team.reply(task, "here", question=second.id)
    assert (back.state, back.reserved_for, back.not_before) == ("ready", "bob", None)
    assert [run.ended_at is None for run in team.runs(task)] == [False]
    assert team.doctor().healthy


def test_what_a_session_asked_and_waits_for_is_not_that_of_the_one_that_took_over(team: Team) -> None:
    task = team.create_task("Another").id
    team.acting("bob", session="w1").claim(task)
    question = team.acting("bob", session="w1").ask(task, "Which port?", held=True)
    team.acting("bob", session="w2").claim(task, take_over=True)
    back = team.reply(task, "80", question=question.id)
    assert (back.state, back.reserved_for) == ("ready", "bob")
    assert [run.ended_at is None for run in team.runs(task)] == [False, False]


def test_a_default_is_taken_only_where_there_is_one_and_the_asker_does_not_mind(team: Team, held: str) -> None:
    from interlock.core.tasks.answer import take_default
    from interlock.core.tasks.find import find
    from interlock.core.unit_of_work import Principal

    for more in ({"default": "80"}, {"reversible": True}):
        question = team.ask(held, "Which port?", by="ada", **more)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="no default"), team._workspace.act(Principal("human")) as act:  # type: ignore[attr-defined]
            take_default(act, find(act.rows, held), question)
        assert len(team.questions()) == 1
        team.reply(held, "8080")
        team.claim(held, by="ada")


def test_past_its_time_a_held_task_is_an_ordinary_new_run(connect: Callable[..., Home], clock: Any) -> None:
    from interlock.wakeup.inprocess import InProcessNotifier

    team = connect(clock=clock, notifier=InProcessNotifier()).create_team("beta")
    team.spawn("bob")
    window = team.acting("bob", session="w1")
    task = window.claim(team.create_task("Deploy").id).id
    question = window.ask(task, "Which port?", held=True)
    team.reply(task, "80", question=question.id)
    clock.advance(61)
    taken = team.acting("bob", session="w2").next_task()
    assert taken is not None and taken.run_id == f"{task}.2"
    assert [run.ended_at is None for run in team.runs(task)] == [False, True]
    assert team.doctor().healthy


def test_two_replies_at_once_count_once(home: Home, team: Team, held: str) -> None:
    question = team.ask(held, "Which port?", by="ada")
    other = interlock.connect(home.path)
    try:
        assert other.team("alpha-squad").reply(held, "80", question=question.id).state == "ready"
        with pytest.raises(NotAwaitingResponse):
            team.reply(held, "8080", question=question.id)
    finally:
        other.close()
    assert [one.answer for one in team.conversation(held)] == ["80"]


def waiting(connect: Callable[..., Home], clock: Any, **question: Any) -> tuple[Team, str]:
    from interlock.wakeup.inprocess import InProcessNotifier

    team = connect(clock=clock, notifier=InProcessNotifier()).create_team("beta")
    team.spawn("bob")
    task = team.claim(team.create_task("Deploy").id, by="bob").id
    team.ask(task, "Which port?", by="bob", **question)
    return team, task


def polled(team: Team) -> list[str]:
    return [action.type for action in team.poll().actions]


def test_with_nobody_awake_a_default_is_taken_where_the_asker_does_not_mind(
    connect: Callable[..., Home], clock: Any
) -> None:
    team, task = waiting(connect, clock, default="8080", reversible=True)
    clock.advance(901)
    assert polled(team) == [], "somebody is awake"
    team.configure({"unattended": True})
    assert polled(team) == ["take_default"]
    assert team.task(task).state == "ready"
    (exchange,) = team.conversation(task)
    assert (exchange.answer, exchange.answered_by) == ("8080", "interlock")
    assert polled(team) == []


def test_a_default_that_matters_is_never_taken(connect: Callable[..., Home], clock: Any) -> None:
    team, task = waiting(connect, clock, default="8080")
    team.configure({"unattended": True})
    clock.advance(100_000)
    assert polled(team) == [], "a single poll reminds nobody"
    eyes = LivenessProbe()
    eyes.own = "a runner"
    lasting = Scheduler(team._workspace, probe=eyes)  # type: ignore[attr-defined]
    assert [one.type for one in lasting.poll().actions] == ["remind"]
    assert lasting.poll().actions == []
    assert team.task(task).state == "awaiting-response"
    clock.advance(3_601)
    assert [one.type for one in lasting.poll().actions] == ["remind"]
    (reminded, again) = [event for event in team.events()[0] if event.type == "question.reminded"]
    assert reminded.payload["id"] == again.payload["id"] == team.questions()[0].id


@pytest.fixture
def failed(team: Team) -> str:
    """A task in deadletter: its check failed too often."""
    team.configure({"verify_rounds": 1})
    task = team.claim(team.create_task("Deploy", verify="echo no; exit 3").id, by="ada").id
    assert team.complete(task, by="ada").state == "deadletter"
    return task


def test_a_task_that_failed_for_good_asks_what_is_to_become_of_it(team: Team, failed: str) -> None:
    [question] = team.questions()
    assert (question.kind, question.task_id, question.options) == ("escalation", failed, ["retry", "cancel"])
    assert "no" in str(question.context) and team.task(failed).question == question.as_dict()
    with pytest.raises(InvalidRequest, match="retry"):
        team.reply(failed, "go on")
    with pytest.raises(Forbidden):
        team.reply(failed, "retry", by="ada")
    assert [need.kind for need in team.status().needs_me] == ["deadletter"], "it is listed once"


@pytest.mark.parametrize(("answer", "state"), [("retry", "ready"), ("Cancel", "cancelled")])
def test_its_answer_does_what_the_verb_does(team: Team, failed: str, answer: str, state: str) -> None:
    assert team.reply(failed, answer).state == state
    assert team.questions() == []
    with pytest.raises(NotAwaitingResponse):
        team.reply(failed, answer)


def test_what_else_is_asked_about_a_failed_task_is_answered_in_words(team: Team, failed: str) -> None:
    escalation, other = team.questions()[0], team.ask(failed, "Why did it fail?")
    assert team.reply(failed, "No disk.", question=other.id).state == "deadletter"
    assert [one.id for one in team.questions()] == [escalation.id]
    team.reply(failed, "retry", question=escalation.id)
    answers = {one.id: (one.answer, one.answered_by) for one in team.conversation(failed)}
    assert answers == {other.id: ("No disk.", "human"), escalation.id: ("retry", "human")}


def test_a_retry_answers_no_review(team: Team) -> None:
    task = team.claim(team.create_task("Publish", review="human").id, by="ada").id
    team.complete(task, by="ada")
    with pytest.raises(InvalidTransition, match="is not in deadletter"):
        team.retry(task)


def test_a_retry_by_its_verb_withdraws_the_question(team: Team, failed: str) -> None:
    [question] = team.questions()
    assert team.retry(failed).question is None and team.questions() == []
    with pytest.raises(NotAwaitingResponse):
        team.reply(failed, "retry", question=question.id)


def test_a_reason_is_the_same_whatever_time_it_took_and_whichever_task_it_names(team: Team) -> None:
    ids = [team.create_task(f"Part {n}").id for n in range(4)]
    said = ["{}: 3 failed in 0.41s at 2026-01-02T10:11:12.5Z", "{}: 3 failed in 12.04s at 2026-01-03T00:00:01Z",
            "{}: 4 failed in 0.41s at 2026-01-02T10:11:12Z", "no module in /work/{}/src, 0x7f3a"]  # fmt: skip
    tasks = [replace(team.task(id), output=one.format(id)) for id, one in zip(ids, said, strict=True)]
    assert tasks[0].cause == tasks[1].cause and tasks[0].output != tasks[1].output
    assert len({task.cause for task in tasks}) == 3, "another number of failures is another reason"
    assert replace(tasks[0], output=None).cause is None


def test_all_that_failed_for_the_same_reason_is_retried_at_once(team: Team, failed: str) -> None:
    other = team.claim(team.create_task("Deploy again", verify="echo no; exit 3").id, by="ada").id
    odd = team.claim(team.create_task("Deploy elsewhere", verify="echo no; exit 4").id, by="ada").id
    for task in (other, odd):
        team.complete(task, by="ada")
    with pytest.raises(Forbidden):
        team.retry_alike(other, by="ada")
    assert {task.id for task in team.retry_alike(other)} == {other, failed}
    assert [team.task(id).state for id in (failed, other, odd)] == ["ready", "ready", "deadletter"]
    with pytest.raises(InvalidTransition):
        team.retry_alike(other)


def test_what_is_said_beside_a_question_is_its_context(team: Team) -> None:
    task = team.claim(team.create_task("Deploy").id, by="ada").id
    asked = team.ask(task, "Which port?", context="80 is taken.", by="ada")
    assert (asked.text, asked.context) == ("Which port?", "80 is taken.")
    assert team.questions()[0].context == "80 is taken."
    assert team.ask(task, "Which host?", by="ada").context is None
