"""`interlock status` and `interlock report`: what needs me and what runs now, and what was done with its evidence."""

from __future__ import annotations

import time
from typing import Any

import click

from interlock import model
from interlock.clock import iso, seconds
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.names import HUMAN
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

UNITS = {"m": 60, "h": 3_600, "d": 86_400}


@verb("status", reads=True, example="interlock status --all")
@click.option("--all", "everything", is_flag=True, help="All teams of this home.")
def status(call: Call, everything: bool) -> None:
    """What needs me, what is running since when with its last words, what is next."""
    if not everything:
        found = call.team().status()
        call.answer(found, shown(found))
        return
    teams: list[dict[str, Any]] = []
    for name in call.home.teams():
        try:
            teams.append(call.team_named(name).status())
        except InterlockError as error:
            teams.append({"team": name, **error.as_dict()})
    lines: list[str] = []
    for one in teams:
        lines += [*(["", ""] if lines else []), *shown(one)]
    call.answer({"teams": teams}, lines or f"No teams in {call.home.path} yet. Create one: interlock team create NAME")


def shown(found: dict[str, Any]) -> list[str]:
    if "error" in found:
        return [f"{words.strong(found['team'])}  {words.state('blocked')}  {words.clean(found['message'])}"]
    lines = _team(found)
    first = len(lines)
    if found["needs_me"]:
        lines += ["", words.strong(click.style("Needs me", fg="magenta"))]
        for need in model.report.folded(found["needs_me"]):
            lines.append(_cut(f"  {need['kind']}  {words.clean(need['text'])}"))
            lines.append(f"      {words.faint(need['verb'])}")
    told = {need["task_id"] for need in found["needs_me"]}
    waiting = [task for task in found["waiting"] if task["task_id"] not in told]
    for title, tasks in (("Running", found["running"]), ("Waiting", waiting)):
        lines += ["", words.strong(title)] if tasks else []
        for task in tasks:
            since = f"  {words.faint('started ' + words.ago(task['since']))}" if task["since"] else ""
            who = words.clean(task["member"] or "")
            subject = words.clean(task["subject"])
            lines.append(f"  {task['task_id']}  {words.state(task['state'])}  {who}  {subject}{since}")
            if task.get("last_words"):
                lines.append(words.faint(_cut(f"      {words.clean(task['last_words'])}")))
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
        lines += ["", words.faint(f"the next retry starts {words.ago(found['retry_at'])}")]
    if len(lines) == first:
        done = any(found["counts"].values())
        lines += ["", "Nothing waits and nothing runs." if done else 'No tasks yet: interlock task create "SUBJECT"']
    return lines


def _team(found: dict[str, Any]) -> list[str]:
    """How many tasks are in each state, who drives the team, and mail that nobody would hear of otherwise."""
    counts = [
        f"{number} {words.state(name)}" for name, number in found["counts"].items() if number and name != "deleted"
    ]
    spent = words.spent(found["spent"])
    head = f"{words.strong(found['team'])}  {', '.join(counts) or 'no tasks'}"
    lines = [head + (f"  {words.faint(spent)}" if spent else "")]
    if found["driven"]:
        lines.append(words.faint("a run is in progress"))
    elif found["workers"]:
        lines.append(words.faint("`interlock up` or `interlock work` works on its tasks"))
    elif found["runner"] is not None:
        lines.append(click.style("the runner died; `interlock run PLAN` resumes", fg="yellow"))
    for name, number in found["unread"].items():
        read = f"interlock message read{'' if name == HUMAN else f' --as {name}'} --team {found['team']}"
        lines.append(f"{words.count(number, 'unread message')} for {name}: {words.faint(read)}")
    if found["status"] == "paused":
        lines.append("Paused: nothing new starts until `interlock resume`")
    for word in ("paused", "stopped"):
        names = [words.clean(name) for name in found[word]]
        lines += [f"{name} is {word}: `interlock resume --member {name}`" for name in names]
    return lines + [click.style(words.clean(model.report.cannot_work(one)), fg="yellow") for one in found["unable"]]


def _cut(line: str) -> str:
    room = words.terminal_width()
    return line if room is None else words.cut(line, room)


@verb("report", reads=True, example="interlock report --since 12h --format md > report.md")
@click.option("--since", metavar="T", help="Only what was finished since: 12h, 2d, or an ISO 8601 time.")
@click.option("--format", "form", type=click.Choice(["text", "md", "html"]), default="text", show_default=True)
def report(call: Call, since: str | None, form: str) -> None:
    """What needs you, what is done with its evidence, what failed and why, what is left."""
    found = call.team().report(None if since is None else _moment(since))
    write = {"text": model.report.as_text, "md": model.report.as_markdown, "html": model.report.as_html}[form]
    call.answer(found, "" if call.json else write(found))


def _moment(text: str) -> str:
    """A time as people give it (`90m`, `12h`, `2d` ago, or ISO 8601) as ISO 8601 UTC."""
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 7:
        return iso(max(0.0, time.time() - int(number) * UNITS[unit]))
    try:
        return iso(seconds(text))
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{text!r} is not a time. Use 90m, 12h, 2d, or an ISO 8601 time such as 2026-11-20T18:00:00Z.",
            field="since",
        ) from None
