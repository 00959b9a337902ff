"""`interlock workflow …`: what is installed, runs started and steered, their queue, what was learned of people."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from interlock.app import engine
from interlock.app.team import Team
from interlock.errors import TaskNotFound, TeamNotFound
from interlock.model.json import Json
from interlock.model.program import program
from interlock.model.task import PRIORITIES
from interlock.settings import PERMISSIONS
from interlock.surfaces.cli import words, workflow_board
from interlock.surfaces.cli.board import View
from interlock.surfaces.cli.call import DIRECTORY, SOURCE, TEXT, Call, verb
from interlock.surfaces.cli.command import Branch
from interlock.surfaces.cli.question import answer_questions
from interlock.surfaces.cli.run import drive, is_lively
from interlock.surfaces.cli.workflow_board import WorkflowBoard, WorkflowLines

RUN = click.argument("run", required=False)
PRIORITY = click.Choice(PRIORITIES)


@verb("list", reads=True, example="interlock workflow list --dir .")
@DIRECTORY
def list_(call: Call, directory: str) -> None:
    """The workflows that are installed in a project: what `workflow run` can be given. On a home elsewhere those of
    the team's directory there."""
    place = _place(call, directory)
    found = call.team().installed_workflows() if place is None else engine.installed_workflows(place)
    width = max((len(str(one["skill"])) for one in found), default=0)
    lines = []
    for one in found:
        about = workflow_board.short(str(one["description"]), 80)
        lines.append(f"{words.strong(str(one['skill']).ljust(width))}  {about}")
    nothing = "No workflow is installed here: no `_bmad` directory here or above lists any."
    call.answer({"workflows": found}, lines or nothing)


@verb("show", reads=True, example="interlock workflow show /bmad:bmm:workflows:create-prd")
@click.argument("skill")
@DIRECTORY
def show(call: Call, skill: str, directory: str) -> None:
    """What a workflow is made of: its steps, their menus, what it needs and what of that is missing."""
    found = engine.describe(skill, directory)
    call.answer(found, workflow_board.preview(found))


@verb("status", reads=True, example="interlock workflow status")
@RUN
@click.option("--all", "everything", is_flag=True, help="Every run of the team.")
@click.option("--decisions", is_flag=True, help="Also every decision, with its reason.")
def status(call: Call, run: str | None, everything: bool, decisions: bool) -> None:
    """How far a run is: its steps, what it waits for, and with --decisions why it did what it did.

    RUN is a run's id, its task, or its skill; the newest open one by default.
    """
    team = call.team()
    if everything:
        runs = team.workflow_runs()
        lines = [workflow_board.headline(one) for one in runs]
        call.answer({"workflows": runs}, lines or "No workflow was run here yet.")
        return
    found = team.workflow_run(run)
    lines = workflow_board.whole(found, team)
    if decisions:
        decided = team.workflow_decisions(found["workflow_id"])
        lines += ["", *(workflow_board.decision(one, found["steps"]) for one in decided)] if decided else []
        found = {**found, "decision_log": decided}
    call.answer(found, lines)


@verb("adjust", example='interlock workflow adjust "use tier 3"')
@click.argument("said", nargs=-1, metavar="[WORDS]...")
@click.option(
    "--run", metavar="RUN", help="The run that is meant: its id, its task, or its skill [default: the newest]."
)
@click.option("--clear", is_flag=True, help="Take back what was said.")
def adjust(call: Call, said: tuple[str, ...], run: str | None, clear: bool) -> None:
    """Say how careful or talkative a run is from its next decision on; without WORDS, what is in force and why.

    The words are those of the chat: `use tier 3`, `profile: cautious`, `batch_size: 2`, `confidence: 85`, `be careful`,
    `fewer interruptions`, `[thorough]` for the step at hand, `progress: silent`. They count for all runs of a session.
    The final approval and the detection of stalls cannot be switched off. `*exit` ends a Party Mode that is under way.
    """
    found = call.team().adjust_workflow(" ".join(said), run, clear=clear)
    lines = [words.clean(found["text"])]
    if not said and not clear:
        lines += [f"  said: {words.clean(one)}" for one in found["said"]]
        lines.append(words.faint(f"  progress: {found['progress_mode']}"))
    call.answer(found, lines)


@verb("cancel", example="interlock workflow cancel create-prd-20261121T081500-1a2b")
@RUN
def cancel(call: Call, run: str | None) -> None:
    """Cancel a run; the documents that it wrote stay where they are."""
    found = call.team().cancel_workflow(run)
    where = "before its first step" if found["current_step"] is None else f"at {workflow_board.place(found)}"
    call.answer(found, f"{words.strong(found['workflow_id'])} is cancelled {where}.")
    call.warn(found["warnings"])


