"""Going back to a checkpoint, state and files, and taking that back (BMAD-3.7, FR61, decision 35).

What is about to be replaced is copied first; then the state is written, with the rollback noted as pending; then the
files are put in place; then it is noted as done. Whatever kills it in between, `finish` does the rest, and it may be
called at any time. When the files cannot be put in place, everything is taken back and the state is as before.

`<output>/.rollback-archive/<time>/` holds `rollback.json`, the journal, and under `files/` every file as it was before,
which the resumed run does not use; the run's repository holds the same contents. The journal is written first, so
putting the files in place may be killed and repeated (BMAD-3.7.7): a file that is neither as it was nor as it should be
belongs to somebody else by now, and is left alone.

What becomes of a run's task when the run goes back to a checkpoint: it is to be taken up again from there.

Makes the checkpoints of a run, and brings an interrupted step back to its own: for `engine.ports.Checkpoints`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.clock import iso
from interlock.core.tasks.create import create
from interlock.core.tasks.transition import end_run, move, waiting_state
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import InterlockError, InvalidRequest, StorageError
from interlock.model.json import Json, fields_of
from interlock.model.task import FINAL
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state import files, queue
from interlock.workflow.state.checkpoints import KEPT, MOST, SNAPSHOT, credit, manifest_of, number_of, restored, show
from interlock.workflow.state.document import (
    RUNNING,
    TERMINAL,
    WAITING_USER,
    CheckpointRow,
    RollbackNote,
    StepId,
    WorkflowState,
)
from interlock.workflow.state.rollback_plan import CHANGED, EVERYTHING, Preview, preview
from interlock.workflow.state.snapshots import Snapshots, current, sha_of
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

JOURNAL = "rollback.json"
MEANWHILE = "changed by somebody meanwhile"


@dataclass
class Item:
    """One file: the ids of the content that it has and is to have, null for no file, and its modes now and then."""

    path: str
    have: str | None
    want: str | None
    mode: int | None = None
    had_mode: int | None = None


@dataclass
class Journal:
    """One rollback, or the undoing of one. `document` is the state before it."""

    workflow_id: str
    kind: str
    at: str
    step: Any
    checkpoint: str
    document: Json
    items: list[Item] = field(default_factory=list)


class Archive:
    """One directory below `.rollback-archive`. `name` is its own."""

    def __init__(self, state: WorkflowState, name: str) -> None:
        self.name = name
        self.project = state.plan.project
        self._snapshots = Snapshots(self.project, state.plan.output_folder, state.workflow_id)
        self.path = os.path.join(self._snapshots.output, files.ARCHIVE_FOLDER, name)

    def write(self, journal: Journal) -> None:
        """Keep the files as they are, and then the journal.

        Raises:
            StorageError, OSError: the file system refused.
            ValueError: a file changed while it was copied.
        """
        for item in journal.items:
            if item.have is None:
                continue
            data, found = files.get(files.inside(self.project, item.path)), current(self.project, item.path)
            if data is None or found is None or files.sha(data) != item.have:
                raise ValueError(f"{item.path} is being changed just now")
            item.had_mode = found.mode
            files.put(os.path.join(self.path, "files", *item.path.split("/")), data, item.had_mode)
            self._snapshots.keep(data)
        files.put(os.path.join(self.path, JOURNAL), json.dumps(asdict(journal), ensure_ascii=False, indent=1).encode())

    def read(self) -> Journal:
        """The journal.

        Raises:
            ValueError: it is gone or damaged, or of an earlier version.
        """
        data = files.get(os.path.join(self.path, JOURNAL))
        try:
            found: Mapping[str, Any] = json.loads(data or b"")
            if "source" in found:
                raise ValueError(f"{self.name}/{JOURNAL} was written by an earlier version of Interlock")
            return Journal(**{**found, "items": [Item(**one) for one in found["items"]]})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the journal {self.name}/{JOURNAL} is gone or damaged ({error})") from error

    def check(self, journal: Journal) -> None:
        """Read every content that `journal` needs.

        Raises:
            ValueError: one is gone or damaged.
        """
        for _ in self._snapshots.contents(item.want for item in journal.items if item.want is not None):
            continue

    def carry_out(self, journal: Journal) -> list[str]:
        """Put the files in place; answers those that were left because somebody changed them.

        Raises:
            ValueError: a content is missing or damaged.
            StorageError: what is done so far stays; repeat it, or carry the reverse out.
        """
        left, due = [], dict[str, list[Item]]()
        for item in journal.items:
            now = sha_of(self.project, item.path)
            if now == item.want:
                continue
            if now != item.have:
                left.append(item.path)
            elif item.want is None:
                files.drop(files.inside(self.project, item.path))
            else:
                due.setdefault(item.want, []).append(item)
        for sha, data in self._snapshots.contents(due):
            for item in due[sha]:
                if sha_of(self.project, item.path) == item.have:
                    files.put(files.inside(self.project, item.path), data, item.mode)
                else:
                    left.append(item.path)
        return left

    @staticmethod
    def reverse(journal: Journal, at: str) -> Journal:
        """The journal that takes this one back, once it was carried out."""
        items = [Item(one.path, one.want, one.have, one.had_mode) for one in journal.items if one.want != one.have]
        return Journal(journal.workflow_id, "undo", at, journal.step, journal.checkpoint, {}, items)


def stamp(at: str, taken: Iterable[str]) -> str:
    """A directory's name for that time, other than those `taken`."""
    base = at.replace("-", "").replace(":", "")
    names, number, name = set(taken), 1, base
    while name in names:
        number += 1
        name = f"{base}-{number}"
    return name


