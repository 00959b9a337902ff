"""Members at work, and the runner that drives them: asking them to stop, ending them, checking that they are gone."""

from __future__ import annotations

import os
import signal

from interlock import core, runner
from interlock.core.unit_of_work import Principal, Workspace, unknown_member
from interlock.errors import Conflict
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import SYSTEM
from interlock.processes.ref import ProcessRef, alive, current
from interlock.runner.registration import at_work, servers

PATIENCE = 10.0
"""Seconds a runner gets to end everything after it was told to, beyond `stop_grace`."""


@dataclass(frozen=True, slots=True)
class StopOutcome:
    """What stopping a team, or one member, came to: who was `asked` and what was `ended`; `gone`: nothing of it runs
    any more. Of a team also the members whose programs are `left`, though nobody drives them any more."""

    team: str
    asked: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    gone: bool = True
    left: tuple[str, ...] | None = None

    def as_dict(self) -> Json:
        """Return the JSON form, without `left` for a single member."""
        shown = {"team": self.team, "asked": self.asked, "ended": self.ended, "gone": self.gone}
        return shown if self.left is None else {**shown, "left": self.left}


def running_members(workspace: Workspace) -> list[str]:
    """The members with a living process: of an open run, or of a session of another process than this one."""
    own = current().as_text()
    found = set()
    with workspace.look() as rows:
        for run in rows.runs.open():
            if any(text is not None and alive(text) for text in (run.process, run.runner)):
                found.add(run.member)
        for member in rows.team.members():
            for _, process in rows.sessions.living(member.name):
                if process not in (None, own) and alive(str(process)):
                    found.add(member.name)
    return sorted(found)


def is_driven(workspace: Workspace) -> bool:
    """Whether a runner or worker of the team's own lives, or a program of a run."""
    with workspace.look() as rows:
        serving, runs = servers(rows), [run.process for run in rows.runs.open() if run.process is not None]
        return any(process not in serving for process in at_work(rows)) or any(alive(process) for process in runs)


def ask_running(workspace: Workspace) -> list[str]:
    """Send a shutdown request to every member at work; their names."""
    running = running_members(workspace)
    if running:
        with workspace.act(Principal()) as act:
            for name in running:
                core.shutdown.request(act, name, reason="the team is to be deleted")
    return running


def stop_runner(workspace: Workspace, *, now: bool) -> StopOutcome:
    """Stop a team; see `RunVerbs.stop`."""
    with workspace.look() as rows:
        driving, serving = rows.team.get().runner, servers(rows)
        drivers = [process for process in at_work(rows) if process not in serving]
    told = []
    if serving:
        with workspace.act(Principal()) as act:
            core.teams.pause(act, reason="stopped by hand")
        told.append("server")
    for driver in drivers:
        _signal(driver, signal.SIGTERM if now else signal.SIGINT)
        told.append("runner" if driver == driving else "worker")
    for driver in drivers if now else ():
        if not _gone(workspace, driver):
            _signal(driver, signal.SIGKILL)
            _gone(workspace, driver)
    if now:
        left = _left_behind(workspace)
        runner.scheduler.take_up(workspace)
        told += sorted({*left, *_end_runs(workspace, None)})
    gone = not running_members(workspace) if now else not drivers and not serving
    asked, ended = ((), tuple(told)) if now else (tuple(told), ())
    return StopOutcome(workspace.name, asked, ended, gone, tuple(_left_behind(workspace)))


def _left_behind(workspace: Workspace) -> list[str]:
    """The members whose programs still run, though the runner that started them is dead."""
    with workspace.look() as rows:
        runs = [run for run in rows.runs.open() if run.process and run.runner and alive(run.runner) is False]
    return sorted({run.member for run in runs if alive(str(run.process))})


def stop_member(workspace: Workspace, member: str, *, now: bool) -> StopOutcome:
    """Stop one member; see `RunVerbs.stop`."""
    asked, ended = [], []
    with workspace.act(Principal()) as act:
        if not now:
            asked = [core.shutdown.request(act, member).subject]
        elif act.rows.team.member(member) is None:
            raise unknown_member(act.rows, member)
        else:
            # First, so that no runner gives it the next task meanwhile.
            core.teams.set_aside(act, member, "stopped", "stopped by hand")
    if now:
        ended = _end_runs(workspace, member)
        _wait_for_kept_session(workspace, member)
    gone = member not in running_members(workspace)
    return StopOutcome(workspace.name, tuple(asked), tuple(ended), gone)


def _end_runs(workspace: Workspace, member: str | None) -> list[str]:
    """Give the tasks of open runs back, then end their programs: that end is no failure then.

    A run whose program has only just been started may not have noted its process yet; its token finds it.
    """
    with workspace.look() as rows:
        grace = float(workspace.settings(rows).get("stop_grace"))
        runs = [run for run in rows.runs.open() if (run.process or run.runner) and member in (None, run.member)]
    for run in runs:
        try:
            with workspace.act(Principal(SYSTEM, run=run.number)) as act:
                task = act.rows.tasks.get(run.task_id)
                if task is not None and task.run == run.number and task.state == "in-progress":
                    core.tasks.finish.fail(act, task, "stopped by hand", counts=False)
                elif (
                    task is not None
                    and task.run == run.number
                    and core.tasks.review.under_review(act.rows, task) is not None
                ):
                    core.tasks.review.no_verdict(act, task, "stopped by hand", counts=False)
        except Conflict:
            pass  # It ended by itself meanwhile.
        runner.run_processes.end_run_programs(run, grace)
    return sorted({run.member for run in runs})


def _wait_for_kept_session(workspace: Workspace, member: str) -> None:
    """Wait until its runner has closed the session that it keeps for the member."""
    deadline = workspace.clock.monotonic() + PATIENCE
    while workspace.clock.monotonic() < deadline:
        with workspace.ledger.snapshot() as rows:
            kept = [process for name, _, process in rows.sessions.of_runners() if name == member]
        if not any(map(alive, kept)):
            return
        workspace.clock.sleep(0.02)


def _signal(runner: str, number: signal.Signals) -> None:
    if alive(runner):
        os.kill(ProcessRef.parse(runner).pid, number)


def _gone(workspace: Workspace, runner: str) -> bool:
    with workspace.look() as rows:
        patience = PATIENCE + float(workspace.settings(rows).get("stop_grace"))
    deadline = workspace.clock.monotonic() + patience
    while alive(runner):
        if workspace.clock.monotonic() > deadline:
            return False
        workspace.clock.sleep(0.02)
    return True
