"""A story's end: the project's check, its status once its work is merged, and the findings that are not its own.

What goes wrong after the story's workflow has ended (the check on what was fixed since, the merge, a person who asks
for changes) takes the run up again at the project's check, with the reason: the workflow is not gone through once more.

Status is derived: a story is done when its task is, so its status is part of its merge. Where nothing is merged, or
git does not know the file, it is written into the project itself, when a lane of the team ends and around `story run`.
Either is done once: whoever sets a status back means it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.tasks import create
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import GitFailed, InterlockError
from interlock.gitwork.git import Git
from interlock.gitwork.isolation import look
from interlock.gitwork.trees import unresolved
from interlock.lazy_dataclass import dataclass
from interlock.model.names import LEAD, SYSTEM
from interlock.model.task import FINAL, Task
from interlock.runner.verify import Evidence, examine
from interlock.workflow.engine import machine, prompts
from interlock.workflow.engine.context import Draft, Examination, Note
from interlock.workflow.engine.examination import APPROVE, BLOCKED, BLOCKING, CHANGES, PROJECT_CHECK, Examined, Finding
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.engine.steps import GATE
from interlock.workflow.markdown import quoted
from interlock.workflow.package import packages
from interlock.workflow.reviews import review_brief
from interlock.workflow.runs import starting
from interlock.workflow.runs.opening import Prepared
from interlock.workflow.state import status_file, step_tracking
from interlock.workflow.state.document import COMPLETED, StepRecord, WorkflowState, step_key
from interlock.workflow.stories import lane as lanes
from interlock.workflow.stories import spec
from interlock.workflow.stories.inventory import BACKLOG, DONE, KEY, meant, sprint_path
from interlock.workflow.stories.spec import Deferred

TYPE = "IMPLEMENTATION"
FOUND_BY, FINGERPRINT = "found_by", "fingerprint"
WRITTEN = "status_written"
"""In the metadata of a story's task: its status was written, so that another one is somebody's word."""
WORDS = re.compile(r"[a-z0-9]+")
TITLE = "The project's check"
CAME_BACK = "The finished work"
RESOLVE = "Resolve them so that both sides are kept, and take the markers out."
TAIL = 3000


class ProjectCheck:
    """The project's own check as a part of a workflow: a story is reviewed, and its status becomes `done`, only once
    what the project names as its check passes in its worktree; one that fails goes to the maker like a reviewer's
    finding. See `engine.context.Examination`."""

    name = PROJECT_CHECK
    title = TITLE

    def __init__(self, workspace: Workspace, task_id: str) -> None:
        self._workspace = workspace
        self._task_id = task_id

    def called_for(self, run: Draft) -> str | None:
        """At the end of every story, and of what names a check."""
        return "the work is done only where the project's check passes"

    def begin(self, run: Draft, round: int) -> Examined | CheckRun:
        """Have the check of the story's task run in its worktree, unless conflicts are left there."""
        with self._workspace.look() as rows:
            task = find(rows, self._task_id)
        try:
            marked = _unresolved(task)
        except GitFailed as error:
            return Examined(BLOCKED, error.message, (Finding(BLOCKING, error.message),))
        if marked:
            files = ", ".join(marked)
            finding = Finding(BLOCKING, f"{files}: conflict markers are left", marked[0], RESOLVE)
            return Examined(CHANGES, f"these files still hold conflict markers: {files}", (finding,))
        if task.verify is None:
            return Examined(APPROVE, "the project names no check")
        return CheckRun(self._workspace, task)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of the check. See `engine.context.Inquiry`."""

    workspace: Workspace
    task: Task

    async def ask(self, runtime: Runtime, note: Note) -> Evidence:
        """Run it."""
        return await examine(self.workspace, self.task)

    def judge(self, run: Draft, found: Evidence) -> Examined:
        """See the port."""
        told = {"exit_code": found.exit_code, "seconds": found.seconds}
        if found.passed:
            return Examined(APPROVE, f"`{found.command}` passes", told=told)
        if found.exit_code is None and not found.timed_out:
            why = f"`{found.command}` could not be started: {found.tail}"
            return Examined(BLOCKED, why, (Finding(BLOCKING, why),), told=told)
        return Examined(CHANGES, f"`{found.command}` {_ended(found)}", (_finding(found),), told=told)


def _unresolved(task: Task) -> tuple[str, ...]:
    path = str((task.worktree or {}).get("path") or "")
    return unresolved(Git(path, timeout=lanes.GIT_SECONDS)) if path else ()


def _ended(found: Evidence) -> str:
    return "took longer than its time limit" if found.timed_out else f"ended with exit code {found.exit_code}"


def _finding(found: Evidence) -> Finding:
    fix = f"what it printed, its end:\n\n{quoted(found.tail[-TAIL:].strip() or '(nothing)')}"
    return Finding(BLOCKING, f"`{found.command}` {_ended(found)}", fix=fix)


def take_back(state: WorkflowState, why: str) -> None:
    """Take a completed run up again at the project's check, whose maker first fixes what `why` says.

    Raises:
        IllegalMove: the run has not completed.
    """
    machine.reopen(state)
    gate = f"{GATE}{PROJECT_CHECK}"
    step_tracking.reopen(state, gate)
    state.steps.setdefault(step_key(gate), StepRecord(gate, TITLE)).status = "in_progress"
    state.current_step, state.waiting, state.sent = gate, None, None
    finding = Finding(BLOCKING, why.strip().partition("\n")[0], fix=quoted(why.strip()))
    kept = state.examinations.setdefault(PROJECT_CHECK, {"rounds": []})
    kept["mend"] = prompts.findings(CAME_BACK, Examined(CHANGES, "it is not accepted as it is", (finding,)))


def enter(workspace: Workspace, prepared: Prepared) -> tuple[Examination, ...]:
    """Begin a workflow in the worktree of its task, or take a finished one up that came back; the examinations that it
    is not done without: of a story, and of whatever else names a check.

    Raises:
        StorageError: the worktree could not be prepared.
        NotFound: its task is gone.
    """
    state = prepared.state
    if prepared.lane is not None:
        lanes.enter(prepared.package.root, state.plan.output_folder)
    if prepared.goes_on:
        return ()
    with workspace.look() as rows:
        task = find(rows, prepared.task_id)
    if task.findings and state.outcome == COMPLETED:
        take_back(state, task.findings)
    is_checked = prepared.lane is not None or task.verify is not None or PROJECT_CHECK in state.examinations
    return (ProjectCheck(workspace, prepared.task_id),) if is_checked else ()


def leave(workspace: Workspace, caller: Principal, prepared: Prepared) -> None:
    """The end of a lane, in its worktree, before anything of it is merged.

    Raises:
        GitFailed, StorageError, StaleRun: it could not be; the run can be tried again.
    """
    assert prepared.lane is not None
    root = prepared.package.root
    lanes.leave(root, prepared.base, prepared.config, whole=not lanes.is_retrospective(prepared.lane.story))
    if prepared.workflow.skill.id == spec.SKILL:
        state = prepared.state
        written = [*state.documents, *state.written]
        changed = review_brief.of_run(state, root).paths
        paths = spec.find(root, state.plan.values, prepared.config, written, changed)
        found = spec.read(root, paths[0]).deferred if len(paths) == 1 else ()
        if found:
            with workspace.act(Principal(SYSTEM)) as act:
                for one in found:
                    defer(act, prepared.lane.story, one)
    if prepared.base is not None:  # What is done by now; this one is, at the earliest, next.
        write_statuses(workspace)


def defer(act: UnitOfWork, story: str, found: Deferred) -> Task:
    """The task for a finding that a story leaves to others: the one that there is, or a new one, which waits for the
    lead's word on who does it. The same finding of two stories is one task."""
    wanted = _fingerprint(found.summary, found.location)
    for task in act.rows.tasks.select():
        if task.state not in FINAL and task.metadata.get(FINGERPRINT) == wanted:
            by = [*task.metadata.get(FOUND_BY, ())]
            if story not in by:
                act.rows.tasks.update(task, metadata={**task.metadata, FOUND_BY: [*by, story]}, updated_at=act.at)
                act.event("task.updated", task.id, fields=["metadata"])
            return task
    parts = [found.evidence, f"Where: {found.location}" if found.location else "", f"Found by story {story}."]
    return create.create(
        act, found.summary, body="\n\n".join(part for part in parts if part), type=TYPE, assignee=LEAD,
        priority={"high": "high", "low": "low"}.get(found.severity, "normal"),
        metadata={FOUND_BY: [story], FINGERPRINT: wanted, "severity": found.severity},
    )  # fmt: skip