WAITS = ("awaiting-response", "blocked")


def settle(act: UnitOfWork, before: WorkflowState, after: WorkflowState) -> None:
    """Make the task fit the state: what it asked is withdrawn, one that failed gets another chance, and for one that
    has ended there is a new one; when that is undone, the new one is cancelled.

    Raises:
        RollbackRefused: somebody works on it just now.
        TaskLimit: a new task is needed, and there are too many.
    """
    task = act.rows.tasks.get(before.task_id) if before.task_id else None
    if task is None:
        return
    if task.state == "in-progress":
        raise RollbackRefused(
            f"{before.workflow_id} is being worked on by {task.owner}: its files are changing. Wait until it asks, or "
            f"stop it (`interlock stop --member {task.owner} --now`), and repeat.",
            task_id=task.id,
            owner=task.owner,
        )
    if after.state == TERMINAL:
        if task.state not in FINAL and after.task_id != task.id:
            end_run(act, task, "cancelled", "the rollback was undone")
            move(act, task, "cancelled", reason="the rollback was undone", soft=False)
            act.event("task.cancelled", task.id, reason="the rollback was undone")
    elif task.state in WAITS or task.state == "deadletter":
        end_run(act, task, task.state, "rolled back")  # A session may have been held open for the answer.
        move(act, task, waiting_state(task), reason="rolled back", failures=0, rounds=0, not_before=None)
        after.task_id = task.id
    elif task.state in FINAL:
        made = create(
            act, task.subject, body=task.body, type=task.type, priority=task.priority, assignee=task.assignee,
            review=task.review, group_id=task.group_id, project_id=task.project_id, metadata=task.metadata,
        )  # fmt: skip
        act.rows.tasks.update(made, workflow=task.workflow, retries=task.retries)
        queue.add(act, made, skill=after.skill, data={"workflow_id": after.workflow_id})
        after.task_id = made.id
    else:
        after.task_id = task.id


PENDING, DONE = "pending", "done"


def restore_step(state: WorkflowState, at: str) -> list[str] | None:
    """Bring the files of a step that was interrupted back to its newest checkpoint, so that it can begin again; null
    where nothing was kept, else what could not be restored.

    Nobody knows any more who wrote last: the run's documents and the files that the step has named count as the run's.
    All that is replaced is kept in the archive.
    """
    checkpoint = next((one for one in reversed(state.checkpoints) if one["step_id"] == state.current_step), None)
    if checkpoint is None or not checkpoint["can_rollback"]:
        return None
    record = state.step(checkpoint["step_id"])
    named = [*state.documents, *(record.files if record else ())]
    try:
        planned = preview(state, checkpoint, include=named)
        journal = _journal(state, checkpoint, planned, "restore", at)
        archive = _kept_first(state, journal)
        late = archive.carry_out(journal) if journal.items else []
    except (RollbackRefused, ValueError, StorageError, OSError, InvalidRequest):
        return None
    _credit(state, journal)
    return [*(one.path for one in planned.asked), *late]


