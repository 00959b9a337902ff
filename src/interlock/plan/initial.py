"""What `interlock init` writes: a team file, and a first plan that runs in this directory as it stands."""

from __future__ import annotations

import json
import os

from interlock.errors import InvalidRequest, StorageError
from interlock.model.names import PROGRAMS
from interlock.model.plan import FirstPlan
from interlock.plan.detecting import Findings, inspect

__all__ = ["PLAN_FILE", "TEAM_FILE", "Findings", "initialise", "inspect", "write_plan", "write_team"]

TEAM_FILE = "interlock.toml"
PLAN_FILE = "plan.yaml"
CHECKS = ("lint", "test", "build")
"""Commands that come out the same however often they are tried."""


def write_team(findings: Findings) -> str:
    """The text of `interlock.toml`: what lets every command in this directory find its team."""
    return (
        "# Commands given in this directory, or below it, speak to this team unless --team says otherwise.\n"
        f"team = {json.dumps(findings.name)}\n"
    )


def write_plan(findings: Findings) -> str:
    """The text of a plan for what was found: two to four commands in order, and an agent's task to uncomment."""
    tasks = _tasks(findings)
    agent = findings.agents[0] if findings.agents else PROGRAMS[0]
    last = tasks[-1][0]
    check = findings.test_command or findings.lint_command
    lines = [
        "# A first plan. It runs as it stands:   interlock run plan.yaml",
        "# Run it again and it goes on where it stopped; what is done stays done.",
        "# Every key there is:                   interlock plan --schema",
        "",
        f"team: {json.dumps(findings.name)}",
        "workdir: .                    # relative to this file",
        *_isolated(findings),
        "parallel: 2                   # tasks under way at once",
        "",
        "members:",
        "  ada: {agent: shell}         # carries out the `run` of a task; needs no model",
        _agents_found(findings),
        f"  # bob: {{agent: {agent}, permissions: workspace}}",
        "",
        "tasks:",
    ]
    for position, (key, subject, command) in enumerate(tasks):
        lines += [f"  {key}:", f"    subject: {subject}", f"    run: {json.dumps(command)}"]
        if position:
            lines.append(f"    blocked_by: [{tasks[position - 1][0]}]")
        if key in CHECKS:
            lines.append(
                "    retries: 0                # a check that fails now fails again; nothing is gained by trying"
            )
        lines.append("")
    lines += [
        "  # A task for an agent: take away the # here and before its member above.",
        "  # The task is done only when `verify` succeeds; otherwise the agent gets its output and tries again.",
        "  #",
        "  # notes:",
        "  #   subject: Write down how this project is built and tested",
        "  #   body: |",
        "  #     Read the project and write NOTES.md: what it is for, how to set it up, how to test it.",
        "  #     At most one page. Change no other file.",
        "  #   assignee: bob",
        f"  #   verify: {json.dumps('test -s NOTES.md' + (f' && {check}' if check else ''))}",
        "  #   review: human             # somebody approves it; `none` to do without",
        f"  #   blocked_by: [{last}]",
    ]
    return "\n".join(lines) + "\n"


def initialise(directory: str) -> FirstPlan:
    """Write `interlock.toml` and `plan.yaml` into `directory`; answer what was found there.

    Raises:
        InvalidRequest: `directory` is none, or one of the files is there already; nothing was written then.
        StorageError: the file system refused; nothing was left behind.
    """
    if not os.path.isdir(directory):
        raise InvalidRequest(f"There is no directory {directory}. Create it first.", path=directory)
    team, plan = (os.path.join(directory, name) for name in (TEAM_FILE, PLAN_FILE))
    present = [path for path in (team, plan) if os.path.lexists(path)]
    if present:
        raise _present(present)
    findings = inspect(directory)
    written: list[str] = []
    try:
        for path, text in ((team, write_team(findings)), (plan, write_plan(findings))):
            with open(path, "x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            os.unlink(path)
        if isinstance(error, FileExistsError):
            raise _present([str(error.filename)]) from error
        raise StorageError(
            f"{error.filename or directory} cannot be written: {error.strerror}.", path=directory
        ) from error
    return FirstPlan(
        findings.name, (team, plan), findings.agents, findings.is_git, findings.language, findings.lint_command,
        findings.test_command, findings.build_command, findings.setup,
    )  # fmt: skip


def _present(paths: list[str]) -> InvalidRequest:
    one = len(paths) == 1
    message = (
        f"{' and '.join(paths)} {'is' if one else 'are'} there already; nothing was written. Go on with what is there, "
        f"or move {'it' if one else 'them'} away first."
    )
    return InvalidRequest(message, paths=paths)


def _isolated(findings: Findings) -> list[str]:
    if findings.setup is None:
        return []
    return [
        "isolation: worktree           # each task works in a copy of what is committed, merged when it is done",
        f"setup: {json.dumps(findings.setup)}   # makes what git ignores, in each copy",
    ]


def _agents_found(findings: Findings) -> str:
    if findings.agents:
        return f"  # Found on this machine: {', '.join(findings.agents)}. To let one take part:"
    return f"  # No agent program was found on this machine. Once you have one ({', '.join(PROGRAMS)}):"


def _tasks(findings: Findings) -> list[tuple[str, str, str]]:
    """(key, subject, command) of each task, in order."""
    found = [
        ("lint", "Lint the sources", findings.lint_command),
        ("test", "Run the tests", findings.test_command),
        ("build", "Build it", findings.build_command),
    ]
    if findings.setup and sum(command is not None for *_, command in found) > 1:
        return [(key, subject, command) for key, subject, command in found if command]
    first = (
        ("look", "See what has changed", "git status --short")
        if findings.is_git and not findings.setup
        else ("look", "See what is here", "ls")
    )
    tasks = [first] + [(key, subject, command) for key, subject, command in found if command]
    if len(tasks) > 1:
        return tasks
    if findings.has_commits:
        return [*tasks, ("latest", "Show the latest commit", "git log -1 --oneline")]
    return [*tasks, ("size", "See how much there is", "du -sk .")]
