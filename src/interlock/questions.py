"""Questions to people: asked with an id, answered once, withdrawn when they lost their point.

So far the reviews of tasks ask here (`tasks.finish`); this module lists what is open and takes the answers.
"""

from __future__ import annotations

from interlock.errors import InvalidRequest, NotAwaitingResponse, QuestionNotFound
from interlock.model.question import Question
from interlock.model.task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.ledger import Rows

APPROVE = "approve"
CHANGES = "changes:"


def open_questions(rows: Rows) -> list[Question]:
    """Everything that waits for a person, oldest first."""
    return rows.questions.open()


def question_of(rows: Rows, task: Task, question_id: str | None) -> Question:
    """The question a reply is for: the one named, else the only open one of the task.

    Raises:
        QuestionNotFound: there is no such question about that task.
        NotAwaitingResponse: it is no longer open, or none is; `current` names the one that is.
    """
    waiting = rows.questions.open(task.id)
    if question_id is not None:
        named = rows.questions.get(question_id)
        if named is None or named.task_id != task.id:
            raise QuestionNotFound(f"{task.id} has no question {question_id!r}.", question_id=question_id)
        if named.state == "open":
            return named
    if question_id is not None or not waiting:
        current = waiting[0].as_dict() if waiting else None
        raise NotAwaitingResponse(
            f"{task.id} waits for no such answer now; nothing was changed. "
            "`interlock question list` shows what is open.",
            task_id=task.id,
            current=current,
        )
    return waiting[0]


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
