"""Where the state documents of workflow runs are kept (BMAD-3.1, FR26, NFR7, decision 36).

The row is the truth. `save` writes it in the caller's transaction, so it commits together with the question or the
completion that it is about; `mirror` afterwards writes `<output_folder>/.workflow-state/<id>.json` from the row as it
is then, under a lock, so a late writer cannot bring back the past. Whatever becomes of the file (deleted, edited,
half of it lost), the next `mirror` or `rebuild` puts it right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from interlock.clock import iso
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidRequest, LedgerBusy, StorageError, WorkflowNotFound
from interlock.model.names import SYSTEM
from interlock.model.workflow import WorkflowRow
from interlock.storage.files import locked_directory
from interlock.storage.ledger import Ledger, Rows
from interlock.workflow.errors import StateConflict, StateUnreadable
from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState
from interlock.workflow.state.rows import SNAPSHOT, changes, split, whole

UNWRITTEN = "is safe in the ledger, but its file could not be written"
TRIES = 3
FIRST_PAUSE = 0.1
"""Seconds before the second try; doubled for the third."""


class WorkflowStateManager:
    """The state documents of one team. `clock` pauses between tries to write a file."""

    def __init__(self, ledger: Ledger, clock: Any) -> None:
        self._ledger = ledger
        self._clock = clock

    def load(self, rows: Rows, workflow_id: str) -> WorkflowState:
        """The newest state of that run.

        Raises:
            WorkflowNotFound: there is no such run.
            StateUnreadable: its document is damaged; the message offers to start again and says what would be lost.
        """
        row = rows.workflows.get(workflow_id)
        if row is None:
            raise WorkflowNotFound(
                f"No run {workflow_id!r}. `interlock workflow status` lists the runs.", workflow_id=workflow_id
            )
        return read_row(row)

    def save(self, act: UnitOfWork, state: WorkflowState) -> None:
        """Write the state as version `state.version + 1`, which it then has; a new run is inserted as version 1.

        Raises:
            StateConflict: the row has another version: somebody else has written since it was loaded.
        """
        before, updated = state.version, state.updated_at
        state.version, state.updated_at = before + 1, act.at
        state.created_at = state.created_at or act.at
        document, parts = split(state.as_dict())
        row = WorkflowRow(
            state.workflow_id, state.task_id, state.skill, state.state, state.outcome, state.version, document,
            state.created_at, act.at,
        )  # fmt: skip
        found = act.rows.workflows.get(state.workflow_id)
        written = act.rows.workflows.replace(row, before) if before else act.rows.workflows.insert(row)
        if not written:
            state.version, state.updated_at = before, updated
            now = "is gone" if found is None else f"has version {found.version}"
            raise StateConflict(
                f"Somebody else wrote the state of {state.workflow_id}: it {now}, this write was based on {before}. "
                "Read it again and repeat; nothing was written.",
                workflow_id=state.workflow_id,
                version=None if found is None else found.version,
            )
        act.rows.workflows.change_entries(state.workflow_id, *changes(found.entries if found else (), parts))
        act.topics.add("workflows")

    def list(
        self,
        rows: Rows,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> Sequence[WorkflowState]:
        """The runs, the newest first, at most `limit`; a damaged document is left out."""
        found = []
        for row in rows.workflows.select(skill=skill, task_id=task_id, open_only=open_only, limit=limit):
            try:
                found.append(read_row(row))
            except StateUnreadable:
                continue
        return found

    def mirror(self, state: WorkflowState) -> Sequence[str]:
        """Write the state's file, atomically, after the commit; three tries with growing pauses. It shows the newest
        row, which may be newer than `state`.

        Answers warnings instead of raising: the row stands, and the next save writes the file again (BMAD-3.1.4).
        """
        pause = FIRST_PAUSE
        for attempt in range(1, TRIES + 1):
            try:
                self._write(state)
                return []
            except (OSError, StorageError, InvalidRequest, LedgerBusy) as error:
                if attempt == TRIES or isinstance(error, InvalidRequest):
                    return [
                        f"The state of {state.workflow_id} {UNWRITTEN} "
                        f"after {attempt} tries: {error} The next save tries again."
                    ]
            self._clock.sleep(pause)
            pause *= 2
        return []

    def rebuild(self, state: WorkflowState) -> str | None:
        """Write the state's file again where it is missing, damaged or not what the row says; why, or null.

        Raises:
            StorageError: it cannot be written.
            InvalidRequest: the output folder lies outside the project.
        """
        path = state_path(state)
        found = files.get(path)
        if found == self._written(state):
            return None
        reason = "missing" if found is None else "outdated"
        try:
            json.loads("{}" if found is None else found)
        except ValueError:
            reason = "damaged"
        self._write(state)
        with self._ledger.transaction() as rows:
            said = {"workflow_id": state.workflow_id, "reason": reason, "path": path}
            rows.events.append("workflow.state_rebuilt", SYSTEM, state.task_id, iso(self._clock.now()), said)
        return reason

    def _write(self, state: WorkflowState) -> None:
        path = state_path(state)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with locked_directory(os.path.dirname(path)):
            data = self._written(state)
            # The same step again writes nothing (BMAD-E3.8).
            if data is not None and files.get(path) != data:
                files.put(path, data, named=False)

    def _written(self, state: WorkflowState) -> bytes | None:
        with self._ledger.snapshot() as rows:
            row = rows.workflows.get(state.workflow_id)
        return None if row is None else as_file(row)


def state_path(state: WorkflowState) -> str:
    """Where the state's file lies.

    Raises:
        InvalidRequest: outside the project, or the run's id is no file name.
    """
    name = state.workflow_id
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidRequest(f"{name!r} is no id of a workflow run.", field="workflow_id")
    folder = files.output_folder(state.plan.project, state.plan.output_folder)
    return files.inside(state.plan.project, os.path.join(folder, files.STATE_FOLDER, f"{name}.json"))


IN_FILE = ("checkpoints", "menu_history", "steps")
"""What a run has collected that its file shows; the rest is in the ledger only."""


def as_file(row: WorkflowRow) -> bytes:
    """Return a state as its file holds it: a line for each field, and for each entry of those that have several.

    Fully indented it would take ten times as long to write, at every step: only flat JSON is made in C.
    """
    document = whole(row.document, (one for one in row.entries if one.kind in IN_FILE))
    document["checkpoints"] = [
        {name: value for name, value in one.items() if name != SNAPSHOT} for one in document["checkpoints"]
    ]
    lines = ",\n".join(f"  {_flat(name)}: {_listed(value)}" for name, value in document.items())
    return f"{{\n{lines}\n}}\n".encode("utf-8", "replace")


def _listed(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"    {_flat(name)}: {_flat(one)}" for name, one in value.items()) + "\n  }"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(f"    {_flat(one)}" for one in value) + "\n  ]"
    return _flat(value)


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_row(row: WorkflowRow) -> WorkflowState:
    """The state a row holds.

    Raises:
        StateUnreadable: the document is damaged.
    """
    try:
        state = WorkflowState.from_dict(whole(row.document, row.entries))
        if (state.workflow_id, state.version) != (row.id, row.version):
            raise ValueError("it is the document of another run or version")
    except ValueError as error:
        done = row.document.get("completed_steps") if isinstance(row.document, dict) else None
        lost = [str(one) for one in done] if isinstance(done, list) else []
        listed = f"steps {', '.join(lost)} were done" if lost else "what was done is not known"
        raise StateUnreadable(
            f"The state of {row.id} is damaged and cannot be resumed ({error}). Start afresh with "
            f"`interlock workflow run {row.skill}`; its progress is lost to the engine ({listed}), the documents that "
            "it wrote are not.",
            workflow_id=row.id,
            skill=row.skill,
            lost=lost,
        ) from error
    return state
