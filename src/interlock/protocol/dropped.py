"""Files that an agent leaves in its run's directory by hand: `run_result.json`, `run_heartbeat.json` (decision 16).

Finding one *records* what it says as the result, or the heartbeat, of the current run; the mirror then writes its own
file there and keeps the agent's beside it. It counts for the current run only: it names that run, or names none, comes
from the owner and was written after the run began, by the file's own time and never by times inside it. Each content
is looked at once; what is broken, or somebody else's, is reported with an event and left where it is.

A recorded result is *applied* to its task only when the session has ended (AOF-59.07 to 09), since a result that a
living agent has put down may be an interim one. Each task is applied in a transaction of its own, where everything is
looked at again; a task without a result leaves no trace of any kind.

Nothing here holds the mirror's lock, and no transaction waits for a disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from interlock.clock import iso, seconds
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, unknown_member
from interlock.lazy_dataclass import dataclass
from interlock.mirror.render import is_ours
from interlock.model.json import Json, fields_of
from interlock.model.names import HUMAN, LEAD, SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.protocol.authority import member_named
from interlock.protocol.envelope import FieldError, ProtocolModel, RunHeartbeat, RunResult, read
from interlock.protocol.handlers import CONTENTS_KEPT, apply, digest, record
from interlock.protocol.routing import missing_file

FILE_BYTES = 1024 * 1024
CLOCK_TICK = 0.05
"""Seconds that a file's time may lie before the moment it was written: file systems take it from a coarser clock."""
RESULT, HEARTBEAT = "run_result", "run_heartbeat"

M = TypeVar("M", bound=ProtocolModel)


@dataclass(frozen=True, slots=True)
class DroppedFile:
    """A file that the mirror did not write."""

    kind: str
    path: str
    data: bytes | None
    """Null: larger than `FILE_BYTES`."""
    written: float

    @property
    def digest(self) -> str:
        """What tells its content from another's."""
        if self.data is None:
            return f"large-{self.written}"
        return hashlib.sha256(self.data).hexdigest()[:32]


def adopt(workspace: Workspace, task_id: str) -> bool:
    """Take in what lies in the directory of that task's run; whether there was anything new. Without a new file this
    costs one look at a directory.

    Raises:
        LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: try again.
    """
    found = lying(workspace.directory, task_id)
    if not found:
        return False
    with workspace.ledger.snapshot() as rows:
        task = rows.tasks.get(task_id)
        run = rows.runs.get(task_id, task.run) if task is not None and task.run else None
    if run is None or all(_known(run, one) for one in found):
        return False
    found = [_kept_aside(one) for one in found]
    with workspace.act(Principal(SYSTEM), acknowledge=False) as act:
        adopt_within(act, task_id, found)
    return True


def adopt_within(act: UnitOfWork, task_id: str, found: Iterable[DroppedFile]) -> None:
    """Take these files of that task's run in, inside a transaction that is under way."""
    task = act.rows.tasks.get(task_id)
    run = act.rows.runs.get(task_id, task.run) if task is not None and task.run else None
    if task is None or run is None or task.state != "in-progress":
        return
    for one in found:
        if not _known(run, one):
            seen = {**run.seen, one.kind: [*run.seen.get(one.kind, ())[-CONTENTS_KEPT:], one.digest]}
            model: type[RunResult] | type[RunHeartbeat] = RunResult if one.kind == RESULT else RunHeartbeat
            value, faults = _parsed(model, one)
            reason = "malformed" if value is None else _foreign(act, task, run, one, value)
            if value is None or reason is not None:
                act.rows.runs.update(run, seen=seen)
                act.event(
                    "run.refused", task.id, run=run.id, path=os.path.basename(one.path), reason=reason,
                    errors=[fault.as_dict() for fault in faults],
                )  # fmt: skip
            elif isinstance(value, RunResult):
                fields = {"taskId": task.id, "runId": run.id, "agentId": run.member, **value.as_json()}
                record(act, run, fields, source="file", applied=None, seen=seen)
            else:
                _beat(act, task, run, one, value, seen)


