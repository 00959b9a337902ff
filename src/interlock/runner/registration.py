"""Which process drives a team: one at a time, so that a second `interlock run` shows the first one's board. Beside it
any number of workers may wait for work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interlock import core, model
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import RunnerAlive
from interlock.model.names import SYSTEM
from interlock.processes import ref
from interlock.processes.ref import alive
from interlock.storage.ledger import Rows

WORKERS = "work:"
"""How the ids of the sessions of `interlock work` begin; they are Interlock's own, no member's."""
SERVER = "serve:"
"""The same for `interlock up`, whose process works for all teams."""
FINISHED = "finished"
"""Why a runner ends that nobody stopped: nothing proceeds without a person."""

Enter = Callable[[UnitOfWork, str], "model.worker.WorkerRecord"]
"""Enters this process, as the ledger names it, into the list of workers."""

_here: set[str] = set()
"""The directories of the teams that this very process drives."""
_lock = threading.Lock()


def sign_on(workspace: Workspace, enter: Enter, *, take_over: bool = False) -> model.worker.WorkerRecord:
    """Become the team's runner, and by `enter` one of its workers. `take_over`: also from a runner of another machine.

    Raises:
        RunnerAlive: another runner is it, and lives, or is on another machine, where nobody here can tell; or another
            machine works for the team, in a directory of its own.
    """
    with _registering(workspace) as (act, own):
        team = act.rows.team.get()
        if team.runner not in (None, own):
            known = alive(str(team.runner))
            if known or (known is None and not take_over):
                raise _alive(workspace, str(team.runner))
        if not take_over:
            _on_one_machine(act, own)
        act.rows.team.update(team, runner=own)
        act.event("runner.started", process=own)
        return enter(act, own)


def join(workspace: Workspace, enter: Enter, *, shared: bool = False) -> tuple[model.worker.WorkerRecord, str]:
    """Become one of the team's workers, by `enter`; answers what `leave` needs. `shared`: this process does other
    things as well.

    Raises:
        RunnerAlive: this very process drives the team already, or another machine does, in a directory of its own.
    """
    with _registering(workspace) as (act, own):
        _on_one_machine(act, own)
        session = f"{SERVER if shared else WORKERS}{act.clock.new_id()}"
        act.rows.sessions.begin(SYSTEM, session, act.at, own)
        act.event("runner.started", process=own, endless=True)
        return enter(act, own), session


def beat(workspace: Workspace, worker: model.worker.WorkerRecord) -> model.worker.WorkerRecord:
    """Show that the worker lives; what it is to do."""
    with workspace.act(Principal(SYSTEM)) as act:
        return core.workers.beat(act, worker.name, worker.process, core.workers.load())


def fill(workspace: Workspace, worker: model.worker.WorkerRecord, status: str) -> model.worker.WorkerRecord:
    """Show that the worker is full, or that it is not any more."""
    with workspace.act(Principal(SYSTEM)) as act:
        return core.workers.fill(act, worker.name, worker.process, status)


def sign_off(
    workspace: Workspace, worker: model.worker.WorkerRecord, nothing_left: Callable[[Rows], bool], reason: str
) -> bool:
    """Cease to be the team's runner; False, and nothing is changed, where the `reason` is that it has finished and
    something is left by now, such as a task whose question was answered meanwhile."""
    stays = False
    try:
        with workspace.act(Principal(SYSTEM)) as act:
            stays = reason == FINISHED and not nothing_left(act.rows)
            if stays:
                return False
            core.workers.end(act, worker.name, worker.process)
            team = act.rows.team.get()
            if team.runner == ref.current().as_text():
                act.rows.team.update(team, runner=None)
                act.event("runner.stopped", reason=reason)
                act.topics.add("members")
        return True
    finally:
        if not stays:
            _forget(workspace)


def leave(workspace: Workspace, worker: model.worker.WorkerRecord, session: str, reason: str) -> bool:
    """Cease to be a worker; always True."""
    try:
        with workspace.act(Principal(SYSTEM)) as act:
            core.workers.end(act, worker.name, worker.process)
            act.rows.sessions.end(SYSTEM, session, act.at)
            act.event("runner.stopped", reason=reason, endless=True)
            act.topics.add("members")
        return True
    finally:
        _forget(workspace)


def at_work(rows: Rows) -> list[str]:
    """The processes that drive the team here and live: its runner first, then workers."""
    found = [rows.team.get().runner, *(process for _, process in rows.sessions.living(SYSTEM))]
    return [process for process in dict.fromkeys(found) if process is not None and alive(process)]


def servers(rows: Rows) -> list[str]:
    """Those of them that do more than work for this team."""
    found = [(session, process) for session, process in rows.sessions.living(SYSTEM) if process is not None]
    return [process for session, process in found if session.startswith(SERVER) and alive(process)]


@contextmanager
def _registering(workspace: Workspace) -> Iterator[tuple[UnitOfWork, str]]:
    """A transaction as this process, which may drive a team once only; what waits for work is woken after it."""
    own = ref.current().as_text()
    with _lock:
        if workspace.directory in _here:
            raise _alive(workspace, own)
        _here.add(workspace.directory)
    try:
        with workspace.act(Principal(SYSTEM)) as act:
            yield act, own
            act.topics.add("members")
    except BaseException:
        _forget(workspace)
        raise


def _on_one_machine(act: UnitOfWork, own: str) -> None:
    """Refuse where a worker on another machine lives and the team has no worktrees: what one task leaves in the
    directory there, the next one would not find here."""
    here = ref.ProcessRef.parse(own).host
    for worker in act.rows.team.workers().values() if act.settings.get("isolation") != "worktree" else ():
        if ref.ProcessRef.parse(worker.process).host != here and core.workers.lives(worker, act.settings, act.at):
            team = act.rows.team.get()
            raise RunnerAlive(
                f"{team.name} works in {team.workdir} on {worker.host}, without worktrees, so no other machine works "
                "for it meanwhile. With `isolation: worktree` in its plan, `interlock work` does from any machine.",
                runner=worker.process, elsewhere=True,
            )  # fmt: skip


def _forget(workspace: Workspace) -> None:
    with _lock:
        _here.discard(workspace.directory)


def _alive(workspace: Workspace, runner: str) -> RunnerAlive:
    host, _, pid, _ = runner.split("|")
    elsewhere = alive(runner) is None
    if elsewhere:
        message = (
            f"{workspace.name} is driven from another machine, {host} (process {pid}), and nobody here can tell "
            "whether that still lives. Stop it there; if it is gone for good, `interlock run --take-over` replaces it."
        )
    else:
        message = (
            f"Another runner drives {workspace.name} already (process {pid}). `interlock status` shows what it does; "
            "`interlock stop` ends it."
        )
    return RunnerAlive(message, runner=runner, elsewhere=elsewhere)
