"""Asking a person about a task, and what the answer does to it.

    in progress ──ask──> awaiting-response ──reply──> ready ──(held: the same session) resume──> the same run goes on
                                                        └──(parked, or its session is gone)──claim──> a new run

A question is *held* while the session that asked lives and waits: the answer is its next prompt. It is *parked* where
the run has ended: the task goes back to the queue, and the conversation is part of the next prompt (decision 24).
Further questions of a task wait behind the first. Reviews, merges and escalations are questions too; their answers do
what the verbs do.
"""

from __future__ import annotations

from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks import change, finish, merge, verify
from interlock.core.tasks.claim import must_hold
from interlock.core.tasks.review import author_lives
from interlock.core.tasks.transition import end_run, illegal, lease, move, waiting_state
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, InvalidRequest, StaleRun
from interlock.model.names import check_text
from interlock.model.question import KINDS, Question
from interlock.model.task import FINAL, HELD, WAITING, Task

TEXT_LIMIT = 10_000


def ask(
    act: UnitOfWork, task: Task, *, kind: str = "clarification", text: str, held: bool = False, **more: Any
) -> Question:
    """Ask a person about the task, which waits for the answer; one that waits already, or is in review or deadletter,
    stays where it is. `more`: `options`, `default`, `context`, `key`, `reversible`, `data` of `questions.put`.

    `held` says that the asking session lives and waits; the run stays open. Otherwise it ends here. With the `key` of
    an earlier question about the task, that question is answered and nothing is changed.

    Raises:
        Forbidden: the actor neither holds, made nor leads the task.
        InvalidTransition: the task is finished.
        InvalidRequest: an unknown kind, or a text that is empty or too long.
    """
    if kind not in KINDS:
        raise InvalidRequest(f"There is no kind of question {kind!r}; use one of: {', '.join(KINDS)}.", field="kind")
    check_text(text, "question", limit=TEXT_LIMIT, required=True)
    key = more.get("key")
    if key is not None and (known := act.rows.questions.by_key(task.id, key)) is not None:
        return known
    if task.state in FINAL:
        raise illegal(task, "has nothing left to ask about")
    if task.owner == act.name and task.state in HELD and not act.leads:
        must_hold(act, task)
    elif not act.leads and act.name not in (task.created_by, task.review):
        raise Forbidden(f"Only its owner, its creator, the lead or a human may ask about {task.id}.", task_id=task.id)
    draft = {**more, "kind": kind, "text": text, "held": held}
    if task.state in (*WAITING, "review", "deadletter"):
        return questions.put(act, task, **draft)
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if not held and (run is None or run.runner is None):
        end_run(act, task, "awaiting-response", text[: finish.SUMMARY_LIMIT])
    move(act, task, "awaiting-response", reason=f"asked: {text[:200]}", question=draft)
    return act.rows.questions.open(task.id)[-1]


def reply(act: UnitOfWork, task: Task, text: str, question_id: str | None, *, at_hand: bool) -> Task:
    """Answer a question about the task; see `questions.question_of` for which. `at_hand`: see `questions.may_answer`.

    Raises:
        QuestionNotFound, NotAwaitingResponse, AmbiguousId, InvalidRequest, Forbidden: nothing was changed.
    """
    check_text(text, "reply", limit=TEXT_LIMIT, required=True)
    question = questions.question_of(act.rows, task, question_id)
    if question.kind == "review" and verify.RETRY in question.options and text.strip().lower() == verify.RETRY:
        questions.may_answer(act, task, question, at_hand=at_hand)
        questions.close(act, question, verify.RETRY)
        return verify.retry(act, task)
    if question.kind == "review":
        approved, findings = questions.review_answer(text)
        if approved:
            return finish.approve(act, task)
        return finish.reject(act, task, findings, author_lives=author_lives(act, task))
    if question.kind == "escalation" and task.state == "deadletter":
        # Who may answer is who may do it: the verbs ask.
        word = text.strip().lower()
        if word not in questions.AFTER_FAILURE:
            raise InvalidRequest("Answer with `retry` or `cancel`.", field="reply")
        questions.close(act, question, word)
        return change.retry(act, task) if word == "retry" else change.cancel(act, task, reason="as a human decided")[0]
    questions.may_answer(act, task, question, at_hand=at_hand)
    text = _of_the_choices(question, text)
    questions.close(act, question, text)
    if question.kind == "limit" and text == "cancel":
        return change.cancel(act, task, reason=f"{act.name} did not let it continue past a limit")[0]
    if question.kind == "merge" and task.state == "review" and not task.under_way:
        merge.answer(act, task, text)
        return task
    return _go_on(act, task, question)


