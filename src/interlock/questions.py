"""Questions to people: asked with an id, answered once, withdrawn when they lost their point.

The rows of questions and who may answer them. What asking and answering does to the task is in `tasks.answer`; the
guard in `tasks.transition` asks where whoever stopped did not.
"""

from __future__ import annotations

from interlock.errors import Forbidden, InvalidRequest, NotAwaitingResponse, QuestionNotFound
from interlock.model.question import GUARDED, Question
from interlock.model.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from interlock.ledger import Rows
    from interlock.sessions import Act

APPROVE = "approve"
CHANGES = "changes:"
AFTER_FAILURE = ("retry", "cancel")
"""What may become of a task in deadletter, by the answer to its escalation."""


def put(
    act: Act,
    task: Task,
    kind: str,
    text: str,
    *,
    options: Sequence[str] = (),
    default: str | None = None,
    context: str | None = None,
    held: bool = False,
    key: str | None = None,
    reversible: bool = False,
    data: Mapping[str, Any] | None = None,
) -> Question:
    """Store an open question about the task. One with the same key that is there already is answered instead."""
    if key is not None and (known := act.rows.questions.by_key(task.id, key)) is not None:
        return known
    question = Question(
        id=f"Q-{act.clock.new_id()[-12:]}",
        task_id=task.id,
        kind=kind,
        text=text,
        options=list(options),
        default=default,
        context=context,
        asked_at=act.at,
        asked_by=act.name,
        held=held,
        state="open",
        answer=None,
        answered_by=None,
        answered_at=None,
        key=key,
        reversible=reversible,
        session=task.session if held else None,
        run=task.run or None,
        data=dict(data or {}),
    )
    act.rows.questions.insert(question)
    act.event("question.asked", task.id, id=question.id, kind=kind, text=text, held=held)
    act.topics.add("questions")
    return question


def close(act: Act, question: Question, answer: str) -> None:
    """Write down the answer, who gave it, and by which way."""
    act.rows.questions.update(
        question,
        state="answered",
        answer=answer,
        answered_by=act.name,
        answered_at=act.at,
        answered_face=act.face,
        answered_session=act.session,
    )
    act.event("question.answered", question.task_id, id=question.id, kind=question.kind, answer=answer, face=act.face)
    act.topics.add("questions")


def withdraw(act: Act, task: Task, reason: str) -> None:
    """Close what was asked about the task and is no longer worth an answer."""
    for question in act.rows.questions.open(task.id):
        act.rows.questions.update(question, state="withdrawn", answered_at=act.at, answered_by=act.name)
        act.event("question.withdrawn", task.id, id=question.id, reason=reason)
        act.topics.add("questions")


def may_answer(act: Act, task: Task, question: Question, *, at_hand: bool) -> None:
    """Whether the actor may answer that question. `at_hand`: it is a person at the page, or at a terminal that no agent
    runs in.

    Raises:
        Forbidden: it may not; an agent never answers its own, and what guards the workspace is for people.
    """
    if not act.leads or (act.name == question.asked_by and act.role != "person"):
        raise Forbidden(
            f"Only a human or the lead may answer {question.id}, and nobody their own question.",
            question_id=question.id,
        )
    if question.kind in GUARDED and not (act.role == "person" and at_hand):
        raise Forbidden(
            f"{question.id} guards the workspace: a person answers it on the page, or with `interlock question reply` "
            "at a terminal outside of a run.",
            question_id=question.id,
            kind=question.kind,
        )


def question_of(rows: Rows, task: Task, question_id: str | None) -> Question:
    """The question a reply is for: the one named, else the only open one of the task, which a permission never is.

    Raises:
        QuestionNotFound: there is no such question about that task.
        NotAwaitingResponse: it is no longer open, or none is; `current` names the one that is.
        InvalidRequest: none was named, and it cannot be told which is meant.
    """
    waiting = rows.questions.open(task.id)
    current = waiting[0].as_dict() if waiting else None
    if question_id is not None:
        named = rows.questions.get(question_id)
        if named is None or named.task_id != task.id:
            raise QuestionNotFound(f"{task.id} has no question {question_id!r}.", question_id=question_id)
        if named.state == "open":
            return named
    elif waiting:
        if len(waiting) > 1 or waiting[0].kind == "permission":
            raise InvalidRequest(
                f"Say which question of {task.id} this answers: {', '.join(one.id for one in waiting)}.",
                field="question_id",
                current=current,
            )
        return waiting[0]
    raise NotAwaitingResponse(
        f"{task.id} waits for no such answer now; nothing was changed. `interlock question list` shows what is open.",
        task_id=task.id,
        current=current,
    )


def review_answer(text: str) -> tuple[bool, str]:
    """(approved, findings) of an answer to a review.

    Raises:
        InvalidRequest: it is neither `approve` nor `changes: …`.
    """
    word = text.strip()
    if word.lower() == APPROVE:
        return True, ""
    if word.lower().startswith(CHANGES) and word[len(CHANGES) :].strip():
        return False, word[len(CHANGES) :].strip()
    raise InvalidRequest("Answer a review with `approve` or `changes: what to change`.", field="reply")
