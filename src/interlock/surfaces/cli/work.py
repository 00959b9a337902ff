"""`interlock work`: workers only."""

from __future__ import annotations

import click

from interlock.runner.stop import Stop
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.run import HINT, interrupted_by_signals, shown


@verb("work", example="interlock work --team alpha")
@click.option("--parallel", type=click.IntRange(1, 100), metavar="N", help="Runs open at once in the team.")
def work(call: Call, parallel: int | None) -> None:
    """Let the team's agents do its tasks, and wait for new ones until stopped.

    What nobody works on any more is taken up, also in a team of people and joined programs alone.
    Several of these may run at once in one team, beside one `interlock run`. Ctrl-C finishes what runs and stops.
    """
    team = call.team()
    if not call.json and not any(member.agent and member.role == "member" for member in team.members()):
        call.say(f"No member of {team.name} has an agent: only what nobody works on any more is taken up.")
    stop = Stop()
    with shown(call, team, HINT) as view, interrupted_by_signals(stop, view):
        reason = call.home.drive(team.name, parallel=parallel, stop=stop, on_update=view.heard, endless=True, idle=True)
    call.answer({"team": team.name, "ended": reason}, f"{team.name}: no longer working, {reason}.")
