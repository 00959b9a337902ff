"""A task as every face and the mirror show it: its row, and what follows from the rows around it."""

from __future__ import annotations

from interlock.model.task import AOF, BROKEN, FINAL, HELD, Task
from interlock.storage.ledger import Rows

ASKED = (HELD - {"in-progress"}) | {"deadletter"}
"""States in which a question may be open; a task that goes to work withdraws its own."""


def complete(rows: Rows, tasks: list[Task]) -> list[Task]:
    """Fill in what is not in a task's own row: its open blockers, whom it blocks, its warnings and its question."""
    by_id = {task.id: task for task in tasks}
    blockers: dict[str, list[tuple[str, str]]] = {}
    blocks: dict[str, list[str]] = {}
    linked = [task.id for task in tasks if task.linked]
    for blocker, state, blocked, blocked_state in dict.fromkeys(rows.graph.edges_of(linked)):
        # What is done, cancelled or deleted waits for nothing any more.
        if state != "done" and blocked_state not in FINAL:
            if blocked in by_id:
                blockers.setdefault(blocked, []).append((blocker, state))
            if blocker in by_id:
                blocks.setdefault(blocker, []).append(blocked)
    asked = {}
    if not ASKED.isdisjoint([task.state for task in tasks]):
        questions = rows.questions.open(tasks[0].id if len(tasks) == 1 else None)
        for question in reversed(questions):
            asked[question.task_id] = question.as_dict()
    for task in tasks:
        waiting = blockers.get(task.id, [])
        task.blocked_by = [id for id, _ in waiting]
        task.blocks = blocks.get(task.id, [])
        task.question = asked.get(task.id)
        for name, (column, _) in AOF.items():
            if (value := getattr(task, column)) is not None:
                task.metadata = {**task.metadata, name: value}
        task.warnings = _warnings(task, waiting)
    return tasks


def show(rows: Rows, task: Task) -> Task:
    """`task`, whole."""
    return complete(rows, [task])[0]


def _warnings(task: Task, waiting: list[tuple[str, str]]) -> list[str]:
    if task.state in FINAL or not waiting:
        return []
    found = []
    if task.soft:
        found.append(f"Claimed with unmet dependencies: {', '.join(id for id, _ in waiting)}")
    found += [
        f"Blocked by {id}, which {BROKEN[state]}: retry or replace it, or remove the dependency"
        for id, state in waiting
        if state in BROKEN
    ]
    return found