@dataclass
class Outcome:
    """What was done. `left` are files that stay as they are, with the reason; `archive` is the directory, from the
    project's root, that holds what was replaced."""

    state: WorkflowState
    kind: str
    step: Any
    restored: list[str]
    removed: list[str]
    left: list[Json]
    archive: str
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> Json:
        """The shape every face shows."""
        names = ("kind", "step", "restored", "removed", "left", "archive", "warnings")
        return {"workflow_id": self.state.workflow_id, **fields_of(self, names)}


class Rollback:
    """Rollbacks of the runs of one team."""

    def __init__(self, workspace: Workspace, caller: Principal, store: WorkflowStateManager) -> None:
        self._workspace = workspace
        self._caller = caller
        self._store = store

    def to(self, state: WorkflowState, checkpoint: CheckpointRow, *, include: Collection[str] = ()) -> Outcome:
        """Roll back. `include`: files that were asked about and agreed to, `*` for all; the others stay.

        Raises:
            RollbackRefused: it cannot be done, or could not and was taken back; nothing has changed.
            StateConflict: somebody else has written the state; nothing has changed.
        """
        self.finish(state)
        planned = preview(state, checkpoint, include=include)
        at = iso(self._workspace.clock.now())
        journal = _journal(state, checkpoint, planned, "rollback", at)
        left = [{"path": one.path, "why": one.why, "possible": one.possible} for one in planned.asked]
        return self._do(state, restored(state, checkpoint), journal, left)

    def undo(self, state: WorkflowState, *, include: Collection[str] = ()) -> Outcome:
        """Take the last rollback back: state and files as they were before it.

        Raises:
            RollbackRefused: there is none, its archive is damaged, or the run has gone on since and `include` does not
                agree to lose that.
            StateConflict: somebody else has written the state; nothing has changed.
        """
        self.finish(state)
        last = next((one for one in reversed(state.rollbacks) if not one.get("undone")), None)
        if last is None or last["kind"] != "rollback":
            raise RollbackRefused(f"{state.workflow_id} has no rollback that could be undone.", alternatives=[])
        since = [one for one in state.checkpoints if number_of(one["id"]) > number_of(last["checkpoint"])]
        if since and EVERYTHING not in include:
            raise RollbackRefused(
                f"{state.workflow_id} has gone on since its rollback to step {last['step']}; undoing that would lose "
                "the steps since then. Roll back to a step of now, or agree with `*`.",
                alternatives=[],
            )
        archive = Archive(state, last["archive"])
        try:
            done = archive.read()
            journal = archive.reverse(done, iso(self._workspace.clock.now()))
            archive.check(journal)
            before = WorkflowState.from_dict(done.document)
        except (ValueError, TypeError, KeyError) as error:
            raise RollbackRefused(f"The rollback cannot be undone: {error}. Nothing was changed.") from error
        journal.document = state.as_dict()
        left: list[Json] = []
        for item in list(journal.items):
            now = sha_of(state.plan.project, item.path)
            if now == item.have:
                continue
            if EVERYTHING in include or item.path in include:
                item.have = now
            else:
                journal.items.remove(item)
                left.append({"path": item.path, "why": CHANGED, "possible": True})
        before.version, before.created_at = state.version, state.created_at
        if before.state == WAITING_USER:
            before.state, before.waiting = RUNNING, None  # What it asked was withdrawn; it asks again.
        before.rollbacks = [{**one, "undone": one is last or bool(one.get("undone"))} for one in state.rollbacks]
        return self._do(state, before, journal, left)

    def finish(self, state: WorkflowState) -> list[str]:
        """Finish what a crash left of the last rollback; answers the files that somebody has changed meanwhile."""
        last = state.rollbacks[-1] if state.rollbacks else None
        if last is None or last["files"] != PENDING:
            return []
        archive = Archive(state, last["archive"])
        try:
            journal = archive.read()
            left = archive.carry_out(journal)
        except (ValueError, StorageError, OSError, InvalidRequest) as error:
            raise RollbackRefused(
                f"The last rollback of {state.workflow_id} was interrupted and cannot be finished: {error}. Its copies "
                f"are in {archive.path}.",
                reason=str(error),
            ) from error
        state.rollbacks = [*state.rollbacks[:-1], {**last, "files": DONE}]
        _credit(state, journal)
        self._save(state, None)
        return left

    def _do(
        self,
        state: WorkflowState,
        after: WorkflowState,
        journal: Journal,
        left: list[Json],
    ) -> Outcome:
        archive = _kept_first(state, journal)
        noted: RollbackNote = {
            "at": journal.at, "archive": archive.name, "step": journal.step, "kind": journal.kind,
            "checkpoint": journal.checkpoint, "files": PENDING, "undone": journal.kind == "undo",
        }  # fmt: skip
        after.rollbacks = [*after.rollbacks, noted]
        after.version = state.version
        paths = [item.path for item in journal.items]
        try:
            said = {"step": journal.step, "checkpoint": journal.checkpoint, "files": paths[:200]}
            self._save(after, said, noted, state)
        except BaseException:
            shutil.rmtree(archive.path, ignore_errors=True)
            raise
        try:
            late = archive.carry_out(journal)
        except (ValueError, StorageError, OSError, InvalidRequest) as error:
            raise self._taken_back(archive, journal, after, error) from error
        after.rollbacks = [*after.rollbacks[:-1], {**noted, "files": DONE}]
        _credit(after, journal)
        self._save(after, None)
        warnings = list(self._store.mirror(after))
        left += [{"path": path, "why": MEANWHILE, "possible": True} for path in late]
        return Outcome(
            after, journal.kind, journal.step,
            [item.path for item in journal.items if item.want is not None and item.path not in late],
            [item.path for item in journal.items if item.want is None and item.path not in late],
            left, files.relative(state.plan.project, archive.path), warnings,
        )  # fmt: skip

    def _taken_back(
        self, archive: Archive, journal: Journal, after: WorkflowState, error: Exception
    ) -> RollbackRefused:
        """The files could not be put in place: everything is as it was before, if the machine lets us."""
        said = f"The rollback failed: {error}. "
        try:
            reverse = archive.reverse(journal, journal.at)
            back = Archive(after, f"{archive.name}-taken-back")
            back.carry_out(reverse)
            before = WorkflowState.from_dict(journal.document)
            before.version = after.version
            self._save(before, None)
            self._store.mirror(before)
            shutil.rmtree(back.path, ignore_errors=True)
            said += "State and files are as they were before."
        except (ValueError, StorageError, OSError, InvalidRequest) as second:
            said += f"Some files could not be put back either ({second}); their copies are in {archive.path}."
        return RollbackRefused(said, reason=str(error))

    def _save(
        self,
        state: WorkflowState,
        event: Mapping[str, Any] | None,
        noted: RollbackNote | None = None,
        before: WorkflowState | None = None,
    ) -> None:
        with self._workspace.act(self._caller) as act:
            if before is not None:
                settle(act, before, state)
            self._store.save(act, state)
            if event is not None and noted is not None:
                act.event(
                    "workflow.rolled_back", state.task_id, workflow_id=state.workflow_id, archive=noted["archive"],
                    undo=noted["kind"] == "undo", **event,
                )  # fmt: skip


