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
from interlock.client import Team
from interlock.errors import InterlockError
from interlock.processes.ref import ProcessRef
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.run import drive, finish

ABOUT = """Three agents release a small project: ten tasks that depend on each other, in {directory}
  ada   carries out commands: lint, tests, package
  ben   mends a bug; we kill him in the middle, on purpose
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
    began = time.monotonic()
    try:
        plan = bundled.materialise(directory)
        # A home of its own: the demo leaves no trace among the user's teams.
        call.asked_home = os.path.join(directory, "home")
        staged = call.home.stage(plan)
        if not call.json:
            call.say(ABOUT.format(directory=directory))
        team = call.home.team(staged.team)
        killer = Killer(team)
        reason = drive(call, team, parallel=staged.parallel, until=None, hear=killer.heard)
        code = finish(call, team, reason)
        if not call.json:
            call.say(_lesson(team, killer, time.monotonic() - began, directory if keep else None))
        return code if killer.killed else 1
    finally:
        call.close()
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


class Killer:
    """Kills ben's process group once, when he says that he is halfway."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.killed: str | None = None

    def heard(self, member: str, task_id: str, update: Update) -> None:
        """See `Home.drive`."""
        if self.killed is None and update.text.strip() == bundled.HALFWAY:
            run = self._team.runs(task_id)[-1]
            if run.process is not None:
                os.killpg(ProcessRef.parse(run.process).pid, signal.SIGKILL)
                self.killed = task_id


def _lesson(team: Team, killer: Killer, length: float, directory: str | None) -> list[str]:
    lines = [f"All of it took {length:.1f} s. What happened on the way:"]
    if killer.killed is not None:
        runs = team.runs(killer.killed)
        lines.append(
            f"  ben was killed in run 1 ({runs[0].reason}); run {len(runs)} took the task up again and finished it."
        )
    try:
        events, _ = team.events()
    except InterlockError:
        events = []
    caught = next((e for e in events if e.type == "verify.finished" and not e.payload["passed"]), None)
    if caught is not None:
        lines.append("  cleo said she was done; the check said otherwise, and she was given its findings.")
    if directory:
        lines.append(f"  Look around: {directory}/project, and `interlock --home {directory}/home status`.")
    else:
        lines.append("  Next: `interlock init` in a project of yours, then `interlock run plan.yaml`.")
    return lines
