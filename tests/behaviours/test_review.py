"""Whoever did the work does not judge it, and every stay in review has somebody (contract, Task states)."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest, InvalidTransition, NotAwaitingResponse, QuestionNotFound


def reviewed(team: Team, review: str, session: str | None = None) -> str:
    task = team.create_task("Write it", review=review)
    ada = team.acting("ada", session=session)
    ada.claim(task.id)
    assert ada.complete(task.id, summary="Here it is").state == "review"
    return task.id


def test_a_task_without_a_value_or_with_none_is_done_at_once(team: Team) -> None:
    for review in (None, "none"):
        task = team.create_task("Write it", review=review)
        team.claim(task.id, by="ada")
        assert team.complete(task.id, by="ada").state == "done"


def test_the_named_member_is_told_and_decides(team: Team) -> None:
    task = reviewed(team, "bob")
    assert team.questions() == []
    (asked,) = team.read("bob")
    assert (asked.type, asked.sender) == ("task_assignment", "ada") and task in asked.content
    with pytest.raises(Forbidden):
        team.approve(task, by="ada")
    assert team.approve(task, by="bob").state == "done"
    with pytest.raises(InvalidTransition):
        team.approve(task, by="bob")
    assert [run.outcome for run in team.runs(task)] == ["done"]


def test_completing_a_task_in_review_is_the_reviewers_approval(team: Team) -> None:
    task = reviewed(team, "bob")
    assert team.complete(task, by="bob").state == "done"
    assert team.complete(task, by="bob").state == "done", "again it changes nothing"


def test_a_human_is_asked_by_a_question_and_only_people_answer_it(team: Team) -> None:
    task = reviewed(team, "human")
    (question,) = team.questions()
    assert (question.task_id, question.kind, question.context) == (task, "review", "Here it is")
    assert team.task(task).question["id"] == question.id  # type: ignore[index]
    for other in ("bob", "lead"):
        with pytest.raises(Forbidden):
            team.approve(task, by=other)
    assert team.reply(task, "approve", question=question.id).state == "done"
    assert team.questions() == []
    with pytest.raises(NotAwaitingResponse):
        team.reply(task, "approve", question=question.id)
    with pytest.raises(QuestionNotFound):
        team.reply(task, "approve", question="Q-unknown")


def test_an_author_named_as_its_own_reviewer_is_reviewed_by_a_human(team: Team) -> None:
    task = reviewed(team, "ada")
    assert [question.task_id for question in team.questions()] == [task]
    with pytest.raises(Forbidden):
        team.approve(task, by="ada")
    assert team.approve(task).state == "done"


def test_changes_go_back_to_a_living_author_in_a_new_run(team: Team) -> None:
    task = reviewed(team, "bob", session="s1")
    again = team.reject(task, reason="too short", by="bob")
    assert (again.state, again.owner, again.run, again.findings) == ("in-progress", "ada", 2, "too short")
    assert [run.outcome for run in team.runs(task)] == ["done", None]
    assert "too short" in team.read("ada")[-1].content
    assert team.acting("ada", session="s1").complete(task).state == "review"


def test_changes_wait_for_an_author_who_is_not_there(team: Team) -> None:
    task = reviewed(team, "bob")
    again = team.reject(task, reason="too short", by="bob")
    assert (again.state, again.owner, again.reserved_for) == ("ready", None, "ada")
    with pytest.raises(Forbidden):
        team.claim(task, by="bob")
    assert team.next_task(by="bob") is None
    claimed = team.next_task(by="ada")
    assert claimed is not None and (claimed.id, claimed.findings) == (task, "too short")


def test_a_reply_answers_a_review_in_two_ways_only(team: Team) -> None:
    task = reviewed(team, "human")
    for text in ("yes", "changes:", "changes:  ", ""):
        with pytest.raises(InvalidRequest, match=r"approve|must not be empty"):
            team.reply(task, text)
    assert team.reply(task, "changes: shorter").state == "ready"
    assert team.task(task).findings == "shorter"


def test_a_rejection_needs_a_reason(team: Team) -> None:
    task = reviewed(team, "bob")
    with pytest.raises(InvalidRequest):
        team.reject(task, reason=" ", by="bob")


def test_another_reviewer_can_be_named_while_it_waits(team: Team) -> None:
    task = reviewed(team, "bob")
    team.update(task, review="human")
    assert [question.task_id for question in team.questions()] == [task]
    team.update(task, review="lead")
    assert team.questions() == []
    assert "review" in team.read("lead")[-1].content
    assert team.approve(task, by="lead").state == "done"


def test_a_question_is_withdrawn_with_its_task(team: Team) -> None:
    task = reviewed(team, "human")
    team.cancel(task)
    assert team.questions() == []
    assert [e.payload["reason"] for e in team.events()[0] if e.type == "question.withdrawn"] == [
        "the task went to cancelled"
    ]


def test_a_verify_comes_before_the_review(team: Team) -> None:
    task = team.create_task("Write it", review="human", verify="true")
    team.claim(task.id, by="ada")
    waiting = team.complete(task.id, by="ada")
    assert waiting.state == "review" and waiting.check is not None and waiting.check["passed"]
    assert len(team.questions()) == 1
    assert team.approve(task.id).state == "done"
