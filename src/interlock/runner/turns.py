"""What a lasting session is told between the turns of one run, before its task is settled.

    a turn ends ──> somebody is asked ──────────> wait: the answer is the next prompt, or the session closes
                ──> over a limit ───────────────> a person is asked whether it goes on
                ──> no progress for some turns ─> told so once; then the attempt is over
                ──> mail waits ─────────────────> the mail, urgent first; so many times in a row at most
                ──> something was refused ──────> why, and what is allowed; so many times at most
                ──> its report was found wrong ─> the findings, once; that is the same round
                ──> no report ──────────────────> one reminder
                ──> otherwise the task is settled

Urgent mail waits for the end of the turn, too: an agent is interrupted only to be ended.

Whether a run gets anywhere, judged from outside: what its agent did, what it said, and what lies in its directory.

A turn moves on when a tool call changed something, when a file in the working directory is another one than before, or
when the agent says something that it did not say the turn before. So many turns in a row without any of that, and the
run is *stuck*: it is told so once, and then ended. What was looked at is written down as evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import anyio

from interlock.agents.session import Update
from interlock.core import mailbox
from interlock.core.tasks import answer, review
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.core.waiting import HumanWait, in_thread
from interlock.model.message import Message
from interlock.model.names import HUMAN
from interlock.model.run import Run
from interlock.model.task import WAITING, Task
from interlock.processes.output import plain
from interlock.processes.ref import alive
from interlock.protocol.dropped import adopt
from interlock.runner import completion, permissions, usage
from interlock.runner.executor import Result
from interlock.runner.job import TOLD, RunnerConfig
from interlock.runner.prompt import (
    NOT_PROMPTED,
    STUCK,
    answer_prompt,
    findings_prompt,
    mail_prompt,
    refused_prompt,
    reminder,
)
from interlock.runner.stdout_messages import without_messages
from interlock.runner.usage import UsageMeter
from interlock.runner.verify import fingerprint

LOOK_AGAIN = 30.0
"""Seconds between two looks at what a session waits for, however quiet it is."""


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """The next prompt of the same run; `mail` are the numbers of the messages in it."""

    text: str
    mail: list[int] = field(default_factory=list)


REFUSALS_TOLD = 5
"""How often one run is told why something was refused; whoever tries on and on is reminded and settled like others."""

Step = NextPrompt | Literal["wait"] | None


class TurnLoop:
    """One run of `task` by `caller` in a session that lasts. `told`: ids of questions whose answers it has read."""

    def __init__(
        self,
        workspace: Workspace,
        task: Task,
        caller: Principal,
        terms: RunnerConfig,
        meter: UsageMeter,
        told: set[str],
        *,
        say: Callable[[str], None],
        patience: HumanWait,
        refused: Callable[[], list[str]] = list,
    ) -> None:
        self.progress = TurnProgress(terms.workdir)
        self.failure: str | None = None
        """Why the attempt is over, where the conversation says so."""
        self._workspace = workspace
        self._task = task
        self._caller = caller
        self._terms = terms
        self._meter = meter
        self._told = told
        self._say = say
        self._patience = patience
        self._take_refused = refused
        self._refusals = 0
        self._mails = 0
        self._reminded = False
        self._rounds = task.rounds
        self._warned = False

    @property
    def waiting(self) -> bool:
        """Whether its session lives and waits for an answer."""
        return self._patience.waiting

    def new_round(self, rounds: int) -> None:
        """Its check failed, and it goes on with the findings."""
        self._rounds = rounds
        self._reminded = False

    async def following(self, result: Result) -> NextPrompt | None:
        """The next prompt after a turn that ended well; null where the run is to be settled."""
        step: Step = await in_thread(partial(self._step, result))
        return await self._wait() if step == "wait" else step

    def _step(self, result: Result) -> Step:
        adopt(self._workspace, self._task.id)
        self.progress.turn_ended(result.output)
        with self._workspace.act(self._caller, acknowledge=False) as act:
            task, run = find(act.rows, self._task.id), act.rows.runs.get(self._task.id, self._task.run)
            if run is None or run.ended_at is not None or task.run != run.number:
                return None
            self._meter.write(act, task.id, run)
            if self._task.state == "review":
                return self._verdict(act, task, result)
            if task.state in WAITING and task.owner == act.name:
                answer.hold(act, task)
                return "wait"
            if task.state in ("ready", "backlog") and task.owner is None:
                return self._answered(act, task)
            if task.state != "in-progress" or task.session != act.session:
                return None
            return self._at_work(act, task, run, result)

    def _at_work(self, act: UnitOfWork, task: Task, run: Run, result: Result) -> Step:
        reported = self._reported(run, result)
        over = (
            None
            if reported
            else usage.excess(act.rows, task, run, act.settings, act.at, unmetered=self._meter.unmetered > 0)
        )
        if over is not None:
            return self._over(act, task, over)
        if not reported and task.rounds > self._rounds:
            self.new_round(task.rounds)
            return NextPrompt(findings_prompt(task))
        if not reported and self._is_stuck(act, task):
            return None if self.failure else NextPrompt(STUCK.format(id=task.id, turns=self.progress.evidence["turns"]))
        mail = self._mail(act)
        if mail:
            return NextPrompt(mail_prompt(mail, task), [message.n for message in mail])
        if reported:
            return None
        refused = self._refused(act)
        if refused:
            return NextPrompt(refused_prompt(task, refused))
        if self._reminded or task.rounds:
            return None  # Who has reported in vain is not told to report: what lies there now is looked at.
        self._reminded = True
        act.event("run.reminded", task.id, run=run.id, member=run.member)
        return NextPrompt(reminder(task))

    def _reported(self, run: Run, result: Result) -> bool:
        """Whether it said what came of the task, if only by its last line or a file; then that is applied."""
        said = completion.read_outcome(without_messages(plain(result.output)))
        return said is not None or (run.result is not None and run.applied is None)

    def _verdict(self, act: UnitOfWork, task: Task, result: Result) -> Step:
        under = review.under_review(act.rows, task)
        if under is None or under.number != self._task.run or completion.read_verdict(result.output):
            return None
        refused = self._refused(act)
        if refused:
            return NextPrompt(refused_prompt(task, refused))
        if self._reminded:
            return None
        self._reminded = True
        act.event("run.reminded", task.id, run=under.id, member=under.member)
        return NextPrompt(
            f"You have ended your turn without a verdict on {task.id}. Give one: `approve`, or `changes: ` and what "
            "has to change, as your last line.\n"
        )

    def _refused(self, act: UnitOfWork) -> str | None:
        """What the agent is told of the refusals of this turn: it need not have heard why, and its program may have
        ended the turn. No reminder is used up."""
        refused = self._take_refused()
        if not refused or self._refusals == REFUSALS_TOLD:
            return None
        self._refusals += 1
        rules = permissions.rules_of(act.rows.team.member(act.name), act.settings)
        return "\n".join(["Refused:", *(f"- {one}" for one in dict.fromkeys(refused)), "", rules])

    def _is_stuck(self, act: UnitOfWork, task: Task) -> bool:
        turns = int(act.settings.get("stuck_turns"))
        if self.progress.idle_turns < turns - 1 or self.progress.evidence["turns"] < 2:
            return False
        action = "ended" if self._warned else "reminded"
        act.event("run.stuck", task.id, run=task.run_id, action=action, evidence=self.progress.evidence)
        if self._warned:
            self.failure = f"stuck: no progress in {self.progress.evidence['turns']} turns, and none after a reminder"
        self._warned = True
        return True

    def _over(self, act: UnitOfWork, task: Task, over: usage.Excess) -> Step:
        whose = f"{task.id} has" if over.of == "task" else f"{act.name} has"
        act.event("limit.reached", task.id, of=over.of, measure=over.measure, limit=over.limit, spent=over.spent)
        more = usage.amount(over.measure, over.limit)
        answer.ask(
            act, task, kind="limit", text=f"{whose} used {over.as_text()}. Go on?",
            options=(usage.CONTINUE, usage.CANCEL), held=True,
            context=f"continue: as much once more; cancel: {task.id} is cancelled. So far the limit was {more}.",
            data={"of": over.of, "measure": over.measure, "limit": over.limit, "spent": over.spent},
        )  # fmt: skip
        return "wait"

    def _answered(self, act: UnitOfWork, task: Task) -> NextPrompt | None:
        """The task was given back to the queue since its questions are answered; this session goes on with it."""
        run = act.rows.runs.get(task.id, task.run)
        if run is None or run.ended_at is not None or run.session != act.session:
            return None
        answer.resume(act, task)
        asked = act.rows.questions.of_task(task.id)
        new = [one for one in asked if one.state == "answered" and one.kind in TOLD and one.id not in self._told]
        self._told.update(one.id for one in new)
        self._reminded = False
        return NextPrompt(answer_prompt(task, new))

    def _mail(self, act: UnitOfWork) -> list[Message]:
        """The mail for the next prompt, offered to this session."""
        if not worth_a_prompt(act.rows, act.name, self._mails < int(act.settings.get("mail_turns"))):
            return []
        self._mails += 1
        mail = mailbox.offer(act, self._terms.runner, alive, count=mailbox.INJECT_COUNT, size=mailbox.INJECT_BYTES)
        if any(is_person(act.rows, message.sender) for message in mail):
            self._mails = 0
        return mail

    async def _wait(self) -> NextPrompt | None:
        """Hold the session until an answer or mail is there; null when it is to be closed."""
        workspace = self._workspace
        hold = float(await in_thread(self._hold_time))
        began = anyio.current_time()
        topics = ["tasks", "questions", f"inbox:{self._caller.name}"]
        patience = self._patience
        with patience.held(), workspace.notifier.waiter(workspace.name, topics, workspace.ledger.watch()) as waiter:
            while True:
                step: Step = await in_thread(self._look)
                if step != "wait":
                    return step
                left = began + hold - anyio.current_time()
                if patience.over is None and left > 0:
                    await patience.pause(waiter, min(left, LOOK_AGAIN))
                    continue
                why = patience.over or f"nobody answered within {hold:.0f} s"
                step = await in_thread(partial(self._park, why))
                if step != "wait":
                    return step
                self._say(f"its session is closed: {why}")
                return None

    def _hold_time(self) -> float:
        with self._workspace.ledger.snapshot() as rows:
            settings = self._workspace.settings(rows)
            return 0.0 if settings.get("unattended") else float(settings.get("hold_time"))

    def _look(self) -> Step:
        with self._workspace.ledger.snapshot() as rows:
            task = rows.tasks.get(self._task.id)
            urgent = worth_a_prompt(rows, self._caller.name, True)
        if task is None or task.run != self._task.run:
            return None
        if task.state in WAITING and not urgent:
            return "wait"
        with self._workspace.act(self._caller, acknowledge=False) as act:
            task = find(act.rows, self._task.id)
            if task.state in ("ready", "backlog") and task.owner is None:
                return self._answered(act, task)
            if task.run != self._task.run or task.owner != act.name:
                return None
            if task.state == "in-progress":
                return NextPrompt(answer_prompt(task, []))
            if task.state not in WAITING:
                return None
            mail = self._mail(act)
            return NextPrompt(mail_prompt(mail, task), [message.n for message in mail]) if mail else "wait"

    def _park(self, why: str) -> Step:
        """Close the wait, unless the answer came at this very moment."""
        with self._workspace.act(self._caller, acknowledge=False) as act:
            task = find(act.rows, self._task.id)
            if task.state in ("ready", "backlog") and task.owner is None and task.run == self._task.run:
                return self._answered(act, task)
            if task.run == self._task.run and task.state in WAITING:
                answer.park(act, task, why)
            return "wait"


def worth_a_prompt(rows: Any, member: str, agents_too: bool) -> bool:
    """Whether mail waits that is worth a prompt of its own, which notices of Interlock's never are: they come with the
    next one. `agents_too`: not only that of people."""
    waiting = [message for message, _, _ in rows.messages.offerable(member, mailbox.INJECT_COUNT, False)]
    return any(
        message.type not in NOT_PROMPTED
        and not (message.metadata or {}).get("notice")
        and (agents_too or is_person(rows, message.sender))
        for message in waiting
    )


def is_person(rows: Any, name: str) -> bool:
    """Whether that sender is a person."""
    found = rows.team.member(name)
    return name == HUMAN or (found is not None and found.role == "person")


CHANGING = frozenset({"edit", "delete", "move", "execute"})
"""Kinds of tool calls that may have changed something."""


class TurnProgress:
    """Of one run in `workdir`."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir
        self._changes = 0
        self._said = ""
        self._files: str | None = ""
        self.idle_turns = 0
        self.evidence: dict[str, Any] = {}

    def begin(self) -> None:
        """Before the first turn: what lies there now. Reads the directory."""
        self._files = fingerprint(self._workdir)

    def hear(self, update: Update) -> None:
        """Something the agent did."""
        done = update.kind == "tool" and update.data.get("status") == "completed"
        if done and update.data.get("kind") in CHANGING:
            self._changes += 1

    def turn_ended(self, output: str) -> None:
        """A turn is over; `output` is what it said. Reads the directory."""
        said = hashlib.sha256(" ".join(output.split()).encode("utf-8", "replace")).hexdigest()[:16]
        files = fingerprint(self._workdir)
        same = said == self._said and files == self._files and not self._changes
        self.idle_turns = self.idle_turns + 1 if same else 0
        self.evidence = {"turns": self.idle_turns + 1, "output": said, "files": files, "changes": self._changes}
        self._said, self._files, self._changes = said, files, 0
