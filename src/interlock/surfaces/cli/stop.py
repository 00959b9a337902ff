"""`interlock stop` and `interlock down`: the runner of a team, one member, or everything in this home."""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("stop", example="interlock stop\ninterlock stop --now --member bob")
@click.option("--now", is_flag=True, help="End processes instead of asking.")
@click.option("--member", metavar="M", help="Only this member.")
def stop(call: Call, now: bool, member: str | None) -> int:
    """Stop a team's runner: it finishes what runs and starts nothing new. With --now everything is ended.

    With --member that member is asked to shut down, or, with --now, its run is ended and its task given back.
    """
    team = call.team()
    found = call.home.stop(team.name, member=member, now=now)
    call.answer(found, _lines(found, member))
    return 0 if found["gone"] or not now else 1


@verb("down", example="interlock down")
def down(call: Call) -> int:
    """End everything that runs in this home, and check that it is gone."""
    from interlock.serve import place

    call.home.need_person("end what runs in this home")
    server = place.end(call.home.path)
    stopped = [call.home.stop(name, now=True) for name in call.home.teams()]
    lines = [] if server is None else [f"Ended the server at {server}."]
    lines += [line for found in stopped for line in _lines(found)]
    call.answer({"server": server, "teams": stopped}, lines or ["Nothing runs here."])
    return 0 if all(found["gone"] for found in stopped) else 1


def _lines(found: dict[str, Any], member: str | None = None) -> list[str]:
    team, asked, ended = found["team"], found["asked"], found["ended"]
    if asked:
        return [_asked(team, member, asked)]
    lines = [f"{team}: ended {', '.join(ended)}."] if ended else []
    if left := found.get("left"):
        lines.append(
            f"{team}: its runner is dead, and the programs of {', '.join(left)} run on. "
            f"`interlock stop --now --team {team}` ends them."
        )
    if not found["gone"]:
        lines.append(f"{team}: not everything is gone yet; `interlock status --team {team}` shows what runs.")
    return lines or [f"{team}: nothing runs." if member is None else f"{team}: {member} runs nothing."]


def _asked(team: str, member: str | None, asked: list[str]) -> str:
    if member is None and asked == ["server"]:
        return f"{team}: paused; the server finishes what runs. `interlock resume --team {team}` goes on."
    if member is None:
        return (
            f"{team}: the runner finishes what runs and begins nothing new. "
            f"`interlock stop --now --team {team}` ends it at once."
        )
    return (
        f"{team}: asked {member} to finish and shut down. "
        f"`interlock stop --now --member {member} --team {team}` ends its run at once."
    )
