"""The files of one team beside its ledger: the mirror, what edits and crashes left behind, permissions, backups.

Taking edits by hand over into the ledger: subject and body of tasks that are not final (decision 13).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from interlock.core.tasks.create import check_fields
from interlock.core.unit_of_work import Principal, Workspace
from interlock.doctor import DoctorFinding
from interlock.doctor.invariants import every_task
from interlock.errors import InterlockError
from interlock.mirror.projector import PENDING
from interlock.mirror.rebuild import compare
from interlock.mirror.render import body_of, log_entries, with_work_log
from interlock.model.names import HUMAN
from interlock.model.task import FINAL, STATES
from interlock.processes import ref
from interlock.storage.files import EDITED, FILE_MODE

ADOPTED = ".adopted-"


def adopt(workspace: Workspace) -> list[DoctorFinding]:
    """Take over every edit that is kept aside, the oldest first; those taken over are renamed to `.adopted-`."""
    findings = []
    for path in _kept(workspace.directory):
        task_id = os.path.basename(path).partition(EDITED)[0]
        try:
            with open(path, "rb") as file:
                data = file.read()
            with workspace.act(Principal(HUMAN, face="doctor"), acknowledge=False) as act:
                task = act.rows.tasks.get(task_id)
                if task is None:
                    raise ValueError("there is no such task.")
                if task.state in FINAL:
                    raise ValueError(f"the task is {task.state}. Remove the file when it is not needed.")
                log = act.rows.tasks.log(task.id)
                fields, body = body_of(data, log)
                entries = log_entries(log)
                changed: dict[str, Any] = {}
                if "subject" in fields and fields["subject"] != task.subject:
                    changed["subject"] = fields["subject"]
                # Compared as files show them, where blank lines at the ends do not count.
                if with_work_log(body, entries) != with_work_log(task.body, entries):
                    changed["body"] = body
                changes = check_fields(act, **changed)
                if changes:
                    act.rows.tasks.update(task, updated_at=act.at, **changes)
                act.event("mirror.adopted", task.id, path=path, fields=sorted(changes))
                act.topics.add("tasks")
            taken = (
                f"was taken over ({' and '.join(sorted(changes))})"
                if changes
                else "says nothing new in subject or body"
            )
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


SHOWN = 50
"""Findings of one kind that are listed one by one."""
ROOM = 1_000_000
"""Bytes that a disk has to have free: a change takes some dozens of pages, the index of the log 32 KB."""
BACKUPS = "backups"
WORKTREES = "worktrees"

# Only where the mirror and backups write: what an agent keeps beside its task is its own.
_TEMPORARY = re.compile(
    r"(?:|tasks/[^/]+/|inbox/[^/]+/|runs/[^/]+/(?:attempts/\d+/)?|backups/)[^/]+\.(\d+)\.tmp(?:-journal|-wal|-shm)?"
)
_SENTENCES = {
    "missing": "{} is missing.",
    "differs": "{} does not say what the ledger says.",
    "edited": "{} was edited by hand. Its next change keeps the edit aside; `interlock doctor --adopt` takes a task's "
    "subject and body over.",
    "stray": "{} lies where the ledger knows nothing of that kind.",
    "unreadable": "The file of {} cannot be looked at or written: something else lies in its place.",
}


def examine_mirror(workspace: Workspace, *, repair: bool) -> list[DoctorFinding]:
    """Compare every file of the mirror with the ledger; with `repair`, write again what differs."""
    with workspace.ledger.snapshot() as rows:
        head = rows.start.head
        mirrored = workspace.settings(rows).get("mirror")
    if not mirrored:
        return [DoctorFinding("info", "No files are written: the setting mirror is off.", workspace.directory)]
    findings = []
    try:
        position = workspace.mirror.position()
    except OSError:
        position = None
    if position is not None and position > head:
        findings.append(
            DoctorFinding(
                "error",
                f"The files show event {position}, the ledger ends at {head}: it was replaced by an older one.",
                workspace.directory,
            )
        )
    elif workspace.settle() == [PENDING]:
        findings.append(
            DoctorFinding("error", "The files cannot be brought up to the ledger now.", workspace.directory)
        )
    found = _compared(workspace)
    if repair and (found or findings):
        workspace.rebuild_mirror()
        left = set(_compared(workspace))
        findings = [DoctorFinding(one.level, one.what, one.path, workspace.settle() == []) for one in findings]
    else:
        left = set(found)
    for kind, path in found[:SHOWN]:
        level = "warning" if kind == "edited" else "error"
        whole = workspace.directory if kind == "unreadable" else os.path.join(workspace.directory, path)
        findings.append(DoctorFinding(level, _SENTENCES[kind].format(path), whole, (kind, path) not in left))
    if len(found) > SHOWN:
        repaired = not left.intersection(found[SHOWN:])
        findings.append(
            DoctorFinding("error", f"… and {len(found) - SHOWN} more files.", workspace.directory, repaired)
        )
    return findings


def _compared(workspace: Workspace) -> list[tuple[str, str]]:
    """What differs, seen twice, since others may be at work."""
    found = compare(workspace.directory, workspace.ledger, workspace.clock)
    if found:
        workspace.settle()
        again = set(compare(workspace.directory, workspace.ledger, workspace.clock))
        found = [one for one in dict.fromkeys(found) if one in again]
    return found


def examine_leftovers(directory: str, *, repair: bool) -> list[DoctorFinding]:
    """Temporary files of dead processes, edits that were kept aside, and links the mirror does not follow."""
    findings = []
    edited = []
    for path in _files_of(directory):
        name = os.path.basename(path)
        temporary = _TEMPORARY.fullmatch(os.path.relpath(path, directory))
        if temporary and ref.identify(int(temporary[1])) is None:
            findings.append(DoctorFinding("warning", f"{name} was left behind by a process that is gone.", path))
            if repair:
                with suppress(OSError):
                    os.unlink(path)
                    findings[-1].repaired = True
        elif EDITED in name:
            edited.append(path)
    for path in edited[:SHOWN]:
        findings.append(DoctorFinding("info", "An edit by hand is kept here; remove it when it is not needed.", path))
    if len(edited) > SHOWN:
        findings.append(DoctorFinding("info", f"… and {len(edited) - SHOWN} more edits.", directory))
    for top in ("", "tasks", "inbox", "runs"):
        base = os.path.join(directory, top)
        for path in (os.path.join(base, name) for name in _names(base)):
            if os.path.islink(path):
                what = "A symbolic link lies where files are written; nothing is written through it. Remove it."
                findings.append(DoctorFinding("error", what, path))
    return findings


def examine_unknown_tasks(workspace: Workspace) -> list[DoctorFinding]:
    """Task files of tasks that the ledger does not know: somebody's own, so they are listed and left alone."""
    below = os.path.join(workspace.directory, "tasks")
    lying = {
        os.path.join(below, state, name): name.removesuffix(".md")
        for state in STATES
        for name in _names(os.path.join(below, state))
        if name.endswith(".md") and "." not in name.removesuffix(".md")  # others are edits that were kept
    }
    if not lying:
        return []
    with workspace.ledger.snapshot() as rows:
        known = {task.id for task in every_task(rows)}
    unknown = [path for path, id in lying.items() if id not in known]
    what = (
        "The ledger knows no such task. The file changes nothing and is left alone; `interlock task create` makes one."
    )
    findings = [DoctorFinding("info", what, path) for path in unknown[:SHOWN]]
    if len(unknown) > SHOWN:
        findings.append(DoctorFinding("info", f"… and {len(unknown) - SHOWN} more such files.", below))
    return findings


