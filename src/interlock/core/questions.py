"""Questions to people: asked with an id, answered once, withdrawn when they lost their point.

The rows of questions and who may answer them. What asking and answering does to the task is in `tasks.answer`; the
guard in `tasks.transition` asks where whoever stopped did not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import AmbiguousId, Forbidden, InvalidRequest, NotAwaitingResponse, QuestionNotFound
from interlock.model.question import APPROVE, GUARDED, Question, changes_asked, reply_command
from interlock.model.task import Task
from interlock.model.text import gist
from interlock.storage.ledger import Rows

AFTER_FAILURE = ("retry", "cancel")
"""What may become of a task in deadletter, by the answer to its escalation."""
SHORT_ID = re.compile(r"(?:Q-)?[0-9a-f]{3,12}")


def put(
    act: UnitOfWork,
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


def close(act: UnitOfWork, question: Question, answer: str) -> None:
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


def withdraw(act: UnitOfWork, task: Task, reason: str) -> None:
    """Close what was asked about the task and is no longer worth an answer."""
    for question in act.rows.questions.open(task.id):
        withdraw_one(act, question, reason)


def withdraw_one(act: UnitOfWork, question: Question, reason: str) -> None:
    """Close a question that is no longer worth an answer."""
    act.rows.questions.update(question, state="withdrawn", answered_at=act.at, answered_by=act.name)
    act.event("question.withdrawn", question.task_id, id=question.id, reason=reason)
    act.topics.add("questions")


def may_answer(act: UnitOfWork, task: Task, question: Question, *, at_hand: bool) -> None:
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
    """The question a reply is for: the one named, by its id or by how that alone ends, else the only open one of the
    task, which a permission never is.

    Raises:
        QuestionNotFound: there is no such question about that task.
        NotAwaitingResponse: it is no longer open (`question` says what came of it), or none is; `current` is the one
            that is open now.
        AmbiguousId: none was named and several are open, or the end of an id fits several; `candidates` lists them.
        InvalidRequest: none was named, and a permission is not given in passing.
    """
    waiting = rows.questions.open(task.id)
    current = waiting[0].as_dict() if waiting else None
    if question_id is not None:
        named = _named(rows, task, question_id)
        if named.state == "open":
            return named
        raise NotAwaitingResponse(
            f"{_came_of(named)} Nothing was changed. {_open_now(rows, task, waiting)}",
            task_id=task.id,
            question=named.exchange(),
            current=current,
        )
    if len(waiting) > 1:
        raise AmbiguousId(
            f"{len(waiting)} questions of {task.id} are open; say with --question (`question_id`) which this answers: "
            f"{', '.join(f'{one.id} “{gist(one.text)}”' for one in waiting)}.",
            candidates=[one.id for one in waiting],
            current=current,
        )
    if waiting and waiting[0].kind == "permission":
        raise InvalidRequest(
            f"A permission is given to one request and no other: name it. {_open_now(rows, task, waiting)}",
            field="question_id",
            current=current,
        )
    if waiting:
        return waiting[0]
    last = next((one for one in reversed(rows.questions.of_task(task.id)) if one.state == "answered"), None)
    raise NotAwaitingResponse(
        f"{task.id} waits for no answer; nothing was changed. {f'{_came_of(last)} ' if last else ''}"
        "`interlock question list` shows what is open.",
        task_id=task.id,
        question=last.exchange() if last else None,
        current=None,
    )


def _named(rows: Rows, task: Task, question_id: str) -> Question:
    """The task's question with that id, or whose id alone ends so; those that are closed count, since it is they that
    an answer which comes late names."""
    known = rows.questions.of_task(task.id)
    ends = question_id.removeprefix("Q-") if SHORT_ID.fullmatch(question_id) else None
    found = [one for one in known if one.id == question_id]
    found = found or [one for one in known if ends is not None and one.id.endswith(ends)]
    if not found:
        raise QuestionNotFound(
            f"{task.id} has no question {question_id[:40]!r}. {_open_now(rows, task, rows.questions.open(task.id))}",
            question_id=question_id,
        )
    if len(found) > 1:
        fits = [one.id for one in found]
        raise AmbiguousId(
            f"{question_id!r} fits {len(fits)} questions; type more of the id: {', '.join(fits)}.", candidates=fits
        )
    return found[0]


def _came_of(question: Question) -> str:
    """What became of a question that is no longer open, in a sentence."""
    at = f"{str(question.answered_at)[:16].replace('T', ' ')} UTC"
    asked = f"{question.id} “{gist(question.text)}” of {question.task_id}"
    if question.state == "answered":
        return f"{asked} was answered by {question.answered_by} at {at} with “{gist(question.answer or '')}”."
    return f"{asked} was withdrawn at {at}: it needs no answer any more."


def _open_now(rows: Rows, task: Task, waiting: Sequence[Question]) -> str:
    """Which question of the task is open, and how to answer it."""
    if not waiting:
        return f"No question of {task.id} is open now."
    first = waiting[0]
    command = reply_command(first.id, task.id, rows.team.get().name, choices=first.choices)
    return f"Open now: {first.id} “{gist(first.text)}”; `{command}`."


def among_options(question: Question, text: str) -> str:
    """The answer as it is written among the options, whatever its case; else as it was given."""
    word = text.strip().casefold()
    return next((option for option in question.options if option.strip().casefold() == word), text)


def in_own_words(question: Question) -> str | None:
    """That an answer is none of those that were offered, to be told to whoever gave it; null where it is, or where none
    were. A kind that something is decided by refuses such an answer."""
    offered, said = question.options, question.answer
    if question.kind in ("review", "merge") or not offered or said is None or said in offered:
        return None
    return f"“{gist(said)}” is none of the answers offered ({', '.join(offered)}); it was passed on in your own words."


def review_answer(text: str) -> tuple[bool, str]:
    """(approved, findings) of an answer to a review.

    Raises:
        InvalidRequest: it is neither `approve` nor `changes: …`.
    """
    if text.strip().lower() == APPROVE:
        return True, ""
    if findings := changes_asked(text):
        return False, findings
    raise InvalidRequest("Answer a review with `approve` or `changes: what to change`.", field="reply")
