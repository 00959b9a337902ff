"""A task's `verify`, run where whoever is responsible for it stands: a runner, a command at a terminal, a server.

All of them give the command the same surroundings: the team's working directory, what the task's own programs may see
of the environment, and nothing of Interlock's, since a check acts for nobody. One that failed is not run again while
nothing has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import anyio.to_thread

from interlock.agent import Update
from interlock.ledger import Rows
from interlock.model.names import SYSTEM
from interlock.model.task import Run, Task
from interlock.output import plain
from interlock.plan.surroundings import checkout_of
from interlock.runner import recovery
from interlock.runner.environment import allowed_environment, for_supervisor
from interlock.runner.lifesigns import token_of, verifier
from interlock.runner.progress import everything
from interlock.runner.verification import Evidence, verify
from interlock.sessions import Caller
from interlock.tasks import finish
from interlock.tasks import verify as verify_rows
from interlock.tasks.find import find
from interlock.workspace import Workspace
from interlock.worktrees.snapshot import tree_of


def variables(rows: Rows, task: Task, member: str | None) -> tuple[str, ...]:
    """The names of the variables that programs of that member may see at that task, beyond the allow-list."""
    found = rows.team.member(member) if member is not None else None
    own = found.env or () if found is not None else ()
    return tuple(dict.fromkeys([*(task.env or ()), *own]))


def place_of(rows: Rows, task: Task) -> str:
    """Where what a task is about lies: its own worktree, else the team's working directory."""
    own = str((task.worktree or {}).get("directory") or "")
    return own if own and os.path.isdir(own) else rows.team.get().workdir or os.getcwd()


async def examine(workspace: Workspace, task: Task, *, on_line: Callable[[str], None] = lambda line: None) -> Evidence:
    """Run the verify of `task`, which is in review with `verifying` naming this process; the ledger is not changed.

    Raises:
        InvalidRequest: a variable that the task or its owner names is Interlock's own.
    """
    failed = (task.verifying or {}).get("failed") or {}
    told: dict[str, str] = {}

    def look() -> tuple[str, str | None, str | None, tuple[str, ...], dict[str, float], str | None]:
        with workspace.ledger.snapshot() as rows:
            settings = workspace.settings(rows)
            limits = {name: settings.get(name) for name in ("verify_timeout", "output_bytes", "stop_grace")}
            told.update(for_supervisor(workspace, settings))
            place, names, own = place_of(rows, task), variables(rows, task, task.owner), rows.team.get().workdir
            author = rows.team.member(str(task.owner))
        top = checkout_of(own) if own is not None and task.worktree is not None else None
        # Who works by hand may have put right what lies elsewhere.
        managed = author is not None and author.agent is not None
        same = managed and failed.get("fingerprint") and failed["command"] == task.verify
        files = everything(place) if same else None
        return place, tree_of(place), top, names, limits, files

    started: list[str] = []
    workdir, tree, top, names, limits, files = await anyio.to_thread.run_sync(look)
    if files is not None and files == failed["fingerprint"]:
        known = {field.name: failed[field.name] for field in fields(Evidence) if field.name in failed}
        return Evidence(**{**known, "unchanged": True})
    environment, secrets = allowed_environment(os.environ, names=names, extra=told)
    evidence = await verify(
        str(task.verify),
        workdir=workdir,
        environment=environment,
        timeout=float(limits["verify_timeout"]),
        output_bytes=int(limits["output_bytes"]),
        stop_grace=float(limits["stop_grace"]),
        secrets=secrets,
        token=token_of(str((task.verifying or {}).get("process") or "")),
        log=workspace.log_path(task.id, task.run, "verify"),
        on_line=on_line,
        tree=tree,
        top=top,
        on_start=lambda identity: started.append(identity.as_text()),
    )
    for process in started:
        note = partial(recovery.note_left, workspace, process, task.id, set(), member=None, run=None)
        await anyio.to_thread.run_sync(note)
    if evidence.passed or evidence.exit_code is None:
        return evidence
    # What the check itself leaves behind is no change.
    return replace(evidence, fingerprint=await anyio.to_thread.run_sync(everything, workdir))


async def recheck(
    workspace: Workspace, task: Task, run: Run, author_is_gone: Callable[[], bool], hear: Callable[[Update], None]
) -> None:
    """Take the verify of `task` over from a process that is gone, and run it; the old one's programs end first."""

    def begin() -> Task | None:
        with workspace.ledger.snapshot() as rows:
            grace = float(workspace.settings(rows).get("stop_grace"))
        recovery.end_verify_program(task, grace)
        if author_is_gone():
            recovery.end_run_programs(run, grace)
        return take_over(workspace, task, verifier())

    current = await anyio.to_thread.run_sync(begin)
    if current is None:
        return
    hear(Update("notice", f"checking again: {current.verify}"))
    evidence = await examine(workspace, current, on_line=lambda line: hear(Update("text", plain(line))))
    await anyio.to_thread.run_sync(partial(decide, workspace, current, evidence.as_dict(), author_is_gone))


def take_over(workspace: Workspace, task: Task, mark: str) -> Task | None:
    """Become, as `mark`, the process that runs the verify of `task`; null where somebody was faster."""
    with workspace.act(Caller(SYSTEM)) as act:
        current = find(act.rows, task.id)
        if current.state != "review" or current.verifying != task.verifying:
            return None
        return verify_rows.take_up(act, current, mark)


def decide(workspace: Workspace, task: Task, evidence: dict[str, Any], author_is_gone: Callable[[], bool]) -> None:
    """Take in how the verify that was taken over as `task` has ended.

    Where nobody drives the author's program any more, a failed check gives the task back to the queue; an agent that
    lives, or a person, keeps it and gets the findings.
    """
    mark = str((task.verifying or {})["process"])
    with workspace.act(Caller(SYSTEM)) as act:
        decided = verify_rows.verified(act, find(act.rows, task.id), evidence, run=task.run, verifier=mark)
        if decided.run == task.run and decided.state == "in-progress" and author_is_gone():
            finish.fail(act, decided, "its check failed after its runner was gone", counts=False)