@verb("rollback", example="interlock workflow rollback --to 3 --dry-run")
@RUN
@click.option("--to", metavar="STEP", help="Back to before this step; without it the checkpoints are listed.")
@click.option(
    "--include", metavar="FILE", multiple=True, help="Restore this file too, though others changed it; * for all."
)
@click.option("--undo", is_flag=True, help="Take the last rollback back.")
@click.option("--dry-run", is_flag=True, help="Show what it would do; change nothing.")
def rollback(call: Call, run: str | None, to: str | None, include: tuple[str, ...], undo: bool, dry_run: bool) -> None:
    """Take a run back to before a step: its state, and the files that it wrote and nobody changed since.

    What is replaced is kept in `.rollback-archive` of the output folder. `workflow resume` then continues from there.
    """
    team = call.team()
    if to is None and not undo:
        found = team.workflow_checkpoints(run)
        lines = []
        for one in found:
            why_not = "" if one["can_rollback"] else f" (not available: {one['why_not']})"
            name = words.clean(str(one["step_name"]))
            lines.append(f"  step {one['step_id']:<4} {one['timestamp']}  {name}{why_not}")
        call.answer({"checkpoints": found}, lines or "There is no checkpoint to roll back to.")
        return
    done = team.rollback_workflow(run, to=None if undo else to, include=include, dry_run=dry_run)
    call.answer(done, [words.clean(line) for line in done["text"].splitlines()])
    call.warn(done.get("warnings", []))


@verb("feedback", example='interlock workflow feedback "Don\'t do that again"')
@click.argument("said", nargs=-1, type=TEXT, metavar="[RUN] TEXT")
@click.option("--list", "listing", is_flag=True, help="Show what was learned, with its ids.")
@click.option("--forget", metavar="ID", help="Let this count no more.")
def feedback(call: Call, said: tuple[str, ...], listing: bool, forget: str | None) -> None:
    """Say what you think of the last thing that a run decided, or what is to be remembered.

    "Don't do that again", "Good choice", "Remember this preference: …". It counts at once, and for every later run in
    this project. RUN is a run's id, its task, or its skill; the newest open one by default.
    """
    most = 1 if listing or forget else 2
    if len(said) > most or not (said or listing or forget):
        raise click.UsageError("Say it in one quoted text, after the run if one is named; or give --list or --forget.")
    team = call.team()
    if forget is not None:
        gone = team.forget_preference(forget, run=said[0] if said else None)
        call.answer(gone, words.clean(gone["said"]))
    elif listing:
        lines = []
        found = team.learned_preferences(said[0] if said else None)
        for one in found:
            more = "  (overruled)" if one.get("overruled") else ""
            lines.append(f"{words.strong(one['id'])}  {words.clean(one['text'])}  {words.faint(one['source'])}{more}")
        call.answer({"preferences": found}, lines or "Nothing was learned yet.")
    else:
        done = team.workflow_feedback(said[-1], run=said[0] if len(said) > 1 else None)
        call.answer(done, words.clean(done["text"]))


@verb("list", reads=True, example="interlock workflow queue list")
def list_queue(call: Call) -> None:
    """What waits, in the order in which it will start."""
    found = call.team().workflow_queue()
    lines = []
    for one in found:
        queued = words.faint(f"{words.ago(one['queued_at'])} by {words.clean(one['queued_by'])}")
        skill = words.clean(one["skill"])
        lines.append(f"{one['position']:>3}  {words.strong(one['task_id'])}  {one['priority']:<8}  {skill}  {queued}")
    call.answer({"queue": found}, lines or "No workflow waits for its turn.")


@verb("add", example="interlock workflow queue add /bmad:bmm:workflows:create-story --priority high")
@click.argument("what", metavar="TASK|SKILL")
@click.option("--priority", type=PRIORITY, help="Before those of a lower one [default: the task's own].")
def add(call: Call, what: str, priority: str | None) -> None:
    """Queue a workflow: its task, or a skill, for which a task is made.

    It starts at once when nothing else is at work. A full queue (100) loses its oldest entry.
    """
    team = call.team()
    try:
        found = team.queue_workflow(what, priority=priority)
    except TaskNotFound:
        # The whole name of the workflow that is installed here; where it is none either, what is near is said.
        found = team.queue_workflow(engine.find_workflow(what, ".").invocation, priority=priority)
    where = f"waits at place {found['position']}" if found["position"] else "has its turn at once"
    call.answer(found, f"{words.strong(found['task_id'])} {where}: {words.clean(found['skill'])}")
    call.warn(found["warnings"])


@verb("remove", example="interlock workflow queue remove 003")
@click.argument("task")
def remove(call: Call, task: str) -> None:
    """Take a workflow out of the queue; its task is cancelled, the others keep their places."""
    call.task(call.team().unqueue_workflow(task), "is out of the queue, and cancelled")


@verb("reprioritise", example="interlock workflow queue reprioritise 003 critical")
@click.argument("task")
@click.argument("priority", type=PRIORITY)
def reprioritise(call: Call, task: str, priority: str) -> None:
    """Give an entry another priority; within one, first come, first served."""
    found = call.team().reprioritise_workflow(task, priority)
    call.answer(found, f"{words.strong(found['task_id'])} is {priority} now, at place {found['position']}")