def with_heartbeat(directory: str, task_ids: Iterable[str]) -> list[str]:
    """Those of these tasks in whose run's directory a heartbeat lies. One question to the file system for each."""
    base = os.path.join(directory, "runs", "")
    return [task_id for task_id in task_ids if os.access(f"{base}{task_id}/{HEARTBEAT}.json", os.F_OK)]


def _kept_aside(found: DroppedFile) -> DroppedFile:
    """Move a sound file out of the way of the mirror's own, so that neither overwrites the other; a heartbeat, which
    the next one supersedes anyway, over the one before it. What is broken stays where it is."""
    directory, name = os.path.split(found.path)
    model: type[RunResult] | type[RunHeartbeat] = RunResult if found.kind == RESULT else RunHeartbeat
    if name != f"{found.kind}.json" or _parsed(model, found)[0] is None:
        return found
    stamp = "" if found.kind == HEARTBEAT else f"-{found.digest[:12]}"
    kept = os.path.join(directory, f"{found.kind}.dropped{stamp}.json")
    try:
        os.rename(found.path, kept)
    except OSError:
        return found
    return replace(found, path=kept)


def lying(directory: str, task_id: str) -> list[DroppedFile]:
    """The files of that task's run that are not the mirror's, in the order in which they were written."""
    base = os.path.join(directory, "runs", task_id)
    try:
        names = os.listdir(base)
    except OSError:
        return []
    found = []
    for name in names:
        kind = next((kind for kind in (RESULT, HEARTBEAT) if name.startswith(kind) and name.endswith(".json")), None)
        if kind is not None:
            one = _look(kind, os.path.join(base, name))
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda one: one.written)


def _look(kind: str, path: str) -> DroppedFile | None:
    """The file at `path`, if it is one that the mirror did not write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = b""
        while len(data) <= FILE_BYTES and (piece := os.read(descriptor, FILE_BYTES + 1 - len(data))):
            data += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES:
        return DroppedFile(kind, path, None, status.st_mtime)
    if is_ours(data):
        return None
    return DroppedFile(kind, path, data, status.st_mtime)


def _known(run: Run, found: DroppedFile) -> bool:
    return found.digest in run.seen.get(found.kind, ())


def _parsed(model: type[M], found: DroppedFile) -> tuple[M | None, list[FieldError]]:
    if found.data is None:
        return None, [FieldError("", f"the file must have at most {FILE_BYTES} bytes")]
    try:
        fields = json.loads(found.data)
        # What cannot be written again is not taken in.
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        return None, [FieldError("", f"not valid JSON: {error}"[:500])]
    if not isinstance(fields, dict):
        return None, [FieldError("", "the file must hold one JSON object")]
    return read(model, fields)


def _foreign(act: UnitOfWork, task: Task, run: Run, found: DroppedFile, value: RunResult | RunHeartbeat) -> str | None:
    """Why this file is not about the task's current run; null where it is."""
    if value.task_id not in (None, task.id):
        return "taskId_mismatch"
    if value.agent_id is not None and member_named(act, value.agent_id) != run.member:
        return "unauthorized_agent"
    if value.run_id is not None:
        return None if value.run_id == run.id else "stale_run"
    return None if found.written + CLOCK_TICK >= seconds(run.started_at) else "stale_run"


def _beat(
    act: UnitOfWork, task: Task, run: Run, found: DroppedFile, value: RunHeartbeat, seen: dict[str, list[str]]
) -> None:
    """A heartbeat sets the lease, never past what one of ours would give. Only the last word on a run that nobody
    drives makes a lease shorter: a runner speaks for its run itself."""
    now, ttl = act.clock.now(), float(act.settings.get("heartbeat_ttl"))
    until = min(seconds(value.expires_at), now + ttl)
    if run.heartbeat_at is not None and run.expires_at is not None:
        before = seconds(run.expires_at)
        if until < before and (run.runner is not None or found.written <= seconds(run.heartbeat_at)):
            return
        # A beat that brings next to nothing is not worth a commit, while there is time for the next one.
        if 0 <= until - before < min(ttl / 10, before - now):
            return
    run_fields: dict[str, Any] = {"heartbeat_at": act.at, "expires_at": iso(until), "beats": run.beats + 1}
    act.rows.runs.update(run, seen=seen, **run_fields)
    act.event("run.heartbeat", task.id, run=run.id, expires_at=run_fields["expires_at"])


