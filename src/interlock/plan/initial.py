"""What `interlock init` writes: a team file, and a first plan for what was found. Nothing of it is tried."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from interlock.errors import InvalidRequest, StorageError
from interlock.model.names import PROGRAMS
from interlock.model.plan import PLAN_FILES, FirstPlan
from interlock.plan.detecting import Findings, inspect

__all__ = ["PLAN_FILE", "TEAM_FILE", "Findings", "initialise", "inspect", "write_plan", "write_team"]

TEAM_FILE = "interlock.toml"
PLAN_FILE = PLAN_FILES[0]
CHECKS = ("lint", "test", "build")
"""Commands that come out the same however often they are tried."""


def write_team(findings: Findings) -> str:
    """The text of `interlock.toml`: what lets every command in this directory find its team."""
    return (
        "# Commands given in this directory, or below it, speak to this team unless --team says otherwise.\n"
        f"team = {json.dumps(findings.name)}\n"
    )


def write_plan(findings: Findings, agent: str | None = None) -> str:
    """The text of a plan for what was found: one to four commands in order, and a task for an agent. That one is there
    for `agent`, as a plan writes it; without one it is a comment."""
    tasks = _tasks(findings)
    keys = [key for key, *_ in tasks]
    last = "test" if "test" in keys else keys[-1]
    check = findings.test_command or findings.lint_command
    lines = [
        "# A first plan, of commands that were found and not tried:   interlock run plan.yaml",
        "# Run it again to continue it; what is done stays done. After a change: interlock plan check plan.yaml",
        "# Every key there is:                   interlock plan --schema",
        "",
        f"team: {json.dumps(findings.name)}",
        "workdir: .                    # relative to this file",
        *_isolated(findings),
        "parallel: 2                   # tasks under way at once",
        "",
        "members:",
        "  ada: {agent: shell}         # carries out the `run` of a task; needs no model",
        *_worker(findings, agent),
        "",
        "tasks:",
    ]
    for key, subject, command in tasks:
        lines += [
            f"  {key}:",
            f"    subject: {subject}",
            f"    run: {json.dumps(command)}   # done when it exits with 0",
        ]
        if key == "build" and "test" in keys:
            lines.append("    blocked_by: [test]")
        if key in CHECKS:
            lines.append("    retries: 0                # an unchanged check fails again")
        lines.append("")
    lines += [
        "  # What you want done, in `body`. `verify` judges it, not the agent: Interlock runs it when the agent is",
        "  # done, and hands its output back until it succeeds, three times at most.",
    ]
    own = [
        "notes:",
        "  subject: Write down how this project is built and tested",
        "  body: |",
        "    Read the project and write NOTES.md: what it is for, how to set it up, how to test it.",
        "    At most one page. Change no other file.",
        "  assignee: bob",
        f"  verify: {json.dumps('test -s NOTES.md' + (f' && {check}' if check else ''))}",
        "  # review: human             # a person approves it as well",
        f"  blocked_by: [{last}]",
    ]
    if agent is not None:
        return "\n".join([*lines, *(f"  {line}" for line in own)]) + "\n"
    lines += ["  # To use it, uncomment these lines and the member above.", "  #"]
    return "\n".join([*lines, *(f"  # {line}" for line in own)]) + "\n"


def initialise(directory: str, agent: str | None = None, *, team: str | None = None) -> FirstPlan:
    """Write `interlock.toml` and `plan.yaml` into `directory`; answer what was found there. The plan has a task for
    `agent`, as a plan writes it, where one is given. `team` is by default named after the directory.

    Raises:
        InvalidRequest: `directory` is none, or one of the files, or a plan.yml, is there already; nothing was written.
        StorageError: the file system refused; nothing was left behind.
    """
    if not os.path.isdir(directory):
        raise InvalidRequest(f"There is no directory {directory}. Create it first.", path=directory)
    team_file, plan = (os.path.join(directory, name) for name in (TEAM_FILE, PLAN_FILE))
    plans = [os.path.join(directory, name) for name in PLAN_FILES]
    present = [path for path in (team_file, *plans) if os.path.lexists(path)]
    if present:
        raise _present(present)
    findings = inspect(directory)
    if team is not None:
        findings = replace(findings, name=team)
    written: list[str] = []
    try:
        for path, text in ((team_file, write_team(findings)), (plan, write_plan(findings, agent))):
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
        findings.name, (team_file, plan), findings.agents, findings.is_git, findings.is_committed,
        findings.language, findings.lint_command,
        findings.test_command, findings.build_command, findings.setup, findings.missing,
    )  # fmt: skip


def _present(paths: list[str]) -> InvalidRequest:
    one = len(paths) == 1
    message = (
        f"{' and '.join(paths)} already {'exists' if one else 'exist'}; nothing was written. Continue with what is "
        f"there, or move {'it' if one else 'them'} away first."
    )
    return InvalidRequest(message, paths=paths)


def _isolated(findings: Findings) -> list[str]:
    lines = []
    if findings.is_committed:
        lines.append("isolation: worktree           # each task works in a copy of what is committed; its work reaches")
        lines.append("                              # your branch by `interlock merge --all`, never before")
    if findings.setup:
        lines.append(f"setup: {json.dumps(findings.setup)}   # recreates what git ignores, in each worktree")
    return lines


def _worker(findings: Findings, agent: str | None) -> list[str]:
    """The member that gets a task in words, or the lines that say how to have one."""
    if agent is not None:
        own = "" if agent.startswith("{") else ", permissions: workspace"
        return [f"  bob: {{agent: {agent}{own}}}"]
    if findings.agents:
        said = f"  # Found on this machine: {', '.join(findings.agents)}. To let one take part:"
    else:
        said = f"  # No agent program was found on this machine. Once you have one ({', '.join(PROGRAMS)}):"
    return [
        said,
        f"  # bob: {{agent: {findings.agents[0] if findings.agents else PROGRAMS[0]}, permissions: workspace}}",
        "  # A program of your own, which reads its task from standard input: {agent: {command: [PROGRAM, ARGUMENT]}}",
    ]


def _tasks(findings: Findings) -> list[tuple[str, str, str]]:
    """(key, subject, command) of each task, in order."""
    # Each task has a copy of its own, where setup is run, and a linter is seldom pinned: the tests are what counts.
    only_tests = bool(findings.setup and findings.test_command)
    found = [
        ("lint", "Lint the sources", None if only_tests else findings.lint_command),
        ("test", "Run the tests", findings.test_command),
        ("build", "Build it", None if only_tests else findings.build_command),
    ]
    tasks = [(key, subject, command) for key, subject, command in found if command]
    if findings.is_committed:
        return tasks or [("latest", "Show the latest commit", "git log -1 --oneline")]
    first = (
        ("look", "See what has changed", "git status --short")
        if findings.is_git
        else ("look", "See what is here", "ls")
    )
    return [first, *(tasks or [("size", "See how much there is", "du -sk .")])]