def _credit(state: WorkflowState, journal: Journal) -> None:
    """What a rollback put in place is as the run had left it; undoing it brings back what was known then."""
    if journal.kind == "rollback":
        for item in journal.items:
            state.written[item.path] = item.want or ""


def _journal(state: WorkflowState, checkpoint: CheckpointRow, planned: Preview, kind: str, at: str) -> Journal:
    """What is to be done about the files, for `planned`."""
    return Journal(
        state.workflow_id, kind, at, checkpoint["step_id"], str(checkpoint["id"]), state.as_dict(),
        [Item(one.path, one.have, one.want, one.mode) for one in planned.chosen],
    )  # fmt: skip


def _kept_first(state: WorkflowState, journal: Journal) -> Archive:
    """Copy what is to be replaced, and write the journal.

    Raises:
        RollbackRefused: it could not be copied; nothing was changed.
    """
    output = files.output_folder(state.plan.project, state.plan.output_folder)
    folder = os.path.join(output, files.ARCHIVE_FOLDER)
    archive = Archive(state, stamp(journal.at, os.listdir(folder) if os.path.isdir(folder) else ()))
    try:
        archive.write(journal)
    except (ValueError, StorageError, OSError, InvalidRequest) as error:
        shutil.rmtree(archive.path, ignore_errors=True)
        raise RollbackRefused(
            f"What would be replaced could not be kept first: {error}. Nothing was changed.", reason=str(error)
        ) from error
    return archive


