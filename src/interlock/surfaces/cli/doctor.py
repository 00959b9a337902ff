"""`interlock doctor`"""

from __future__ import annotations

import os
from typing import Any

import click

from interlock.errors import InterlockError
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("doctor", example="interlock doctor --repair")
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--adopt", is_flag=True, help="Take over subject and body from task files that were edited by hand.")
def doctor(call: Call, repair: bool, adopt: bool) -> int:
    """Check ledger, files and mirror of all teams, or of the one named. The exit code is 1 while something is wrong."""
    named = call.asked_team or os.environ.get("INTERLOCK_TEAM")
    teams = [named] if named else call.home.teams()
    healthy = True
    findings: list[dict[str, Any]] = []
    for name in teams:
        result = _examine(call, name, repair, adopt)
        healthy = healthy and bool(result["healthy"])
        findings += [{"team": name, **finding} for finding in result["findings"]]
    call.answer({"healthy": healthy, "teams": teams, "findings": findings}, _shown(teams, findings, healthy, repair))
    return 0 if healthy else 1


def _examine(call: Call, name: str, repair: bool, adopt: bool) -> dict[str, Any]:
    try:
        return call.team_named(name).doctor(repair=repair, adopt=adopt)
    except InterlockError as error:
        if error.code in ("team_not_found", "invalid_team_name", "forbidden"):
            raise
        finding = {"level": "error", "what": error.message, "path": error.details.get("path"), "repaired": False}
        return {"healthy": False, "findings": [finding]}


def _shown(teams: list[str], findings: list[dict[str, Any]], healthy: bool, repair: bool) -> list[str]:
    lines = []
    for finding in findings:
        level = click.style(finding["level"], fg={"error": "red", "warning": "yellow"}.get(finding["level"], "cyan"))
        mended = click.style("  mended", fg="green") if finding.get("repaired") else ""
        lines.append(f"{level}  {words.strong(finding['team'])}  {words.clean(finding['what'])}{mended}")
        if finding.get("path"):
            lines.append(f"    {words.faint(str(finding['path']))}")
    checked = words.count(len(teams), "team")
    if healthy:
        return [*lines, f"{words.state('done').replace('done', 'healthy')}: {checked} checked"]
    hint = "" if repair else "; `interlock doctor --repair` mends what can be mended"
    return [*lines, f"{checked} checked{hint}"]
