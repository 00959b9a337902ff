"""Members at work: asking them to stop, and ending them."""

from __future__ import annotations

from interlock import processes, shutdown
from interlock.clients.local.tasks import process_lives
from interlock.sessions import Caller
from interlock.workspace import Workspace


def running_members(workspace: Workspace) -> dict[str, list[str]]:
    """The members with a living process, and those processes as text: of their open runs and of their sessions."""
    found: dict[str, list[str]] = {}
    with workspace.look() as rows:
        for run in rows.runs.open():
            for process in (run.process, run.runner):
                if process is not None and process_lives(process):
                    found.setdefault(run.member, []).append(process)
        for member in rows.team.members():
            for _, process in rows.team.living_sessions(member.name):
                if process is not None and process != processes.current().as_text() and process_lives(process):
                    found.setdefault(member.name, []).append(process)
    return found


def ask_running(workspace: Workspace) -> list[str]:
    """Send a shutdown request to every member at work; their names."""
    running = sorted(running_members(workspace))
    if running:
        with workspace.act(Caller()) as act:
            for name in running:
                shutdown.request(act, name, reason="the team is to be deleted")
    return running


def end_running(workspace: Workspace) -> None:
    """End the runs' own process groups, and nothing else."""
    with workspace.look() as rows:
        grace = float(workspace.settings(rows).get("stop_grace"))
        owned = [run.process for run in rows.runs.open() if run.process is not None]
    for text in owned:
        if process_lives(text):
            processes.end_group(processes.Identity.parse(text), grace=grace)
