"""`interlock init` and `interlock plan`: plans that are found, proposed by an agent, checked and shown."""

from __future__ import annotations

import json
import os
import shlex

import click

from interlock.errors import Conflict, InterlockError, StorageError
from interlock.model.driving import Update
from interlock.model.plan import PLAN_FILES, FirstPlan, in_order
from interlock.model.program import program
from interlock.model.text import count
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

FOUND = ("team", "files", "agents", "git", "language", "lint", "test", "build", "setup", "missing")
AGENT = click.option(
    "--agent", metavar="A", help="Who proposes: claude, codex, …, or a program with its arguments [default: one found]."
)


@verb(
    "init",
    example="interlock init && interlock run plan.yaml\ninterlock init --agent claude && interlock run plan.yaml",
)
@click.argument("directory", type=click.Path(), default=".")
@click.option(
    "--agent",
    metavar="A",
    help="Have the plan give it a first task: claude, codex, …, or a program with its arguments.",
)
def init(call: Call, directory: str, agent: str | None) -> None:
    """Find language, tests and agents; write interlock.toml and a first plan of what was found.

    In a git repository with commits each task works in a worktree of its own, and the plan's `setup` installs there
    what the tests need. If one of the files exists, nothing is written. Nothing is started, and no command tried.
    """
    name, command = (None, None) if agent is None else program(agent)
    found = call.home.first_plan(os.path.abspath(directory), json.dumps({name: command}) if command else name)
    document = {name: getattr(found, name) for name in FOUND}
    team_file, plan = map(os.path.relpath, found.files)
    fields = words.fields(
        [
            ("language", found.language),
            ("tests", words.clean(found.test or "") or "no command found that would run here"),
            ("lint", words.clean(found.lint or "")),
            ("build", words.clean(found.build or "")),
            ("setup", words.clean(found.setup or "")),
            ("missing", ", ".join(found.missing) and f"{', '.join(found.missing)}, which the project uses"),
            ("git", _git(found)),
            ("agents", ", ".join(found.agents) or "none found; the plan runs commands only" * (agent is None)),
        ]
    )
    wrote = f"wrote {words.strong(team_file)} and {words.strong(plan)} for the team {found.team}"
    lines = [*fields, "", wrote, f"Next: interlock run {shlex.quote(plan)}"]
    if agent is None and found.agents:
        lines.append(f"      The task for {found.agents[0]} in it is a comment: say in it what you want done.")
    call.answer(document, lines)


def _git(found: FirstPlan) -> str:
    if not found.git:
        return "no; all tasks work in this directory"
    if not found.committed:
        return "nothing is committed; all tasks work in this directory"
    return "yes; each task works in a worktree of its own"


def plan_here() -> str:
    """The plan of this directory, where none is named: plan.yaml also where there is none."""
    return next(filter(os.path.exists, PLAN_FILES), PLAN_FILES[0])


@verb("plan", example='interlock plan "Give every command a --json option" -o json.yaml')
@click.argument("goal", required=False, metavar='"GOAL" | check [PLAN]')
@click.argument("file", required=False, metavar="")
@click.option(
    "-o", "--output", metavar="PLAN.yaml", type=click.Path(), help="Where to write the plan [default: stdout]."
)
@AGENT
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans.")
def plan(
    call: Call, goal: str | None, file: str | None, output: str | None, agent: str | None, schema: bool
) -> int | None:
    """Have an installed agent propose a plan for GOAL, check a plan, or print with --schema the plan schema.

    `interlock plan check [PLAN]` names every fault as FILE:LINE: message; exit code 0 if there is none, else 1. PLAN is
    by default the plan.yaml, else the plan.yml, of this directory.

    The agent looks at this directory and answers; what it proposes is checked, and shown. Nothing is started.
    """
    if schema:
        click.echo(json.dumps(call.home.plan_schema(), indent=2))
        return None
    if goal == "check":
        return _check(call, file or plan_here())
    if file is not None and os.path.isfile(file):
        raise click.UsageError(f"Did you mean `interlock plan check {shlex.quote(file)}`?")
    if file is not None:
        raise click.UsageError(f'Put the goal in quotes: interlock plan "{goal} {file} …"')
    if goal is None:
        raise click.UsageError('Say a "GOAL", or --schema.')
    path = os.path.abspath(output or PLAN_FILES[0])
    if output is not None and os.path.lexists(path):
        raise Conflict(f"{path} exists already. Name another file; nothing was asked.", path=path)
    text = propose(call, goal, agent, path)
    if output is not None:
        write(path, text)
    if call.json:
        call.document({"goal": goal, "path": path if output else None, "plan": text})
    elif output is None:
        click.echo(text, nl=False)
    else:
        wrote = f"wrote {words.strong(os.path.relpath(path))}; nothing was started. Next: {run_line(call, path)}"
        call.say([*shown(call, text, path), "", wrote])
    return None


