"""`interlock workflow run` and `resume`: an agent taken through a workflow from here, until it ends or waits."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from interlock.app.team import Team
from interlock.errors import InvalidRequest, TeamNotFound
from interlock.model.team import Member
from interlock.settings import PERMISSIONS
from interlock.surfaces.cli import words, workflow_text
from interlock.surfaces.cli.board import View
from interlock.surfaces.cli.call import DIRECTORY, SOURCE, Call, verb
from interlock.surfaces.cli.question import answer_questions
from interlock.surfaces.cli.run import drive, is_lively
from interlock.surfaces.cli.team import program
from interlock.surfaces.cli.workflow_board import WorkflowBoard, WorkflowLines
from interlock.workflow.runs.starting import locate, preview

MODES = ("verbose", "summary", "silent", "streaming")


@verb("run", example="interlock workflow run /bmad:bmm:workflows:create-prd --agent claude --brief brief.md")
@click.argument("skill")
@DIRECTORY
@click.option("--agent", metavar="A", help="A member, an agent such as claude, or a program with its arguments.")
@click.option(
    "--permissions",
    type=click.Choice(PERMISSIONS),
    help="What the agent may do with your files without asking, where it is new here [default: ask].",
)
@click.option("--brief", type=SOURCE, metavar="FILE", help="What you want, in your words; - reads it from stdin.")
@click.option("--set", "values", metavar="K=V", multiple=True, help="A variable of the workflow; may be repeated.")
@click.option(
    "--tier", type=click.IntRange(0, 4), metavar="N", help="0 to 4: how many checkpoints [default: by the brief]."
)
@click.option(
    "--profile", metavar="P", help="cautious, thorough, balanced, aggressive, quick, or one of the project's."
)
@click.option("--progress", type=click.Choice(MODES), help="How talkative it is [default: workflow_progress].")
@click.option("--session", metavar="NAME", help="Runs of one session share what is said to one of them.")
@click.option("--yolo", is_flag=True, help="Ask nothing that can be decided without you.")
@click.option("--new", is_flag=True, help="Start over, even if an interrupted run could be resumed.")
@click.option("--detach", is_flag=True, help="Only start it: the team's runner does the work.")
@click.option("--dry-run", is_flag=True, help="Show the steps and what is missing; start nothing.")
def run(
    call: Call,
    skill: str,
    directory: str,
    agent: str | None,
    permissions: str | None,
    brief: tuple[str, str] | None,
    values: tuple[str, ...],
    tier: int | None,
    profile: str | None,
    progress: str | None,
    session: str | None,
    yolo: bool,
    new: bool,
    detach: bool,
    dry_run: bool,
) -> int:
    """Run a workflow: an agent is taken through every step, its menus are answered, and you are asked what is left.

    Run again, it resumes where it was interrupted. Exit code 0 when the workflow is completed.
    """
    found = locate(skill, directory)
    if dry_run:
        shown = preview(found)
        call.answer(shown, workflow_text.preview(shown))
        return 0
    given = dict(_pair(one) for one in values)
    team = _team_for(call, found.package.root)
    offer = None if new else team.resumable_workflow(skill, directory=directory)
    if offer is not None and _resumes(call, offer):
        started = team.resume_workflow(offer["workflow_id"])
        said = {"use tier ": tier, "profile: ": profile, "progress: ": progress}  # in the words of `workflow adjust`
        for name, value in said.items():
            if value is not None:
                team.adjust_workflow(f"{name}{value}", started["workflow_id"])
        call.note(f"{words.strong(started['workflow_id'])}  {started['resumed']}")
    else:
        started = team.start_workflow(
            skill, directory=directory, agent=_member_for(team, agent, permissions), brief=brief[1] if brief else "",
            values=given, tier=tier, yolo=yolo, profile=profile, progress=progress, session=session,
        )  # fmt: skip
        call.note(f"{words.strong(started['workflow_id'])}  {started['skill']} started as {started['task_id']}")
    return _carry_on(call, team, started["workflow_id"], detach=detach)


@verb("resume", example="interlock workflow resume")
@click.argument("run", required=False)
@click.option("--detach", is_flag=True, help="Leave the work to the team's runner.")
def resume(call: Call, run: str | None, detach: bool) -> int:
    """Resume a run that was interrupted or has failed; what is done stays done."""
    team = call.team()
    found = team.resume_workflow(run)
    call.note(f"{words.strong(found['workflow_id'])}  {found['resumed']}")
    return _carry_on(call, team, found["workflow_id"], detach=detach)


def _carry_on(call: Call, team: Team, run_id: str, *, detach: bool) -> int:
    """Drive the team until the run has ended or waits for somebody; offer the questions on a terminal."""
    if turn := workflow_text.waiting_turn(team.workflow_run(run_id), team):
        call.note(f"  {turn}")

    def view(hint: str) -> View:
        if is_lively(call):
            return WorkflowBoard(team, run_id, hint)
        return WorkflowLines(team, run_id, lambda line: click.echo(line, err=call.json))

    attended = not call.json and sys.stdin.isatty() and sys.stdout.isatty()
    while not detach:
        # Whoever sits at this terminal is asked here, so no session has to wait for an answer from elsewhere.
        reason = drive(call, team, hold=0.0, view=view)
        state = team.workflow_run(run_id)
        if state["state"] == "TERMINAL" or reason != "finished" or not attended or not answer_questions(call, team):
            break
    state = team.workflow_run(run_id)
    call.answer(state, workflow_text.whole(state, team))
    return 0 if detach or state["outcome"] == "COMPLETED" else 1


def _team_for(call: Call, root: str) -> Team:
    """The team that is meant, if it works in that project; else the one that does, made where there is none yet."""
    try:
        team = call.team()
        if call.asked.team or os.environ.get("INTERLOCK_TEAM") or _works_in(team, root):
            return team
    except TeamNotFound:
        if call.asked.team or os.environ.get("INTERLOCK_TEAM"):
            raise
    for name in call.home.teams():
        if _works_in(call.home.team(name), root):
            return call.team_named(name)
    base = re.sub(r"[^a-z0-9_-]+", "-", os.path.basename(root).lower()).strip("-_")[:40] or "workflows"
    taken = set(call.home.teams())
    name = next(one for one in (base, *(f"{base}-{number}" for number in range(2, 1000))) if one not in taken)
    call.home.create_team(name, workdir=root)
    return call.team_named(name)


def _member_for(team: Team, agent: str | None, permissions: str | None = None) -> str | None:
    """The member that carries the run out: one that is there, or one spawned for the agent that is named."""
    members = [one for one in team.members() if one.role == "member" and one.agent not in (None, "shell")]
    if agent is None:
        if not members:
            raise InvalidRequest(
                "No member of this team has an agent: name one with --agent, such as --agent claude, or any program: "
                '--agent "PROGRAM ARGUMENT".',
                field="agent",
            )
        return _with(members[0], permissions)
    kind, command = program(agent)
    same = [one for one in members if command is not None and (one.agent, one.command) == (kind, command)]
    known = next((one for one in members if agent in (one.name, one.agent)), same[0] if same else None)
    if known is not None:
        return _with(known, permissions)
    if command is None:
        return team.spawn(kind, agent=kind, permissions=permissions).name
    taken = {one.name for one in team.members()}
    name = next(one for one in ("agent", *(f"agent-{number}" for number in range(2, 1000))) if one not in taken)
    return team.spawn(name, agent=kind, command=command, permissions=permissions).name


def _with(member: Member, permissions: str | None) -> str:
    if permissions not in (None, member.permissions or "ask"):
        raise InvalidRequest(
            f"{member.name} is here already, with the permissions {member.permissions or 'ask'!r}. Take it out first "
            f"(`interlock member remove {member.name}`), or omit --permissions.",
            field="permissions",
        )
    return member.name


def _works_in(team: Team, root: str) -> bool:
    workdir = team.describe().get("workdir")
    return bool(workdir) and os.path.realpath(str(workdir)) == os.path.realpath(root)


def _resumes(call: Call, offer: dict[str, Any]) -> bool:
    """Whether to resume the interrupted run: as a human says, else as is advised."""
    if call.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        call.note(f"{offer['text']} ({offer['advice']}; --new starts over)")
        return bool(offer["advice"] == "resume")
    call.say(offer["text"])
    return bool(click.confirm("Resume it?", default=offer["advice"] == "resume"))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name.strip(), value