class CheckpointKeeper:
    """See `engine.ports.Checkpoints`. `in_documents`: documents of a finished run keep their list of checkpoints."""

    def __init__(self, *, in_documents: bool = True) -> None:
        self._in_documents = in_documents

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """See `engine.ports.Checkpoints.create`."""
        record, now = state.step(step), state.as_json(KEPT)
        before = state.checkpoints[-1] if state.checkpoints else None
        checkpoint: CheckpointRow = {
            "id": f"cp-{1 + max((number_of(one['id']) for one in state.checkpoints), default=0)}",
            "step_id": step,
            "step_name": record.name if record else str(step),
            "timestamp": at,
            "reason": reason,
            "can_rollback": True,
            "why_not": None,
            "state_snapshot": {"completed_steps": list(state.completed_steps)},
            "files": {},
        }
        kept_so_far, last = state.checkpoints, state.rollbacks[-1:]
        if before is not None and last and (before["id"], before["reason"]) == (last[0]["checkpoint"], reason):
            kept_so_far = kept_so_far[:-1]  # The run went back to it: the step has one checkpoint, not two.
        state.checkpoints = [*kept_so_far, checkpoint]
        doomed, state.checkpoints = state.checkpoints[:-MOST], state.checkpoints[-MOST:]
        try:
            snapshots = Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id)
            manifest = manifest_of(snapshots, before)
            credit(state, before, manifest)
            show(state, manifest)
            commit, taken = snapshots.take(f"{state.skill}: {reason}", {*state.documents, *state.written}, now)
            left_out = list(taken.left_out[:20])
            checkpoint["files"] = {"kind": SNAPSHOT, "commit": commit, "whole": taken.whole, "left_out": left_out}
            if doomed and not state.rollbacks and number_of(checkpoint["id"]) % MOST == 0:
                kept_by = [one["files"] for one in state.checkpoints]
                snapshots.forget_all_but(one["commit"] for one in kept_by if one.get("kind") == SNAPSHOT)
        except (InterlockError, OSError, ValueError) as error:
            checkpoint["can_rollback"] = False
            checkpoint["why_not"] = f"its files could not be kept: {error}"
            try:
                show(state, None)
            except (InterlockError, OSError, ValueError):
                return  # The ledger has it all the same.

    def finished(self, state: WorkflowState) -> None:
        """See `engine.ports.Checkpoints.finished`."""
        try:
            show(state, None, listed=self._in_documents)
        except (InterlockError, OSError, ValueError):
            return  # A document that cannot be written keeps what it lists.

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """See `engine.ports.Checkpoints.restore`."""
        return restore_step(state, state.updated_at or state.checkpoints[-1]["timestamp"] if state.checkpoints else "")

    def wrote(self, state: WorkflowState, paths: Iterable[str]) -> None:
        """Note that the run has just written (or deleted) these files, absolute or from the project's root: as they are
        now they are the run's. Paths outside the project are passed over."""
        for path in paths:
            try:
                name = files.relative(state.plan.project, path)
                state.written[name] = sha_of(state.plan.project, name) or ""
            except (InterlockError, OSError, ValueError):
                continue