def _fingerprint(summary: str, location: str) -> str:
    """What a finding is known by: its words, and its file without the line."""
    file = location.partition(":")[0].strip().lower()
    return " ".join([*sorted(set(WORDS.findall(summary.lower()))), file])[:500]


def finish(workspace: Workspace, task: Task, directory: str) -> None:
    """Write what a story has come to into the merged tree in `directory`, which the project lies in: done, once its
    merge is. What cannot be written is left as it is."""
    lane = starting.lane_of(task.body)
    with workspace.look() as rows:
        project = rows.team.get().workdir
    found = _sprint(project) if project else None
    if lane is None or found is None:
        return
    path = os.path.join(directory, os.path.relpath(found, project))
    if status_file.read(path) is None:
        return
    _write(path, [lane.story])
    _note(workspace, path, {lane.story: task})


def write_statuses(workspace: Workspace) -> list[str]:
    """Write into the project's own `sprint-status.yaml` what the team's stories have come to, each once; the keys that
    changed. Where stories are merged, their merges bring it (`finish`), unless git does not know the file. What cannot
    be written now is written the next time."""
    with workspace.look() as rows:
        project = rows.team.get().workdir
        every = {lane.story: task for task in rows.tasks.planned() if (lane := starting.lane_of(task.body)) is not None}
    path = _sprint(project) if project else None
    if path is None or not project or _is_merged(workspace, project, path):
        return []
    open_ = {key: task for key, task in every.items() if task.state == DONE and WRITTEN not in task.metadata}
    changed = _write(path, list(open_)) if open_ else []
    _note(workspace, path, open_)
    return changed


