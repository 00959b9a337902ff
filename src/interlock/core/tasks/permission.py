"""Permissions that a person gives: what the history says of them, and those that a program asks for at its own prompt.

A program that a person started asks at its terminal. What it relays is asked here as well, once for each request; its
prompt stays open, and whoever answers first decides. So nothing waits for that question: its task goes on, and an
answer that comes too late does nothing. A program says nothing when it was answered at its own prompt.
"""

from __future__ import annotations

from interlock.core import questions, sessions
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import UnitOfWork
from interlock.model.question import Question

ALLOW, REFUSE = "allow", "refuse"
TITLE_CHARS = 500
SHOWN_CHARS = 2000


def relay(act: UnitOfWork, request: str, *, tool: str, title: str, preview: str = "") -> Question | None:
    """Ask a person what the act's session asks at its own prompt, about the task that it works on; None where it works
    on none. The same request asks once."""
    held = sessions.unreported(act)
    if not held:
        return None
    task = find(act.rows, held[-1][0])
    key = f"relayed:{act.session}:{request}"
    if (known := act.rows.questions.by_key(task.id, key)) is not None:
        return known
    question = questions.put(
        act, task, "permission", f"May {act.name} use {tool}: {title[:TITLE_CHARS]}?", options=(ALLOW, REFUSE),
        context=preview[:SHOWN_CHARS] or None, held=True, key=key,
        data={"relayed": True, "tool": tool, "title": title[:TITLE_CHARS], "paths": []},
    )  # fmt: skip
    asked(act, question, task.run_id)
    return question


def relayed_by(question: Question | None, member: str, session: str | None) -> bool:
    """Whether that session of the member relayed the question."""
    if question is None or not question.data.get("relayed"):
        return False
    return (question.asked_by, question.session) == (member, session)


def asked(act: UnitOfWork, question: Question, run: str | None) -> None:
    """Note in the history which permission a person is asked for."""
    act.event(
        "permission.asked", question.task_id, id=question.id, run=run, tool=question.data.get("tool"),
        title=question.data.get("title"), paths=question.data.get("paths"),
    )  # fmt: skip


def use(act: UnitOfWork, question: Question, run: str | None) -> str:
    """Note that a person's answer was used for that run; the answer."""
    act.rows.questions.update(question, data={**question.data, "used": True})
    act.event(
        "permission.answered", question.task_id, id=question.id, answer=question.answer, by=question.answered_by,
        face=question.answered_face, run=run, tool=question.data.get("tool"), paths=question.data.get("paths"),
    )  # fmt: skip
    return (question.answer or "").strip().lower()
