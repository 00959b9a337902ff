"""`interlock status`"""

from __future__ import annotations

from typing import Any

import click

from interlock.core.reports.needs import folded
from interlock.core.reports.now import in_words
from interlock.errors import InterlockError
from interlock.model.names import HUMAN
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import cut, terminal_width


@verb("status", reads=True, example="interlock status --all")
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
    lines = [f"{words.strong(found['team'])}  {counts(found['counts'])}{_spent(found)}", *_news(found)]
    if found["status"] == "paused":
        lines.append("Paused: nothing new starts until `interlock resume`")
    for word in ("paused", "stopped"):
        lines += [
            f"{words.clean(name)} is {word}: `interlock resume --member {words.clean(name)}`" for name in found[word]
        ]
    lines += [click.style(words.clean(in_words(one)), fg="yellow") for one in found["unable"]]
    first = len(lines)
    if found["needs_me"]:
        lines += ["", words.strong(click.style("Needs me", fg="magenta"))]
        for need in folded(found["needs_me"]):
            lines.append(_cut(f"  {need['kind']}  {words.clean(need['text'])}"))
            lines.append(f"      {words.faint(need['verb'])}")
    told = {need["task_id"] for need in found["needs_me"]}
    waiting = [task for task in found["waiting"] if task["task_id"] not in told]
    for title, tasks in (("Running", found["running"]), ("Waiting", waiting)):
        lines += ["", words.strong(title)] if tasks else []
        for task in tasks:
            lines += _held(task)
    if found["next"]:
        lines += ["", words.strong("Next")]
        for task in found["next"]:
            mark = f"  {words.priority(task['priority'])}" if task["priority"] != "normal" else ""
            whom = f"  {words.faint('for ' + words.clean(task['assignee']))}" if task["assignee"] else ""
            lines.append(f"  {task['task_id']}  {words.clean(task['subject'])}{mark}{whom}")
    if found.get("kept"):
        lines += ["", words.strong("Kept worktrees")]
        for task in found["kept"]:
            lines.append(f"  {task['task_id']}  {words.state(task['state'])}  {words.clean(task['path'])}")
    if found.get("retry_at"):
        lines += ["", words.faint(f"the next retry begins {words.ago(found['retry_at'])}")]
    if len(lines) == first:
        done = any(found["counts"].values())
        lines += ["", "Nothing waits and nothing runs." if done else 'No tasks yet: interlock task create "SUBJECT"']
    return lines


def _news(found: dict[str, Any]) -> list[str]:
    """Who drives the team, and mail that nobody would hear of otherwise."""
    lines = []
    if found["driven"]:
        lines.append(words.faint("a runner drives this team"))
    elif found["workers"]:
        lines.append(words.faint("`interlock up` or `interlock work` works on its tasks"))
    elif found["runner"] is not None:
        lines.append(click.style("its runner is gone; `interlock run PLAN` takes its tasks up", fg="yellow"))
    for name, number in found["unread"].items():
        read = f"interlock message read{'' if name == HUMAN else f' --as {name}'} --team {found['team']}"
        lines.append(f"{words.count(number, 'unread message')} for {name}: {words.faint(read)}")
    return lines


def _held(task: dict[str, Any]) -> list[str]:
    since = f"  {words.faint('began ' + words.ago(task['since']))}" if task["since"] else ""
    who = words.clean(task["member"] or "")
    line = f"  {task['task_id']}  {words.state(task['state'])}  {who}  {words.clean(task['subject'])}{since}"
    if not task.get("last_words"):
        return [line]
    return [line, words.faint(_cut(f"      {words.clean(task['last_words'])}"))]


def counts(found: dict[str, int]) -> str:
    """How many tasks are in each state."""
    parts = [f"{number} {words.state(name)}" for name, number in found.items() if number and name != "deleted"]
    return ", ".join(parts) or "no tasks"


def _spent(found: dict[str, Any]) -> str:
    said = words.spent(found["spent"])
    return f"  {words.faint(said)}" if said else ""


def _cut(line: str) -> str:
    room = terminal_width()
    return line if room is None else cut(line, room)


def _of(call: Call, name: str) -> dict[str, Any]:
    try:
        return call.team_named(name).status()
    except InterlockError as error:
        return {"team": name, **error.as_dict()}