def is_reopened(task: Task, status: str) -> bool:
    """Whether somebody has set the status of a done story back: it had been written, and the project had it."""
    there = task.worktree is None or bool(task.worktree.get("delivered"))
    return task.state == DONE and WRITTEN in task.metadata and there and status != DONE


def _sprint(project: str) -> str | None:
    package = packages.find(project)
    return sprint_path(package.root, dict(package.config("bmm"))) if package is not None else None


def _is_merged(workspace: Workspace, project: str, path: str) -> bool:
    if not look(workspace).on:
        return False
    return Git(project, timeout=lanes.GIT_SECONDS)("ls-files", "--error-unmatch", "--", path, ok=(0, 1, 128)).code == 0


def _note(workspace: Workspace, path: str, tasks: Mapping[str, Task]) -> None:
    """Note of these tasks, by the keys of their stories, which of them the file now calls done."""
    now = status_file.read(path) or {} if tasks else {}
    written = [task.id for key, task in tasks.items() if now.get(key) == DONE]
    if not written:
        return
    with workspace.act(Principal(SYSTEM)) as act:
        for task in (find(act.rows, one) for one in written):
            if WRITTEN not in task.metadata:
                act.rows.tasks.update(task, metadata={**task.metadata, WRITTEN: DONE}, updated_at=act.at)
                act.event("task.updated", task.id, fields=["metadata"])


def _write(path: str, done: Sequence[str]) -> list[str]:
    """Write that these stories are done, and what follows for their epics; the keys that changed."""
    now = status_file.read(path)
    changed = []
    for key, status in _wanted(done, now).items() if now is not None else ():
        try:
            status_file.write(path, key, status, expected=now[key] if now else "")
            changed.append(key)
        except InterlockError:
            continue  # Somebody else is writing it; it is derived again.
    return changed


def _wanted(done: Sequence[str], now: Mapping[str, str]) -> dict[str, str]:
    wanted: dict[str, Any] = {key: DONE for key, status in now.items() if key in done and status != DONE}
    after = {**now, **wanted}
    for key, status in now.items():
        found = re.fullmatch(r"epic-(\d+)", key)
        if found is None or status == DONE:
            continue
        own = [meant(its) for name, its in after.items() if (story := KEY.match(name)) and story[1] == found[1]]
        became = DONE if own and all(one == DONE for one in own) else "in-progress" if DONE in own else status
        if became != status and status in (BACKLOG, "contexted", "in-progress"):
            wanted[key] = became
    return wanted
