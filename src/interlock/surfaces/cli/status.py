"""`interlock status`"""

from __future__ import annotations

from typing import Any

import click

from interlock.errors import InterlockError
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import cut, terminal_width


@verb("status", example="interlock status --all")
@click.option("--all", "everything", is_flag=True, help="All teams of this home.")
def status(call: Call, everything: bool) -> None:
    """What needs me, what is running since when with its last words, what is next."""
    if not everything:
        found = call.team().status()
        call.answer(found, shown(found))
        return
    teams = [_of(call, name) for name in call.home.teams()]
    lines: list[str] = []
    for one in teams:
        lines += [*(["", ""] if lines else []), *shown(one)]
    call.answer({"teams": teams}, lines or f"No teams in {call.home.path} yet. Create one: interlock team create NAME")


def shown(found: dict[str, Any]) -> list[str]:
    """The status of one team, for people."""
    if "error" in found:
        return [f"{words.strong(found['team'])}  {words.state('blocked')}  {words.clean(found['message'])}"]
    lines = [f"{words.strong(found['team'])}  {counts(found['counts'])}"]
    if found["needs_me"]:
        lines += ["", words.strong(click.style("Needs me", fg="magenta"))]
        for need in found["needs_me"]:
            lines.append(_cut(f"  {need['kind']}  {words.clean(need['text'])}"))
            lines.append(f"      {words.faint(need['verb'])}")
    if found["running"]:
        lines += ["", words.strong("Running")]
        for run in found["running"]:
            since = f"  {words.faint('since ' + words.ago(run['since']))}" if run["since"] else ""
            who = words.clean(run["member"] or "")
            lines.append(
                f"  {run['task_id']}  {words.state(run['state'])}  {who}  {words.clean(run['subject'])}{since}"
            )
            if run["last_words"]:
                lines.append(words.faint(_cut(f"      {words.clean(run['last_words'])}")))
    if found["next"]:
        lines += ["", words.strong("Next")]
        for task in found["next"]:
            mark = f"  {words.priority(task['priority'])}" if task["priority"] != "normal" else ""
            whom = f"  {words.faint('for ' + words.clean(task['assignee']))}" if task["assignee"] else ""
            lines.append(f"  {task['task_id']}  {words.clean(task['subject'])}{mark}{whom}")
    if found.get("retry_at"):
        lines += ["", words.faint(f"the next retry begins {words.ago(found['retry_at'])}")]
    if len(lines) == 1:
        done = any(found["counts"].values())
        lines += ["", "Nothing waits and nothing runs." if done else 'No tasks yet: interlock task create "SUBJECT"']
    return lines


def counts(found: dict[str, int]) -> str:
    """How many tasks are in each state."""
    parts = [f"{number} {words.state(name)}" for name, number in found.items() if number and name != "deleted"]
    return ", ".join(parts) or "no tasks"


def _cut(line: str) -> str:
    room = terminal_width()
    return line if room is None else cut(line, room)


def _of(call: Call, name: str) -> dict[str, Any]:
    try:
        return call.team_named(name).status()
    except InterlockError as error:
        return {"team": name, **error.as_dict()}
