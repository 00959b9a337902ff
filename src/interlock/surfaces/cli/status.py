"""`interlock status` and `interlock report`: what needs a person, what runs, and what was done with its evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import click

from interlock import app, model
from interlock.app.team import Team
from interlock.clock import iso, seconds
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.json import Json
from interlock.model.names import HUMAN
from interlock.model.status import StatusReport, WaitingTask
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

FINISHED = "Nothing waits and nothing runs. What was done: interlock report"


@verb("status", reads=True, example="interlock status --all")
@click.option("--all", "everything", is_flag=True, help="All teams of this home.")
def status(call: Call, everything: bool) -> None:
    """What needs you, what runs since when with its latest output, what is next, what is ready to merge."""
    if not everything:
        team = call.team()
        found = team.status()
        call.answer(found, shown(found, () if call.json else _to_merge(team, found)))
        return
    teams: list[StatusReport | Json] = []
    lines: list[str] = []
    for name in call.home.teams():
        lines += ["", ""] if lines else []
        try:
            team = call.team_named(name)
            found = team.status()
            teams.append(found)
            lines += shown(found, () if call.json else _to_merge(team, found))
        except InterlockError as error:
            teams.append({"team": name, **error.as_dict()})
            lines.append(f"{words.strong(name)}  {words.state('blocked')}  {words.clean(error.message)}")
    call.answer({"teams": teams}, lines or f"No teams in {call.home.path} yet. Create one: interlock team create NAME")


def _to_merge(team: Team, found: StatusReport) -> list[str]:
    """What waits for `interlock merge`, of a team that is not at work: git is asked."""
    branch = None if found.driven or not found.counts.get("done") else team.integration()
    return [] if branch is None else model.report.to_merge(branch, team.name)


def shown(found: StatusReport, to_merge: Sequence[str] = ()) -> list[str]:
    """The lines of a status; `to_merge` are those about finished work that is on no branch of the user's."""
    lines = _team(found)
    first = len(lines)
    if found.needs_me:
        lines += ["", words.strong(click.style("Needs you", fg="magenta"))]
        for need in model.status.folded(found.needs_me):
            lines.append(_cut(f"  {need.kind}  {words.clean(need.headline)}"))
            lines.append(f"      {words.faint(need.verb)}")
    told = {need.task_id for need in found.needs_me}
    waiting = [task for task in found.waiting if task.task_id not in told]
    for title, tasks in (("Running", found.running), ("Waiting", waiting)):
        lines += ["", words.strong(title)] if tasks else []
        for task in tasks:
            since = f"  {words.faint('started ' + words.ago(task.since))}" if task.since else ""
            who = words.clean(task.member or "")
            subject = words.clean(task.subject)
            lines.append(f"  {task.task_id}  {words.state(task.state)}  {who}  {subject}{since}")
            if said := task.why if isinstance(task, WaitingTask) else task.last_words:
                lines.append(words.faint(_cut(f"      {words.clean(said)}")))
    if found.next:
        lines += ["", words.strong("Next")]
        for coming in found.next:
            mark = f"  {words.priority(coming.priority)}" if coming.priority != "normal" else ""
            whom = f"  {words.faint('for ' + words.clean(coming.assignee))}" if coming.assignee else ""
            why = f"  {words.faint(words.clean(coming.why))}" if coming.why else ""
            lines.append(f"  {coming.task_id}  {words.clean(coming.subject)}{mark}{whom}{why}")
    if found.kept:
        lines += ["", words.strong("Kept worktrees")]
        for tree in found.kept:
            lines.append(f"  {tree.task_id}  {words.state(tree.state)}  {words.clean(tree.path)}")
    if found.retry_at:
        lines += ["", words.faint(f"the next retry starts {words.ago(found.retry_at)}")]
    if to_merge:
        lines += [
            "",
            words.strong("Ready to merge"),
            f"  {words.clean(to_merge[0])}",
            f"      {words.faint(to_merge[1])}",
        ]
    elif len(lines) == first:
        done = any(found.counts.values())
        lines += ["", FINISHED if done else 'No tasks yet: interlock task create "SUBJECT"']
    return lines