@verb("clear", example="interlock workflow queue clear")
def clear(call: Call) -> None:
    """Cancel everything that waits."""
    found = call.team().clear_workflow_queue()
    call.answer({"cancelled": found}, f"{len(found)} cancelled." if found else "No workflow waits for its turn.")


ROWS = {
    "list": ("workflow:list_queue", "what waits, in its order"),
    "add": ("workflow:add", "queue a workflow"),
    "remove": ("workflow:remove", "take one out; its task is cancelled"),
    "reprioritise": ("workflow:reprioritise", "give one another priority"),
    "clear": ("workflow:clear", "cancel everything that waits"),
}
queue = Branch(
    "queue",
    ROWS,
    {"Commands": list(ROWS)},
    help="Workflows that wait for their turn: the more urgent first, and within one priority first come, first served.",
)
"""The row `workflow queue` of the tree."""


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

    Run again, it resumes where it was interrupted. Exit code 0 when the workflow is completed. On a home elsewhere it
    is only started, in the team's directory there, and the workers of that home do it.
    """
    if dry_run:
        shown = engine.describe(skill, directory)
        call.answer(shown, workflow_board.preview(shown))
        return 0
    given = {name.strip(): value for name, _, value in (one.partition("=") for one in values)}
    if faulty := [one for one in values if not one.partition("=")[0].strip() or "=" not in one]:
        raise click.BadParameter(f"{faulty[0]!r} is not NAME=VALUE", param_hint="--set")
    place = _place(call, directory)
    team = call.team() if place is None else _team_for(call, engine.find_workflow(skill, place).project)
    offer = None if new else team.resumable_workflow(skill, directory=place)
    if offer is not None and _resumes(call, offer):
        started = team.resume_workflow(offer["workflow_id"])
        said = {"use tier ": tier, "profile: ": profile, "progress: ": progress}  # in the words of `workflow adjust`
        for name, value in said.items():
            if value is not None:
                team.adjust_workflow(f"{name}{value}", started["workflow_id"])
        call.note(f"{words.strong(started['workflow_id'])}  {started['resumed']}")
    else:
        started = team.start_workflow(
            skill, directory=place, agent=_doer(call, team, agent, permissions),
            brief=brief[1] if brief else "", values=given, tier=tier, yolo=yolo, profile=profile, progress=progress,
            session=session,
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
    if turn := workflow_board.waiting_turn(team.workflow_run(run_id), team):
        call.note(f"  {turn}")

    def view(hint: str) -> View:
        if is_lively(call):
            return WorkflowBoard(team, run_id, hint)
        return WorkflowLines(team, run_id, lambda line: click.echo(line, err=call.json))

    attended = not call.json and sys.stdin.isatty() and sys.stdout.isatty()
    detach = detach or call.home.elsewhere
    while not detach:
        # Whoever sits at this terminal is asked here, so no session has to wait for an answer from elsewhere.
        reason = drive(call, team, hold=0.0, view=view)
        state = team.workflow_run(run_id)
        if state["state"] == "TERMINAL" or reason != "finished" or not attended or not answer_questions(call, team):
            break
    state = team.workflow_run(run_id)
    call.answer(state, workflow_board.whole(state, team))
    return 0 if detach or state["outcome"] == "COMPLETED" else 1


def _doer(call: Call, team: Team, agent: str | None, permissions: str | None) -> str | None:
    """The member that is to do it; None for whoever takes it. On a home elsewhere a member of that team is named, since
    only an admin may have one looked for or spawned."""
    named, command = program(agent) if agent else (None, None)
    if call.home.elsewhere and command is None and permissions is None:
        return named
    return team.worker(named, command=command, permissions=permissions).name


def _place(call: Call, directory: str) -> str | None:
    """The project; None for that of the team on another machine.

    Raises:
        LocalOnly: a directory of this machine is named for a home elsewhere.
    """
    if not call.home.elsewhere:
        return directory
    if directory != ".":
        call.home.need_here("--dir")
    return None


def _team_for(call: Call, root: str) -> Team:
    """The team that is named; else the one that works in that project, first the one that is meant here."""
    if call.asked.team or os.environ.get("INTERLOCK_TEAM"):
        return call.team()
    meant = None
    with suppress(TeamNotFound):
        meant = call.glance.name
    return call.team_named(call.home.team_of_project(root, meant).name)


def _resumes(call: Call, offer: Json) -> bool:
    """Whether to resume the interrupted run: as a human says, else as is advised."""
    if call.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        call.note(f"{offer['text']} ({offer['advice']}; --new starts over)")
        return bool(offer["advice"] == "resume")
    call.say(offer["text"])
    return bool(click.confirm("Resume it?", default=offer["advice"] == "resume"))
