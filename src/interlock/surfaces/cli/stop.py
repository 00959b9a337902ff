"""`interlock stop` and `interlock down`: the runner of a team, one member, or everything in this home."""

from __future__ import annotations

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
    call.answer(found, _lines(found))
    return 0 if found["gone"] or not now else 1


@verb("down", example="interlock down")
def down(call: Call) -> int:
    """End everything that runs in this home, and check that it is gone."""
    stopped = [call.home.stop(name, now=True) for name in call.home.teams()]
    call.answer({"teams": stopped}, [line for found in stopped for line in _lines(found)] or ["Nothing runs here."])
    return 0 if all(found["gone"] for found in stopped) else 1


def _lines(found: dict[str, object]) -> list[str]:
    asked, ended = found["asked"], found["ended"]
    lines = []
    if asked:
        lines.append(f"{found['team']}: asked {', '.join(map(str, asked))} to stop.")  # type: ignore[call-overload]
    if ended:
        lines.append(f"{found['team']}: ended {', '.join(map(str, ended))}.")  # type: ignore[call-overload]
    if not found["gone"]:
        lines.append(f"{found['team']}: not everything is gone yet; `interlock status` shows what runs.")
    return lines or [f"{found['team']}: nothing runs."]