def adopt_all(workspace: Workspace, task_ids: Iterable[str]) -> bool:
    """`adopt` for each of these tasks; whether there was anything new."""
    found = [adopt(workspace, task_id) for task_id in task_ids]
    return any(found)


@dataclass(slots=True)
class AppliedResult:
    """One task whose recorded result was applied. `verifying` is the task where the caller has to run its check now."""

    task_id: str
    outcome: str
    applied: bool
    state: str
    run_id: str | None
    verifying: Task | None

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, ("task_id", "outcome", "applied", "state", "run_id"))


def end_session(workspace: Workspace, caller: Principal, *, verifier: str) -> list[AppliedResult]:
    """Apply the recorded results of the caller's tasks in progress; of all tasks for the lead and people.

    A caller with a session of its own ends only what that session works on.

    Raises:
        MemberNotFound: the caller is nobody.
        LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: what was not applied yet will be by the next call.
    """
    adopt_all(workspace, [task.id for task, _ in _at_work(workspace, caller)])
    ended = []
    for task, run in _at_work(workspace, caller):
        if unapplied(run):
            one = apply_recorded(workspace, caller, task.id, run.number, verifier=verifier)
            if one is not None:
                ended.append(one)
    return ended


def unapplied(run: Run) -> bool:
    """Whether the run has put down a result that has not moved its task."""
    return run.result is not None and run.applied != digest(run.result)


def apply_recorded(
    workspace: Workspace, caller: Principal, task_id: str, number: int, *, verifier: str
) -> AppliedResult | None:
    """Apply what that run has recorded; null where somebody else did, or the task is no longer in progress."""
    with workspace.ledger.snapshot() as rows:
        run = rows.runs.get(task_id, number)
    if run is None or run.result is None:
        return None
    missing = missing_file(workspace, task_id, run.result.get("summaryRef"))
    with workspace.act(caller, acknowledge=False) as act:
        return apply_within(act, task_id, number, missing=missing, verifier=verifier)


def apply_within(
    act: UnitOfWork,
    task_id: str,
    number: int,
    *,
    missing: str | None,
    verifier: str | None,
    source: str = "session_end",
) -> AppliedResult | None:
    """As `apply_recorded`, inside a transaction that is under way. `missing`: what is odd about its summary's file;
    `source`: why it is applied now. Without a `verifier` whoever polls next runs the verify."""
    task, run = act.rows.tasks.get(task_id), act.rows.runs.get(task_id, number)
    if task is None or run is None or run.result is None or not unapplied(run):
        return None
    if task.run != number or task.state != "in-progress":
        return None
    fields = run.result
    if missing is not None:
        act.event("protocol.message.warning", task.id, reason=missing, type="run_result", path=fields.get("summaryRef"))
    record(act, run, fields, source=source, applied=digest(fields))
    applied = apply(act, task, run, fields, run.member, verifier)
    waits = task.verifying is not None and task.verifying["process"] == verifier
    return AppliedResult(task.id, fields["outcome"], applied, task.state, task.run_id, task if waits else None)


def _at_work(workspace: Workspace, caller: Principal) -> list[tuple[Task, Run]]:
    """The tasks in progress that the caller's word ends, each with its run."""
    with workspace.ledger.snapshot() as rows:
        found = rows.team.address(caller.name)
        everybody = caller.name in (HUMAN, SYSTEM) or (found is not None and found[2] in (LEAD, "person"))
        if found is None and not everybody:
            raise unknown_member(rows, caller.name)
        if everybody:
            tasks = rows.tasks.select(states=["in-progress"])
        else:
            owned = rows.tasks.owned(str(found and found[0]))
            own = (None, *(task.session for task in owned)) if caller.session is None else (caller.session,)
            tasks = [task for task in owned if task.state == "in-progress" and task.session in own]
        runs = ((task, rows.runs.get(task.id, task.run)) for task in tasks)
        return [(task, run) for task, run in runs if run is not None]
