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
from interlock.workflow.state import files, schema_1
from interlock.workflow.state.document import SCHEMA_VERSION, WorkflowState
from interlock.workflow.state.rows import Entries, as_json, changes, placed, read, split, whole

UNWRITTEN = "is safe in the ledger, but its file could not be written"
TRIES = 3
FIRST_PAUSE = 0.1
"""Seconds before the second try; doubled for the third."""


class WorkflowStateManager:
    """The state documents of one team. `clock` pauses between tries to write a file."""

    def __init__(self, ledger: Ledger, clock: Any) -> None:
        self._ledger = ledger
        self._clock = clock
        self._saved: tuple[WorkflowState, int, Entries] | None = None
        """The state that was saved last, its version, and its entries: as long as nobody else has written, which the
        version shows, they need not be read again."""

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
        entries = self._entries(act.rows, state, before)
        written = act.rows.workflows.replace(row, before) if before else act.rows.workflows.insert(row)
        if not written:
            state.version, state.updated_at = before, updated
            found = act.rows.workflows.get(state.workflow_id)
            now = "is gone" if found is None else f"has version {found.version}"
            raise StateConflict(
                f"Somebody else wrote the state of {state.workflow_id}: it {now}, this write was based on {before}. "
                "Read it again and repeat; nothing was written.",
                workflow_id=state.workflow_id,
                version=None if found is None else found.version,
            )
        after = placed(entries, parts)
        act.rows.workflows.change_entries(state.workflow_id, *changes(entries, after))
        self._saved = state, state.version, after
        act.topics.add("workflows")

    def _entries(self, rows: Rows, state: WorkflowState, version: int) -> Entries:
        """What the ledger has of that run's entries, if its row has that version."""
        if self._saved is not None and self._saved[0] is state and self._saved[1] == version:
            return self._saved[2]
        found = rows.workflows.get(state.workflow_id)
        return read(found.entries) if found is not None else {}

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

    An entry's line is what the ledger has of it: nothing is read and written again.
    """
    shown = {name: as_json(value) for name, value in row.document.items()}
    for kind in IN_FILE:
        if entries := [one for one in row.entries if one.kind == kind]:
            named = isinstance(row.document.get(kind), dict)
            lines = [f"    {as_json(one.key)}: {one.document}" if named else f"    {one.document}" for one in entries]
            begin, end = "{}" if named else "[]"
            shown[kind] = f"{begin}\n" + ",\n".join(lines) + f"\n  {end}"
    fields = ",\n".join([f"  {as_json(name)}: {text}" for name, text in shown.items()])
    return f"{{\n{fields}\n}}\n".encode("utf-8", "replace")


def read_row(row: WorkflowRow) -> WorkflowState:
    """The state a row holds.

    Raises:
        StateUnreadable: the document is damaged.
    """
    try:
        document = whole(row.document, row.entries)
        if document.get("schema_version") == schema_1.VERSION:
            document = {**schema_1.read(document), "schema_version": SCHEMA_VERSION}
        state = WorkflowState.from_dict(document)
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
