"""`interlock doctor`"""

from __future__ import annotations

import os
from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb


@verb("doctor", example="interlock doctor --repair")
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--adopt", is_flag=True, help="Take over subject and body from task files that were edited by hand.")
def doctor(call: Call, repair: bool, adopt: bool) -> int:
    """Check ledger, files and mirror of all teams, or of the one named. The exit code is 1 while something is wrong."""
    named = call.asked_team or os.environ.get("INTERLOCK_TEAM")
    result = call.home.doctor(named, repair=repair, adopt=adopt)
    teams = [named] if named else call.home.teams()
    document = {"healthy": result["healthy"], "teams": teams, "findings": result["findings"]}
    call.answer(document, _shown(teams, result["findings"], bool(result["healthy"]), repair))
    return 0 if result["healthy"] else 1


def _shown(teams: list[str], findings: list[dict[str, Any]], healthy: bool, repair: bool) -> list[str]:
    lines = []
    for finding in findings:
        level = click.style(finding["level"], fg={"error": "red", "warning": "yellow"}.get(finding["level"], "cyan"))
        mended = click.style("  mended", fg="green") if finding.get("repaired") else ""
        lines.append(f"{level}  {words.strong(finding['team'] or 'home')}  {words.clean(finding['what'])}{mended}")
        if finding.get("path"):
            lines.append(f"    {words.faint(str(finding['path']))}")
    checked = words.count(len(teams), "team")
    if healthy:
        return [*lines, f"{words.state('done').replace('done', 'healthy')}: {checked} checked"]
    hint = "" if repair else "; `interlock doctor --repair` mends what can be mended"
    return [*lines, f"{checked} checked{hint}"]
