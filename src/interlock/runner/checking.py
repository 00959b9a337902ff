"""A task's `verify`, run where whoever is responsible for it stands: a runner, a command at a terminal, a server.

All of them give the command the same surroundings: the team's working directory, what the task's own programs may see
of the environment, and nothing of Interlock's, since a check acts for nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import anyio.to_thread

from interlock.ledger import Rows
from interlock.model.task import Task
from interlock.runner.environment import allowed_environment
from interlock.runner.lifesigns import token_of
from interlock.runner.verification import Evidence, verify
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

    def look() -> tuple[str, str | None, tuple[str, ...], dict[str, float]]:
        with workspace.ledger.snapshot() as rows:
            settings = workspace.settings(rows)
            limits = {name: settings.get(name) for name in ("verify_timeout", "output_bytes", "stop_grace")}
            place, names = place_of(rows, task), variables(rows, task, task.owner)
        return place, tree_of(place), names, limits

    workdir, tree, names, limits = await anyio.to_thread.run_sync(look)
    environment, secrets = allowed_environment(os.environ, names=names)
    return await verify(
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
    )
