"""`interlock demo`: the main job on a bundled project, with a kill and a lie on the way."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time

import click

from interlock import demo as bundled
from interlock.agents.session import Update
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.processes.ref import ProcessRef
from interlock.surfaces.cli.call import Call, verb
from interlock.surfaces.cli.run import drive, finish

ABOUT = """Three agents release a small project: ten tasks that depend on each other, in {directory}
  ada   carries out commands: lint, tests, package
  ben   fixes a bug; we kill him in the middle, on purpose
  cleo  writes the changelog, and says she is done when she is not
"""


@verb("demo", example="interlock demo\ninterlock demo --keep ./demo   # to look around afterwards")
@click.option("--keep", metavar="DIR", help="Work in this new directory and leave it there.")
def demo(call: Call, keep: str | None) -> int:
    """See the main job at work in under a minute: no keys, no server, nothing left behind.

    One agent is killed with SIGKILL in the middle of its task; the task is taken up again. One agent lies about its
    result; `verify` catches it, and it has to do the work after all.
    """
    directory = os.path.abspath(keep) if keep else tempfile.mkdtemp(prefix="interlock-demo-")
    started = time.monotonic()
    try:
        plan = bundled.materialise(directory)
        # A home of its own: the demo leaves no trace among the user's teams.
        call.asked.home = os.path.join(directory, "home")
        staged = call.home.stage(plan)
        call.note(ABOUT.format(directory=directory))
        team = call.home.team(staged.team)
        killed: list[str] = []

        def kill_ben_halfway(member: str, task_id: str, update: Update) -> None:
            run = team.runs(task_id)[-1] if not killed and update.text.strip() == bundled.HALFWAY else None
            if run is not None and run.process is not None:
                os.killpg(ProcessRef.parse(run.process).pid, signal.SIGKILL)
                killed.append(task_id)

        reason = drive(call, team, parallel=staged.parallel, hear=kill_ben_halfway)
        code = finish(call, team, reason)
        call.note(
            [f"All of it took {time.monotonic() - started:.1f} s. What happened on the way:", *_story(team, killed)]
        )
        if keep:
            call.note(f"  Look around: {directory}/project, and `interlock --home {directory}/home status`.")
        else:
            call.note("  Next: `interlock init` in a project of yours, then `interlock run plan.yaml`.")
        return code if killed else 1
    finally:
        call.close()
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _story(team: Team, killed: list[str]) -> list[str]:
    lines = []
    for task in killed:
        runs = team.runs(task)
        lines.append(
            f"  ben was killed in run 1 ({runs[0].reason}); run {len(runs)} took the task up again and finished it."
        )
    try:
        events, _ = team.events()
    except InterlockError:
        events = []
    if any(event.type == "verify.finished" and not event.payload["passed"] for event in events):
        lines.append("  cleo said she was done; the check said otherwise, and she was given its findings.")
    return lines
