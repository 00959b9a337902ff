"""From a sentence to a plan: what `interlock plan "GOAL"` and `interlock run "GOAL"` share."""

from __future__ import annotations

import json
import os

import click

from interlock.agents.session import Update
from interlock.errors import Conflict, InvalidRequest, StorageError
from interlock.plan.detecting import AGENTS, inspect
from interlock.plan.document import PlanTask
from interlock.plan.ordering import in_order
from interlock.plan.reading import parse
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call


def is_goal(text: str) -> bool:
    """Whether a word of the command line that names no file is a goal, not a path that was misspelt."""
    return " " in text.strip() and not text.endswith((".yaml", ".yml"))


def propose(call: Call, goal: str, agent: str | None, path: str) -> str:
    """Have an agent propose a plan that is to stand at `path`; its text.

    Raises:
        InvalidRequest: there is no agent, or `agent` makes no sense.
        AgentError, PlanError: see `client.Home.propose`.
    """
    name, command = chosen(agent)
    click.echo(f"asking {command[0] if command else name} for a plan …", err=True)
    said = ""

    def hear(update: Update) -> None:
        nonlocal said
        line = update.text.strip().splitlines()[0] if update.kind in ("tool", "notice") and update.text.strip() else ""
        if line and line != said:
            said = line
            click.echo(words.faint(f"  {words.clean(line)[:120]}"), err=True)

    return call.home.propose(goal, agent=name, command=command, directory=os.getcwd(), path=path, on_update=hear)


def chosen(agent: str | None) -> tuple[str, list[str]]:
    """(agent, command) as in a plan's member: by name, as JSON (a list is a command), or the first that is installed.

    Raises:
        InvalidRequest: none is installed, or it cannot be understood.
    """
    if agent is None:
        found = inspect(os.getcwd()).agents
        if not found:
            raise InvalidRequest(
                f"No agent program was found on this machine ({', '.join(AGENTS)}). Install one, or name one of your "
                'own: --agent \'["PROGRAM", "ARGUMENT"]\'.',
                field="agent",
            )
        return found[0], []
    if not agent.startswith(("[", "{")):
        return agent, []
    try:
        read = json.loads(agent)
        form, argv = ("command", read) if isinstance(read, list) else next(iter(read.items()))
    except (ValueError, StopIteration):
        form, argv = "", None
    if form not in ("command", "acp") or not isinstance(argv, list) or not all(isinstance(one, str) for one in argv):
        raise InvalidRequest(
            '--agent takes a name, a JSON list ["PROGRAM", "ARGUMENT"], or {"acp": ["PROGRAM"]}.', field="agent"
        )
    return form, argv


def write(path: str, text: str) -> None:
    """Write a plan where nothing is yet.

    Raises:
        Conflict: there is a file.
        StorageError: the file system refuses.
    """
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{path} is there already; nothing was written. Name another file.", path=path) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error


def refuse_existing(path: str) -> None:
    """Before an agent is asked: its plan must not overwrite one.

    Raises:
        Conflict: there is a file.
    """
    if os.path.lexists(path):
        raise Conflict(f"{path} is there already. Name another file; nothing was asked.", path=path)


def shown(call: Call, text: str, path: str) -> list[str]:
    """A plan for people: where and as whom its members work and what they may do, then each task with what it waits
    for, what is run, and how it is judged."""
    plan = parse(text, path)
    default = {one["name"]: one["value"] for one in call.home.settings()}
    lines = [f"team {words.strong(plan.team)} in {words.clean(plan.workdir)}"]
    lines += [
        f"  {words.strong(name)} ({member.agent})  permissions: {member.permissions or default['permissions']}"
        for name, member in plan.members.items()
    ]
    named = [plan.env, *(one.env for one in plan.members.values()), *(one.env for one in plan.tasks.values())]
    env = dict.fromkeys(name for names in named for name in names)
    lines += [f"  isolation: {plan.isolation or default['isolation']}", f"  env: {', '.join(env) or 'none'}"]
    lines += [f"  setup: {words.clean(plan.setup)}"] if plan.setup else []
    order = in_order({key: task.blocked_by for key, task in plan.tasks.items()})
    return [*lines, *(line for key in order for line in _task(plan.tasks[key]))]


def _task(task: PlanTask) -> list[str]:
    after = f"  after {', '.join(task.blocked_by)}" if task.blocked_by else ""
    lines = ["", f"{words.strong(task.key)}  {words.clean(task.subject)}{words.faint(after)}"]
    if task.run:
        lines.append(f"  run     {words.clean(task.run)}")
    else:
        lines += [f"    {line}" for line in words.block(task.body)]
    nothing = "ends with exit code 0" if task.run else "nothing: done is what its member calls done"
    lines.append(f"  verify  {words.clean(task.verify)}" if task.verify else words.faint(f"  verify  {nothing}"))
    if task.review != "none":
        lines.append(f"  review  {task.review}")
    return lines