def _check(call: Call, file: str) -> int:
    faults, notes = [], []
    try:
        notes = list(call.home.check_plan(file, team=call.asked.team))
    except InterlockError as error:
        faults = list(error.details.get("errors") or [{"path": file, "line": None, "message": error.message}])
        notes = list(error.details.get("notes") or ())
    lines = [f"{file}:{fault['line'] or 1}: {words.clean(fault['message'])}" for fault in faults]
    warned = f", {count(len(notes), 'warning')}" if notes else ""
    end = [] if lines else [f"{file}: no errors{warned}"]
    call.answer({"path": file, "errors": faults, "notes": notes}, [*lines, *notes, *end])
    return 1 if faults else 0


def is_goal(text: str) -> bool:
    """Whether an argument that names no file is a goal, not a misspelt path."""
    return " " in text.strip() and not text.endswith((".yaml", ".yml"))


def propose(call: Call, goal: str, agent: str | None, path: str) -> str:
    """Have an agent propose a plan that is to be written to `path`; return its text. Raises as `Home.propose`."""
    name, command = (call.home.default_agent(), None) if agent is None else program(agent)
    click.echo(f"asking {command[0] if command else name} for a plan …", err=True)
    said = ""

    def hear(update: Update) -> None:
        nonlocal said
        line = update.text.strip().splitlines()[0] if update.kind in ("tool", "notice") and update.text.strip() else ""
        if line and line != said:
            said = line
            click.echo(words.faint(f"  {words.clean(line)[:120]}"), err=True)

    return call.home.propose(goal, agent=name, command=command or [], directory=os.getcwd(), path=path, on_update=hear)


def write(path: str, text: str) -> None:
    """Write a plan to a new file. Raises Conflict if it exists, StorageError if the file system refuses."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{path} exists already; nothing was written. Name another file.", path=path) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error


def run_line(call: Call, path: str) -> str:
    """Return the command that runs the plan at `path` as it was shown."""
    return f"interlock run {shlex.quote(os.path.relpath(path))}" + (
        f" --team {call.asked.team}" if call.asked.team else ""
    )


def shown(call: Call, text: str, path: str) -> list[str]:
    """A plan for people: where and as whom its members work and what they may do, then each task with what it waits
    for, what is run, and how it is judged."""
    found = call.home.read_plan(text, path, team=call.asked.team)
    default = {one.name: one.value for one in call.home.settings()}
    lines = [f"team {words.strong(found.team)} in {words.clean(found.workdir)}"]
    for name, member in found.members.items():
        allowed = member.permissions or default["permissions"]
        lines.append(f"  {words.strong(name)} ({member.agent})  permissions: {allowed}")
    env = ", ".join(found.variables) or "none"
    lines += [f"  isolation: {found.isolation or default['isolation']}", f"  env: {env}"]
    lines += [f"  setup: {words.clean(found.setup)}"] if found.setup else []
    for key in in_order({key: task.blocked_by for key, task in found.tasks.items()}):
        task = found.tasks[key]
        after = f"  after {', '.join(task.blocked_by)}" if task.blocked_by else ""
        lines += ["", f"{words.strong(task.key)}  {words.clean(task.subject)}{words.faint(after)}"]
        lines += [f"  run     {words.clean(task.run)}"] if task.run else words.block(task.body, "      ")
        nothing = "ends with exit code 0" if task.run else "nothing: done is what its member calls done"
        lines.append(f"  verify  {words.clean(task.verify)}" if task.verify else words.faint(f"  verify  {nothing}"))
        lines += [f"  review  {task.review}"] if task.review != "none" else []
    return lines
