"""What follows when a story is over: its status, once its work is merged, and the findings that are not its own.

Status is derived: a story is done when its task is, which is after the verified merge. Writing it down again is
harmless, so it is written whenever stories are looked after: when a lane of the team ends, and around `story run`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.core.tasks import create
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import InterlockError
from interlock.model.names import LEAD, SYSTEM
from interlock.model.task import FINAL, Task
from interlock.storage.ledger import Rows
from interlock.workflow.package import packages
from interlock.workflow.runs import starting
from interlock.workflow.runs.opening import Prepared
from interlock.workflow.state import status_file
from interlock.workflow.stories import lane as lanes
from interlock.workflow.stories import spec
from interlock.workflow.stories.inventory import BACKLOG, DONE, KEY, sprint_path
from interlock.workflow.stories.spec import Deferred

TYPE = "IMPLEMENTATION"
FOUND_BY = "found_by"
WORDS = re.compile(r"[a-z0-9]+")


def leave(workspace: Workspace, caller: Principal, prepared: Prepared) -> None:
    """The end of a lane, in its worktree, before anything of it is merged.

    Raises:
        GitFailed, StorageError, StaleRun: it could not be; the run can be tried again.
    """
    assert prepared.lane is not None
    root = prepared.package.root
    lanes.leave(root, prepared.base, prepared.config)
    if prepared.workflow.skill.id == spec.SKILL:
        state = prepared.state
        written = [*state.documents, *state.written]
        paths = spec.find(root, state.plan.values, prepared.config, written)
        found = spec.read(root, paths[0]).deferred if len(paths) == 1 else ()
        if found:
            with workspace.act(Principal(SYSTEM)) as act:
                for one in found:
                    defer(act, prepared.lane.story, one)
    with workspace.look() as rows:
        workdir = rows.team.get().workdir
        if workdir and prepared.base is not None:  # What is merged by now; this one is, at the earliest, next.
            write_statuses(rows, workdir)


def defer(act: UnitOfWork, story: str, found: Deferred) -> Task:
    """The task for a finding that a story leaves to others: the one that there is, or a new one, which waits for the
    lead's word on who does it. The same finding of two stories is one task."""
    wanted = _fingerprint(found.summary, found.location)
    for task in act.rows.tasks.select():
        if task.state not in FINAL and task.metadata.get("fingerprint") == wanted:
            by = [*task.metadata.get(FOUND_BY, ())]
            if story not in by:
                act.rows.tasks.update(task, metadata={**task.metadata, FOUND_BY: [*by, story]}, updated_at=act.at)
            return task
    parts = [found.evidence, f"Where: {found.location}" if found.location else "", f"Found by story {story}."]
    return create.create(
        act, found.summary, body="\n\n".join(part for part in parts if part), type=TYPE, assignee=LEAD,
        priority={"high": "high", "low": "low"}.get(found.severity, "normal"),
        metadata={FOUND_BY: [story], "fingerprint": wanted, "severity": found.severity},
    )  # fmt: skip


def _fingerprint(summary: str, location: str) -> str:
    """What a finding is known by: its words, and its file without the line."""
    file = location.partition(":")[0].strip().lower()
    return " ".join([*sorted(set(WORDS.findall(summary.lower()))), file])[:500]


def write_statuses(rows: Rows, project: str) -> list[str]:
    """Write into the project's `sprint-status.yaml` what the team's stories have come to; the keys that changed. What
    cannot be written now is written the next time."""
    package = packages.find(project)
    if package is None:
        return []
    config = dict(package.config("bmm"))
    path = sprint_path(package.root, config)
    now = status_file.read(path) if path else None
    if path is None or now is None:
        return []
    wanted = _wanted(rows, now)
    changed = []
    for key, status in wanted.items():
        try:
            status_file.write(path, key, status, expected=now[key])
            changed.append(key)
        except InterlockError:
            continue  # Somebody else is writing it; it is derived again.
    return changed


def _wanted(rows: Rows, now: Mapping[str, str]) -> dict[str, str]:
    done = {lane.story for task in rows.tasks.planned() if task.state == DONE and (lane := starting.lane_of(task.body))}
    wanted: dict[str, Any] = {key: DONE for key, status in now.items() if key in done and status != DONE}
    after = {**now, **wanted}
    for key, status in now.items():
        found = re.fullmatch(r"epic-(\d+)", key)
        if found is None or status == DONE:
            continue
        own = [its for name, its in after.items() if (story := KEY.match(name)) and story[1] == found[1]]
        became = DONE if own and all(one == DONE for one in own) else "in-progress" if DONE in own else status
        if became != status and status in (BACKLOG, "contexted", "in-progress"):
            wanted[key] = became
    return wanted