def retry(act: UnitOfWork, task: Task) -> Task:
    """Try again what has failed for good, or a check that could not start."""
    asked = [one for one in act.rows.questions.open(task.id) if one.kind == "review" and verify.RETRY in one.options]
    if not asked:
        return change.retry(act, task)
    return reply(act, task, verify.RETRY, asked[0].id, at_hand=False)


def take_default(act: UnitOfWork, task: Task, question: Question) -> Task:
    """Nobody answered in time, and whoever asked does not mind: the default is the answer (decision 26)."""
    if question.state != "open" or not question.reversible or question.default is None:
        raise InvalidRequest(f"{question.id} has no default that may be taken.", field="question_id")
    questions.close(act, question, question.default)
    return _go_on(act, task, question)


def resume(act: UnitOfWork, task: Task) -> Task:
    """The session that was held goes on with its run, now that its question is answered.

    Raises:
        StaleRun: the task went to somebody else meanwhile, or the run has ended.
    """
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and task.state == "in-progress" and (run.member, run.session) == (act.name, act.session):
        return task
    lost = run is None or run.ended_at is not None or (run.member, run.session) != (act.name, act.session)
    if run is None or lost or task.state not in ("ready", "backlog"):
        raise StaleRun(f"{task.id} does not wait for this session any more.", task_id=task.id)
    act.rows.runs.update(run, expires_at=lease(act, run.runner is not None or run.heartbeat_at is not None))
    move(
        act, task, "in-progress", reason="answered; the same session continues", owner=act.name, session=act.session,
        not_before=None, reserved=None,
    )  # fmt: skip
    return task


def hold(act: UnitOfWork, task: Task) -> None:
    """The session of the task's run lives, and waits for the answers to what was asked in it."""
    for question in act.rows.questions.open(task.id):
        if question.run == task.run and (not question.held or question.session != act.session):
            act.rows.questions.update(question, held=True, session=act.session)
            act.topics.add("questions")


def park(act: UnitOfWork, task: Task, reason: str) -> None:
    """The session that waited for the answers is gone: they begin a new run, or have come and begin it now."""
    held = [question for question in act.rows.questions.open(task.id) if question.held]
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if not held and run is not None and run.ended_at is not None:
        return  # It is parked: that the commit was made was not known.
    for question in held:
        act.rows.questions.update(question, held=False)
    end_run(act, task, task.state if task.state in WAITING else "awaiting-response", reason)
    act.event("run.parked", task.id, run=f"{task.id}.{task.run}", reason=reason)
    if task.state in ("ready", "backlog"):
        # Answered already, and kept for that session.
        act.rows.tasks.update(task, not_before=None, reserved=None, updated_at=act.at)
        act.topics.add("tasks")
    act.topics.add("questions")


def _of_the_choices(question: Question, text: str) -> str:
    """The answer to a question that something is decided by, as it is written there."""
    if question.kind not in ("permission", "limit"):
        return questions.among_options(question, text)
    word = text.strip().lower()
    if word not in question.options:
        raise InvalidRequest(f"Answer with one of: {', '.join(question.options)}.", field="reply")
    return word


def _go_on(act: UnitOfWork, task: Task, question: Question) -> Task:
    """The task goes on, unless it waits for another answer still."""
    waiting = [one for one in act.rows.questions.open(task.id) if not one.beside]
    if task.state not in WAITING or question.data.get("relayed"):
        return task
    if waiting:
        following = waiting[0]
        act.rows.tasks.update(task, output=following.text, context=following.context, updated_at=act.at)
        act.topics.add("tasks")
        return task
    owner, run = task.owner, act.rows.runs.get(task.id, task.run) if task.run else None
    held = question.held and question.session == task.session
    # The program of a runner's run has not ended yet: it goes on itself, or makes way when it ends.
    living = run is not None and run.ended_at is None and (held or run.runner is not None)
    changes: dict[str, Any] = {}
    if living:
        # Until then nobody else is given it; `resume` takes it up at once.
        changes = {"reserved": owner, "not_before": act.later(act.settings.get("held_grace"))}
    else:
        end_run(act, task, task.state)
        member = act.rows.team.member(owner) if owner is not None and (run is None or run.runner is None) else None
        if member is not None and member.status != "stopped":
            changes = {"reserved": owner}
    move(act, task, waiting_state(task), reason=f"answered by {act.name}", **changes)
    if owner is not None and (run is None or run.runner is None):
        said = f"Your question about {task.id} was answered.\n\n> {question.text}\n\n{question.answer}"
        notify(act, owner, said, summary=f"answer to {task.id}")
    return task
