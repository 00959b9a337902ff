"""What an agent may do: its member's policy answers a permission request, or a person is asked.

    ask         everything is asked
    workspace   reading and changing files inside the working directory is allowed; the rest is asked
    read-only   reading there is allowed, changing and running anything is refused; the rest is asked
    unattended  as workspace, but what goes beyond is refused: nobody is awake to be asked

The tools of our own MCP server need nobody's permission (`agent.allowing`); nor, with `workspace` and `unattended`, do
the commands of the setting `allowed_commands`. Where a path really leads counts, not how it is written. "Inside" leaves
out `.git`: what is written there is run by the next git command.

A question is held: the task awaits a response, its lease is kept, and the turn continues when the answer is there.
Where the turn ends first (the agent died, was stopped, or nobody answered within `hold_time`), the question is
withdrawn, or parked: then the answer counts for the same request in the next run. Who answered what stands in the
history (`permission.asked`, `permission.answered`).

What is refused is kept with the reason: most programs tell their model no more than that "the user" refused, and some
end the turn, so the next prompt says why (`turns`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from interlock.agents.session import Permission, PermissionChoice
from interlock.core import questions
from interlock.core.tasks import answer
from interlock.core.tasks import permission as asking
from interlock.core.tasks.find import find
from interlock.core.tasks.transition import move
from interlock.core.unit_of_work import UnitOfWork
from interlock.core.waiting import StillWaiting, Wait, in_thread, unanswered
from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.model.question import Question
from interlock.model.task import WAITING, Task
from interlock.model.team import Member
from interlock.runner.context import ActiveRun
from interlock.settings import PERMISSIONS, Settings

ASK, WORKSPACE, READ_ONLY, UNATTENDED = POLICIES = PERMISSIONS
READING = frozenset({"read", "search", "think"})
CHANGING = frozenset({"edit", "delete", "move"})
_OPERATORS = re.compile(r"[;&|<>$`\\\n(){}*?~!#]")

Verdict = Literal["allow", "refuse", "ask"]


@dataclass(frozen=True, slots=True)
class PermissionDecision:
    """What a policy says, and why."""

    verdict: Verdict
    why: str


def judge(policy: str, permission: Permission, workdir: str, commands: Sequence[str]) -> PermissionDecision:
    """What the policy says to a request of an agent at work in `workdir`."""
    if policy == ASK or policy not in POLICIES:
        return PermissionDecision("ask", "its policy is to ask")
    inside = bool(permission.paths) and all(is_inside(path, workdir) for path in permission.paths)
    if permission.kind in READING and (inside or permission.kind == "think"):
        return PermissionDecision("allow", "it reads inside its working directory")
    if policy == READ_ONLY:
        if permission.kind in CHANGING or permission.kind == "execute":
            return PermissionDecision("refuse", "it may only read")
        return PermissionDecision("ask", "it is not reading inside its working directory")
    if permission.kind in CHANGING and inside:
        return PermissionDecision("allow", "it works inside its working directory")
    if permission.kind == "execute" and is_allowed_command(command_of(permission), commands):
        return PermissionDecision("allow", "the setting allowed_commands names it")
    beyond = "it goes beyond its working directory" if permission.paths and not inside else "it is more than editing"
    return PermissionDecision("refuse" if policy == UNATTENDED else "ask", beyond)


def rules_of(member: Member | None, settings: Settings, *, elsewhere: bool = False) -> str:
    """What a member may do unasked and what becomes of the rest, for its agent to read; `elsewhere` nobody is asked."""
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
    if elsewhere or settings.get("unattended") or policy == UNATTENDED:
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
    """Whether `path`, links followed, lies in `workdir` and not in a `.git` there. It need not exist."""
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
    return any((wanted := line.split()) and words[: len(wanted)] == wanted for line in allowed)


def pick(choices: Sequence[PermissionChoice], *, allow: bool) -> str | None:
    """The choice to answer with, None (which ends the turn) where there is none of that kind. It is always one for this
    once: agents keep what they are told for ever in files of their own."""
    kinds = ("allow_once", "allow_always") if allow else ("reject_once", "reject_always")
    return next((choice.id for kind in kinds for choice in choices if choice.kind == kind), None)


def options(choices: Sequence[PermissionChoice]) -> list[str]:
    """What a person may answer."""
    kinds = {choice.kind for choice in choices}
    allow = ["allow"] if kinds & {"allow_once", "allow_always"} else []
    return [*allow, *(["always"] if "allow_always" in kinds else []), "refuse"]


def same(permission: Permission) -> str:
    """What makes two requests the same one."""
    command = command_of(permission) if permission.kind == "execute" else ""
    return "\n".join([permission.kind, command or permission.title, *sorted(permission.paths)])


SHOWN_CHARS = 2000
YES = ("allow", "always")


class PermissionRequests:
    """The permission requests of one run. `park` closes the session, with the reason."""

    def __init__(self, run: ActiveRun, park: Callable[[str], Awaitable[None]]) -> None:
        self.parking = False
        """The session is about to be closed: what is open stays open, for the next run."""
        self._run = run
        self._park = park
        self._refused: list[str] = []
        self._hold = 0.0
        self._always: set[str] = set()
        self._waiting = 0

    @property
    def waiting(self) -> bool:
        """Whether a person is asked now."""
        return self._waiting > 0

    async def permit(self, permission: Permission) -> str | None:
        """Answer the request with the id of one of its choices; None ends the agent's turn."""
        mark = same(permission)
        found = await in_thread(partial(self._decide_or_ask, permission, mark))
        if isinstance(found, PermissionDecision):
            if found.verdict == "refuse":
                self._refuse(permission, found.why)
            return pick(permission.choices, allow=found.verdict == "allow")
        self._run.say(f"asks for permission: {permission.title}")
        said = await self._answer_of(found.id)
        if said is None:
            return None
        if said == "always":
            self._always.add(mark)
        if said not in YES:
            self._refuse(permission, "the person who was asked said no")
        return pick(permission.choices, allow=said in YES)

    def take_refused(self) -> list[str]:
        """What was refused since the last call, each with the reason."""
        refused, self._refused = self._refused, []
        return refused

    def _refuse(self, permission: Permission, why: str) -> None:
        self._run.say(f"was refused: {permission.title} ({why})")
        self._refused.append(f"{command_of(permission) or permission.title} ({why})")

    def _decide_or_ask(self, permission: Permission, mark: str) -> Question | PermissionDecision:
        """What the policy says, or the question that a person is asked."""
        run = self._run
        digest = hashlib.sha256(mark.encode("utf-8", "replace")).hexdigest()[:24]
        with run.act() as act:
            if mark in self._always:
                found = PermissionDecision("allow", "allowed for this session")
            else:
                policy = policy_of(act.rows.team.member(run.caller.name), act.settings)
                commands = str(act.settings.get("allowed_commands")).splitlines()
                self._hold = float(act.settings.get("hold_time"))
                found = judge(policy, permission, run.workdir, commands)
                if found.verdict == "ask" and act.settings.get("unattended"):
                    found = PermissionDecision("refuse", "nobody is awake to be asked")
            if found.verdict == "ask":
                task = find(act.rows, run.task.id)
                return self._answered_before(act, task, digest) or self._ask(act, task, permission, digest)
            act.event(
                "permission.answered", run.task.id, answer=found.verdict, run=run.task.run_id, tool=permission.kind,
                title=permission.title, paths=list(permission.paths), by="policy", why=found.why,
            )  # fmt: skip
            return found

    def _answered_before(self, act: UnitOfWork, task: Task, digest: str) -> PermissionDecision | None:
        """The answer of a person to the same request of an earlier run, which ended before it came; counts once."""
        for one in act.rows.questions.of_task(task.id):
            known = one.kind == "permission" and one.state == "answered" and one.data.get("digest") == digest
            if known and not one.data.get("used"):
                allowed = asking.use(act, one, self._run.task.run_id) in YES
                return PermissionDecision("allow" if allowed else "refuse", f"{one.answered_by} answered it before")
        return None

    def _ask(self, act: UnitOfWork, task: Task, permission: Permission, digest: str) -> Question:
        command = command_of(permission)
        context = "\n".join(part for part in (command, *permission.paths) if part)[:SHOWN_CHARS]
        question = answer.ask(
            act, task, kind="permission", text=f"May {self._run.caller.name} do this: {permission.title}?",
            options=options(permission.choices), context=context or None, held=True,
            data={"digest": digest, "tool": permission.kind, "title": permission.title,
                  "paths": list(permission.paths), "command": command[:SHOWN_CHARS]},
        )  # fmt: skip
        asking.asked(act, question, self._run.task.run_id)
        return question

    async def _answer_of(self, question: str) -> str | None:
        """Wait for the answer; None where nobody gave one within `hold_time`, and the session is closed."""
        ends = time.monotonic() + self._hold
        self._waiting += 1
        said: str | None = None

        def look() -> str | StillWaiting | None:
            return self._look(question) or StillWaiting(ends - time.monotonic())

        try:
            wait: Wait[str | None] = Wait(self._run.workspace, ["questions", "tasks"], look)
            said = await wait.held(self._run.wait, lambda reason: None)
            if said is None and self._run.wait.over is None:
                why = unanswered(self._hold)
                self._run.say(f"its session is closed: {why}")
                await self._park(why)
            return said
        finally:
            self._waiting -= 1
            if said is None and not self.parking:
                with anyio.CancelScope(shield=True):
                    await in_thread(partial(self._withdraw, question))

    def _look(self, id: str) -> str | None:
        """The answer, once there is one; the task then continues in the same run. One that was withdrawn is a no."""
        with self._run.workspace.ledger.snapshot() as rows:
            known = rows.questions.get(id)
            if known is not None and known.state == "open":
                return None
        with self._run.act() as act:
            known, task = act.rows.questions.get(id), find(act.rows, self._run.task.id)
            ours = task.run == self._run.task.run and task.owner is None
            if ours and task.state in ("ready", "backlog") and _is_open(act, task):
                answer.resume(act, task)
            return (
                "refuse"
                if known is None or known.state != "answered"
                else asking.use(act, known, self._run.task.run_id)
            )

    def _withdraw(self, id: str) -> None:
        """Withdraw a question whose turn ended before the answer came."""
        try:
            with self._run.act() as act:
                known, task = act.rows.questions.get(id), find(act.rows, self._run.task.id)
                if known is None or known.state != "open":
                    return
                questions.withdraw_one(act, known, "the agent waits no more")
                ours = task.run == self._run.task.run and task.owner == act.name and task.session == act.session
                if ours and task.state in WAITING and not act.rows.questions.open(task.id) and _is_open(act, task):
                    move(act, task, "in-progress", reason="its agent waits for no permission any more")
        except InterlockError as error:
            self._run.say(f"a question could not be withdrawn: {error.message}")


def _is_open(act: UnitOfWork, task: Task) -> bool:
    run = act.rows.runs.get(task.id, task.run)
    return run is not None and run.ended_at is None and run.session == act.session
