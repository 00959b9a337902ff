"""Taking edits by hand over into the ledger: subject and body of tasks that are not final (decision 13)."""

from __future__ import annotations

import os
from typing import Any

from interlock.core.tasks.create import check_fields
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.doctor.findings import DoctorFinding
from interlock.errors import InterlockError
from interlock.mirror.render import body_of, log_entries, with_work_log
from interlock.model.names import HUMAN
from interlock.model.task import FINAL, STATES, Task
from interlock.storage.files import EDITED

ADOPTED = ".adopted-"


def adopt(workspace: Workspace) -> list[DoctorFinding]:
    """Take over every edit that is kept aside, the oldest first; those taken over are renamed to `.adopted-`."""
    findings = []
    for path in _kept(workspace.directory):
        task_id = os.path.basename(path).partition(EDITED)[0]
        try:
            taken = _take_over(workspace, task_id, path)
        except (InterlockError, OSError, ValueError) as error:
            findings.append(DoctorFinding("warning", f"The edit of {task_id} was not taken over: {error}", path))
            continue
        target = path.replace(EDITED, ADOPTED)
        os.rename(path, target)
        findings.append(DoctorFinding("info", f"The edit of {task_id} {taken}.", target, True))
    return findings


def _kept(directory: str) -> list[str]:
    """Edits kept aside in the directories of tasks, in the order they were made."""
    found = []
    for state in STATES:
        base = os.path.join(directory, "tasks", state)
        try:
            names = os.listdir(base)
        except OSError:
            continue
        found += [os.path.join(base, name) for name in names if EDITED in name and name.endswith(".md")]
    return sorted(found, key=lambda path: os.path.basename(path).partition(EDITED)[2])


def _take_over(workspace: Workspace, task_id: str, path: str) -> str:
    with open(path, "rb") as file:
        data = file.read()
    with workspace.act(Principal(HUMAN, face="doctor"), acknowledge=False) as act:
        task = act.rows.tasks.get(task_id)
        if task is None:
            raise ValueError("there is no such task.")
        if task.state in FINAL:
            raise ValueError(f"the task is {task.state}. Remove the file when it is not needed.")
        changes = _changes(act, task, data)
        if changes:
            act.rows.tasks.update(task, updated_at=act.at, **changes)
        act.event("mirror.adopted", task.id, path=path, fields=sorted(changes))
        act.topics.add("tasks")
    return f"was taken over ({' and '.join(sorted(changes))})" if changes else "says nothing new in subject or body"


def _changes(act: UnitOfWork, task: Task, data: bytes) -> dict[str, Any]:
    log = act.rows.tasks.log(task.id)
    fields, body = body_of(data, log)
    entries = log_entries(log)
    changed: dict[str, Any] = {}
    if "subject" in fields and fields["subject"] != task.subject:
        changed["subject"] = fields["subject"]
    # Compared as files show them, where blank lines at the ends do not count.
    if with_work_log(body, entries) != with_work_log(task.body, entries):
        changed["body"] = body
    return check_fields(act, **changed)
