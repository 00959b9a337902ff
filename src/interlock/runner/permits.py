"""What an agent may do: its member's policy answers a permission request, or a person is asked.

    ask         everything is asked
    workspace   reading and changing files inside the working directory is allowed; the rest is asked
    read-only   reading there is allowed, changing and running anything is refused; the rest is asked
    unattended  as workspace, but what goes beyond is refused: nobody is awake to be asked

The tools of our own MCP server need nobody's permission (`agent.allowing`); nor, with `workspace` and `unattended`, do
the commands of the setting `allowed_commands`. Where a path really leads counts, not how it is written. "Inside" leaves
out `.git`: what is written there is run by the next git command.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.agent import Choice, Permission
from interlock.model.team import Member
from interlock.settings import PERMISSIONS, Settings

ASK, WORKSPACE, READ_ONLY, UNATTENDED = POLICIES = PERMISSIONS
READING = frozenset({"read", "search", "think"})
CHANGING = frozenset({"edit", "delete", "move"})
_OPERATORS = re.compile(r"[;&|<>$`\\\n(){}*?~!#]")

Verdict = Literal["allow", "refuse", "ask"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy says, and why."""

    verdict: Verdict
    why: str


def judge(policy: str, permission: Permission, workdir: str, commands: Sequence[str] = ()) -> Judgement:
    """What the policy says to a request of an agent at work in `workdir`."""
    if policy == ASK or policy not in POLICIES:
        return Judgement("ask", "its policy is to ask")
    inside = bool(permission.paths) and all(is_inside(path, workdir) for path in permission.paths)
    if permission.kind in READING and (inside or permission.kind == "think"):
        return Judgement("allow", "it reads inside its working directory")
    if policy == READ_ONLY:
        if permission.kind in CHANGING or permission.kind == "execute":
            return Judgement("refuse", "it may only read")
        return Judgement("ask", "it is not reading inside its working directory")
    if permission.kind in CHANGING and inside:
        return Judgement("allow", "it works inside its working directory")
    if permission.kind == "execute" and is_allowed_command(command_of(permission), commands):
        return Judgement("allow", "the setting allowed_commands names it")
    beyond = "it goes beyond its working directory" if permission.paths and not inside else "it is more than editing"
    return Judgement("refuse" if policy == UNATTENDED else "ask", beyond)


def rules_of(member: Member | None, settings: Settings) -> str:
    """What a member may do unasked and what becomes of the rest, for its agent to read."""
    policy = policy_of(member, settings)
    commands = [line.strip() for line in str(settings.get("allowed_commands")).splitlines() if line.strip()]
    allowed = ["the tools of the MCP server interlock"]
    if policy in (WORKSPACE, READ_ONLY, UNATTENDED):
        allowed.append("reading files" if policy == READ_ONLY else "reading and changing files")
        allowed[-1] += " in your working directory"
    if commands and policy in (WORKSPACE, UNATTENDED):
        named = ", ".join(f"`{line}`" for line in commands)
        allowed.append(f"commands that begin with {named}, each alone (no `;`, `|`, `&&`, `>`)")
    rest = "The rest is asked of a person."
    if settings.get("unattended") or policy == UNATTENDED:
        rest = "Everything else is refused: nobody is awake to be asked."
    elif policy == READ_ONLY:
        rest = "Changing files and running commands is refused; the rest is asked of a person."
    return f"Allowed without asking: {'; '.join(allowed)}. {rest}"


def refuses(member: Member | None, settings: Settings) -> bool:
    """Whether something is refused that nobody was asked about."""
    return bool(settings.get("unattended")) or policy_of(member, settings) in (READ_ONLY, UNATTENDED)


def policy_of(member: Member | None, settings: Settings) -> str:
    """The member's own policy, else the team's."""
    return (member.permissions if member is not None else None) or str(settings.get("permissions"))


def is_inside(path: str, workdir: str) -> bool:
    """Whether `path`, links followed, lies in `workdir` and not in a `.git` of it. It need not exist."""
    root = os.path.realpath(workdir)
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        return False
    below = os.path.relpath(real, root).split(os.sep)
    return not any(part.casefold() == ".git" for part in below)


def command_of(permission: Permission) -> str:
    """The command line that an agent wants to run: of the tool call's own arguments where they say so."""
    raw = permission.data.get("rawInput") or permission.data.get("raw_input")
    said = raw.get("command") if isinstance(raw, dict) else None
    if isinstance(said, list) and all(isinstance(word, str) for word in said):
        return shlex.join(said)
    return said if isinstance(said, str) else ""


def is_allowed_command(command: str, allowed: Sequence[str]) -> bool:
    """Whether `command` is a single program call that begins with the words of one that is allowed."""
    if not command.strip() or _OPERATORS.search(command):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    for line in allowed:
        wanted = line.split()
        if wanted and words[: len(wanted)] == wanted:
            return True
    return False


def pick(choices: Sequence[Choice], *, allow: bool) -> str | None:
    """The choice to answer with: always for this once, for agents keep what they are told for ever in files of theirs.
    Null, which ends the turn, where there is none of that kind."""
    kinds = ("allow_once", "allow_always") if allow else ("reject_once", "reject_always")
    for kind in kinds:
        for choice in choices:
            if choice.kind == kind:
                return choice.id
    return None


def options(choices: Sequence[Choice]) -> list[str]:
    """What a person may answer."""
    kinds = {choice.kind for choice in choices}
    found = []
    if kinds & {"allow_once", "allow_always"}:
        found.append("allow")
    if "allow_always" in kinds:
        found.append("always")
    return [*found, "refuse"]


def same(permission: Permission) -> str:
    """What makes two requests the same one."""
    command = command_of(permission) if permission.kind == "execute" else ""
    return "\n".join([permission.kind, command or permission.title, *sorted(permission.paths)])