def examine_modes(directory: str, files: list[str], *, repair: bool) -> list[DoctorFinding]:
    """What the owner must be able to read and write: the team's directory, and the files of its ledger."""
    findings = []
    for path, needed in ((directory, 0o700), *((file, 0o600) for file in files)):
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode) or mode & needed == needed:
            continue
        finding = DoctorFinding("error", f"Its owner may not read and write it (mode {stat.S_IMODE(mode):04o}).", path)
        findings.append(finding)
        if repair:
            try:
                os.chmod(path, stat.S_IMODE(mode) | needed)
                finding.repaired = True
            except OSError as error:
                finding.what += f" That could not be changed: {error}."
    return findings


def examine_room(directory: str) -> list[DoctorFinding]:
    """A disk that has no room for the next changes."""
    free = shutil.disk_usage(directory).free
    what = f"Changes will be refused: the disk has {free} bytes free. Free some space."
    return [DoctorFinding("error", what, directory)] if free < ROOM else []


def examine_permissions(directory: str, *, repair: bool) -> list[DoctorFinding]:
    """Nobody else may read a team: its directory is 0700, what lies directly in it and its backups 0600 or 0700."""
    findings = []
    paths = [directory]
    for below in (directory, os.path.join(directory, BACKUPS)):
        paths += [os.path.join(below, name) for name in _names(below)]
    for path in paths:
        found = closed(path, repair=repair)
        if found is not None:
            findings.append(found)
    return findings


def closed(path: str, *, repair: bool) -> DoctorFinding | None:
    """A finding where others may read or write `path`; with `repair` they no longer may."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode) or not mode & 0o077:
        return None
    finding = DoctorFinding("warning", f"Others may read or write it (mode {stat.S_IMODE(mode):04o}).", path)
    if repair:
        try:
            os.chmod(path, mode & (0o700 if stat.S_ISDIR(mode) else FILE_MODE))
            finding.repaired = True
        except OSError as error:
            finding.what += f" That could not be changed: {error}."
    return finding


def _files_of(directory: str) -> Iterator[str]:
    for here, below, names in os.walk(directory, followlinks=False):
        if here == directory and WORKTREES in below:
            below.remove(WORKTREES)  # What lies there is the agents' own.
        yield from (os.path.join(here, name) for name in sorted(names))


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
