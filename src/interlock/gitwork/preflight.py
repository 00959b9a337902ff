"""What in a plan cannot start, or would prove nothing about the work: found before anything starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from interlock.errors import GitFailed, InvalidRequest
from interlock.gitwork.git import Git
from interlock.model.plan import Plan
from interlock.plan.detecting import SUBMODULES, checkout_of, elsewhere, programs, remedy
from interlock.plan.faults import Faults
from interlock.processes import commands
from interlock.processes.program import refusal

SHELL_SECONDS = 10.0
"""How long a shell may look at the language of a command."""


def examine(plan: Plan, faults: Faults, *, isolated: bool | None, timeout: float) -> tuple[str, ...]:
    """Add what is wrong with the commands of `plan` to `faults`; what may be intended is returned, in sentences.

    `isolated` is None where that is not known; `timeout` is in seconds, for each call of git. What `setup` makes is not
    there yet, so with one only what it cannot fix is judged.
    """
    search = os.environ.get("PATH", os.defpath)
    there = os.path.isdir(plan.workdir)  # Else that is what is wrong, and it has been said.
    top = checkout_of(plan.workdir) if isolated else None
    if isolated is False:
        for name in ("setup", "copy"):
            if getattr(plan, name):
                why = f"{name} prepares worktrees, and there are none. Add `isolation: worktree`, or remove it"
                faults.add(plan.lines.get(name), why)
    doubtful = []

    def add(name: str, line: int | None, why: str) -> None:
        if name == "verify":
            faults.add(line, why)
        else:  # It proves nothing anyway, and may be meant so.
            doubtful.append(f"{faults.path}:{line}: {why}")

    for name, command, line in _commands(plan):
        try:
            words = commands.argv(command)
        except InvalidRequest as error:
            faults.add(line, f"{name}: {error.message}")
            continue
        if (broken := _syntax(words)) is not None:
            faults.add(line, f"{name}: a shell does not understand `{command}`: {broken}")
            continue
        if name == "setup" or not there:
            continue
        astray = elsewhere(command, plan.workdir, top=top, search=search) if top is not None else None
        if astray is not None:
            help = remedy(programs(command)[0] if programs(command) else command, plan.workdir)
            add(name, line, f"{name} would not look at the work in a worktree: {astray} {help}")
        elif top is not None and plan.setup is None and (left := _only_here(plan, command, timeout)):
            why = f"{name}: {left} exists in your checkout only: git ignores it, so worktrees do not have it"
            faults.add(line, f"{why}. {remedy(left, plan.workdir)}")
        elif refused := _refusal(plan, words[0], search):
            if "/" not in words[0] or os.path.isabs(words[0]):
                add(name, line, f"{name}: {refused}")
            elif os.path.exists(os.path.join(plan.workdir, words[0])):  # Else an earlier task may make it.
                add("run", line, f"{name}: {refused}")
    for member in plan.members.values() if there else ():
        if member.command and (refused := _refusal(plan, member.command[0], search)):
            doubtful.append(f"{faults.path}:{member.line}: agent of {member.name}: {refused}")
        elif member.command and isolated and _is_left_behind(plan, member.command[0], timeout):
            why = f"{member.command[0]} is not committed, so no worktree has it: `git add` and `git commit` it"
            faults.add(member.line, f"agent of {member.name}: {why}")
    return tuple(doubtful)


def notes(plan: Plan, *, isolated: bool) -> tuple[str, ...]:
    """What its isolation means, where that may surprise the user of a checkout, each in a line."""
    if (top := checkout_of(plan.workdir)) is None:
        return ()
    empty = isolated and "submodule" not in (plan.setup or "") and os.path.lexists(os.path.join(top, ".gitmodules"))
    return (
        *_choice(plan, isolated),
        *[f"submodules are empty in a worktree; `setup: {SUBMODULES}` fills them"] * empty,
    )


def _choice(plan: Plan, isolated: bool) -> tuple[str, ...]:
    if not plan.at_once:
        return ()
    if not isolated:
        return (f"isolation: none, so all members work in {plan.workdir} at once and may overwrite each other's files",)
    if plan.isolation is not None:
        return ()
    ours = f"interlock/{plan.team}"
    return (
        f"isolation: worktree, since members may work at once: each task works in a copy of its own of what is "
        f"committed and is merged into {ours}; `interlock merge --all --team {plan.team}` brings it to your branch",
    )


def has_commits_of(workdir: str, timeout: float) -> bool:
    """Whether something below `workdir` is committed, so that a worktree would have it."""
    if checkout_of(workdir) is None:
        return False
    try:
        return bool(Git(workdir, timeout=timeout)("ls-tree", "--name-only", "HEAD", "./", ok=(0, 128)).text)
    except GitFailed:
        return False


def _commands(plan: Plan) -> Iterator[tuple[str, str, int | None]]:
    if plan.setup is not None:
        yield "setup", plan.setup, plan.lines.get("setup")
    seen = set()
    for task in plan.tasks.values():
        for name in ("run", "verify"):
            command, line = getattr(task, name), task.lines.get(name) or plan.lines.get(name) or task.line
            if command is not None and (name, command, line) not in seen:
                seen.add((name, command, line))
                yield name, command, line


def _refusal(plan: Plan, program: str, search: str) -> str | None:
    """Why `program` cannot be started as things are, where `setup` does not come first."""
    if program == commands.SHELL or (plan.setup is not None and not os.path.isabs(program)):
        return None
    why = refusal(program, plan.workdir, search)
    return why and f"{why[0].lower()}{why[1:]}"


def _syntax(words: list[str]) -> str | None:
    """What a shell finds wrong with the language of a command that is for one; None where that is nothing."""
    if words[:2] != [commands.SHELL, "-c"]:
        return None
    try:
        asked = subprocess.run(
            [commands.SHELL, "-n", *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=SHELL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = asked.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0].rpartition("yntax error: ")[2] if asked.returncode and said else None


def _is_left_behind(plan: Plan, program: str, timeout: float) -> bool:
    """Whether a program lies in the user's checkout and in no worktree: neither committed, nor copied, nor made."""
    path = os.path.normpath(program)
    if "/" not in program or os.path.isabs(program) or path in plan.copy or path.startswith("..") or plan.setup:
        return False
    git = Git(plan.workdir, timeout=timeout)
    return not any(
        git("cat-file", "-e", f"{commit}:./{path}", ok=(0, 1, 128)).code == 0
        for commit in ("HEAD", f"refs/heads/interlock/{plan.team}")
    )


def _only_here(plan: Plan, command: str, timeout: float) -> str | None:
    """A program that `command` names by a relative path, and that no worktree will have."""
    git = Git(plan.workdir, timeout=timeout)
    for word in programs(command):
        path = os.path.normpath(word)
        if "/" not in word or os.path.isabs(word) or path in plan.copy or path.startswith(".."):
            continue
        if not os.path.lexists(os.path.join(plan.workdir, path)):
            continue
        if git("check-ignore", "--quiet", "--", path, ok=(0, 1, 128)).code == 0:
            return word
    return None