def _team(found: StatusReport) -> list[str]:
    """How many tasks are in each state, who drives the team, and mail that nobody would hear of otherwise."""
    counts = [f"{number} {words.state(name)}" for name, number in found.counts.items() if number and name != "deleted"]
    spent = words.spent(found.spent)
    head = f"{words.strong(found.team)}  {', '.join(counts) or 'no tasks'}"
    lines = [head + (f"  {words.faint(spent)}" if spent else "")]
    if found.driven:
        lines.append(words.faint("a run is in progress"))
    elif found.workers:
        lines.append(words.faint("a worker is running (`interlock up` or `interlock work`)"))
    elif found.runner is not None:
        lines.append(click.style("the runner died; `interlock run PLAN` resumes", fg="yellow"))
    for name, number in found.unread.items():
        read = f"interlock message read{'' if name == HUMAN else f' --as {name}'} --team {found.team}"
        lines.append(f"{words.count(number, 'unread message')} for {name}: {words.faint(read)}")
    if found.status == "paused":
        lines.append("Paused: nothing new starts until `interlock resume`")
    for word in ("paused", "stopped"):
        names = [words.clean(name) for name in (found.paused if word == "paused" else found.stopped)]
        lines += [f"{name} is {word}: `interlock resume --member {name}`" for name in names]
    return lines + [click.style(words.clean(model.status.cannot_work(one)), fg="yellow") for one in found.unable]


def _cut(line: str) -> str:
    room = words.terminal_width()
    return line if room is None else words.cut(line, room)


@verb("report", reads=True, example="interlock report --since 12h --format md > report.md")
@click.option("--since", metavar="T", help="Only what was finished since: 12h, 2d, or an ISO 8601 time.")
@click.option("--format", "form", type=click.Choice(["text", "md", "html"]), default="text", show_default=True)
@click.option("--full", is_flag=True, help="All of it, also where it is longer than the screen.")
@click.option("--witness", is_flag=True, help="In figures, each counted from rows of the ledger.")
@click.option("--receipt", metavar="FILE", help="Write those figures and rows to a new file, signed.")
def report(call: Call, since: str | None, form: str, full: bool, witness: bool, receipt: str | None) -> None:
    """What needs you, what is done with its evidence, what failed and why, what is left.

    On a terminal each part shows its newest entries; --full shows all, as other formats, files and pipes do. What
    each figure of --witness is counted from is said in docs/guides/witness.md.
    """
    if witness or receipt:
        if since is not None or form != "text":
            raise InvalidRequest("--witness and --receipt are about all of the team's work, as text or --json.")
        if receipt is None:
            counted = call.team().witness()
            call.answer(counted, model.witness.as_text(counted))
            return
        name = call.team().name
        key = call.home.write_receipt(name, receipt)
        said = f"The receipt of {name} is in {words.clean(receipt)}, signed with the key {key}."
        call.answer({"team": name, "path": receipt, "key": key}, said)
        return
    write = {"md": model.report.as_markdown, "html": model.report.as_html}.get(form)
    most = None if full or write or call.json else words.on_screen()
    found = call.team().report(None if since is None else _moment(since), limit=most)
    lines = write(found) if write else model.report.as_text(found, most)
    call.answer(found, lines)


def _moment(text: str) -> str:
    """A time as people give it (`90m`, `12h`, `2d` ago, or ISO 8601) as ISO 8601 UTC."""
    with suppress(InvalidRequest):
        return iso(max(0.0, time.time() - words.seconds(text, "since")))
    try:
        return iso(seconds(text))
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{text!r} is not a time. Use 90m, 12h, 2d, or an ISO 8601 time such as 2026-11-20T18:00:00Z.",
            field="since",
        ) from None


@verb("verify-receipt", reads=True, example="interlock verify-receipt night.json --repository .")
@click.argument("file", type=click.Path())
@click.option("--repository", metavar="DIR", help="Compare the merged trees that it names with those of a repository.")
@click.option("--key", metavar="KEY", help="The public key that it has to be signed with.")
def verify_receipt(call: Call, file: str, repository: str | None, key: str | None) -> int:
    """Check a receipt offline: its signature, its figures against its rows, its trees. It needs no home.

    The exit code is 1 where it proves nothing.
    """
    found = app.receipts.verify(file, repository, key)
    call.answer(found, app.receipts.as_text(found))
    return 1 if found.faults else 0
